"""Matrix products on the GPU: factors in float32, TF32 or bf16, sums and results in float32; or all in float64.

The plain form rounds the factors and multiplies them with cuBLAS. The fast form is cuBLASLt, with tensor cores. Extra
memory: the rounded factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from accel.cuda import device, forms
from accel.cuda.device import Array
from accel.cuda.support.cublaslt import KEPT, Compute, Epilogue, Library, Matrix, Problem, Type, aligned
from accel.cuda.support.factors import BFLOAT16, THREADS, factor, factors

BIAS_ALIGNED = 16  # bytes: a vector of float32 that cuBLASLt adds or sums begins at a multiple of them
Seen = tuple[int, Matrix]  # an address, and how cuBLAS sees the matrix there
TYPES = {BFLOAT16: Type.BFLOAT16, np.dtype(np.float32): Type.FLOAT32, np.dtype(np.float64): Type.FLOAT64}


def matmul(
    a: Array, b: Array, out: Array | None = None, *, add: bool = False, bias: Array | None = None,
    sums_of_a: Array | None = None, sums_of_b: Array | None = None,
) -> Array:  # fmt: skip
    """Return a @ b, in `out` if it is given; with `add`, plus what `out` held; with a bias, plus `bias` in every row.

    a [m, k] and b [k, n], or a batch of them, [B, m, k] and [B, k, n], of one dtype, or results of `factor`; out [m, n]
    or [B, m, n], C-contiguous; bias [n]. Factors of float32 are rounded as `accel.cuda.forms` says. If `fuses_sums`,
    sums_of_a [m] (a in column order) or sums_of_b [n] (b in row order) is set to the sums over k of the rounded factor.
    Raises ValueError naming the argument that does not fit.
    """
    a, b = factor(a), factor(b)
    _check(a, b, out, bias, sums_of_a, sums_of_b)
    if out is None:
        out = device.xp().empty((*a.shape[:-1], b.shape[-1]), _result_type(a))
    if not (a.size and b.size):  # all sums are empty
        for array in (None if add else out, sums_of_a, sums_of_b):
            if array is not None:
                array.fill(0)
        if bias is not None:
            out += bias
        return out
    (a, seen_a), (b, seen_b) = _readable(a, sums_of_a is not None), _readable(b)
    vectors = (sums_of_b, Epilogue.SUMS_OF_A), (sums_of_a, Epilogue.SUMS_OF_B), (bias, Epilogue.BIAS)
    vector = next(((x, epilogue) for x, epilogue in vectors if x is not None), None)
    _multiply(seen_a, seen_b, _seen(out), len(out) if out.ndim == 3 else 1, add, vector, out)  # type: ignore[arg-type]
    return out


def matmul_all(
    a: Sequence[Array], b: Sequence[Array], out: Sequence[Array] | None = None, *, add: bool = False
) -> list[Array]:
    """Return a @ b for pairs of matrices of one shape, as one product of a batch if they lie at equal distances.

    Each of the three sequences may hold one array several times, or parts of one array at equal distances, as a flat
    vector of parameters holds them; otherwise there is a product for each pair. `out` and `add` are as for `matmul`.
    """
    a, b = factors(a), factors(b)
    shape = a[0].shape[0], b[0].shape[1]
    if out is None:
        out = list(device.xp().empty((len(a), *shape), _result_type(a[0])))
    for pair in zip(a, b, out, strict=True):
        _check(*pair)
    batches = [_at_equal_distances(arrays) for arrays in (a, b, out)]
    if None in batches or not (a[0].size and b[0].size):
        return [matmul(*pair, add=add) for pair in zip(a, b, out, strict=True)]
    _multiply(*batches, len(a), add, None, None)  # type: ignore[arg-type]
    return list(out)


def matmul_sum(a: Sequence[Array], b: Sequence[Array], out: Array | None = None, *, add: bool = False) -> Array:
    """Return the sum of a @ b over pairs of matrices of one shape, in `out` if it is given; with `add`, add to `out`.

    Three pairs or more that lie at equal distances, as for `matmul_all`, are one product of a batch and a kernel that
    adds; otherwise each product is added to those before.
    """
    if len(a) < 3 or not (a[0].size and b[0].size) or None in map(_at_equal_distances, (a, b)):
        for pair in zip(a, b, strict=True):
            out, add = matmul(*pair, out, add=add), True
        return out
    _check(factor(a[0]), factor(b[0]), out)
    parts = device.xp().empty((len(a), a[0].shape[0], b[0].shape[1]), _result_type(a[0]))
    matmul_all(a, b, list(parts))
    if out is None:
        out = device.xp().empty(parts.shape[1:], parts.dtype)
    args = parts, out, len(a), out.size, int(add)
    device.launch("products", "add_products", device.wide_grid(out, THREADS), (THREADS,), args, out.dtype)
    return out


def fuses_sums(x: Array) -> bool:
    """Return whether a product of x, or of x.T, can also sum the rows of x: cuBLASLt can, of float32 in row order."""
    return forms.current().kernels == "fast" and x.dtype == np.float32 and x.ndim == 2 and bool(x.flags.c_contiguous)


def _multiply(
    a: Seen, b: Seen, out: Seen, batch: int, add: bool, vector: tuple[Array, Epilogue] | None, result: Array | None
) -> None:
    """Multiply with cuBLAS or cuBLASLt, which read our rows as columns: out^T = b^T a^T. Add a bias or sum a factor."""
    form, double = forms.current(), out[1].type == Type.FLOAT64
    tf32 = form.kernels == "fast" and form.precision == "tf32" and not double
    compute = Compute.FLOAT64 if double else Compute.TF32 if tf32 else Compute.FLOAT32
    address = 0 if form.kernels != "fast" or vector is None or double else device.address(vector[0])
    fused = 0 if address % BIAS_ALIGNED else address
    epilogue = vector[1] if fused and vector is not None else Epilogue.NONE
    problem = Problem(compute, b[1], a[1], out[1], batch, epilogue, aligned(fused))
    if form.kernels == "fast":
        _library(device.cublaslt(), device.number()).multiply(problem, b[0], a[0], out[0], add=add, vector=fused)
    else:
        device.multiply(problem, b[0], a[0], out[0], add)
    if vector is not None and not fused:
        result += vector[0]


def _result_type(factor: Array) -> Any:
    return np.dtype(np.float32) if factor.dtype == BFLOAT16 else factor.dtype


def _check(
    a: Array, b: Array, out: Array | None, bias: Array | None = None, sums_of_a: Array | None = None,
    sums_of_b: Array | None = None,
) -> None:  # fmt: skip
    """Raise ValueError for arguments with which the library would read or write memory outside of them."""
    if a.dtype != b.dtype or a.dtype not in TYPES:
        raise ValueError(f"b: dtype {b.dtype}, but that of a is {a.dtype}")
    if a.ndim not in (2, 3) or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"b: shape {b.shape} does not fit that of a, {a.shape}")
    shape, dtype = (*a.shape[:-1], b.shape[-1]), _result_type(a)
    if out is not None:
        _check_result("out", out, shape, dtype)
    if bias is not None:
        _check_result("bias", bias, shape[-1:], dtype)
    for name, array, expected in (("sums_of_a", sums_of_a, a.shape[:1]), ("sums_of_b", sums_of_b, b.shape[1:])):
        if array is not None:
            if not (fuses_sums(array[:, None]) and device.address(array) % BIAS_ALIGNED == 0):
                needs = f"fast kernels, float32, and an address that is a multiple of {BIAS_ALIGNED} bytes"
                raise ValueError(f"{name}: sums need {needs}")
            _check_result(name, array, expected, dtype)


def _check_result(name: str, array: Array, shape: tuple[int, ...], dtype: Any) -> None:
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name}: {array.dtype} {array.shape} is not {dtype} {shape}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name}: not C-contiguous")


@lru_cache(KEPT)
def _layout(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, start: int, prefers_columns: bool = False
) -> Matrix | None:
    """Return how cuBLAS sees a matrix, or each of a batch; None if there are gaps inside rows and columns.

    A single row or column can be seen in row or column order: `prefers_columns` chooses column order. `start` is the
    alignment of the address.
    """
    rows, columns = shape[-2:]
    down, right = (stride // dtype.itemsize for stride in strides[-2:])
    stride = strides[0] // dtype.itemsize if len(shape) == 3 else 0
    by_rows = (right == 1 or columns == 1) and (down >= columns or rows == 1)
    by_columns = (down == 1 or rows == 1) and (right >= rows or columns == 1)
    if by_rows and not (prefers_columns and by_columns):
        return Matrix(TYPES[dtype], columns, rows, down if rows > 1 else columns, stride, start)
    if by_columns:
        pitch = right if columns > 1 else rows
        return Matrix(TYPES[dtype], rows, columns, pitch, stride, start, transposed=True)
    return None


def _seen(x: Array, prefers_columns: bool = False) -> Seen | None:
    """Return where an array begins, and how cuBLAS sees it; None if it has gaps inside rows and columns."""
    address = device.address(x)
    layout = _layout(x.shape, x.strides, x.dtype, aligned(address), prefers_columns)
    return None if layout is None else (address, layout)


def _readable(x: Array, prefers_columns: bool = False) -> tuple[Array, Seen]:
    """Return x, or a copy if x has gaps inside rows and columns; and how cuBLAS sees it."""
    view = _seen(x, prefers_columns)
    if view is None:
        x = device.xp().ascontiguousarray(x)
        view = _seen(x, prefers_columns)
    return x, view  # type: ignore[return-value]


def _at_equal_distances(arrays: Sequence[Array]) -> Seen | None:
    """Return the matrices as cuBLAS sees them as a batch; None if it cannot, or if they do not lie in one allocation.

    Separate arrays may lie at equal distances in one run but not in the next: its sums would be rounded differently.
    """
    first = arrays[0]
    if any(x is not first for x in arrays):
        allocation, shape, strides = device.allocation(first), first.shape, first.strides
        for x in arrays[1:]:
            if device.allocation(x) != allocation or x.shape != shape or x.strides != strides:
                return None
    starts = [device.address(x) for x in arrays]
    gaps = {after - before for before, after in pairwise(starts)} or {0}
    gap = gaps.pop()
    if gaps or gap < 0 or gap % first.itemsize:
        return None
    layout = _layout(first.shape, first.strides, first.dtype, min(map(aligned, starts)))
    return None if layout is None else (starts[0], layout._replace(stride=gap // first.itemsize))


@cache
def _library(functions: Any, number: int) -> Library:  # a handle and workspaces of the GPU of this number
    return Library(functions)
