"""Products of a few rows with one weight, step after step.

A BLAS lays out the weight anew in every product; with 20 rows, as in a language model, that takes longer than the
product. Here it is laid out once, in panels of one vector's width, and read ahead of its use: 110 Gflop/s instead of 45
with 20 rows of 1150 (AVX-512, one core), and no less with hundreds. Parallel over panels; every element is a sum in the
order of the inner axis, whatever the rows and threads. Memory is a copy of the weight and of the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from accel.cpu.support.kernels import parallel_kernel

Float = NDArray[Any]
BYTES, TILES = (64, (4, 8, 12, 16, 20)) if llvm.get_host_cpu_features().get("avx512f") else (32, (4, 8, 12))
"""A vector, and how many rows are multiplied at a time: as many sums as leave registers for a vector and a factor."""
AHEAD = 4096
"""How many bytes of the weight are fetched before their use."""
DEPTH = 64
"""Columns of the rows that a thread lays out at a time."""
_FLAGS = ("contract", "nsz")


class Factor(NamedTuple):
    """A weight [K, R] laid out for products with up to a number of rows, and space for those."""

    panels: Float  # [R / lanes, K, lanes], the last one filled up with zeros
    rows: Float  # the rows of one product: by tiles, then by the inner axis


def factor(weight: Float, most: int) -> Factor:
    """Return the weight [K, R], of any strides, laid out for products with at most so many rows."""
    depth, width = weight.shape
    lanes = BYTES // weight.itemsize
    panels = np.empty((-(-width // lanes), depth, lanes), weight.dtype)
    _pack(weight, panels)
    return Factor(panels, np.zeros((most + TILES[0] * (1 + most // TILES[-1])) * depth, weight.dtype))


def products(weight: Factor, most: int) -> Float:
    """Return an array for products with at most so many rows: [most, R or somewhat more]."""
    return np.empty((most, weight.panels.shape[0] * weight.panels.shape[2]), weight.panels.dtype)


def multiply(x: Float, weight: Factor, count: int, out: Float) -> None:
    """Set the first `count` rows of out to those of x [.., K] times the weight."""
    tiles = -(-count // TILES[-1])
    _multiply(x, weight.panels, weight.rows, count, -(-count // (tiles * TILES[0])) * TILES[0], out)


@parallel_kernel()
def _pack(weight, panels):
    lanes, width = panels.shape[2], weight.shape[1]
    for p in prange(len(panels)):
        first = p * lanes
        for k in range(len(weight)):
            for a in range(lanes):
                panels[p, k, a] = weight[k, first + a] if first + a < width else panels.dtype.type(0)


@parallel_kernel()
def _multiply(x, panels, rows, count, tile, out):
    depth, tiles = panels.shape[1], (count + tile - 1) // tile
    for block in prange((depth + DEPTH - 1) // DEPTH):
        for y in range(tiles):
            for k in range(block * DEPTH, min(depth, (block + 1) * DEPTH)):
                for r in range(min(tile, count - y * tile)):
                    rows[(y * depth + k) * tile + r] = x[y * tile + r, k]
    for p in prange(len(panels)):
        for y in range(tiles):
            multiply_tile(panels, p, rows, tile, y, out, count)


@intrinsic
def multiply_tile(
    typingctx: Any, panels: Any, p: Any, rows: Any, tile: Any, y: Any, out: Any, count: Any
) -> Any:  # fmt: skip
    """Set the rows of tile y of out, up to the number of rows in use, to their products with panel p."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tile = args[3]
        for size in TILES:
            with builder.if_then(builder.icmp_signed("==", tile, tile.type(size))):
                _emit_tile(context, builder, signature, args, size)
        return context.get_dummy_value()

    return types.void(panels, types.intp, rows, types.intp, types.intp, out, types.intp), codegen


def _emit_tile(context: Any, builder: Any, signature: Any, args: Any, size: int) -> None:
    """Emit the products of `size` rows with one panel, all of them in registers."""
    _, p, _, _, y, _, count = args
    panels, rows, out = (context.make_array(signature.args[x])(context, builder, args[x]) for x in (0, 2, 5))
    _, depth, lanes = cgutils.unpack_tuple(builder, panels.shape)
    _, width = cgutils.unpack_tuple(builder, out.shape)
    scalar = context.get_value_type(signature.args[0].dtype)
    vector = ir.VectorType(scalar, BYTES // (context.get_abi_sizeof(scalar)))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    index, times, plus = p.type, builder.mul, builder.add
    panel = builder.gep(panels.data, [times(p, times(depth, lanes))])
    first_row = builder.gep(rows.data, [times(y, times(depth, index(size)))])
    sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in range(size)]

    def as_vector(array: Any, offset: Any) -> Any:
        return builder.bitcast(builder.gep(array, [offset]), vector.as_pointer())

    with cgutils.for_range(builder, depth) as loop:
        place = times(loop.index, lanes)
        _emit_prefetch(builder, builder.gep(panel, [plus(place, index(AHEAD // context.get_abi_sizeof(scalar)))]))
        value = builder.load(as_vector(panel, place), align=4)
        for r, total in enumerate(sums):
            element = builder.load(builder.gep(first_row, [plus(times(loop.index, index(size)), index(r))]))
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), element, ir.IntType(32)(0))
            term = builder.fmul(value, builder.shuffle_vector(one, one, everywhere), flags=_FLAGS)
            builder.store(builder.fadd(builder.load(total), term, flags=_FLAGS), total)
    for r, total in enumerate(sums):
        row = plus(times(y, index(size)), index(r))
        with builder.if_then(builder.icmp_signed("<", row, count)):
            place = plus(times(row, width), times(p, lanes))
            builder.store(builder.load(total), as_vector(out.data, place), align=4)


def _emit_prefetch(builder: Any, pointer: Any) -> None:
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(fetch, [builder.bitcast(pointer, byte), word(0), word(3), word(1)])  # to read, keep, data
