"""The tiled form of attention over listed keys gives the bits of the plain form. NumPy takes CuPy's place."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.cuda import device, forms
from accel.cuda.support.tiled_attention import QUERIES, unions_of
from accel.verify.cuda_host import cupy_array, launcher
from accel.verify.cuda_host.launcher import Settings
from accel.verify.gradients import check_gradients, gentle
from accel.verify.op import example_case
from accel.verify.ops.table import OPS
from accel.verify.values import check_values
from tests.fixtures.stand_in_gpu import draw, host_backend, launched
from tests.fixtures.training_steps import counts_of

__all__ = ["host_backend", "launched"]


def lists(n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return offsets, keys and relative positions: neighbouring queries share most keys; some queries have none."""
    sets = [sorted({0, *range(i - i % 5, i + 1), *range(0, i, 7)}) if i % 6 else [] for i in range(n_queries)]
    keys = np.concatenate([*sets, []]).astype(np.int32)
    return np.cumsum([0, *map(len, sets)]), keys, (keys[::-1] % 4).copy()


def results(backend: ModuleType, args: list[Any], form: str) -> list[np.ndarray]:
    with forms.use(forms.Forms(form)):
        outputs = backend.sparse_attention(*args, rate=0.3, seed=5)
        d_out = np.ones_like(outputs[0])
        return [*outputs, *backend.sparse_attention_vjp(d_out, outputs, *args, rate=0.3, seed=5)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [3, 32, 40])
@pytest.mark.parametrize(("n_queries", "limit"), [(1, 48 * 1024), (QUERIES, 48 * 1024), (53, 48 * 1024), (53, 3000)])
def test_it_gives_the_bits_of_the_plain_form(
    host_backend: ModuleType, launched: list[str], n_queries: int, limit: int, width: int, dtype: type
) -> None:
    """The bits agree also if shared memory holds only some of a tile's keys; there is no race."""
    n, heads = n_queries, 2
    floats = draw((n, heads, width), *[(n, heads, width)] * 2, (4, heads, width), *[(heads, width)] * 2)
    args = [*(x.astype(dtype) for x in floats), *lists(n)]
    plain = results(host_backend, args, "plain")
    device.use(replace(device._current(), shared_limit=limit))
    launcher.use(Settings(races=True, order=1))
    launched.clear()
    fast = results(host_backend, args, "fast")
    assert launched.count("tiled_forward") == launched.count("tiled_backward") == 1
    assert not {"sparse_forward", "sparse_backward"} & set(launched)
    for x, y in zip(fast, plain, strict=True):
        assert np.array_equal(x, y, equal_nan=True) and x.dtype == y.dtype


@pytest.mark.parametrize("apart", [1, 40, 3000])
@pytest.mark.parametrize("order", [0, 1])
def test_unions_hold_every_key_of_a_tile_once(host_backend: ModuleType, apart: int, order: int) -> None:
    """Keys are in any order, some twice, some so far apart that they take several ranges; no race."""
    row_offsets, keys, _ = lists(53)
    keys = np.random.default_rng(0).permutation(keys * np.int32(apart))
    launcher.use(Settings(races=True, order=order))
    unions = unions_of(row_offsets, keys)
    launcher.use(Settings())
    assert len(unions.sizes) == -(-53 // QUERIES)
    for tile, size in enumerate(unions.sizes):
        edges = slice(row_offsets[tile * QUERIES], row_offsets[min(53, (tile + 1) * QUERIES)])
        union = unions.keys[edges][:size]
        assert np.array_equal(union, np.unique(keys[edges]))
        assert np.array_equal(union[unions.places[edges]], keys[edges])
    empty = unions_of(np.zeros(4, np.int64), np.zeros(0, np.int32))
    assert empty.sizes.tolist() == [0] and not len(empty.keys) and not len(empty.places)


def test_the_harness_sees_no_difference(host_backend: ModuleType, launched: list[str]) -> None:
    """Values and gradients of the operation's own cases pass."""
    (op,) = (op for op in OPS if op.name == "sparse_attention")
    with forms.use(forms.Forms("fast")):
        check_values(host_backend, op, example_case(op))
        check_gradients(host_backend, op, gentle(example_case(op)), 0)
    assert {"tiled_forward", "tiled_backward"} <= set(launched)


def test_a_training_step_makes_unions_once(host_backend: ModuleType) -> None:
    """All layers of a Transformer Grammar use the unions of their batch, and make no copies and no waits themselves."""
    with forms.use(forms.Forms("fast")):
        counts = counts_of("transformer_grammar", launcher.host_backend())
    totals = cupy_array.totals(counts)
    assert totals["copies"] == totals["synchronisations"] == counts[cupy_array.KERNELS, "tile_unions"] == 1
    assert counts[cupy_array.KERNELS, "tiled_forward"] == counts[cupy_array.KERNELS, "tiled_backward"] > 1
    assert not counts[cupy_array.KERNELS, "sparse_forward"]


def test_a_graph_finds_unions_anew(host_backend: ModuleType) -> None:
    """A replayed graph computes the unions of the keys that are then in memory."""
    gpu, (row_offsets, keys, relative) = launcher.host_backend(), lists(53)
    other = keys[::-1].copy()
    floats = [gpu.xp.asarray(x) for x in draw((53, 2, 5), *[(53, 2, 5)] * 2, (4, 2, 5), *[(2, 5)] * 2)]
    edges = gpu.from_host({"row_offsets": row_offsets, "keys": keys, "relative": relative})
    expected, _ = gpu.sparse_attention(*floats, *map(gpu.xp.asarray, (row_offsets, other, relative)))
    with forms.use(forms.Forms("fast")), gpu.own_stream():
        (out, _), replay = gpu.captured(lambda: gpu.sparse_attention(*floats, **edges))
    edges["keys"][...] = gpu.xp.asarray(other)
    replay()
    assert np.array_equal(out.get(), expected.get())


def test_a_missing_wait_is_found(host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    text_of = device.source_text
    monkeypatch.setattr(device, "source_text", lambda source: text_of(source).replace("    wait_copies(0);\n", ""))
    args = [*draw((3, 1, 4), (3, 1, 4), (3, 1, 4), (4, 1, 4), (1, 4), (1, 4)), *lists(3)]
    with forms.use(forms.Forms("fast")), pytest.raises(RuntimeError, match="ends before its copies arrive"):
        host_backend.sparse_attention(*args)
