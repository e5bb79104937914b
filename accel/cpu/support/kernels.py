"""The compiler options of all kernels of this backend, and scalar functions that LLVM can vectorise.

`error_model="numpy"` is set: a test for zero at each division would block vectorisation. Only two of the fastmath flags
are set. "nnan" and "ninf" would remove every test for a masked row. With "reassoc", the process that compiles a
parallel kernel would sum in another order than a process that loads it from the cache, because Numba optimises a kernel
once more before it stores it; a run would then not resume bit for bit. Sums are written out instead, in rows.py.
Code that a kernel does not need costs time at the first step on a machine. For the assignment of an array to an array
Numba compiles broadcasts and the text of an error, two seconds in all; a kernel that is called with a literal constant,
or with a tuple that holds one, it compiles once for every constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import event
from numba.extending import overload

from accel.cpu.support.compiling import NOTICE, stored
from accel.cpu.support.inner import InnerKernel

OPTIONS: dict[str, Any] = {
    "fastmath": {"contract", "nsz"}, "error_model": "numpy", "no_cfunc_wrapper": True,
}  # fmt: skip
event.register("numba:compile", NOTICE)


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a function that kernels call; a call from Python compiles it, once on a machine."""
    return lambda function: InnerKernel(function, OPTIONS | options, started_kernel(**options))


def started_kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a function that only Python calls; its first call compiles it, once on a machine."""
    return lambda function: stored(njit(**OPTIONS, **options)(function))


CHUNK_ROWS, MOST_CHUNKS = 32, 64
"""A parallel loop over rows is cut into at most MOST_CHUNKS chunks of at least CHUNK_ROWS rows."""


def n_chunks(rows: int, rows_per_chunk: int = CHUNK_ROWS, most: int = MOST_CHUNKS) -> int:
    """Return the number of chunks; it follows from the number of rows alone, so that no sum depends on the threads."""
    return max(1, min(most, rows // rows_per_chunk))


@kernel()
def chunk_begin(chunk, chunks, rows):
    """Return the first row of a chunk; that of the next one is its end."""
    return chunk * rows // chunks


def exp(x):
    """Return e^x: in float64 as libm does; in float32 with a relative error of at most 9e-8.

    In float32 it is 0 below -87 and infinity above 88.
    """
    raise NotImplementedError("only inside kernels")


@overload(exp)
def _exp(x):
    if x != types.float32:
        return lambda x: math.exp(x)
    log2_e, ln2_high, ln2_low = np.float32(1.44269504088896341), np.float32(0.693359375), np.float32(-2.12194440e-4)
    c0, c1, c2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
    c3, c4, c5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
    zero, half, one, infinity = np.float32(0), np.float32(0.5), np.float32(1), np.float32(np.inf)
    least, most = np.float32(-87), np.float32(88)

    def polynomial(x):  # Cephes expf
        y = min(max(x, least), most)
        n = np.floor(y * log2_e + half)
        z = (y - n * ln2_high) - n * ln2_low
        p = ((((c0 * z + c1) * z + c2) * z + c3) * z + c4) * z + c5
        power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
        value = (p * z * z + z + one) * power
        value = zero if x < least else (infinity if x > most else value)
        return value if x == x else x

    return polynomial


def sigmoid(x):
    """Return 1 / (1 + e^-x)."""
    raise NotImplementedError("only inside kernels")


@overload(sigmoid)
def _sigmoid(x):
    one = np.float32(1) if x == types.float32 else 1.0
    return lambda x: one / (one + exp(-x))


def tanh(x):
    """Return tanh x: in float32 with a relative error below 2.4e-7, four roundings; in float64 as libm does."""
    raise NotImplementedError("only inside kernels")


@overload(tanh)
def _tanh(x):
    if x != types.float32:
        return lambda x: math.tanh(x)
    c0, c1, c2 = np.float32(-5.70498872745e-3), np.float32(2.06390887954e-2), np.float32(-5.37397155531e-2)
    c3, c4, near = np.float32(1.33314422036e-1), np.float32(-3.33332819422e-1), np.float32(0.625)
    zero, one, two = np.float32(0), np.float32(1), np.float32(2)

    def polynomial(x):  # Cephes tanhf near 0, where 1 - 2 / (e^2x + 1) would cancel
        s = x * x
        inner = ((((c0 * s + c1) * s + c2) * s + c3) * s + c4) * s * x + x
        size = abs(x)
        outer = one - two / (exp(size + size) + one)
        return inner if size < near else (-outer if x < zero else outer)

    return polynomial


def row_max(x):
    """Return the maximum of a vector, compared as integers, because a maximum of floats is never vectorised."""
    raise NotImplementedError("only inside kernels")


@overload(row_max)
def _row_max(x):
    integer = np.int32 if x.dtype == types.float32 else np.int64
    floating = np.float32 if x.dtype == types.float32 else np.float64
    info = np.iinfo(integer)
    sign, magnitude, least = integer(info.bits - 1), integer(info.max), integer(info.min)

    def maximum(x):  # bits are ordered as floats if those below the sign are flipped in negative floats
        bits = x.view(integer)
        m = least
        for i in range(bits.size):
            b = bits[i]
            m = max(m, integer(b ^ ((b >> sign) & magnitude)))
        return integer(m ^ ((m >> sign) & magnitude)).view(floating)

    return maximum


@kernel()
def mixed(seed, number):
    """Return `accel.autodiff.seeds.mix(seed, number)`: the splitmix64 hash of `refimpl.randomness`."""
    z = seed + (np.uint64(number) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel()
def kept(seed, element, threshold):
    """Return whether dropout keeps the element, as `refimpl.randomness.keep_mask` says."""
    return (mixed(seed, element) >> np.uint64(32)) >= threshold


def keep_threshold(rate: float) -> np.uint64:
    """Return the least upper half of a hash for which dropout keeps the element; raise ValueError for a bad rate."""
    if not 0 <= rate < 1:
        raise ValueError(f"rate: {rate} is not in [0, 1)")
    return np.uint64(int(rate * 2**32))


def seed_of_dropout(seed: int) -> np.uint64:
    """Return the seed as uint64; raise ValueError if it does not fit."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: {seed} is not in 0..2^64-1")
    return np.uint64(seed)
