"""`grove verify BACKEND`: compare kernels with the reference, and print a table of which operations agree.

It ends with status 0 if all operations agree, 1 if one differs, and 2 if they cannot be tested.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stdout
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import accel
from accel.data.files.progress import progress
from accel.tasks.numbers import at_least
from accel.verify.own_backend import import_own, meant

if TYPE_CHECKING:
    from accel.verify.checks import Result
    from accel.verify.op import Op

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
    _refuse_ignored(options)
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
        raise ValueError("--require: --race, --fma and --thread-order run kernels on the host: leave out --require")
    if options.require and options.backend not in accel.BACKENDS:
        raise ValueError(f"--require: is for {', '.join(accel.BACKENDS)}: your module says where it runs: leave it out")
    with _kernels(options), _only_the_report() if options.json else nullcontext():
        report, status = _verify(options, ops)
    print(report)
    return status


def _refuse_ignored(options: argparse.Namespace) -> None:
    """Raise ValueError for an option that has no effect beside the others."""
    flags = {"--only": options.only, "--json": options.json, "--seconds": options.seconds is not None}
    flags["--examples"] = options.examples != EXAMPLES
    ignored = [name for name, is_given in flags.items() if is_given]
    if options.replay and ignored:
        raise ValueError(f"{ignored[0]}: --replay runs one input again, and prints it: leave {ignored[0]} out")
    flags |= {"--replay": options.replay, "--require": options.require, "--race": options.race, "--fma": options.fma}
    flags["--thread-order"] = options.thread_order
    ignored = [name for name, is_given in flags.items() if is_given]
    if options.describe is not None and ignored:
        raise ValueError(f"{ignored[0]}: --describe runs nothing: leave {ignored[0]} out")


@contextmanager
def _kernels(options: argparse.Namespace) -> Iterator[None]:
    """Run CUDA kernels on the host if the options ask for it, and report it if none ran there."""
    from accel.verify.cuda_host.launcher import compiled
    from accel.verify.plugin import run_kernels

    restore, before = run_kernels(options.race, options.thread_order, options.fma), compiled.cache_info()
    try:
        yield
        if _on_host(options) and compiled.cache_info() == before:
            print(f"{options.backend}: no CUDA kernel ran on the host: its threads were not watched", file=sys.stderr)
    finally:
        restore()


@contextmanager
def _only_the_report() -> Iterator[None]:
    """Redirect to standard error all that is printed inside, also by compiled code of a kernel."""
    sys.stdout.flush()
    there = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(there, 1)
        os.close(there)


def _on_host(options: argparse.Namespace) -> bool:
    """Return whether CUDA kernels are to run on the host, also where there is a GPU."""
    return bool(options.race or options.fma or options.thread_order)


def _flags(options: argparse.Namespace) -> list[str]:
    """Return the options that say how kernels run, as they were typed."""
    flags = [f"--{name}" for name in ("race", "fma", "require") if getattr(options, name)]
    return [*flags, *(["--thread-order", str(options.thread_order)] if options.thread_order else [])]


def _verify(options: argparse.Namespace, ops: dict[str, Op]) -> tuple[str, int]:
    """Return the last lines of the report, or all of it as JSON, and the exit status."""
    backend = _load(options, ops)
    if options.replay:
        return _replay(options, backend, ops)
    only = [_known(name, ops) for name in options.only] or [name for name in ops if hasattr(backend, name)]
    missing_names = [name for name in only if not hasattr(backend, name)]
    if missing_names:
        names = ", ".join(name for name in ops if hasattr(backend, name)) or "nothing that can be tested"
        raise ValueError(f"{options.backend}: exports no {missing_names[0]}, which --only names; it has {names}")
    from accel.verify.checks import without_files

    with without_files():
        return _report(options, backend, [op for name, op in ops.items() if name in only])


def _operations() -> dict[str, Op]:
    """Return the operations of the tests' table by name."""
    missing_modules = [name for name in ("pytest", "hypothesis") if find_spec(name) is None]
    if missing_modules:
        raise ValueError(f"verify needs {' and '.join(missing_modules)}: pip install 'grove-lm[verify]'")
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


def _report(options: argparse.Namespace, backend: ModuleType, ops: Sequence[Op]) -> tuple[str, int]:
    """Check the operations; print every row of the table, and how it fails, as soon as it is known."""
    from accel.verify import report
    from accel.verify.checks import check_declarations, run_operation

    rows = []
    for op in ops:
        check_declarations(backend, op)
    if not faulthandler.is_enabled():  # prints where a kernel crashes
        faulthandler.enable()
    if not options.json:
        print(report.header(ops), flush=True)
    try:
        for op in ops:
            with closing(progress(count(1), unit="input", label=op.name)) as inputs:
                results = run_operation(backend, op, options.examples, options.seconds, partial(next, inputs))
            rows.append(report.Row(op, results, *_save(op, results)))
            if not options.json:
                print("\n".join(report.row_lines(rows[-1], ops, options.backend, _flags(options))), flush=True)
    except KeyboardInterrupt as stop:
        stop.args = (f"{str(stop) or 'interrupted'} while {op.name} was tested",)
        raise
    status = 1 if any(row.failure for row in rows) else 0
    if options.json:
        return json.dumps(report.as_json(rows, options.backend), indent=1, allow_nan=False), status
    return report.summary(rows), status


def _save(op: Op, results: Sequence[Result]) -> tuple[str, str]:
    """Write the input of the first failure to a file of the current folder.

    Returns the name of the file, or "" if nothing fails or it cannot be written; and why it cannot be written, or "".
    """
    from accel.verify.replay import Saved, save

    for result in results:
        if result.failure:
            file = f"grove-verify-{op.name}-{result.column.replace(' ', '-')}.json"
            saved = Saved(op.name, result.failure.check, result.failure.message, result.failure.drawn)
            try:
                save(Path(file), saved)
            except OSError as error:
                return "", f"{file}: {error.strerror}: run it where a file can be written"
            return file, ""
    return "", ""


def _replay(options: argparse.Namespace, backend: ModuleType, ops: dict[str, Op]) -> tuple[str, int]:
    """Run a saved input again, and print it; return how the check ends."""
    from accel.verify.checks import CHECKS, run_again
    from accel.verify.describe import arguments
    from accel.verify.errors import in_words, without_clause
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
        return f"{op.name}, {check.column}: agrees on the input of {options.replay}", 0
    message = without_clause(op, in_words(op, error))
    return f"{op.name}, {check.column}: differs on the input of {options.replay}: {message}", 1
