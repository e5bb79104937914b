"""Products of weights with rows that lie in the lanes of two vectors, and sums over lanes, written in LLVM's vectors.

A layer over few rows with a narrow weight is too small for a BLAS, which first copies both factors to another layout.
Here a tile of rows lies feature by feature, with the rows side by side: every element of the weight is read where it
lies and multiplied with all rows, and the row-wise operations between products run in full vectors, too.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from accel.cpu.support.kernels import kernel
from accel.cpu.support.products import BYTES
from accel.cpu.support.rows import lane_sums

_BITS = 8 * BYTES
"""Bits of a vector."""
BLOCK = 8 if BYTES == 64 else 4
"""How many rows of a product are summed at a time, each in two vectors."""
PAIRS = {"float32": BYTES // 4, "float64": BYTES // 8}
"""The lanes of a vector, by the type of its elements: half the rows of a tile."""
_FLAGS = ("contract", "nsz")


def half_of(x):
    """Return the number of lanes of a vector for the type of an array: half the rows of a tile."""
    raise NotImplementedError("only inside kernels")


@overload(half_of)
def _half_of(x):
    lanes = _BITS // x.dtype.bitwidth
    return lambda x: lanes


@kernel()
def product(weight, x, out, beta):
    """Set out [n, lanes] to beta out + the transpose of weight [k, n] times x [k, lanes]; beta is 0 or 1."""
    depth, width = weight.shape
    whole = width - width % BLOCK
    for n in range(0, whole, BLOCK):
        _block(weight, n, 1, width, depth, x, out, n, beta)
    for n in range(whole, width):
        _one(weight, n, 1, width, depth, x, out, n, beta)


@kernel()
def back_product(weight, gradients, out, beta):
    """Set out [k, lanes] to beta out + weight [k, n] times gradients [n, lanes]; beta is 0 or 1."""
    depth, width = weight.shape
    whole = depth - depth % BLOCK
    for k in range(0, whole, BLOCK):
        _block(weight, k * width, width, 1, width, gradients, out, k, beta)
    for k in range(whole, depth):
        _one(weight, k * width, width, 1, width, gradients, out, k, beta)


@intrinsic
def _block(
    typingctx: Any, weight: Any, start: Any, along: Any, step: Any, depth: Any, x: Any, out: Any, row: Any, beta: Any
):
    """Set row + j of out, j < BLOCK, to beta times it + the sum over k of weight[start + j * along + k * step] x[k]."""
    return _product_signature(weight, x, out), _emitter(BLOCK)


@intrinsic
def _one(
    typingctx: Any, weight: Any, start: Any, along: Any, step: Any, depth: Any, x: Any, out: Any, row: Any, beta: Any
):
    """As `_block`, for one row."""
    return _product_signature(weight, x, out), _emitter(1)


def _product_signature(weight: Any, x: Any, out: Any) -> Any:
    return types.void(weight, *[types.intp] * 4, x, out, *[types.intp] * 2)


def _emitter(size: int) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, start, along, step, depth, _, _, row, beta = args
        weight, x, out = (context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 5, 6))
        vector = vector_of(context, signature.args[5])
        index, times, plus = start.type, builder.mul, builder.add
        lanes = index(2 * vector.count)
        starts = [builder.gep(weight, [plus(start, times(index(j), along))]) for j in range(size)]
        places = [builder.gep(out, [times(plus(row, index(j)), lanes)]) for j in range(size)]
        zero = ir.Constant(vector, None)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(2)] for _ in places]
        with builder.if_then(cgutils.is_not_null(builder, beta)):
            for at, totals in zip(places, sums, strict=True):
                for total, value in zip(totals, load_pair(builder, at, vector), strict=True):
                    builder.store(value, total)
        with cgutils.for_range(builder, depth) as loop:
            values = load_pair(builder, builder.gep(x, [times(loop.index, lanes)]), vector)
            place = times(loop.index, step)
            for at, totals in zip(starts, sums, strict=True):
                factor = _spread(builder, builder.load(builder.gep(at, [place])), vector)
                for total, value in zip(totals, values, strict=True):
                    term = builder.fmul(value, factor, flags=_FLAGS)
                    builder.store(builder.fadd(builder.load(total), term, flags=_FLAGS), total)
        for at, totals in zip(places, sums, strict=True):
            for half, total in enumerate(totals):
                builder.store(builder.load(total), pointer_to(builder, at, vector, half), align=4)
        return context.get_dummy_value()

    return codegen


@kernel()
def cross(x, x_row, gradients, gradient_row, out, beta):
    """Set out [K, N] to beta out + the sums over tiles and lanes of x_k gradients_n; beta is 0 or 1.

    x, gradients : [tiles, rows * lanes]; row k of out is for row x_row + k of x, column n for row gradient_row + n of
    gradients
    """
    depth, width = out.shape
    even, whole = width - width % 2, depth - depth % BLOCK
    if beta == 0:
        for k in range(depth):
            for n in range(width):
                out[k, n] = 0
    for k in range(0, whole, BLOCK):
        for n in range(0, even, 2):
            _cross_block(x, x_row + k, gradients, gradient_row + n, out, k, n)
    for k in range(depth):
        for n in range(even if k < whole else 0, width):
            _cross_one(x, x_row + k, gradients, gradient_row + n, out, k, n)


@intrinsic
def _cross_block(typingctx: Any, x: Any, x_row: Any, gradients: Any, gradient_row: Any, out: Any, k: Any, n: Any):
    """Add the sums of `cross` to BLOCK rows of out from k and two columns from n."""
    return types.void(x, types.intp, gradients, types.intp, out, types.intp, types.intp), _cross_emitter(BLOCK, 2)


@intrinsic
def _cross_one(typingctx: Any, x: Any, x_row: Any, gradients: Any, gradient_row: Any, out: Any, k: Any, n: Any):
    return types.void(x, types.intp, gradients, types.intp, out, types.intp, types.intp), _cross_emitter(1, 1)


def _cross_emitter(n_rows: int, n_columns: int) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, x_row, _, gradient_row, _, k, n = args
        x, gradients, out = (context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 2, 4))
        (tiles, x_size), (_, gradient_size), (_, width) = (
            cgutils.unpack_tuple(builder, array.shape) for array in (x, gradients, out)
        )
        vector = vector_of(context, signature.args[0])
        index, times, plus = k.type, builder.mul, builder.add
        lanes = index(2 * vector.count)
        zero = ir.Constant(vector, None)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(n_columns)] for _ in range(n_rows)]
        with cgutils.for_range(builder, tiles) as loop:
            at = builder.gep(x.data, [plus(times(loop.index, x_size), times(x_row, lanes))])
            beside = builder.gep(gradients.data, [plus(times(loop.index, gradient_size), times(gradient_row, lanes))])
            for half in range(2):
                values = [_load(builder, beside, vector, 2 * j + half) for j in range(n_columns)]
                for i, totals in enumerate(sums):
                    value = _load(builder, at, vector, 2 * i + half)
                    for total, other in zip(totals, values, strict=True):
                        term = builder.fmul(value, other, flags=_FLAGS)
                        builder.store(builder.fadd(builder.load(total), term, flags=_FLAGS), total)
        places = [builder.gep(out.data, [plus(times(plus(k, index(i)), width), n)]) for i in range(n_rows)]
        _add_sums(builder, [builder.load(total) for totals in sums for total in totals], places)
        return context.get_dummy_value()

    return codegen


def _add_sums(builder: Any, vectors: list[Any], places: list[Any]) -> None:
    """Emit the addition of every vector's sum to memory: at each of the places equally many sums, side by side."""
    parts, count = lane_sums(builder, vectors), len(vectors) // len(places)
    for number, place in enumerate(places):
        first = number * count % parts[0].type.count
        sums = parts[number * count // parts[0].type.count]
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count)))
        row = builder.shuffle_vector(sums, sums, lanes)
        at = builder.bitcast(place, row.type.as_pointer())
        builder.store(builder.fadd(builder.load(at, align=4), row), at, align=4)


def vector_of(context: Any, array: Any) -> Any:
    return ir.VectorType(context.get_value_type(array.dtype), _BITS // array.dtype.bitwidth)


def pointer_to(builder: Any, at: Any, vector: Any, number: int) -> Any:
    return builder.bitcast(builder.gep(at, [ir.IntType(64)(number * vector.count)]), vector.as_pointer())


def _load(builder: Any, at: Any, vector: Any, number: int) -> Any:
    return builder.load(pointer_to(builder, at, vector, number), align=4)


def load_pair(builder: Any, at: Any, vector: Any) -> list[Any]:
    return [_load(builder, at, vector, number) for number in range(2)]


def _spread(builder: Any, element: Any, vector: Any) -> Any:
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), element, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None))
