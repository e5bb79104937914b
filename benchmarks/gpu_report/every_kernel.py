"""Run every operation and its gradient on a few inputs, and compare nothing: for compute-sanitizer.

    compute-sanitizer --tool memcheck python -m benchmarks.gpu_report.every_kernel [--seconds 20] [--stand-in]

It prints the name of every operation that it has run. Arrays are allocated one by one: what lies beyond one is no
other's memory.
"""

from __future__ import annotations

import argparse
import faulthandler
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accel.verify.expected import cast
from accel.verify.op import example_case
from accel.verify.ops.table import OPS
from accel.verify.sizes import cases_at_sizes
from benchmarks.gpu_report.records import Setting

GRACE = 10
"""Seconds after which an operation that has begun is given up."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="begin no operation after so many")
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[op.name for op in OPS], metavar="OP")
    options = parser.parse_args(arguments)
    faulthandler.dump_traceback_later(options.seconds + GRACE, exit=True)
    ops, end = Setting(Path(), options.stand_in, True).ops(), time.monotonic() + options.seconds
    if not options.stand_in:
        import cupy

        cupy.cuda.set_allocator(None)
    for op in OPS:
        if not hasattr(ops, op.name) or (options.only and op.name not in options.only):
            continue
        if time.monotonic() >= end:
            break
        for case in (example_case(op), *(case for _, case in cases_at_sizes(ops, op))):
            given = cast(op.batched(case), np.float32)
            outputs = op.call(ops, given)
            if op.diff:
                op.vjp(ops, given, np.ones_like(outputs[0]))
        print(op.name, flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
