"""Attention on tensor cores computes what the plain form computes on rounded inputs. NumPy takes CuPy's place.

Inputs are multiples of 1/8 and at most 1, so bf16 holds them and the sums q + u and q + w exactly, and float32 holds
all scores exactly. So only weights and gradients of scores are rounded, as factors of products: by 2^-8 in bf16, by
2^-11 in TF32. Each bound follows from these roundings and from the float32 sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
import pytest

from accel.cuda import device, forms
from accel.cuda.support.factors import DROPPED
from accel.cuda.support.tensor_attention import COLUMNS, DEPTH, KEYS, shared_bytes
from accel.verify.cuda_host import cupy_array, launcher
from accel.verify.cuda_host.cublaslt import rounded
from accel.verify.cuda_host.launcher import Settings
from refimpl.randomness import keep_mask
from tests.fixtures.stand_in_gpu import draw, host_backend, launched
from tests.fixtures.training_steps import counts_of

__all__ = ["host_backend", "launched"]

DROP = {"rate": 0.3, "seed": 5}
UNIT = {"bf16": 2.0**-8, "tf32": 2.0**-11}  # of a factor that is rounded to nearest
POSITIONS = COLUMNS + 1
SIZES = [(1, 1, 1), (16, 12, 9), (21, KEYS, KEYS), (37, 3 * KEYS, 40)]  # queries, keys, keys of a query


def inputs(n_queries: int, n_keys: int, each: int, width: int) -> list[np.ndarray]:
    """Return attention's arguments: a query lists up to `each` keys in any order, every fifth query none."""
    rng, heads = np.random.default_rng(0), 2
    shapes = (n_queries, heads, width), *[(n_keys, heads, width)] * 2, (POSITIONS, heads, width), *[(heads, width)] * 2
    floats = [rng.integers(-8, 9, shape) / 8 for shape in shapes]
    sizes = [0 if i % 5 == 4 else 1 + int(rng.integers(each)) for i in range(n_queries)]
    keys = [rng.choice(n_keys, size, replace=False) for size in sizes]
    relative = rng.integers(0, POSITIONS, sum(sizes))
    return [*floats, np.cumsum([0, *sizes]), np.concatenate(keys).astype(np.int32), relative.astype(np.int32)]


def passes(backend: ModuleType, args: list[np.ndarray], dtype: type) -> tuple[np.ndarray, ...]:
    """Return both outputs and all gradients; bf16 holds the gradient of the output exactly."""
    args = [x.astype(dtype) if x.dtype.kind == "f" else x for x in args]
    outputs = backend.sparse_attention(*args, **DROP)
    gradients = (np.arange(outputs[0].size) % 7 - 3).reshape(outputs[0].shape) / 4
    return *outputs, *backend.sparse_attention_vjp(gradients.astype(dtype), outputs, *args, **DROP)


@dataclass(frozen=True)
class Edges:
    """What bounds are made of, each [E, H]: weights, multipliers of dropout, gradients of scores, their errors."""

    weights: np.ndarray
    multipliers: np.ndarray
    gradients: np.ndarray
    errors: np.ndarray


def bounds(args: list[np.ndarray], out: np.ndarray, lse: np.ndarray, unit: float) -> list[np.ndarray]:
    """Return the bound on the difference of each result from the exact one."""
    q, k, v, r, u, w, row_offsets, keys, relative = args
    heads, width = u.shape
    query, scale = np.repeat(np.arange(len(q)), np.diff(row_offsets)), 1 / np.sqrt(width)
    small = (np.diff(row_offsets).max() + width + 32) * 2.0**-22  # sums of float32, in any order, cut or rounded
    d_out = (np.arange(out.size) % 7 - 3).reshape(out.shape) / 4

    def per_query(x: np.ndarray) -> np.ndarray:
        return np.stack([x[a:b].sum(axis=0) for a, b in zip(row_offsets, row_offsets[1:], strict=False)])

    def per_row(index: np.ndarray, n_rows: int, x: np.ndarray) -> np.ndarray:
        sums = np.zeros((n_rows, *x.shape[1:]))
        np.add.at(sums, index, x)
        return sums

    scores = ((q + u)[query] * k[keys] + (q + w)[query] * r[relative]).sum(axis=2) * scale
    weights = np.exp(scores - lse[query])
    mask = keep_mask(np.arange(len(keys) * heads).reshape(-1, heads), DROP["rate"], DROP["seed"])
    d_weights, mean = (d_out[query] * v[keys]).sum(axis=2) * mask, (d_out * out).sum(axis=2)
    gradients = weights * (d_weights - mean[query]) * scale
    of_out = per_query((weights * mask)[..., None] * np.abs(v[keys])) * (unit + small)
    of_mean = (np.abs(d_out) * (of_out + small * np.abs(out))).sum(axis=2)
    of_gradients = weights * scale * (of_mean[query] + small * (np.abs(d_weights) + np.abs(mean[query])))

    along = of_gradients + small * np.abs(gradients)  # of a gradient, and of a sum of gradients
    through_keys = per_query((along + unit * np.abs(gradients))[..., None] * np.abs(k[keys]))
    through_positions = per_query(along[..., None] * np.abs(r[relative]))
    return [
        of_out, small * (1 + np.abs(np.where(np.isfinite(lse), lse, 0))), through_keys + through_positions,
        per_row(keys, len(k), along[..., None] * np.abs(q + u)[query]),
        per_row(keys, len(v), (weights * mask * small)[..., None] * np.abs(d_out)[query]),
        per_row(relative, len(r), along[..., None] * np.abs(q + w)[query]),
        through_keys.sum(axis=0), through_positions.sum(axis=0),
    ]  # fmt: skip


