"""Factors of matrix products, rounded as `accel.cuda.forms` says: one, several at once, or all parameters of a step.

In bf16 the factors of the fast form take half the memory, in rows that begin at multiples of 16 bytes. To narrow an
array is to convert it to bf16. Inside `narrowed_once` one kernel has narrowed all parameters, and a product finds the
bf16 numbers of a weight by the weight's address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise

import numpy as np

from accel.cuda import device, forms
from accel.cuda.device import Array

THREADS = 256
PITCH = 8  # numbers of bf16 in 16 bytes: rows begin at multiples of them in memory
DROPPED = {"tf32": 13, "bf16": 16}  # bits of the mantissa of float32 that are rounded off
BFLOAT16 = np.dtype(np.uint16)  # the bits: CuPy and NumPy have no type bfloat16


def factor(x: Array) -> Array:
    """Return a matrix, or a batch, rounded for products. Call this once for a factor of several products."""
    form = forms.current()
    if x.dtype != np.float32 or form.precision not in DROPPED:
        return x
    if form.kernels == "fast":
        return _narrowed(x) if _narrows(x) else x  # cuBLASLt itself rounds to TF32
    return _rounded(x, DROPPED[form.precision])


def factors(arrays: Sequence[Array]) -> list[Array]:
    """Return each of the matrices as `factor` does; the same matrix may occur several times.

    One kernel narrows matrices that lie one after another in memory; the results lie at equal distances again.
    """
    distinct = list({id(x): x for x in arrays}.values())
    first, count = distinct[0], len(distinct)
    if _narrows(first) and count > 1 and _part_of_narrowed(first) is None and _lie_one_after_another(distinct):
        rounded = dict(zip(map(id, distinct), _narrowed(first, count), strict=True))
    else:
        rounded = {id(x): factor(x) for x in distinct}
    return [rounded[id(x)] for x in arrays]


_narrowed_vector: ContextVar[tuple[Array, Array] | None] = ContextVar("narrowed_vector", default=None)


@contextmanager
def narrowed_once(vector: Array) -> Iterator[None]:
    """Narrow a flat vector of parameters now, for all products in this context whose factors are parts of it.

    Nobody may change the vector in this context: parameters are updated after it. If products take no bf16, or the
    vector is no multiple of PITCH long, nothing is done. A graph that contains this narrows the vector again in each
    replay. Extra memory: 2 bytes a number.
    """
    if not _narrows(vector) or vector.size % PITCH:
        yield
        return
    token = _narrowed_vector.set((vector, _narrowed(vector[None])[0]))
    try:
        yield
    finally:
        _narrowed_vector.reset(token)


def _narrows(x: Array) -> bool:
    """Return whether products take x in bf16."""
    form = forms.current()
    return form.kernels == "fast" and form.precision == "bf16" and x.dtype == np.float32


def _rounded(x: Array, dropped: int) -> Array:
    """Return float32 numbers without the last `dropped` bits of their mantissa, to nearest, ties to even."""
    if _lies_by_columns(x):
        return _rounded(x.swapaxes(-1, -2), dropped).swapaxes(-1, -2)
    x = device.xp().ascontiguousarray(x)
    y = device.xp().empty_like(x)
    args = x.view(np.uint32), y.view(np.uint32), x.size, dropped
    device.launch("products", "round_numbers", device.wide_grid(x, THREADS), (THREADS,), args, x.dtype)
    return y


def _narrowed(x: Array, count: int = 0) -> Array:
    """Return the bits of float32 numbers in bf16; there may be gaps between the rows.

    With a count, x is the first of `count` arrays of one shape, one after another in memory; return a batch of all.
    """
    part = None if count else _part_of_narrowed(x)
    if part is not None:
        return part
    if _lies_by_columns(x):
        return _narrowed(x.swapaxes(-1, -2), count).swapaxes(-1, -2)
    x = device.xp().ascontiguousarray(x)
    *rows, columns = (count, *x.shape) if count else x.shape
    y = device.xp().empty((*rows, -(-columns // PITCH) * PITCH), BFLOAT16)
    if columns % PITCH:
        grid, args = (int(np.prod(rows)), -(-columns // THREADS)), (x.view(np.uint32), y, columns, y.shape[-1])
        device.launch("products", "narrow_numbers", grid, (THREADS,), args, x.dtype)
    else:
        args = x.view(np.uint32), y, y.size
        device.launch("products", "narrow_vector", device.wide_grid(y, THREADS), (THREADS,), args, x.dtype)
    return y[..., :columns]


def _part_of_narrowed(x: Array) -> Array | None:
    """Return the numbers of x in the bf16 vector of `narrowed_once`; None if x is no part of it, or not aligned."""
    vector, numbers = _narrowed_vector.get() or (None, None)
    if vector is not None and _lies_by_columns(x):
        part = _part_of_narrowed(x.swapaxes(-1, -2))
        return None if part is None else part.swapaxes(-1, -2)
    if vector is None or not x.flags.c_contiguous or x.shape[-1] % PITCH:
        return None
    start, rest = divmod(device.address(x) - device.address(vector), PITCH * x.itemsize)
    start *= PITCH
    if rest or not 0 <= start <= vector.size - x.size:
        return None
    return numbers[start : start + x.size].reshape(x.shape)


def _lie_one_after_another(arrays: Sequence[Array]) -> bool:
    """Return whether the matrices have one shape and lie one after another in memory, without gaps, as a batch does."""
    first, starts = arrays[0], [device.address(x) for x in arrays]
    same = all((x.shape, x.strides, x.dtype) == (first.shape, first.strides, first.dtype) for x in arrays)
    whole = first.flags.c_contiguous or _lies_by_columns(first)
    return whole and same and all(after - before == first.nbytes for before, after in pairwise(starts))


def _lies_by_columns(x: Array) -> bool:
    return not x.flags.c_contiguous and bool(x.swapaxes(-1, -2).flags.c_contiguous)
