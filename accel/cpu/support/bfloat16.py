"""Factors of products in bfloat16: the upper 16 bits of float32 numbers, two of them in a word of 32 bits.

A processor with avx512_bf16 multiplies two pairs in a lane and adds both products to a sum in float32, at twice the
speed of float32, and reads half the bytes. A float32 number is rounded to the nearest number of 8 significant bits,
ties to even, with a relative error of at most 2^-8. Products of two such numbers are exact in float32; sums round as
those of float32 do. Numbers and sums below 2^-126 in size count as 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config
from numba.core import cgutils
from numba.extending import overload
from numpy.typing import NDArray

from accel.cpu.support.kernels import kernel
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
Pairs = NDArray[np.uint32]
_HOST = llvm.get_host_cpu_features()
AVAILABLE = "+avx512bf16" in (_HOST.flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES).split(",")
"""Whether the processor for which kernels are compiled has the instruction."""
_is_used = False


@contextmanager
def use() -> Iterator[None]:
    """Make products with weights of hidden states use bfloat16 in this context; raise ValueError if the CPU cannot."""
    global _is_used
    if not AVAILABLE:
        raise ValueError("this processor has no avx512_bf16 instructions")
    before, _is_used = _is_used, True
    try:
        yield
    finally:
        _is_used = before


def is_used(x: Float) -> bool:
    """Return whether products round the factor x to bfloat16: inside of `use`, if it is float32."""
    return _is_used and x.dtype == np.float32


def as_pairs(x: Float) -> Pairs:
    """Return the rows of x [n, K] rounded, as pairs [n, K / 2]; if K is odd, the second half of the last pair is 0."""
    pairs = np.zeros((len(x), (x.shape[1] + 1) // 2), np.uint32)
    _as_pairs(np.ascontiguousarray(x), pairs)
    return pairs


@team_kernel()
def _as_pairs(part, x, pairs):
    for r in share(part, len(x)):
        put(x[r], pairs[r])


def put(x, y):
    """Set a row y to x: to the same numbers if y has their type, otherwise to pairs of rounded numbers."""
    raise NotImplementedError("only inside kernels")


@overload(put)
def _put(x, y):
    if x.dtype == y.dtype:

        def copy(x, y):
            for a in range(y.size):
                y[a] = x[a]

        return copy

    def narrow(x, y):
        bits, halves = x.view(np.uint32), y.view(np.uint16)
        for a in range(bits.size):
            halves[a] = rounded(bits[a])

    return narrow


@kernel()
def rounded(bits):
    """Return the upper 16 bits of a float32 number, rounded to nearest, ties to even; a NaN stays a NaN."""
    up = np.uint32(np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    near = np.uint32(bits + up) >> np.uint32(16)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40) if is_nan else near)


def emit_sum(builder: Any, total: Any, a: Any, b: Any) -> Any:
    """Emit, lane by lane, total + both products of the pairs of a and b."""
    kind = ir.FunctionType(total.type, [total.type, a.type, b.type])
    dot = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512bf16.dpbf16ps.512")
    return builder.call(dot, [total, a, b])