def assert_near(fast: tuple[np.ndarray, ...], exact: tuple[np.ndarray, ...], bounds: list[np.ndarray]) -> None:
    for x, y, bound in zip(fast, exact, bounds, strict=True):
        is_finite = np.isfinite(y)
        assert np.array_equal(is_finite, np.isfinite(x)) and x.dtype == np.float32
        assert (np.abs(np.where(is_finite, x, 0) - np.where(is_finite, y, 0)) <= bound + 2.0**-40).all()


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
@pytest.mark.parametrize("width", [3, DEPTH, 40, 132])
@pytest.mark.parametrize(("n_queries", "n_keys", "each"), SIZES)
def test_it_computes_what_the_plain_form_does(
    host_backend: ModuleType, launched: list[str], n_queries: int, n_keys: int, each: int, width: int, precision: str
) -> None:
    """It also holds where the union of a tile's keys is in several parts."""
    args = inputs(n_queries, n_keys, each, width)
    exact = passes(host_backend, args, np.float64)
    with forms.use(forms.Forms("fast", precision)):
        fast = passes(host_backend, args, np.float32)
    assert launched.count("tensor_forward") == launched.count("tensor_backward") == 1
    assert_near(fast, exact, bounds(args, *exact[:2], UNIT[precision]))


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_it_rounds_to_nearest(host_backend: ModuleType, launched: list[str], precision: str) -> None:
    """The kernel rounds k, v and r as `rounded` does; there is no race in two orders."""
    args = inputs(21, 30, 20, 5)
    args[1:4] = (x.astype(np.float32) for x in draw(*(x.shape for x in args[1:4])))
    before = [*args[:1], *(rounded(x, DROPPED[precision]) for x in args[1:4]), *args[4:]]
    results = []
    with forms.use(forms.Forms("fast", precision)):
        for order, of in ((0, args), (1, before)):
            launcher.use(Settings(races=True, order=order))
            results.append(passes(host_backend, of, np.float32))
    assert not any(np.array_equal(x, y) for x, y in zip(args[1:4], before[1:4], strict=True))
    for x, y in zip(*results, strict=True):
        assert np.array_equal(x, y)


def test_a_key_may_be_listed_twice(host_backend: ModuleType, launched: list[str]) -> None:
    args = inputs(3, 4, 4, 5)
    args[7][:] = 2
    exact = passes(host_backend, args, np.float64)
    with forms.use(forms.Forms("fast", "bf16")):
        fast = passes(host_backend, args, np.float32)
    assert_near(fast, exact, bounds(args, *exact[:2], UNIT["bf16"]))


def test_without_room_for_all_positions_it_is_the_form_of_float32(
    host_backend: ModuleType, launched: list[str]
) -> None:
    args = inputs(3, 4, 4, 5)
    with forms.use(forms.Forms("fast", "bf16")):
        for shortage, form in ((0, "tensor"), (1, "tiled")):
            device.use(replace(device._current(), shared_limit=shared_bytes(3, 5, POSITIONS) - shortage))
            launched.clear()
            passes(host_backend, args, np.float32)
            assert {f"{form}_forward", f"{form}_backward"} <= set(launched)
        passes(host_backend, args, np.float64)
    assert "tensor_forward" not in launched


def test_a_training_step_runs_it(host_backend: ModuleType) -> None:
    with forms.use(forms.Forms("fast", "bf16")):
        counts = counts_of("transformer_grammar", launcher.host_backend())
    assert counts[cupy_array.KERNELS, "tensor_forward"] == counts[cupy_array.KERNELS, "tensor_backward"] > 1
    assert not {name for _, name in counts} & {"sparse_forward", "tiled_forward"}
