"""What `grove verify` prints: a table with a column for every check, one line for a failure, or all of it as JSON."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import accel
from accel.verify.checks import COLUMNS, Failure, Result
from accel.verify.compare import Disagreement
from accel.verify.errors import without_clause
from accel.verify.op import Op

FORMAT, VERSION = "grove-verify-report", 1
AROUND_VALUES = ("gradients", "errors")  # a kernel may differ here, and its values still agree


@dataclass(frozen=True)
class Row:
    """An operation, the results of its columns, and the file of its first failure's input, or why there is none."""

    op: Op
    results: Sequence[Result]
    file: str = ""
    unsaved: str = ""

    @property
    def differing(self) -> list[str]:
        return [result.column for result in self.results if result.failure]

    @property
    def values_agree(self) -> bool:
        return set(self.differing) <= set(AROUND_VALUES)

    @property
    def verdict(self) -> str:
        """Return such words as "values agree, errors differ"."""
        if not self.differing:
            return "agrees"
        plural = "differs" if self.differing == ["permutation"] else "differ"
        return f"{'values agree, ' if self.values_agree else ''}{_listed(self.differing)} {plural}"

    @property
    def failure(self) -> Failure | None:
        return first_failure(self.results)


def first_failure(results: Sequence[Result]) -> Failure | None:
    return next((result.failure for result in results if result.failure), None)


def header(ops: Sequence[Op]) -> str:
    return _line("operation", COLUMNS, ops)


def table_row(row: Row, ops: Sequence[Op]) -> str:
    """Return for every column how many inputs agreed, or "differs", or a dash where nothing is checked."""
    cells = ["differs" if x.failure else str(x.n_inputs or "-") for x in row.results]
    return _line(row.op.name, cells, ops)


def row_lines(row: Row, ops: Sequence[Op], backend: str, flags: Sequence[str] = ()) -> list[str]:
    """Return the row of the table, and below it the first failure and the notes; `flags` as in `failure_lines`."""
    return [table_row(row, ops), *([failure_lines(row, backend, flags)] if row.failure else []), *notes(row)]


def failure_lines(row: Row, backend: str, flags: Sequence[str] = ()) -> str:
    """Return the operation, its verdict or failing column, and its first failure; below, how to run the input again.

    `flags` are the options that say how kernels run.
    """
    assert row.failure is not None
    head = f"{row.op.name}: {row.verdict}" if row.values_agree else f"{row.op.name}, {row.differing[0]}"
    once = "" if row.failure.repeats else "; run again, the same input agrees: the kernel's answers vary"
    again = f"its input is not saved: {row.unsaved}"
    if row.file:
        again = " ".join(["grove verify", *flags, "--replay", row.file, shlex.quote(backend)])
    return f"{head}: {without_clause(row.op, row.failure.message)}{once}\n  {again}"


def notes(row: Row) -> list[str]:
    """Return the declared precision, and where gradients come from if the kernel has no NAME_vjp."""
    return [f"{row.op.name}: {result.column}: {result.note}" for result in row.results if result.note]


def summary(rows: Sequence[Row]) -> str:
    agree, values = sum(not row.differing for row in rows), sum(row.values_agree for row in rows)
    text = f"{agree} of {len(rows)} operations agree with the reference"
    return text if agree == len(rows) else f"{text}, {values} of {len(rows)} in their values"


def as_json(rows: Sequence[Row], backend: str) -> dict[str, Any]:
    """Return the report for programs: `accel/verify/README.md` lists the fields."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "grove": accel.__version__,
        "backend": backend,
        "operations": [_operation(row) for row in rows],
        "agree": sum(not row.differing for row in rows),
        "agree_in_values": sum(row.values_agree for row in rows),
    }


def _operation(row: Row) -> dict[str, Any]:
    return {
        "operation": row.op.name,
        "clause": row.op.clause,
        "agrees": not row.differing,
        "values_agree": row.values_agree,
        "verdict": row.verdict,
        "input": row.file or None,
        "checks": {
            result.column: {
                "inputs": result.n_inputs,
                "seconds": round(result.seconds, 3),
                "note": result.note,
                "failure": result.failure and _failure(result.failure),
            }
            for result in row.results
        },
    }


def _failure(failure: Failure) -> dict[str, Any]:
    error = failure.error
    parts = ("what", "place", "got", "wanted", "allowed")
    fields = {name: _value(getattr(error, name)) if isinstance(error, Disagreement) else None for name in parts}
    return {"check": failure.check, "message": failure.message, "repeats": failure.repeats, **fields}


def _value(x: Any) -> Any:
    if isinstance(x, float) and not math.isfinite(x):
        return str(x)
    return x if isinstance(x, (bool, int, float, str)) else str(x)


def _line(name: str, cells: Sequence[str], ops: Sequence[Op]) -> str:
    width = max(len("operation"), *(len(op.name) for op in ops))
    columns = (cell.rjust(max(len(column), len("differs"))) for cell, column in zip(cells, COLUMNS, strict=True))
    return "  ".join([name.ljust(width), *columns])


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
