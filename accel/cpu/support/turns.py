"""Work of many small phases by one team of threads: the threads take turns, and each phase waits for the one before.

A parallel loop for every phase would wake the threads each time, which takes as long as a small phase. A thread that
takes a turn runs it at once, and waits only for turns taken earlier: there is no deadlock, even if the threads of a
team run one after another.
"""

from __future__ import annotations

import sys
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from accel.cpu.support.kernels import kernel

LINE = 16  # elements; processors fetch lines of 64 bytes in pairs
TAKEN, ENDED = 0, LINE
PATIENCE = 4000
"""How often a waiting thread reads the counter before it yields the processor: about the time to wake a thread."""
X86 = llvm.get_process_triple().startswith("x86_64")
YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
"""The system's function that gives the processor away; both take nothing and return an int."""


def counters() -> NDArray[np.int64]:
    """Return counters of the turns taken and ended, for one loop; each has two lines of the cache to itself."""
    return np.zeros(2 * LINE, np.int64)


@kernel()
def take(counters):
    """Return the number of the turn that the caller takes, from 0."""
    return _add(counters, TAKEN)


@kernel()
def end(counters):
    """Count a turn as ended, and make its results visible to all threads."""
    _add(counters, ENDED)


@kernel()
def wait(counters, turns):
    """Return when `turns` turns have ended."""
    looks = 0
    while _read(counters, ENDED) < turns:
        looks += 1
        _rest(looks > PATIENCE)


@intrinsic
def _add(typingctx: Any, counters: Any, place: Any) -> Any:
    """Add 1 to a counter in one atomic step, and return the number before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature, args)
        return builder.atomic_rmw("add", pointer, ir.IntType(64)(1), "acq_rel")

    return types.int64(counters, types.intp), codegen


@intrinsic
def _read(typingctx: Any, counters: Any, place: Any) -> Any:
    """Return a counter; the results of the turns that it counts are then visible."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_pointer(context, builder, signature, args), "acquire", np.dtype(np.int64).itemsize)

    return types.int64(counters, types.intp), codegen


@intrinsic
def _rest(typingctx: Any, long: Any) -> Any:
    """Pause for some cycles, or if `long` yield the processor to another thread."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.if_else(args[0]) as (yields, pauses):
            with yields:
                kind = ir.FunctionType(ir.IntType(32), [])
                builder.call(cgutils.get_or_insert_function(builder.module, kind, YIELD), [])
            with pauses:
                if X86:
                    kind = ir.FunctionType(ir.VoidType(), [])
                    builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(types.boolean), codegen


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    counters = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(counters.data, [args[1]])
