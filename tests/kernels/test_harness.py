"""The harness itself: every mutant, a backend with one seeded error, must turn its row of the table red."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from accel import cpu
from accel.verify import test_gradients as test_grads
from accel.verify import test_values as test_ops
from accel.verify.mutants import (
    fasttrees as mutants_fasttrees,
)
from accel.verify.mutants import (
    gpst as mutants_gpst,
)
from accel.verify.mutants import (
    gpst_layers as mutants_gpst_layers,
)
from accel.verify.mutants import (
    span_parser as mutants_span_parser,
)
from accel.verify.mutants import (
    transformer as mutants_transformer,
)
from accel.verify.mutants import (
    treeformer as mutants_treeformer,
)
from accel.verify.ops.table import OPS, Op

ROWS = {op.name: op for op in OPS}
Function = Callable[..., Any]


def keep_edges(row_offsets: Any, kept: Any, *per_edge: Any) -> tuple[Any, ...]:
    """Drop the edges that are not kept."""
    rows = np.repeat(np.arange(len(row_offsets) - 1), np.diff(row_offsets))[kept]
    counts = np.bincount(rows, minlength=len(row_offsets) - 1)
    return np.concatenate([[0], np.cumsum(counts)]), *(x[kept] for x in per_edge)


def row_of_edges(row_offsets: Any) -> Any:
    return np.repeat(np.arange(len(row_offsets) - 1), np.diff(row_offsets))


def cnt2_misses_itself(types: Any, offsets: Any) -> Any:
    row_offsets, keys, relative, depths = cpu.attend_sets(types, offsets)
    rows = row_of_edges(row_offsets)
    first = np.repeat(offsets[:-1], np.diff(offsets))[rows]
    kept = ~((types[rows] == 3) & (keys + first == rows))
    return *keep_edges(row_offsets, kept, keys, relative), depths


def compose_misses_its_ont(types: Any, offsets: Any) -> Any:
    row_offsets, keys, relative, depths = cpu.attend_sets(types, offsets)
    kept = np.ones(len(keys), bool)
    kept[row_offsets[:-1][types == 2]] = False
    return *keep_edges(row_offsets, kept, keys, relative), depths


def swapped_i_and_j(types: Any, offsets: Any) -> Any:
    row_offsets, keys, relative, depths = cpu.attend_sets(types, offsets)
    return row_offsets, keys, -relative, depths


def keys_of_the_whole_batch(types: Any, offsets: Any) -> Any:
    row_offsets, keys, relative, depths = cpu.attend_sets(types, offsets)
    first = np.repeat(offsets[:-1], np.diff(offsets))[row_of_edges(row_offsets)]
    return row_offsets, (keys + first).astype(np.int32), relative, depths


def lost_memory_slot(*arguments: Any, **options: Any) -> Any:
    *rest, moves = cpu.segments(*arguments, **options)
    moves = moves.copy()
    moves[:, :1] = -1
    return *rest, moves


def memory_upside_down(*arguments: Any, **options: Any) -> Any:
    *rest, moves = cpu.segments(*arguments, **options)
    return *rest, moves[:, ::-1].copy()


def segment_cut_one_late(types: Any, offsets: Any, segment_length: int, *rest: Any) -> Any:
    return cpu.segments(types, offsets, segment_length + 1, *rest)


def without_scale(q: Any, *rest: Any, **options: Any) -> Any:
    return cpu.sparse_attention(q * np.sqrt(q.shape[2]).astype(q.dtype), *rest, **options)


def empty_row_has_lse_zero(*arguments: Any, **options: Any) -> Any:
    out, lse = cpu.sparse_attention(*arguments, **options)
    return out, np.where(np.isinf(lse), 0, lse).astype(lse.dtype)


def dropout_before_softmax(*arguments: Any, rate: float, seed: int) -> Any:
    return cpu.sparse_attention(*arguments, rate=0.0, seed=seed)


def distance_off_by_one(q: Any, k: Any, v: Any, r: Any, *rest: Any, **options: Any) -> Any:
    return cpu.causal_attention(q, k, v, np.concatenate([r[1:], r[-1:]]), *rest, **options)


def no_position_bias(q: Any, k: Any, v: Any, r: Any, u: Any, w: Any, *rest: Any, **options: Any) -> Any:
    return cpu.causal_attention(q, k, v, r, u, w * 0, *rest, **options)


def reads_past_its_sequence(q: Any, k: Any, v: Any, *rest: Any, **options: Any) -> Any:
    mixed = v + np.nan_to_num(v[-1:], nan=7.0, posinf=7.0) * np.float32(1e-3).astype(v.dtype)
    return cpu.causal_attention(q, k, mixed, *rest, **options)


def sample_variance(x: Any, scale: Any, bias: Any) -> Any:
    y, mean, rstd = cpu.layer_norm(x, scale, bias)
    return (y - bias) * np.sqrt(1 - 1 / x.shape[1]).astype(x.dtype) + bias, mean, rstd


def gelu_forgets_the_bias(x: Any, bias: Any) -> Any:
    return cpu.bias_gelu(x, bias * 0)


def dropout_keeps_the_scale(x: Any, rate: float, seed: int) -> Any:
    return ((cpu.dropout(x, rate, seed)[0] * (1 - rate)).astype(x.dtype),)


def no_label_is_the_last_word(h: Any, table: Any, bias: Any, labels: Any) -> Any:
    return cpu.cross_entropy(h, table, bias, np.where(labels < 0, len(table) - 1, labels).astype(np.int32))


def gradient_forgets_a_bias(d_out: Any, outputs: Any, *arguments: Any, **options: Any) -> Any:
    *rest, position_bias = cpu.sparse_attention_vjp(d_out, outputs, *arguments, **options)
    return *rest, position_bias * 0


def gradient_overwrites(d_out: Any, outputs: Any, table: Any, ids: Any) -> Any:
    gradient = np.zeros_like(table)
    gradient[ids] = d_out
    return (gradient,)


def gradient_of_rows_without_label(d_out: Any, outputs: Any, h: Any, table: Any, bias: Any, labels: Any) -> Any:
    full = np.where(labels < 0, 0, labels).astype(np.int32)
    return cpu.cross_entropy_vjp(d_out, cpu.cross_entropy(h, table, bias, full), h, table, bias, full)


MUTANTS: tuple[tuple[str, Function], ...] = (
    ("attend_sets", cnt2_misses_itself),
    ("attend_sets", compose_misses_its_ont),
    ("attend_sets", swapped_i_and_j),
    ("attend_sets", keys_of_the_whole_batch),
    ("segments", lost_memory_slot),
    ("segments", memory_upside_down),
    ("segments", segment_cut_one_late),
    ("sparse_attention", without_scale),
    ("sparse_attention", empty_row_has_lse_zero),
    ("sparse_attention", dropout_before_softmax),
    ("sparse_attention_vjp", gradient_forgets_a_bias),
    ("causal_attention", distance_off_by_one),
    ("causal_attention", no_position_bias),
    ("causal_attention", reads_past_its_sequence),
    ("layer_norm", sample_variance),
    ("bias_gelu", gelu_forgets_the_bias),
    ("dropout", dropout_keeps_the_scale),
    ("cross_entropy", no_label_is_the_last_word),
    ("cross_entropy_vjp", gradient_of_rows_without_label),
    ("embedding_vjp", gradient_overwrites),
    *mutants_fasttrees.FASTTREES,
    *mutants_transformer.TRANSFORMER,
    *mutants_treeformer.TREEFORMER,
    *mutants_gpst.GPST,
    *mutants_gpst_layers.GPST_LAYERS,
    *mutants_span_parser.SPAN_PARSER,
)


@pytest.mark.parametrize(("name", "mutant"), MUTANTS, ids=lambda x: getattr(x, "__name__", x))
def test_every_mutant_is_caught(name: str, mutant: Function) -> None:
    assert fails_in_its_row(name, mutant)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("cky_pool", mutants_treeformer.plain),
        ("cky_pool_vjp", mutants_treeformer.plain_gradient),
        ("pruned_chart", mutants_gpst.plain),
        ("span_logz", mutants_span_parser.plain),
        ("span_logz_vjp", mutants_span_parser.plain_gradient),
        ("best_trees", mutants_span_parser.plain_trees),
    ],
    ids=["cky_pool", "cky_pool_vjp", "pruned_chart", "span_logz", "span_logz_vjp", "best_trees"],
)
def test_what_mutants_are_made_of_is_right(name: str, plain: Function) -> None:
    assert not fails_in_its_row(name, plain)


def fails_in_its_row(name: str, function: Function) -> bool:
    backend = SimpleNamespace(**{k: v for k, v in vars(cpu).items() if not k.startswith("_")})
    setattr(backend, name, function)
    backend.__name__ = "mutant"
    body = test_grads.test_gradients if name.endswith("_vjp") else test_ops.test_ops
    return fails(body, backend, ROWS[name.removesuffix("_vjp")])


def test_the_neighbour_test_can_fail() -> None:
    """A kernel whose answer moves when another example is filled with NaN."""

    def leaky(x: Any, bias: Any) -> Any:
        return ((cpu.bias_gelu(x, bias)[0] + (0 if np.isfinite(x).all() else 1)).astype(x.dtype),)

    backend = SimpleNamespace(xp=np, bias_gelu=leaky, __name__="leaky")
    assert fails(test_ops.test_neighbours, backend, ROWS["bias_gelu"], filling=np.nan)


def fails(body: Function, backend: Any, op: Op, **options: Any) -> bool:
    """Whether the test fails for a backend within the examples that CI draws; nothing is shrunk."""
    inner = body.hypothesis.inner_test

    @settings(max_examples=60, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        inner(backend=backend, op=op, data=data, **options)

    try:
        run()
    except AssertionError:
        return True
    return False
