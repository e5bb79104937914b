"""`grove verify BACKEND`: compare kernels with the reference, and print a table of operations that agree.

It ends with status 0 if all operations agree, 1 if one differs, and 2 if they cannot be tested.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import accel
from accel.tasks.numbers import at_least
from accel.verify.own_backend import import_own, meant

if TYPE_CHECKING:
    from accel.verify.checks import Result
    from accel.verify.op import Op
    from accel.verify.report import Row

EXAMPLES = 25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "backend", nargs="?", help="ref, cpu, cuda, or your own module or .py file, which exports some operations"
    )
    parser.add_argument("--only", action="append", default=[], metavar="OP", help="this operation only; repeatable")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--examples", type=int, default=EXAMPLES, metavar="N",
        help=f"inputs that each check draws, the same at every run (default: {EXAMPLES})",
    )  # fmt: skip
    length.add_argument(
        "--seconds", type=float, metavar="S", help="instead, draw new inputs until S seconds an operation are over"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, for programs")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="only run the input again that a failure has saved")
    parser.add_argument(
        "--describe",
        nargs="?",
        const="",
        metavar="OP",
        help="print what a kernel of this operation takes, returns and must refuse; without OP list the operations",
    )
    parser.add_argument(
        "--race", action="store_true", help="report races between the threads of CUDA kernels; they run on the host"
    )
    parser.add_argument(
        "--thread-order", type=at_least(0), default=0, metavar="SEED",
        help="on the host, draw the order in which the threads of a CUDA kernel run by this seed (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--fma", action="store_true", help="on the host, let g++ contract a * b + c in CUDA kernels, as a GPU does"
    )
    parser.add_argument("--require", action="store_true", help="fail where this backend cannot run on the real device")


def run(options: argparse.Namespace) -> int:
    ops = _operations()
    if options.describe is not None:
        from accel.verify.describe import description, listing

        print(description(ops[_known(options.describe, ops)]) if options.describe else listing(ops.values()))
        return 0
    if options.backend is None:
        raise ValueError("BACKEND is missing: type grove verify MODULE, or ref, cpu or cuda")
    if options.examples < 1 or (options.seconds is not None and not options.seconds > 0):
        raise ValueError("--examples and --seconds: at least one example, and more than 0 seconds, are needed")
    if _on_host(options) and options.backend in ("ref", "cpu"):
        raise ValueError(f"{options.backend}: has no CUDA kernels: leave --race, --fma and --thread-order out")
    if _on_host(options) and options.require:
        raise ValueError("--require: --race, --fma and --thread-order run kernels on the host: leave them or it out")
    from accel.verify.plugin import run_kernels

    restore = run_kernels(options.race, options.thread_order, options.fma)
    try:
        return _verify(options, ops)
    finally:
        restore()


def _on_host(options: argparse.Namespace) -> bool:
    """Return whether CUDA kernels are to run on the host, also where there is a GPU."""
    return bool(options.race or options.fma or options.thread_order)


def _verify(options: argparse.Namespace, ops: dict[str, Op]) -> int:
    backend = _load(options, ops)
    if options.replay:
        return _replay(options, backend, ops)
    only = [_known(name, ops) for name in options.only] or [name for name in ops if hasattr(backend, name)]
    missing = [name for name in only if not hasattr(backend, name)]
    if missing:
        raise ValueError(f"{options.backend}: exports no {missing[0]}, which --only names")
    from accel.verify.checks import without_files

    with without_files():
        return _report(options, backend, [op for name, op in ops.items() if name in only])


def _operations() -> dict[str, Op]:
    """Return the rows of the tests' table by name."""
    missing = [name for name in ("pytest", "hypothesis") if find_spec(name) is None]
    if missing:
        raise ValueError(f"verify needs {' and '.join(missing)}: pip install 'grove-lm[verify]'")
    from accel.verify.ops.table import OPS

    return {op.name: op for op in OPS}


