"""Run the fast kernels, and every operation and its gradient, and compare nothing: for compute-sanitizer.

    compute-sanitizer --tool memcheck python -m benchmarks.gpu_report.every_kernel [--seconds 20] [--stand-in]

It prints the name of everything that it has run. The fast kernels come first, in small training steps, since they use
features that only a GPU has. Operations with a fast form run in it, too. Every array has an allocation of its own, so
that an access beyond an array hits no other array.
"""

from __future__ import annotations

import argparse
import faulthandler
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

from accel import cuda
from accel.cuda.forms import FAST, Forms, use
from accel.verify.expected import cast
from accel.verify.op import Op, example_case
from accel.verify.ops.table import OPS
from accel.verify.sizes import cases_at_sizes
from benchmarks.gpu_report.records import Setting
from benchmarks.gpu_report.steps import chosen
from benchmarks.gpu_steps import TableStep

FAST_FORMS = Forms("fast"), Forms("fast", "bf16")
SMALL_STEPS = chosen(Setting(Path(), False, True))
GRACE = 10
"""Seconds after which an operation that has begun is given up."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="begin no operation after so many")
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(works()), metavar="NAME")
    options = parser.parse_args(arguments)
    faulthandler.dump_traceback_later(options.seconds + GRACE, exit=True)
    ops, end = Setting(Path(), options.stand_in, True).ops(), time.monotonic() + options.seconds
    if not options.stand_in:
        import cupy

        cupy.cuda.set_allocator(None)
    for name, work in works().items():
        if options.only and name not in options.only:
            continue
        if time.monotonic() >= end:
            break
        work(ops)
        print(name, flush=True)
    faulthandler.cancel_dump_traceback_later()


def works() -> dict[str, Callable[[ModuleType], None]]:
    """Return the steps and operations that are run, by name."""
    steps = {f"fast_{step.family}": partial(run_step, step) for step in SMALL_STEPS}
    return steps | {op.name: partial(run_operation, op) for op in OPS if hasattr(cuda, op.name)}


def run_step(step: TableStep, ops: ModuleType) -> None:
    call = step.make(ops, True)
    for form in FAST_FORMS:
        with use(form):
            call()


def run_operation(op: Op, ops: ModuleType) -> None:
    for form in (Forms(), *(FAST_FORMS if op.name in FAST else ())):
        for case in (example_case(op), *(case for _, case in cases_at_sizes(ops, op))):
            inputs = cast(op.batched(case), np.float32)
            with use(form):
                outputs = op.call(ops, inputs)
                if op.diff:
                    op.vjp(ops, inputs, np.ones_like(outputs[0]))


if __name__ == "__main__":
    main()
