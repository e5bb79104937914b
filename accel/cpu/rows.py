"""The loops over one row of a table that attention over lists of keys is made of, written in LLVM's vectors.

With a handful of keys a query, the only axis to vectorise over is the D elements of a head, 24 or 64: so short that a
loop that Numba compiles spends its time on views, on checks whether rows overlap and on the elements left over. These
take tables [rows, D] and row numbers, and run eight elements at a time, then one at a time.
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
def dot(typingctx: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    """Return the sum of a_i b_j."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _sum(context, builder, signature, args, lambda x, y: builder.fmul(x, y, flags=_FLAGS))

    return a.dtype(a, types.intp, b, types.intp), codegen


@intrinsic
def dot_dot(typingctx: Any, a: Any, i: Any, b: Any, j: Any, c: Any, k: Any, d: Any, m: Any) -> Any:
    """Return the sum of a_i b_j + c_k d_m."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def term(w: Any, x: Any, y: Any, z: Any) -> Any:
            return builder.fadd(builder.fmul(w, x, flags=_FLAGS), builder.fmul(y, z, flags=_FLAGS), flags=_FLAGS)

        return _sum(context, builder, signature, args, term)

    return a.dtype(a, types.intp, b, types.intp, c, types.intp, d, types.intp), codegen


@intrinsic
def add(typingctx: Any, out: Any, i: Any, b: Any, j: Any, factor: Any) -> Any:
    """Add factor b_j to out_i."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def new(x: Any, y: Any, f: Any) -> Any:
            return builder.fadd(x, builder.fmul(y, f, flags=_FLAGS), flags=_FLAGS)

        return _update(context, builder, signature, args, new)

    return types.void(out, types.intp, b, types.intp, out.dtype), codegen


def _sum(context: Any, builder: Any, signature: Any, args: Any, term: Callable[..., Any]) -> Any:
    """Emit the sum of term(elements of all rows)."""
    scalar = context.get_value_type(signature.return_type)
    vector = ir.VectorType(scalar, LANES)
    totals = {kind: cgutils.alloca_once_value(builder, ir.Constant(kind, None)) for kind in (vector, scalar)}

    def body(kind: Any, pointers: list[Any]) -> None:
        value = term(*(_load(builder, pointer, kind) for pointer in pointers))
        builder.store(builder.fadd(builder.load(totals[kind]), value, flags=_FLAGS), totals[kind])

    _for_each(context, builder, signature, args, (vector, scalar), body)
    name = f"llvm.vector.reduce.fadd.v{LANES}{'f32' if scalar == ir.FloatType() else 'f64'}"
    reduce = cgutils.get_or_insert_function(builder.module, ir.FunctionType(scalar, [scalar, vector]), name)
    first = builder.load(totals[scalar])
    return builder.call(reduce, [first, builder.load(totals[vector])], fastmath=("reassoc", *_FLAGS))


def _update(context: Any, builder: Any, signature: Any, args: Any, new: Callable[..., Any]) -> Any:
    """Emit row 0 = new(elements of all rows, factor), where factor is the last argument."""
    scalar = context.get_value_type(signature.args[-1])
    vector = ir.VectorType(scalar, LANES)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), args[-1], ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    factors = {vector: builder.shuffle_vector(one, one, mask), scalar: args[-1]}

    def body(kind: Any, pointers: list[Any]) -> None:
        value = new(*(_load(builder, pointer, kind) for pointer in pointers), factors[kind])
        builder.store(value, builder.bitcast(pointers[0], kind.as_pointer()), align=4)

    _for_each(context, builder, signature, args[:-1], (vector, scalar), body)
    return context.get_dummy_value()


def _load(builder: Any, pointer: Any, kind: Any) -> Any:
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=4)


def _for_each(context: Any, builder: Any, signature: Any, args: Any, kinds: Any, body: Callable[..., None]) -> None:
    """Emit body(kind, pointers) for eight elements at a time, then one; args: table, row number, and so on."""
    tables = [
        context.make_array(kind)(context, builder, table)
        for kind, table in zip(signature.args[: len(args) : 2], args[::2], strict=True)
    ]
    n = cgutils.unpack_tuple(builder, tables[0].shape, 2)[1]
    starts = [
        builder.gep(table.data, [builder.mul(row, n)]) for table, row in zip(tables, args[1::2], strict=True)
    ]
    whole = builder.and_(n, n.type(-LANES))
    for kind, begin, end, stride in ((kinds[0], n.type(0), whole, LANES), (kinds[1], whole, n, 1)):
        with cgutils.for_range_slice(builder, begin, end, n.type(stride)) as (index, _):
            body(kind, [builder.gep(start, [index]) for start in starts])
