"""Products of a few rows with one weight, step after step.

A BLAS copies the weight to another layout in every product; with 20 rows, as in a language model, that takes longer
than the product. Here it is copied once, to panels as wide as two vectors, and prefetched; the rows are read where they
lie. One core of an AMD EPYC (family 26), which can do 270 Gflop/s, multiplies 20 rows of 1150 at 240 Gflop/s and 256
rows of 400 at 250; its BLAS reaches 76 and 225. Every element is a sum in the order of the inner axis, whatever the
number of rows and of threads. Memory is a copy of the weight.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from accel.cpu.support.bfloat16 import as_pairs, emit_sum, is_used, rounded
from accel.cpu.support.kernels import chunk_begin, kernel
from accel.cpu.support.team import share, team_kernel

Float = NDArray[Any]
BYTES, TILES = (64, (2, 4, 6, 8, 10)) if llvm.get_host_cpu_features().get("avx512f") else (32, (2, 4, 6))
"""Bytes of a vector, and numbers of rows of a tile: registers hold its sums, a row of a panel and a factor."""
VECTORS = 2
"""The width of a panel in vectors: every element of a row is loaded once for all of them."""
AHEAD = 8192
"""How many bytes ahead of its use the weight is prefetched."""
SIDE_BY_SIDE = 16
"""How many panels are packed at a time from a C-contiguous weight, so that longer parts of its rows are read."""
_FLAGS = ("contract", "nsz")


def factor(weight: Float) -> Any:
    """Return the weight [K, R], of any strides, as panels [R / lanes, K, lanes]; the last one is padded with zeros.

    In bfloat16 the panels hold pairs along K: [R / lanes, K / 2, lanes].
    """
    depth, width = weight.shape
    lanes = VECTORS * BYTES // weight.itemsize
    n_panels = -(-width // lanes)
    if is_used(weight):
        pairs = np.empty((n_panels, (depth + 1) // 2, lanes), np.uint32)
        _pack_pairs(weight.view(np.uint32), pairs)
        return pairs
    panels = np.empty((n_panels, depth, lanes), weight.dtype)
    _pack(weight, panels)
    return panels


def rows_for(panels: Any, x: Float) -> Any:
    """Return x [n, K] in the form that `multiply` needs for these panels: unchanged, or as pairs of rounded numbers."""
    return as_pairs(x) if panels.dtype == np.uint32 else x


def products(panels: Any, most: int) -> Float:
    """Return an array for products of at most `most` rows: [most, R], with R padded to whole panels."""
    dtype = np.float32 if panels.dtype == np.uint32 else panels.dtype
    return np.empty((most, panels.shape[0] * panels.shape[2]), dtype)


@kernel()
def _group(weight):
    return SIDE_BY_SIDE if weight.strides[1] == weight.itemsize else 1


@team_kernel()
def _pack(part, weight, panels):
    (n, _, lanes), (depth, width), group = panels.shape, weight.shape, _group(weight)
    for g in share(part, -(-n // group)):
        for k in range(depth):
            for p in range(g * group, min(n, (g + 1) * group)):
                inside = min(lanes, width - p * lanes)
                for a in range(inside):
                    panels[p, k, a] = weight[k, p * lanes + a]
                for a in range(inside, lanes):
                    panels[p, k, a] = panels.dtype.type(0)


@team_kernel()
def _pack_pairs(part, bits, panels):
    (n, half, lanes), (depth, width), group = panels.shape, bits.shape, _group(bits)
    for g in share(part, -(-n // group)):
        for j in range(half):
            k, odd = 2 * j, 2 * j + 1 == depth
            for p in range(g * group, min(n, (g + 1) * group)):
                inside = min(lanes, width - p * lanes)
                for a in range(inside):
                    panels[p, j, a] = rounded(bits[k, p * lanes + a])
                if not odd:
                    for a in range(inside):
                        panels[p, j, a] |= np.uint32(rounded(bits[k + 1, p * lanes + a])) << np.uint32(16)
                for a in range(inside, lanes):
                    panels[p, j, a] = np.uint32(0)


@kernel()
def n_tiles(rows):
    """Return the number of tiles of `rows` rows."""
    return (rows + TILES[-1] - 1) // TILES[-1]


@kernel()
def multiply(x, panels, rows, begin, end, out):
    """Set parts `begin` to `end - 1` of out, the product of the first rows of x [.., K], C-contiguous, and the weight.

    There is a part for every panel and tile: the rows of the tile, and the columns of the panel.
    """
    tiles, pairs = n_tiles(rows), (rows + 1) // 2
    for part in range(begin, end):
        tile = part % tiles
        first, last = 2 * chunk_begin(tile, tiles, pairs), 2 * chunk_begin(tile + 1, tiles, pairs)
        multiply_tile(panels, part // tiles, x, first, last - first, out, rows)


@intrinsic
def multiply_tile(
    typingctx: Any, panels: Any, p: Any, x: Any, first: Any, size: Any, out: Any, count: Any
) -> Any:  # fmt: skip
    """Set `size` rows of out from `first`, but none from `count` on, to the products of the rows of x with panel p."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for size in TILES:
            with builder.if_then(builder.icmp_signed("==", args[4], args[4].type(size))):
                _emit_tile(context, builder, signature, args, size)
        return context.get_dummy_value()

    return types.void(panels, types.intp, x, types.intp, types.intp, out, types.intp), codegen


