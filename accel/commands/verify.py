"""`grove verify BACKEND`: run the conformance tests on this machine, and print a table of operations that agree.

The tests run in another process. Their output goes to stderr, the table to stdout.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import accel
from accel.commands.tables import print_table
from accel.verify.own_backend import import_own, meant

ROOT = Path(accel.__file__).resolve().parents[1]
FORWARD, GRADIENTS = (str(ROOT / "accel" / "verify" / f"test_{name}.py") for name in ("values", "gradients"))
_TEST = re.compile(r"(?P<test>\w+)\[(?P<parameters>.+)\]")


@dataclass
class Row:
    """The test results of one operation: how many passed, and the names of those that failed."""

    clause: str
    passed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    failed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    reason: str = ""  # of the first failure

    def verdict(self, kind: str) -> str:
        if self.failed[kind]:
            return "FAILS: " + ", ".join(sorted(set(self.failed[kind])))
        return f"agrees ({self.passed[kind]})" if self.passed[kind] else "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("backend", help="ref, cpu, cuda, or your own module, which exports some of the operations")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="this operation only; repeatable")
    parser.add_argument("--profile", choices=("dev", "ci", "deep"), default="dev", help="how many examples")
    parser.add_argument("--require", action="store_true", help="fail where this backend cannot run on the real device")


def run(options: argparse.Namespace) -> int:
    clauses = _clauses()
    unknown = set(options.op) - clauses.keys()
    if unknown:
        names = meant(min(unknown), clauses) or f"choose among {', '.join(clauses)}"
        raise ValueError(f"unknown operation {min(unknown)!r}: {names}")
    if options.backend in accel.BACKENDS:
        reason = accel.available()[options.backend]
        if reason is not None and (options.require or options.backend != "cuda"):
            raise accel.BackendUnavailable(f"{options.backend}: {reason}")
        if reason is not None:
            print(f"{options.backend}: {reason}; its kernels run on the host, compiled by g++", file=sys.stderr)
    else:
        sys.path.insert(0, os.getcwd())
        module = import_own(options.backend, clauses)
        missing = [name for name in options.op if not hasattr(module, name)]
        if missing:
            raise ValueError(f"{options.backend}: exports no {missing[0]}, which --op names")
    rows = {name: Row(clause) for name, clause in clauses.items() if not options.op or name in options.op}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        status = subprocess.run(_command(options, rows, report), cwd=ROOT, stdout=sys.stderr, env=_environment())
        if not report.exists() or status.returncode not in (0, 1):
            raise ValueError(f"verify: pytest ended with status {status.returncode}: see its output above")
        _read_report(report, rows)
    return _print_table(rows)


def _clauses() -> dict[str, str]:
    """Return the operations of the tests' table, each with its clause."""
    missing = [name for name in ("pytest", "hypothesis") if find_spec(name) is None]
    if missing:
        raise ValueError(f"verify needs {' and '.join(missing)}: pip install 'grove-lm[test]'")
    return {op.name: op.clause for op in import_module("accel.verify.ops.table").OPS}


def _command(options: argparse.Namespace, rows: dict[str, Row], report: Path) -> list[str]:
    only = " or ".join(f"[{name}-" for name in rows)
    return [
        *(
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "accel.verify.plugin",
            FORWARD,
            GRADIENTS,
            "--backend",
            options.backend,
        ),
        *(("--require", options.backend) if options.require else ()),
        *("-k", only, "--hypothesis-profile", options.profile, f"--junitxml={report}", "-p", "no:cacheprovider"),
    ]


def _environment() -> dict[str, str]:
    """Return an environment in which a module of the current directory can be imported."""
    path = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


def _read_report(report: Path, rows: dict[str, Row]) -> None:
    for case in ElementTree.parse(report).iter("testcase"):
        match = _TEST.fullmatch(case.get("name", ""))
        name = match["parameters"].partition("-")[0] if match else ""
        if match is None or name not in rows or case.find("skipped") is not None:
            continue
        kind = "gradients" if match["test"] == "test_gradients" else "forward"
        failures = [*case.iter("failure"), *case.iter("error")]
        if failures:
            rows[name].failed[kind].append(match["test"])
            rows[name].reason = rows[name].reason or failures[0].get("message", "").partition("\n")[0]
        else:
            rows[name].passed[kind] += 1


def _print_table(rows: dict[str, Row]) -> int:
    tested = {name: row for name, row in rows.items() if row.passed or row.failed}
    if not tested:
        raise ValueError("verify: this backend exports none of the operations")
    table = [[name, row.clause, row.verdict("forward"), row.verdict("gradients")] for name, row in tested.items()]
    print_table([["operation", "clause", "forward", "gradients"], *table], 4)
    failed = [name for name, row in tested.items() if any(row.failed.values())]
    for name in failed:
        print(f"{name}: {tested[name].reason}")
    print(f"{len(tested) - len(failed)} of {len(tested)} operations agree with the reference")
    return 1 if failed else 0
