"""Sums and products of rows, written in LLVM's vectors: in an order that no compiler changes, and fast on short rows.

With few keys a query, the only axis to vectorise over is the D elements of a head, 24 or 64. A loop that Numba compiles
spends most of its time on views, on checks whether rows overlap and on left-over elements. The functions here take
tables [rows, D] and row numbers, and run sixteen elements at a time, then eight, then one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
_FLAGS = ("contract", "nsz")


@intrinsic
def row_sum(typingctx: Any, x: Any) -> Any:
    """Return the sum of a vector, always in the same order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = context.get_constant(types.intp, 0)
        return _sums(context, builder, signature.args, (args[0], zero), 1, lambda values: [values])[0]

    return x.dtype(x), codegen


@intrinsic
def row_dot(typingctx: Any, x: Any, y: Any) -> Any:
    """Return the dot product of two vectors, over as many elements as the first has."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = context.get_constant(types.intp, 0)
        return _dots(context, builder, signature, [((args[0], zero), args[1], [zero])])[0]

    return x.dtype(x, y), codegen


@intrinsic
def dot(typingctx: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    """Return the dot product of row a_i and row b_j."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _dots(context, builder, signature, [(args[:2], args[2], args[3:])])[0]

    return a.dtype(a, types.intp, b, types.intp), codegen


@intrinsic
def dot_four(typingctx: Any, a: Any, i: Any, b: Any, j0: Any, j1: Any, j2: Any, j3: Any) -> Any:
    """Return the dot products of row a_i with four rows b_j; a_i is read once."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sums = _dots(context, builder, signature, [(args[:2], args[2], args[3:])])
        return context.make_tuple(builder, signature.return_type, sums)

    return types.UniTuple(a.dtype, 4)(a, types.intp, b, *[types.intp] * 4), codegen


@intrinsic
def add(typingctx: Any, out: Any, i: Any, b: Any, j: Any, factor: Any) -> Any:
    """Add factor b_j to out_i."""
    return types.void(out, types.intp, b, types.intp, out.dtype), _update


@intrinsic
def add_four(
    typingctx: Any, out: Any, i: Any, b: Any, j0: Any, j1: Any, j2: Any, j3: Any, f0: Any, f1: Any, f2: Any, f3: Any
) -> Any:
    """Add f0 b_j0 + f1 b_j1 + f2 b_j2 + f3 b_j3 to out_i, which is read and written once."""
    return types.void(out, types.intp, b, *[types.intp] * 4, *[out.dtype] * 4), _update


@intrinsic
def combine(typingctx: Any, out: Any, i: Any, a: Any, j: Any, factor: Any, b: Any, k: Any, other: Any) -> Any:
    """Set out_i to factor a_j + other b_k."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays, pairs = (signature.args[0], signature.args[2], signature.args[5]), (*args[:4], *args[5:7])

        def terms(kind: Any, values: list[Any], factors: Any) -> Any:
            one, two = (
                builder.fmul(x, factor, flags=_FLAGS) for x, factor in zip(values[1:], factors[kind], strict=True)
            )
            return builder.fadd(one, two, flags=_FLAGS)

        return _replace(context, builder, arrays, pairs, (args[4], args[7]), terms)

    return types.void(out, types.intp, a, types.intp, out.dtype, b, types.intp, out.dtype), codegen


@intrinsic
def multiply(typingctx: Any, out: Any, i: Any, b: Any, j: Any) -> Any:
    """Multiply the elements of out_i by those of b_j."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = signature.args[0], signature.args[2]
        return _replace(context, builder, arrays, args, (), lambda kind, values, _: builder.fmul(*values))

    return types.void(out, types.intp, b, types.intp), codegen


@intrinsic
def raise_to(typingctx: Any, out: Any, i: Any, b: Any, j: Any) -> Any:
    """Set the elements of out_i to those of b_j where these are greater."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def terms(kind: Any, values: list[Any], _: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", *values), values[1], values[0])

        return _replace(context, builder, (signature.args[0], signature.args[2]), args, (), terms)

    return types.void(out, types.intp, b, types.intp), codegen


def _replace(context: Any, builder: Any, arrays: Any, pairs: Any, factors: Any, terms: Callable[..., Any]) -> Any:
    """Emit a loop that sets the first row to `terms` of the elements of all rows and of factors, spread over lanes."""
    kinds = _kinds(context.get_value_type(arrays[0].dtype))
    multiples = {kind: [_spread(builder, factor, kind) for factor in factors] for kind in kinds}

    def body(kind: Any, pointers: list[Any]) -> None:
        value = terms(kind, [_load(builder, pointer, kind) for pointer in pointers], multiples)
        builder.store(value, builder.bitcast(pointers[0], kind.as_pointer()), align=4)

    _for_each(context, builder, arrays, pairs, kinds, body)
    return context.get_dummy_value()


def _spread(builder: Any, factor: Any, kind: Any) -> Any:
    """Emit a vector of this kind that has the factor in all lanes."""
    if not isinstance(kind, ir.VectorType):
        return factor
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), factor, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), None))


