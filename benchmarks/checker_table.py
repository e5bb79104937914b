"""The tables of what rules detect and refuse, between the comment marks of accel/verify/checkers.md."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from benchmarks.checker_rules import RULES

PAGE = Path(__file__).parents[1] / "accel" / "verify" / "checkers.md"
OURS, OURS_NARROW = "Grove", "Grove, float32 alone"
COLUMNS = (OURS, OURS_NARROW, *RULES)
MARKS = "<!-- written by benchmarks/checkers.py -->", "<!-- end -->"
SEEDED = "seeded errors of accel/verify/mutants"

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def page_text(rows: list[Row], setting: dict[str, Any]) -> str:
    """Return both tables, and what Grove's rule misses."""
    wrong, right = ([row for row in rows if row["part"] == part] for part in ("wrong", "right"))
    machine = ", ".join(f"{key} {value}" for key, value in setting.items())
    return "\n\n".join([f"Measured with {machine}.", *detection(wrong), *false_alarms(right)])


def write_page(text: str) -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(MARKS[0])
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")


def detection(rows: list[Row]) -> list[str]:
    """Return a table of how many wrong kernels of each kind every rule detects within all draws, and Grove's misses."""
    kernels: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    changes: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        key = row["error"], row["op"], row["kind"]
        changes[key] += row["changed"]
        kernels[key] |= set(row["first"])
    of_error: dict[str, list[set[str]]] = defaultdict(list)
    missed = []
    for (error, op, kind), rules in kernels.items():
        if changes[error, op, kind]:
            of_error[SEEDED if error.startswith("seeded ") else error].append(rules)
            if OURS not in rules:
                missed.append(f"`{op}`, {kind}: {error}")
    lines = [["wrong in this way", "kernels", *COLUMNS]]
    for error, rule_sets in [*of_error.items(), ("**all**", [rules for x in of_error.values() for rules in x])]:
        shares = [_percent(sum(rule in rules for rules in rule_sets), len(rule_sets)) for rule in COLUMNS]
        lines.append([error, str(len(rule_sets)), *shares])
    return [table(lines), "Missed by Grove: " + ("; ".join(missed) or "none") + "."]


def false_alarms(rows: list[Row]) -> list[str]:
    """Return a table of how many draws of right kernels every rule refuses."""
    draws: Counter[str] = Counter()
    refused: Counter[tuple[str, str]] = Counter()
    share: dict[str, float] = defaultdict(float)
    for row in rows:
        for kernel in (row["kernel"], "**all**"):
            draws[kernel] += row["draws"]
            share[kernel] = max(share[kernel], row["share"])
            for rule, count in row["refused"].items():
                refused[kernel, rule] += count
    lines = [["right kernel", "draws", *COLUMNS, "largest share of Grove's bound"]]
    for kernel in sorted(draws, key=lambda name: (name == "**all**", name)):
        counts = [str(refused[kernel, rule]) for rule in COLUMNS]
        lines.append([kernel, f"{draws[kernel]:,}", *counts, f"{share[kernel]:.2f}"])
    return [table(lines)]


def table(lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(lines[0]) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:]))


def _percent(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.0f} %)"
