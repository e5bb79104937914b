"""Loops over the features of a tile of rows, written in LLVM's vectors: sums, affine maps, and attention of two rows.

Arrays are flat: feature by feature, with the rows side by side in the lanes of two vectors. The first rows of pairs lie
in the first vector, the second rows in the second one. For a compiler, inner loops of two vectors' length are too short
to vectorise.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from accel.cpu.support.lanes import load_pair, pointer_to, vector_of

_FLAGS = ("contract", "nsz")


@intrinsic
def lane_sum(typingctx: Any, x: Any, total: Any):
    """Set `total` [lanes] to the sum of x over its features."""
    return types.void(x, total), _lane_loop(1, 0, 0, 1, lambda b, x: [x[0]])


@intrinsic
def lane_dots(typingctx: Any, x: Any, y: Any, total: Any):
    """Set `total` [lanes] to the sum of x y over their features."""
    return types.void(x, y, total), _lane_loop(2, 0, 0, 1, lambda b, x: [b.each("fmul", x[0], x[1])])


@intrinsic
def lane_affine(typingctx: Any, x: Any, y: Any, a: Any, b: Any, c: Any, out: Any):
    """Set out to a x + b y + c; a, b and c [lanes] are the same for all features."""

    def body(e: Any, x: Any) -> Any:
        return [e.each("fadd", e.each("fmul", x[2], x[0]), e.each("fadd", e.each("fmul", x[3], x[1]), x[4]))]

    return types.void(x, y, a, b, c, out), _lane_loop(2, 3, 1, 0, body)


@intrinsic
def pair_scores(typingctx: Any, q: Any, k: Any, total: Any):
    """Set `total` to the sum of q times the difference of the keys of the first and the second row of a pair."""

    def body(e: Any, x: Any) -> Any:
        q, k = x
        return [e.each("fmul", q, [e.one("fsub", *k)] * 2)]

    return types.void(q, k, total), _lane_loop(2, 0, 0, 1, body)


@intrinsic
def pair_mix(typingctx: Any, v: Any, a: Any, b: Any, out: Any):
    """Set out to a times the values of the first rows and b times those of the second rows."""

    def body(e: Any, x: Any) -> Any:
        v, a, b = x
        return [e.each("fadd", e.each("fmul", a, [v[0]] * 2), e.each("fmul", b, [v[1]] * 2))]

    return types.void(v, a, b, out), _lane_loop(1, 2, 1, 0, body)


@intrinsic
def pair_dots(typingctx: Any, g: Any, v: Any, a: Any, b: Any):
    """Set a to the sum of g times the values of the first rows, and b to that with the second rows."""

    def body(e: Any, x: Any) -> Any:
        return [e.each("fmul", x[0], [half] * 2) for half in x[1]]

    return types.void(g, v, a, b), _lane_loop(2, 0, 0, 2, body)


@intrinsic
def pair_keys_back(typingctx: Any, q: Any, k: Any, along: Any, d_q: Any, d_k: Any):
    """Set the gradients of queries and keys from those of the scores, `along`."""

    def body(e: Any, x: Any) -> Any:
        q, k, along = x
        d_key = e.one("fadd", *e.each("fmul", along, q))
        return [e.each("fmul", along, [e.one("fsub", *k)] * 2), [d_key, e.one("fsub", e.zero, d_key)]]

    return types.void(q, k, along, d_q, d_k), _lane_loop(2, 1, 2, 0, body)


@intrinsic
def pair_mix_back(typingctx: Any, g: Any, a: Any, b: Any, d_v: Any):
    """Set d_v, the gradients of the values, from g, those of the output of `pair_mix`."""

    def body(e: Any, x: Any) -> Any:
        return [[e.one("fadd", *e.each("fmul", factor, x[0])) for factor in x[1:]]]

    return types.void(g, a, b, d_v), _lane_loop(1, 2, 1, 0, body)


class _Emitter:
    """Arithmetic on vectors, and on pairs of them."""

    def __init__(self, builder: Any, vector: Any) -> None:
        self.builder, self.zero = builder, ir.Constant(vector, None)

    def one(self, operation: str, x: Any, y: Any) -> Any:
        return getattr(self.builder, operation)(x, y, flags=_FLAGS)

    def each(self, operation: str, x: Any, y: Any) -> list[Any]:
        return [self.one(operation, *halves) for halves in zip(x, y, strict=True)]


def _lane_loop(n_tables: int, n_lanes: int, n_out: int, n_sums: int, body: Any) -> Any:
    """Emit a loop over features.

    The arguments of the loop are `n_tables` tables to read, `n_lanes` arrays [lanes] to read, `n_out` tables to write,
    and `n_sums` arrays [lanes] for sums. `body` takes the values read, and returns the values to write or to add.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [context.make_array(kind)(context, builder, x) for kind, x in zip(signature.args, args, strict=True)]
        vector = vector_of(context, signature.args[0])
        lanes, data = ir.IntType(64)(2 * vector.count), [array.data for array in arrays]
        tables, rest = data[:n_tables], data[n_tables:]
        fixed = [load_pair(builder, at, vector) for at in rest[:n_lanes]]
        outs, totals = rest[n_lanes : n_lanes + n_out], rest[n_lanes + n_out :]
        emitter = _Emitter(builder, vector)
        sums = [[cgutils.alloca_once_value(builder, emitter.zero) for _ in range(2)] for _ in totals]
        (size,) = cgutils.unpack_tuple(builder, arrays[0].shape)
        with cgutils.for_range_slice(builder, lanes.type(0), size, lanes) as (place, _):
            values = [load_pair(builder, builder.gep(at, [place]), vector) for at in tables]
            results = body(emitter, values + fixed)
            for at, halves in zip(outs, results, strict=False):
                for number, value in enumerate(halves):
                    builder.store(value, pointer_to(builder, builder.gep(at, [place]), vector, number), align=4)
            for total, halves in zip(sums, results if n_sums else (), strict=True):
                for slot, value in zip(total, halves, strict=True):
                    builder.store(emitter.one("fadd", builder.load(slot), value), slot)
        for at, total in zip(totals, sums, strict=True):
            for number, slot in enumerate(total):
                builder.store(builder.load(slot), pointer_to(builder, at, vector, number), align=4)
        return context.get_dummy_value()

    return codegen