def _emit_tile(context: Any, builder: Any, signature: Any, args: Any, size: int) -> None:
    """Emit the products of `size` rows with one panel, with all sums in registers."""
    _, p, _, first, _, _, count = args
    panels, x, out = (context.make_array(signature.args[n])(context, builder, args[n]) for n in (0, 2, 5))
    _, depth, lanes = cgutils.unpack_tuple(builder, panels.shape)
    width = cgutils.unpack_tuple(builder, out.shape)[1]
    scalar = context.get_value_type(signature.args[0].dtype)
    scalar_bytes = context.get_abi_sizeof(scalar)
    vector = ir.VectorType(scalar, BYTES // scalar_bytes)
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    index, times, plus = p.type, builder.mul, builder.add
    panel = builder.gep(panels.data, [times(p, times(depth, lanes))])
    places = [plus(first, index(r)) for r in range(size)]
    inside = [builder.icmp_signed("<", place, count) for place in places]
    rows = [
        builder.gep(x.data, [times(builder.select(is_inside, place, first), depth)])
        for place, is_inside in zip(places, inside, strict=True)
    ]  # instead of rows past the last, the first is multiplied again; nothing of it is stored
    is_narrow = signature.args[0].dtype == types.uint32
    total_type = ir.VectorType(ir.FloatType(), vector.count) if is_narrow else vector
    zero = ir.Constant(total_type, None)
    sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(VECTORS)] for _ in range(size)]

    def as_vector(array: Any, offset: Any, kind: Any = vector) -> Any:
        return builder.bitcast(builder.gep(array, [offset]), kind.as_pointer())

    with cgutils.for_range(builder, depth) as loop:
        values = []
        for v in range(VECTORS):
            place = plus(times(loop.index, lanes), index(v * vector.count))
            _emit_prefetch(builder, builder.gep(panel, [plus(place, index(AHEAD // scalar_bytes))]))
            values.append(builder.load(as_vector(panel, place), align=4))
        for row, totals in zip(rows, sums, strict=True):
            element = builder.load(builder.gep(row, [loop.index]))
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), element, ir.IntType(32)(0))
            spread = builder.shuffle_vector(one, one, everywhere)
            for value, total in zip(values, totals, strict=True):
                if is_narrow:
                    builder.store(emit_sum(builder, builder.load(total), value, spread), total)
                    continue
                term = builder.fmul(value, spread, flags=_FLAGS)
                builder.store(builder.fadd(builder.load(total), term, flags=_FLAGS), total)
    for place, is_inside, totals in zip(places, inside, sums, strict=True):
        with builder.if_then(is_inside):
            for v, total in enumerate(totals):
                column = plus(times(p, lanes), index(v * vector.count))
                result = as_vector(out.data, plus(times(place, width), column), total_type)
                builder.store(builder.load(total), result, align=4)


def _emit_prefetch(builder: Any, pointer: Any) -> None:
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(fetch, [builder.bitcast(pointer, byte), word(0), word(3), word(1)])  # read, keep, data