def _dots(context: Any, builder: Any, signature: Any, products: Any) -> list[Any]:
    """Emit the dot products of a row with several rows, summed over `products`, each ((table, row), table, rows)."""
    count = len(products[0][2])
    pairs = [y for one, table, rows in products for y in (*one, *(z for row in rows for z in (table, row)))]

    def terms(values: list[Any]) -> list[list[Any]]:
        firsts = range(0, len(values), count + 1)
        return [[builder.fmul(values[y], values[y + 1 + x], flags=_FLAGS) for y in firsts] for x in range(count)]

    return _sums(context, builder, [signature.args[0]] * (len(pairs) // 2), pairs, count, terms)


def _sums(context: Any, builder: Any, arrays: Any, pairs: Any, count: int, terms: Callable[..., Any]) -> list[Any]:
    """Emit `count` sums of the `terms` of the elements of all rows: sums in lanes, which are added at the end."""
    kinds = _kinds(context.get_value_type(arrays[0].dtype))
    totals = [{kind: cgutils.alloca_once_value(builder, ir.Constant(kind, None)) for kind in kinds}
              for _ in range(count)]  # fmt: skip

    def body(kind: Any, pointers: list[Any]) -> None:
        values_of_sums = terms([_load(builder, pointer, kind) for pointer in pointers])
        for total, values in zip(totals, values_of_sums, strict=True):
            for value in values:
                builder.store(builder.fadd(builder.load(total[kind]), value, flags=_FLAGS), total[kind])

    _for_each(context, builder, arrays, pairs, kinds, body)
    wide, vector, rest = ([builder.load(total[kind]) for total in totals] for kind in kinds)
    halves = [_add_halves(builder, x, x, 2 * LANES) for x in wide]
    sums = _added_lanes(builder, [builder.fadd(x, y) for x, y in zip(halves, vector, strict=True)])
    return [builder.fadd(x, y) for x, y in zip(sums, rest, strict=True)]


def _added_lanes(builder: Any, vectors: list[Any]) -> list[Any]:
    """Emit the sum of the lanes of every vector."""
    (sums,) = lane_sums(builder, vectors)
    return [builder.extract_element(sums, ir.IntType(32)(x)) for x in range(len(vectors))]


def lane_sums(builder: Any, vectors: list[Any]) -> list[Any]:
    """Emit the sums of the lanes of every vector, side by side in as many vectors as they fill.

    In every round the two halves of a vector are added, for two vectors at a time.
    """
    width = vectors[0].type.count
    while width > 1:
        pairs = zip(vectors[::2], vectors[1::2] or vectors, strict=True)
        vectors, width = [_add_halves(builder, x, y, width) for x, y in pairs], width // 2
    return vectors


def _add_halves(builder: Any, x: Any, y: Any, width: int) -> Any:
    """Emit the first halves plus the second halves of all groups of `width` lanes, of x, then of y if it is not x."""
    lanes = x.type.count if x is y else 2 * x.type.count
    firsts = [lane for lane in range(lanes) if lane % width < width // 2]
    kind = ir.VectorType(ir.IntType(32), len(firsts))
    low, high = (
        builder.shuffle_vector(x, y, ir.Constant(kind, [lane + step for lane in firsts])) for step in (0, width // 2)
    )
    return builder.fadd(low, high)


def _update(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Emit out_i += the sum of factors times rows, for args (out, i, table, row numbers, as many factors)."""
    n_rows = (len(args) - 3) // 2
    out, table, rows, factors = args[:2], args[2], args[3 : 3 + n_rows], args[3 + n_rows :]

    def terms(kind: Any, values: list[Any], multiples: Any) -> Any:
        value = values[0]
        for element, factor in zip(values[1:], multiples[kind], strict=True):
            value = builder.fadd(value, builder.fmul(element, factor, flags=_FLAGS), flags=_FLAGS)
        return value

    pairs = [*out, *(x for row in rows for x in (table, row))]
    arrays = [signature.args[0], *[signature.args[2]] * n_rows]
    return _replace(context, builder, arrays, pairs, factors, terms)


def _kinds(scalar: Any) -> tuple[Any, Any, Any]:
    """Return the types that are loaded at a time: vectors of 2 LANES and of LANES elements, and one element."""
    return ir.VectorType(scalar, 2 * LANES), ir.VectorType(scalar, LANES), scalar


def _load(builder: Any, pointer: Any, kind: Any) -> Any:
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=4)


def _for_each(context: Any, builder: Any, arrays: Any, args: Any, kinds: Any, body: Callable[..., None]) -> None:
    """Emit loops of body(kind, pointers) over all elements, kind by kind; args: table, row number, table, ..."""
    tables = [
        context.make_array(array)(context, builder, table) for array, table in zip(arrays, args[::2], strict=True)
    ]
    n = cgutils.unpack_tuple(builder, tables[0].shape, arrays[0].ndim)[-1]
    starts = [builder.gep(table.data, [builder.mul(row, n)]) for table, row in zip(tables, args[1::2], strict=True)]
    begin = n.type(0)
    for kind, lanes in zip(kinds, (2 * LANES, LANES, 1), strict=True):
        end = builder.and_(n, n.type(-lanes))
        with cgutils.for_range_slice(builder, begin, end, n.type(lanes)) as (index, _):
            body(kind, [builder.gep(start, [index]) for start in starts])
        begin = end
