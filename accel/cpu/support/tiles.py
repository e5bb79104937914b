"""Products of small matrices that lie anywhere in memory, a tile of sums at a time in registers.

The heads of an attention are too many and too small for a BLAS, which would copy both factors to another layout each
time. Here the first factor is read element by element, with any strides, so that it may be transposed; the second
factor and the result are read by rows, eight rows and two vectors at a time. Every element is a sum in the order of the
inner axis.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from accel.cpu.support.kernels import kernel
from accel.cpu.support.products import BYTES

ROWS = (8, 4, 1)
"""The possible numbers of rows of a tile."""
_FLAGS = ("contract", "nsz")
_I32 = ir.IntType(32)


@kernel()
def add_product(
    a, a_first, a_step, a_inner, b, b_first, b_step, c, c_first, c_step, n_rows, n_inner, n_columns
):  # fmt: skip
    """Add to c [rows, columns] the product of a [rows, inner] and b [inner, columns].

    Each is a table, C-contiguous, with the number of its first element and the steps to the next row and, for a, to the
    next element of a row. No number should be a literal constant: Numba would compile the function again for it.
    """
    lanes = BYTES // a.itemsize
    r = 0
    while r < n_rows:
        size = ROWS[0] if n_rows - r >= ROWS[0] else ROWS[1] if n_rows - r >= ROWS[1] else ROWS[2]
        for x in range(0, n_columns, 2 * lanes):
            a_rows, c_rows = (a, a_first + r * a_step, a_step, a_inner), (c, c_first + r * c_step + x, c_step)
            _add_tile(a_rows, (b, b_first + x, b_step), c_rows, n_inner, n_columns - x, size)
        r += size


@intrinsic
def _add_tile(typingctx: Any, a: Any, b: Any, c: Any, n_inner: Any, n_columns: Any, n_rows: Any) -> Any:
    """Add the product to a tile of c that has a number of rows of ROWS, and up to two vectors of columns."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scalar = context.get_value_type(signature.args[0][0].dtype)
        lanes = BYTES // context.get_abi_sizeof(scalar)
        n_columns, n_rows = args[4:]
        for rows in ROWS:
            with builder.if_then(builder.icmp_signed("==", n_rows, n_rows.type(rows))):
                narrow = builder.icmp_signed("<=", n_columns, n_columns.type(lanes))
                with builder.if_else(narrow) as (one, two):
                    for count, branch in enumerate((one, two), 1):
                        with branch:
                            _emit(context, builder, signature, args, ir.VectorType(scalar, lanes), rows, count)
        return context.get_dummy_value()

    return types.void(a, b, c, types.intp, types.intp, types.intp), codegen


def _emit(context: Any, builder: Any, signature: Any, args: Any, vector: Any, n_rows: int, n_vectors: int) -> None:
    """Emit the product of a tile; what lies beyond the last column is neither read nor written."""
    _, _, _, n_inner, n_columns, _ = args
    index, plus, times = n_inner.type, builder.add, builder.mul
    data, numbers = [], []
    for factor_type, factor in zip(signature.args, args[:3], strict=False):
        table, *rest = cgutils.unpack_tuple(builder, factor)
        data.append(context.make_array(factor_type[0])(context, builder, table).data)
        numbers.append(rest)
    (a_first, a_step, a_inner), (b_first, b_step), (c_first, c_step) = numbers
    lanes, everywhere = vector.count, ir.Constant(ir.VectorType(_I32, vector.count), None)
    own_lane = ir.Constant(everywhere.type, list(range(lanes)))

    def spread(x: Any) -> Any:
        one = builder.insert_element(ir.Constant(ir.VectorType(x.type, lanes), ir.Undefined), x, _I32(0))
        return builder.shuffle_vector(one, one, everywhere)

    def place(which: int, offset: Any) -> Any:
        return builder.bitcast(builder.gep(data[which], [offset]), vector.as_pointer())

    left = builder.trunc(n_columns, _I32)
    masks = [builder.icmp_signed("<", own_lane, spread(builder.sub(left, _I32(v * lanes)))) for v in range(n_vectors)]
    tile = [(r, v) for r in range(n_rows) for v in range(n_vectors)]
    c_places = {(r, v): place(2, plus(plus(c_first, times(c_step, index(r))), index(v * lanes))) for r, v in tile}
    sums = {(r, v): cgutils.alloca_once(builder, vector) for r, v in tile}
    for r, v in tile:
        builder.store(_masked(builder, "load", vector, c_places[r, v], masks[v]), sums[r, v])
    rows = [plus(a_first, times(a_step, index(r))) for r in range(n_rows)]
    with cgutils.for_range(builder, n_inner) as loop:
        begin = plus(b_first, times(loop.index, b_step))
        values = [
            _masked(builder, "load", vector, place(1, plus(begin, index(v * lanes))), masks[v])
            for v in range(n_vectors)
        ]
        along = times(loop.index, a_inner)
        for r in range(n_rows):
            element = spread(builder.load(builder.gep(data[0], [plus(rows[r], along)])))
            for v in range(n_vectors):
                term = builder.fmul(element, values[v], flags=_FLAGS)
                builder.store(builder.fadd(builder.load(sums[r, v]), term, flags=_FLAGS), sums[r, v])
    for r, v in tile:
        _masked(builder, "store", vector, c_places[r, v], masks[v], builder.load(sums[r, v]))


def _masked(builder: Any, access: str, vector: Any, pointer: Any, mask: Any, value: Any = None) -> Any:
    """Emit a load (zeros where the mask is false) or a store of the lanes under a mask."""
    element = f"f{32 if isinstance(vector.element, ir.FloatType) else 64}"
    name = f"llvm.masked.{access}.v{vector.count}{element}.p0"
    align = _I32(4)
    if access == "load":
        function_type = ir.FunctionType(vector, [pointer.type, _I32, mask.type, vector])
        arguments = [pointer, align, mask, ir.Constant(vector, None)]
    else:
        function_type = ir.FunctionType(ir.VoidType(), [vector, pointer.type, _I32, mask.type])
        arguments = [value, pointer, align, mask]
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), arguments)
