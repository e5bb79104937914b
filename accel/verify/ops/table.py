"""The table that ties everything together: one row an operation (what a row is: `accel/verify/op.py`).

Adding a kernel is one file in `accel/`, one import line, and one row here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import conditions, laws
from accel.verify.op import (
    Attend,
    Case,
    Example,
    Op,
    Outputs,
    Spoiler,
    batched_rows,
    joined,
    lists_of,
    offsets_of,
    pieces,
    split_by_x,
)
from accel.verify.ops.fasttrees import FASTTREES
from accel.verify.ops.gpst import GPST
from accel.verify.ops.gpst_layers import GPST_LAYERS
from accel.verify.ops.span_parser import SPAN_PARSER
from accel.verify.ops.transformer import TRANSFORMER
from accel.verify.ops.treeformer import TREEFORMER
from accel.verify.strategies import action_sequences, floats, position_types, regimes, seeds
from refimpl import attention, layers, randomness, trees
from refimpl.transformer_grammars import segments as ref_segments
from refimpl.transformer_grammars import stack_compose
from refimpl.trees import ActionType

# Structure


def csr(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([len(s) for s in sets]), np.array([j for s in sets for j in s], int)


def ref_double_closing(shared: Example, example: Example, start: int) -> Outputs:
    doubled, types = trees.double_closing(example["actions"])
    source = np.cumsum([kind != ActionType.CNT2 for kind in types]) - 1
    return np.array(types), source


def batched_actions(case: Case) -> dict[str, Any]:
    types = [[trees.action_type(a) for a in e["actions"]] for e in case.examples]
    return {"types": joined(types, np.int8), "offsets": offsets_of([len(t) for t in types])}


def split_double_closing(outputs: Outputs, case: Case) -> list[Outputs]:
    types, source, offsets = outputs
    starts = np.cumsum([0] + [len(e["actions"]) for e in case.examples])
    return [
        (types[offsets[b] : offsets[b + 1]], source[offsets[b] : offsets[b + 1]] - starts[b])
        for b in range(len(case.examples))
    ]


def batched_types(case: Case) -> dict[str, Any]:
    parts = [e["types"] for e in case.examples]
    order = [k for k in ("segment_length", "memory_length", "memory", "positions") if k in case.shared]
    lengths = [len(p) for p in parts]
    return {"types": joined(parts, np.int8), "offsets": offsets_of(lengths), **{k: case.shared[k] for k in order}}


def ref_attend_sets(shared: Example, example: Example, start: int) -> Outputs:
    types = example["types"]
    sets, relative = stack_compose.attend_sets(types), stack_compose.relative_positions(types)
    rows = np.array([relative[i, j] for i, allowed in enumerate(sets) for j in allowed], int)
    return (*csr(sets), rows, np.array(stack_compose.depths(types)))


def split_rows(outputs: Outputs, lengths: list[int]) -> list[list[np.ndarray]]:
    """Cut (row_offsets, per edge ...) into [sizes, per edge ...] of every example."""
    row_offsets, *per_edge = outputs
    sizes = pieces(np.diff(row_offsets), lengths)
    edges = [int(s.sum()) for s in sizes]
    return [list(parts) for parts in zip(sizes, *(pieces(x, edges) for x in per_edge), strict=True)]


def split_attend_sets(outputs: Outputs, case: Case) -> list[Outputs]:
    lengths = [len(e["types"]) for e in case.examples]
    depths = pieces(outputs[3], lengths)
    return [(*rows, depth) for rows, depth in zip(split_rows(outputs[:3], lengths), depths, strict=True)]


def ref_segment_rows(shared: Example, example: Example, start: int) -> Outputs:
    types, length = example["types"], shared["segment_length"]
    parts = ref_segments.segments(types, length, shared["memory_length"], memory=shared["memory"],
                                  positions=shared["positions"])  # fmt: skip
    masks = np.concatenate([p.mask for p in parts])[: len(types)]
    relative = np.concatenate([p.relative for p in parts])[: len(types)]
    moves = [np.concatenate([p.memory_to_memory, p.seq_to_memory], axis=1) for p in parts]
    columns = np.array([[row.argmax() if row.any() else -1 for row in move] for move in moves], int)
    return masks.sum(axis=1), np.nonzero(masks)[1], relative[masks], columns.reshape(len(parts), -1)


def split_segments(outputs: Outputs, case: Case) -> list[Outputs]:
    lengths = [len(e["types"]) for e in case.examples]
    moves = pieces(outputs[4], np.diff(outputs[3]).tolist())
    return [(*rows, move) for rows, move in zip(split_rows(outputs[:3], lengths), moves, strict=True)]


types_examples = position_types().map(lambda types: {"types": [int(t) for t in types]})


@st.composite
def segment_cases(draw: Callable) -> Case:
    memory, positions = draw(st.sampled_from([("stack", "depth"), ("shift", "depth"), ("shift", "linear")]))
    shared = {"segment_length": draw(st.integers(1, 7)), "memory_length": draw(st.integers(0, 7)),
              "memory": memory, "positions": positions}  # fmt: skip
    return Case(shared, draw(st.lists(types_examples, min_size=1, max_size=3)))


def spoiled_types(position: int, kind: int) -> Spoiler:
    def spoil(arguments: dict[str, Any]) -> dict[str, Any]:
        types = np.array([0, 0, 1, 2, 3], np.int8)
        types[position] = kind
        return arguments | {"types": types, "offsets": np.array([0, 5], np.int64)}

    return spoil


ILL_FORMED = (
    ("sequence 0|position 0", spoiled_types(0, 1)),
    ("sequence 0|position 2", spoiled_types(2, 9)),
    ("sequence 0|position 3", spoiled_types(1, 1)),
    ("sequence 0|position 4", spoiled_types(4, 1)),
)

STRUCTURE = (
    Op(
        "double_closing", "trees", "TREE-3",
        lists_of(action_sequences().map(lambda sequence: {"actions": sequence})),
        ref_double_closing, batched_actions, split_double_closing, exact=True,
        errors=(("sequence 0|position 2", spoiled_types(2, 9)),),
    ),
    Op(
        "attend_sets", "stack_compose", "SC-1", lists_of(types_examples),
        ref_attend_sets, batched_types, split_attend_sets, exact=True, errors=ILL_FORMED,
        laws=(laws.attends_to_itself, laws.attends_to_the_past, laws.composition_hides_its_parts),
    ),
    Op(
        "segments", "segments", "SEG-1", segment_cases(),
        ref_segment_rows, batched_types, split_segments, exact=True,
        laws=(laws.columns_inside,),
        errors=(
            *ILL_FORMED,
            ("segment_length", lambda a: a | {"segment_length": 0}),
            ("memory_length", lambda a: a | {"memory_length": -1}),
            ("linear", lambda a: a | {"memory": "stack", "positions": "linear"}),
        ),
    ),
)  # fmt: skip


# Attention


@st.composite
def attention_shared(draw: Callable, n_relative: int) -> tuple[Example, str, int]:
    heads, width = draw(st.integers(1, 3), label="heads"), draw(st.sampled_from([1, 2, 5, 8]), label="d_head")
    regime, seed = draw(regimes, label="regime"), draw(seeds, label="seed")
    shared = {
        "r": floats(regime, seed, n_relative, heads, width),
        "content_bias": floats(regime, seed + 1, heads, width),
        "position_bias": floats(regime, seed + 2, heads, width),
        "rate": draw(st.sampled_from([0.0, 0.0, 0.4]), label="rate"),
        "seed": draw(seeds, label="dropout seed"),
    }
    return shared, regime, seed


@st.composite
def sparse_cases(draw: Callable) -> Case:
    shared, regime, seed = draw(attention_shared(9))
    heads, width = shared["content_bias"].shape
    examples = []
    for number, types in enumerate(draw(st.lists(position_types(5), min_size=1, max_size=3))):
        n, extra = len(types), draw(st.integers(0, 2), label="memory rows")
        sets = [[j + extra for j in allowed] for allowed in stack_compose.attend_sets(types)]
        if draw(st.booleans(), label="masked"):
            sets[draw(st.integers(0, n - 1), label="row without keys")] = []
        rows = np.random.default_rng(seed + number)
        q, k, v = (floats(regime, seed + 3 + 5 * number + i, n + extra, heads, width) for i in range(3))
        relative = [[int(x) for x in rows.integers(0, 9, len(s))] for s in sets]
        examples.append({"q": q[extra:], "k": k, "v": v, "keys": sets, "relative": relative})
    return Case(shared, examples)


def n_edges(example: Example) -> int:
    return sum(len(s) for s in example["keys"])


def ref_sparse(shared: Example, example: Example, start: int, attend: Attend = attention.sparse_attention) -> Outputs:
    heads = shared["content_bias"].shape[0]
    sizes = [len(s) for s in example["keys"]]
    numbers = np.arange(sum(sizes) * heads).reshape(-1, heads) + start * heads
    keep = pieces(randomness.keep_mask(numbers, shared["rate"], shared["seed"]).astype(example["q"].dtype), sizes)
    return attend(
        example["q"], example["k"], example["v"], shared["r"], shared["content_bias"], shared["position_bias"],
        example["keys"], example["relative"], keep,
    )  # fmt: skip


def batched_sparse(case: Case) -> dict[str, Any]:
    examples, shared = case.examples, case.shared
    first_key = offsets_of([len(e["k"]) for e in examples])
    arguments = {name: np.concatenate([e[name] for e in examples]) for name in ("q", "k", "v")}
    arguments |= {name: shared[name] for name in ("r", "content_bias", "position_bias")}
    if "keys" in examples[0]:
        arguments["row_offsets"] = offsets_of([len(s) for e in examples for s in e["keys"]])
        keys = [[j + first for s in e["keys"] for j in s] for e, first in zip(examples, first_key, strict=False)]
        arguments["keys"] = joined(keys, np.int32)
        arguments["relative"] = joined([[p for s in e["relative"] for p in s] for e in examples], np.int32)
    else:
        arguments["query_offsets"] = offsets_of([len(e["q"]) for e in examples])
        arguments["key_offsets"] = first_key
    return arguments | {name: shared[name] for name in ("rate", "seed")}


def split_by_queries(outputs: Outputs, case: Case) -> list[Outputs]:
    lengths = [len(e["q"]) for e in case.examples]
    return list(zip(*(pieces(x, lengths) for x in outputs), strict=True))


@st.composite
def causal_cases(draw: Callable) -> Case:
    lengths = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=3), label="lengths")
    if draw(st.integers(0, 9), label="long") == 9:
        lengths.append((70, 21))
    shared, regime, seed = draw(attention_shared(max(n + m for n, m in lengths)))
    heads, width = shared["content_bias"].shape
    examples = []
    for number, (n, memory) in enumerate(lengths):
        q, k, v = (floats(regime, seed + 3 + 5 * number + i, n + memory, heads, width) for i in range(3))
        examples.append({"q": q[memory:], "k": k, "v": v})
    return Case(shared, examples)


def ref_causal(shared: Example, example: Example, start: int, attend: Attend = attention.causal_attention) -> Outputs:
    (n, heads, _), s = example["q"].shape, len(example["k"])
    row, column, head = np.ogrid[start : start + n, 0:s, 0:heads]
    keep = randomness.keep_mask((row * 2**20 + column) * heads + head, shared["rate"], shared["seed"])
    return attend(
        example["q"], example["k"], example["v"], shared["r"], shared["content_bias"], shared["position_bias"],
        keep.astype(example["q"].dtype),
    )  # fmt: skip


ATTENTION_DIFF = ("q", "k", "v", "r", "content_bias", "position_bias")
MIXED = ("k:|float32", lambda a: a | {"k": a["k"].astype(np.float32)})

ATTENTION = (
    Op(
        "sparse_attention", "attention", "ATT-1", sparse_cases(), ref_sparse, batched_sparse, split_by_queries,
        diff=ATTENTION_DIFF, options=("rate", "seed"), moves=False,
        condition=partial(ref_sparse, attend=conditions.sparse_attention),
        laws=(laws.weighted_mean_of_values,),
        errors=(
            MIXED,
            ("keys", lambda a: a | {"keys": a["keys"] + np.int32(10_000)}),
            ("relative", lambda a: a | {"relative": a["relative"] - np.int32(100)}),
            ("row_offsets", lambda a: a | {"row_offsets": a["row_offsets"][::-1].copy()}),
            ("rate", lambda a: a | {"rate": 1.0}),
        ),
    ),
    Op(
        "causal_attention", "attention", "ATT-2", causal_cases(), ref_causal, batched_sparse, split_by_queries,
        diff=ATTENTION_DIFF, options=("rate", "seed"), moves=False,
        condition=partial(ref_causal, attend=conditions.causal_attention),
        laws=(laws.weighted_mean_of_values,),
        errors=(
            MIXED,
            ("r ", lambda a: a | {"r": a["r"][:0]}),
            ("query_offsets", lambda a: a | {"query_offsets": a["query_offsets"][::-1].copy()}),
            ("rate", lambda a: a | {"rate": -0.1}),
        ),
    ),
)  # fmt: skip


# Layers


@st.composite
def row_cases(draw: Callable, **shared_shapes: str) -> Case:
    """Draw examples x [n, d] that share vectors [d] of the given names."""
    width, regime, seed = draw(st.sampled_from([1, 2, 7, 16, 33])), draw(regimes), draw(seeds)
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3), label="lengths")
    shared = {name: floats(regime, seed + 100 + i, width) for i, name in enumerate(shared_shapes)}
    examples = [{"x": floats(regime, seed + i, n, width)} for i, n in enumerate(lengths)]
    return Case(shared, examples)


@st.composite
def dropout_cases(draw: Callable) -> Case:
    case = draw(row_cases())
    rate = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]), label="rate")
    return Case({"rate": rate, "seed": draw(st.integers(0, 2**64 - 1), label="dropout seed")}, case.examples)


def ref_dropout(shared: Example, example: Example, start: int) -> Outputs:
    x = example["x"]
    numbers = np.arange(x.size).reshape(x.shape) + start * x.shape[1]
    return (x * randomness.keep_mask(numbers, shared["rate"], shared["seed"]).astype(x.dtype),)


@st.composite
def output_cases(draw: Callable, labelled: bool) -> Case:
    """Draw examples of ids, or of hidden states with labels, that share a table [V, d]."""
    size, width = draw(st.sampled_from([1, 2, 9, 70])), draw(st.sampled_from([1, 4, 11]))
    regime, seed = draw(regimes), draw(seeds)
    shared = {"table": floats(regime, seed, size, width)}
    examples: list[Example] = []
    for number, n in enumerate(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3), label="lengths")):
        ids = np.random.default_rng(seed + number).integers(-1 if labelled else 0, size, n).astype(np.int32)
        examples.append({"h": floats(regime, seed + 9 + number, n, width), "labels": ids} if labelled else {"ids": ids})
    if labelled:
        shared["bias"] = floats(regime, seed + 1, size)
    return Case(shared, examples)


LAYERS = (
    Op(
        "layer_norm", "layers", "LAY-1", row_cases(scale="", bias=""),
        lambda s, e, start: (layers.layer_norm(e["x"], s["scale"], s["bias"]),),
        batched_rows("x", "scale", "bias"), split_by_x, diff=("x", "scale", "bias"),
        condition=lambda s, e, start: (conditions.layer_norm(e["x"], s["scale"], s["bias"]),),
        gradient_conditions=lambda a, d_out: conditions.layer_norm_gradients(d_out, a["x"], a["scale"]),
        errors=(
            ("scale", lambda a: a | {"scale": np.ones(99)}),
            ("bias:|float32", lambda a: a | {"bias": np.float32(a["bias"])}),
        ),
    ),
    Op(
        "bias_gelu", "layers", "LAY-2", row_cases(bias=""),
        lambda s, e, start: (layers.bias_gelu(e["x"], s["bias"]),),
        batched_rows("x", "bias"), split_by_x, diff=("x", "bias"),
        errors=(("bias", lambda a: a | {"bias": np.ones(99)}),),
    ),
    Op(
        "dropout", "randomness", "LAY-3", dropout_cases(), ref_dropout,
        batched_rows("x", "rate", "seed"), split_by_x, diff=("x",), moves=False,
        laws=(laws.kept_or_dropped,),
        errors=(("rate", lambda a: a | {"rate": 1.0}),),
    ),
    Op(
        "embedding", "layers", "LAY-4", output_cases(labelled=False),
        lambda s, e, start: (layers.embedding(s["table"], e["ids"]),),
        batched_rows("table", "ids"), split_by_x, diff=("table",),
        errors=(("ids", lambda a: a | {"ids": a["ids"] + np.int32(1000)}),),
    ),
    Op(
        "cross_entropy", "layers", "LAY-5", output_cases(labelled=True),
        lambda s, e, start: (layers.cross_entropy(e["h"], s["table"], s["bias"], e["labels"]),),
        batched_rows("h", "table", "bias", "labels"), split_by_x, diff=("h", "table", "bias"),
        laws=(laws.log_probability,),
        errors=(
            ("labels", lambda a: a | {"labels": a["labels"] + np.int32(1000)}),
            ("bias", lambda a: a | {"bias": np.ones(99)}),
        ),
    ),
)  # fmt: skip

OPS: tuple[Op, ...] = (
    STRUCTURE + ATTENTION + LAYERS + FASTTREES + TRANSFORMER + TREEFORMER + GPST + GPST_LAYERS + SPAN_PARSER
)
