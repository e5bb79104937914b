"""Kernels of a team of threads: each thread runs the same function on its share of the outer loop.

    @team_kernel()
    def _double(part, x):
        for i in share(part, x.size):
            x[i] *= 2

    _double(x)

Numba compiles such a function once, as sequential code. For a loop over `prange` it compiles three functions, in two to
four times the time. The threads are those of Numba's own parallel loops.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.compiler import Compiler
from numba.extending import intrinsic

from accel.cpu.support.kernels import started_kernel

PART = types.UniTuple(types.intp, 3)
"""The thread's number, the number of threads, and the address of the function that starts them; 0 once they run."""
LEAST = 2**17
"""Smallest array for a team if an element takes less than a nanosecond: to wake a thread takes 25 microseconds."""
_ALONE = 0, 1, 0
_one_team = Lock()
_WORD, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()


class _Apart(Compiler):
    """A compiler that may assume that no two arrays of a call overlap, as in a loop over `prange`."""

    def define_pipelines(self) -> Any:
        self.state.flags.noalias = True
        return super().define_pipelines()


def team_kernel(least: int = 0) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of a kernel (part, *arrays and numbers), whose callers leave out `part`.

    The calling thread works alone if the first array has fewer than `least` elements, and while the team works for
    another thread: the threads of Numba's "workqueue" end the process if two threads start them.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        # nogil: a thread that allocates under tracemalloc would wait for the interpreter's lock for ever.
        compiled = started_kernel(nogil=True, pipeline_class=_Apart)(function)

        @wraps(function)
        def call(*arguments: Any) -> None:
            is_alone = config.NUMBA_NUM_THREADS == 1 or (least > 0 and arguments[0].size < least)
            if is_alone or not _one_team.acquire(blocking=False):
                compiled(_ALONE, *arguments)
                return
            try:
                compiled(_team(), *arguments)
            finally:
                _one_team.release()

        call.compiled = compiled  # type: ignore[attr-defined]
        return call

    return decorate


def _team() -> tuple[int, int, int]:
    size = numba.get_num_threads()  # the first call of a process starts Numba's threads
    return (0, size, _start()) if size > 1 else _ALONE


@cache
def _start() -> int:
    return int(llvm.address_of_symbol("numba_parallel_for"))


def _work_alone() -> None:
    """Give the teams of a forked process one thread if its parent began Numba's threads, which the fork does not copy.

    GNU's OpenMP would end the process if it asked for them.
    """
    try:
        numba.threading_layer()
    except ValueError:  # none had begun: this process begins its own
        return
    config.NUMBA_NUM_THREADS = 1


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_work_alone)


@intrinsic
def share(typingctx: Any, part: Any, count: Any) -> Any:
    """Return this thread's part of range(count); in the call that starts the team, run the team and return no part.

    `part` is the first argument of the calling kernel. The code of the kernel before `share` runs in that call, too,
    and may only set local variables.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, size, start = cgutils.unpack_tuple(builder, args[0])
        is_start = cgutils.is_not_null(builder, start)
        with builder.if_then(is_start, likely=False):
            _emit_team(context, builder, size, start)
        count = context.cast(builder, args[1], signature.args[1], types.intp)
        begin = builder.sdiv(builder.mul(number, count), size)
        end = builder.sdiv(builder.mul(builder.add(number, _WORD(1)), count), size)
        state = cgutils.create_struct_proxy(types.range_state64_type)(context, builder)
        state.start, state.step = begin, _WORD(1)
        state.stop = builder.select(is_start, begin, end)
        return state._getvalue()

    return types.range_state64_type(part, count), codegen


def _emit_team(context: Any, builder: Any, size: Any, start: Any) -> None:
    """Emit a call of numba_parallel_for that calls this very kernel once for every part, with its arguments."""
    function = builder.function
    arguments = list(function.args)  # pointers to its result and error, `part`, and the others
    record = ir.LiteralStructType([x.type for x in arguments])
    callback = _callback(builder.module, function, record, len(arguments))
    packed = cgutils.alloca_once(builder, record)
    for x, argument in enumerate(arguments):
        builder.store(argument, cgutils.gep_inbounds(builder, packed, 0, x))
    places = [cgutils.alloca_once(builder, kind) for kind in (_BYTES, _WORD, _WORD)]
    for place, value in zip(places, (ir.Constant(_BYTES, None), size, _WORD(1)), strict=True):
        builder.store(value, place)  # the first item, their number, and the step to the next one
    pointer = _WORD.as_pointer()
    kind = ir.FunctionType(
        ir.VoidType(), [_BYTES, _BYTES.as_pointer(), pointer, pointer, _BYTES, _WORD, _WORD, ir.IntType(32)]
    )
    builder.call(
        builder.inttoptr(start, kind.as_pointer()),
        [
            builder.bitcast(callback, _BYTES), *places, builder.bitcast(packed, _BYTES), _WORD(0), _WORD(1),
            builder.trunc(size, ir.IntType(32)),
        ],
    )  # fmt: skip


def _callback(module: Any, kernel: Any, record: Any, n_arguments: int) -> Any:
    """Emit the function that a thread calls: it runs the kernel for its parts."""
    pointer = _WORD.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), pointer, pointer, _BYTES])
    callback = ir.Function(module, kind, f"{kernel.name}.team")
    callback.linkage = "internal"
    builder = ir.IRBuilder(callback.append_basic_block())
    items, counts, _, data = callback.args
    packed = builder.bitcast(data, record.as_pointer())
    arguments = [builder.load(cgutils.gep_inbounds(builder, packed, 0, x)) for x in range(n_arguments)]
    first = builder.ptrtoint(builder.load(items), _WORD)
    with cgutils.for_range(builder, builder.load(counts)) as loop:
        number = builder.add(first, loop.index)
        builder.call(kernel, [*arguments[:2], number, arguments[3], _WORD(0), *arguments[5:]])
    builder.ret_void()
    return callback