def _known(name: str, ops: dict[str, Op]) -> str:
    if name not in ops:
        choice = meant(name, ops) or f"choose among {', '.join(ops)}"
        raise ValueError(f"unknown operation {name!r}: {choice}")
    return name


def _load(options: argparse.Namespace, ops: dict[str, Op]) -> ModuleType:
    from accel.verify.plugin import load_backend

    if options.backend not in accel.BACKENDS:
        sys.path.insert(0, os.getcwd())
        return import_own(options.backend, ops)
    if _on_host(options):
        return load_backend(options.backend)
    reason = accel.available()[options.backend]
    if reason is not None and (options.require or options.backend != "cuda"):
        raise accel.BackendUnavailable(f"{options.backend}: {reason}")
    if reason is not None:
        print(f"{options.backend}: {reason}; its kernels run on the host, compiled by g++", file=sys.stderr)
    return load_backend(options.backend)


def _report(options: argparse.Namespace, backend: ModuleType, ops: Sequence[Op]) -> int:
    """Check the operations; print every row of the table as soon as it is known, or the report as JSON."""
    from accel.verify import report
    from accel.verify.checks import check_declarations, run_operation

    rows = []
    for op in ops:
        check_declarations(backend, op)
    if not faulthandler.is_enabled():  # a kernel that crashes says where
        faulthandler.enable()
    if not options.json:
        print(report.header(ops), flush=True)
    try:
        for op in ops:
            with redirect_stdout(sys.stderr) if options.json else nullcontext():  # a kernel may print
                results = run_operation(backend, op, options.examples, options.seconds)
            rows.append(report.Row(op, results, _save(op, results)))
            if not options.json:
                print(report.table_row(rows[-1], ops), flush=True)
    except KeyboardInterrupt as stop:
        stop.args = (f"{str(stop) or 'interrupted'} while {op.name} was tested",)
        raise
    finally:  # what is known of the operations before, also where a kernel is interrupted
        if not options.json:
            _print_failures(rows, options.backend)
    print(json.dumps(report.as_json(rows, options.backend), indent=1, allow_nan=False) if options.json
          else report.summary(rows))  # fmt: skip
    return 1 if any(row.failure for row in rows) else 0


def _print_failures(rows: Sequence[Row], backend: str) -> None:
    from accel.verify import report

    for row in rows:
        if row.failure:
            print(report.failure_lines(row, backend))
        for note in report.notes(row):
            print(note)


def _save(op: Op, results: Sequence[Result]) -> str:
    """Write the input of the first failure to a file of the current folder, and return its name; "" if none fails."""
    from accel.verify.replay import Saved, save

    for result in results:
        if result.failure:
            file = f"grove-verify-{op.name}-{result.column.replace(' ', '-')}.json"
            save(Path(file), Saved(op.name, result.failure.check, result.failure.message, result.failure.drawn))
            return file
    return ""


def _replay(options: argparse.Namespace, backend: ModuleType, ops: dict[str, Op]) -> int:
    """Run a saved input again, and print it and how the check ends."""
    from accel.verify.checks import CHECKS, run_again
    from accel.verify.describe import arguments
    from accel.verify.errors import in_words
    from accel.verify.replay import load

    saved = load(options.replay)
    op = ops[_known(saved.operation, ops)]
    check = next((check for check in CHECKS if check.name == saved.check), None)
    if check is None:
        raise ValueError(f"{options.replay}: no check {saved.check!r} in this version of Grove")
    if not hasattr(backend, op.name):
        raise ValueError(f"{options.backend}: exports no {op.name}, whose input {options.replay} holds")
    error = run_again(check, backend, op, saved.drawn)
    print(arguments(op, saved.drawn))
    if error is None:
        print(f"{op.name}, {check.column}: agrees on the input of {options.replay}")
        return 0
    print(f"{op.name}, {check.column}: differs on the input of {options.replay}: {in_words(op, error)}")
    return 1
