"""Measure six rules by which kernels are called right: what they detect, and how often they refuse a right kernel.

    python -m benchmarks.checkers [--cases 60] [--seeds 6] [--groups GROUP ...] [--only OP ...]

Every group of kernels runs in a process of its own, with its own threads and BLAS kernels. Finished measurements are
kept in results/, so that a stopped run resumes; the tables go to accel/verify/checkers.md. With --groups or --only the
tables of these measurements are printed, and nothing is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from accel import cpu
from accel.tasks.numbers import at_least
from accel.verify.compare import PRECISIONS, rounded
from accel.verify.expected import cast
from accel.verify.mutants.table import MUTANTS
from accel.verify.op import Op
from accel.verify.ops.table import OPS
from benchmarks.checker_draws import Draw, answers_of, draws, share_of_bound, verdicts
from benchmarks.checker_errors import DILUTION, ERRORS, LOW_PRECISION, Answers
from benchmarks.checker_kernels import right_kernels
from benchmarks.checker_rules import RULES
from benchmarks.checker_table import Row, page_text, read_rows, write_page
from benchmarks.run import THREAD_VARIABLES, machine, slug

RESULTS = Path(__file__).parent / "results"
FLOAT_OPS = [op for op in OPS if not op.exact]
SLOW = (
    "sparse_attention", "causal_attention", "dot_product_attention", "pair_attention", "recurrence",
    "linear_recurrence",
)  # fmt: skip
"""Ops whose references are loops: they get a third of the batches."""
GROUPS: dict[str, dict[str, str]] = {
    "one thread": {},
    "fused": {},
    "2 threads": dict.fromkeys(THREAD_VARIABLES, "2"),
    "BLAS of Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "BLAS of Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "BLAS of SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
}


# Right kernels


def run_right(group: str, op: Op, seed: int, count: int) -> list[dict[str, Any]]:
    """Return, for every kernel of a group, how many draws it had, and how many of them each rule refused."""
    checked, refused = Counter[tuple[str, str]](), Counter[tuple[str, str, str]]()
    largest: dict[tuple[str, str], float] = {}
    kernels = {name: k for name, k in right_kernels(group).items() if hasattr(k, op.name)}
    for draw in draws(op, seed, count):
        kind = "values" if draw.slope is None else "gradients"
        for name, kernel in kernels.items():
            if kind == "gradients" and not hasattr(kernel, f"{op.name}_vjp"):
                continue
            answers = answers_of(op, kernel, draw)
            checked[name, kind] += 1
            largest[name, kind] = max(largest.get((name, kind), 0.0), share_of_bound(op, draw, answers[1]))
            for rule in verdicts(op, draw, *answers):
                refused[name, kind, rule] += 1
    return [
        {
            "part": "right", "group": group, "op": op.name, "seed": seed, "kernel": name, "kind": kind, "draws": n,
            "share": round(largest[name, kind], 4),
            "refused": {rule: k for (a, b, rule), k in refused.items() if (a, b) == (name, kind)},
        }
        for (name, kind), n in checked.items()
    ]  # fmt: skip


# Wrong kernels


def run_wrong(op: Op, seed: int, count: int) -> list[dict[str, Any]]:
    """Return, for every error, the number of the first draw at which each rule refuses it."""
    first: dict[tuple[str, str], dict[str, int]] = {}
    memories: dict[tuple[str, str], dict[str, Any]] = {}
    numbers, changes = Counter[str](), Counter[tuple[str, str]]()
    for draw in draws(op, seed, count, large=3):
        kind = "values" if draw.slope is None else "gradients"
        numbers[kind] += 1
        right = answers_of(op, cpu, draw)
        for name, answers in wrong_answers(op, kind, draw, right, memories):
            refused_by = first.setdefault((kind, name), {})
            if len(refused_by) == len(RULES) + 2:
                continue
            changes[kind, name] += differ(answers, right)
            refused = verdicts(op, draw, *answers, copies=DILUTION if name.endswith("100,000") else 0)
            refused_by |= {rule: numbers[kind] for rule in refused if rule not in refused_by}
    return [
        {
            "part": "wrong",
            "op": op.name,
            "seed": seed,
            "kind": kind,
            "error": name,
            "draws": numbers[kind],
            "changed": changes[kind, name],
            "first": x,
        }
        for (kind, name), x in first.items()
    ]


def differ(made: tuple[Answers, Answers], right: tuple[Answers, Answers]) -> bool:
    return any(
        not np.array_equal(x, y)
        for answers_made, answers_right in zip(made, right, strict=True)
        for outputs, as_outputs in zip(answers_made, answers_right, strict=True)
        for x, y in zip(outputs, as_outputs, strict=True)
    )


def wrong_answers(
    op: Op, kind: str, draw: Draw, right: tuple[Answers, Answers], memories: dict[tuple[str, str], dict[str, Any]]
) -> Iterator[tuple[str, tuple[Answers, Answers]]]:
    wide, narrow = right
    for name, error in ERRORS.items():
        memory = memories.setdefault((kind, name), {})
        yield name, (error(wide, memory), error(narrow, memory))
    for name, precision in LOW_PRECISION.items():
        yield name, (wide, low_precision(op, draw, precision))
    for number, (target, mutant) in enumerate(MUTANTS):
        if target == (op.name if kind == "values" else f"{op.name}_vjp"):
            backend = SimpleNamespace(**{k: v for k, v in vars(cpu).items() if not k.startswith("_")})
            setattr(backend, target, mutant)
            yield f"seeded {number}: {mutant.__name__}", answers_of(op, backend, draw)


def low_precision(op: Op, draw: Draw, name: str) -> Answers:
    """Return the answers for inputs that are rounded to another precision."""

    def low(x: Any) -> Any:
        return np.float32(rounded(x, PRECISIONS[name])) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x

    case = draw.expected.case
    arguments = {key: low(x) for key, x in cast(op.batched(case), np.float32).items()}
    if draw.slope is not None:
        return [list(op.vjp(cpu, arguments, low(draw.slope.d_out)).values())]
    n = len(draw.expected.wide[0])
    return [list(outputs[:n]) for outputs in op.split(op.call(cpu, arguments), case)]


# The run


def results_path() -> Path:
    return RESULTS / f"checkers-{slug(machine()['cpu'])}.jsonl"


def run_chunk(path: Path, group: str, name: str, seed: int, cases: int) -> None:
    [op] = [op for op in FLOAT_OPS if op.name == name]
    count = -(-cases // 3) if name in SLOW else cases
    rows = run_wrong(op, seed, count) if group == "wrong" else run_right(group, op, seed, count)
    with path.open("a") as file:
        file.writelines(json.dumps(row | {"cases": cases}) + "\n" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=at_least(1), default=60, help="batches of an operation under one seed")
    parser.add_argument("--seeds", type=at_least(1), default=6, help="of the right kernels; the wrong ones have two")
    parser.add_argument("--groups", nargs="+", choices=("wrong", *GROUPS), default=["wrong", *GROUPS], metavar="GROUP")
    parser.add_argument("--only", nargs="+", choices=[op.name for op in FLOAT_OPS], metavar="OP")
    parser.add_argument("--chunk", nargs=3, metavar=("GROUP", "SEED", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.only or [op.name for op in FLOAT_OPS]
    if options.chunk:
        group, seed, path = options.chunk[0], int(options.chunk[1]), Path(options.chunk[2])
        for name in names:
            run_chunk(path, group, name, seed, options.cases)
        return
    if options.only or {*options.groups} != {"wrong", *GROUPS}:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.jsonl"
            measure(path, names, options)
            print(page_text(read_rows(path), machine()))
        return
    measure(results_path(), names, options)
    text = page_text(read_rows(results_path()), machine())
    write_page(text)
    print(text)


def measure(path: Path, names: Sequence[str], options: argparse.Namespace) -> None:
    """Add the rows that a file does not have yet."""
    rows = read_rows(path)
    missing = {
        (seed, group): missing_ops(rows, names, group, seed, options.cases)
        for seed, group in product(range(options.seeds), options.groups)
        if group != "wrong" or seed < 2
    }
    for (seed, group), names_left in missing.items():
        if names_left:
            print(f"seed {seed}, {group}: {', '.join(names_left)}", flush=True)
            command = [sys.executable, "-m", "benchmarks.checkers", "--chunk", group, str(seed), str(path)]
            threads = dict.fromkeys(THREAD_VARIABLES, "1")
            environment = os.environ | threads | GROUPS.get(group, {})
            subprocess.run(
                [*command, "--cases", str(options.cases), "--only", *names_left], env=environment, check=True
            )


def missing_ops(rows: Sequence[Row], names: Sequence[str], group: str, seed: int, cases: int) -> list[str]:
    """Return the operations without rows of a group and seed; rows of another number of cases stop the program."""
    counts = {row["op"]: row["cases"] for row in rows if (row.get("group", "wrong"), row["seed"]) == (group, seed)}
    for name in names:
        if counts.get(name, cases) != cases:
            raise SystemExit(
                f"--cases {cases}: {results_path()} has {name} of group {group!r}, seed {seed}, with {counts[name]} "
                f"cases: type --cases {counts[name]}, or remove the file to measure all anew"
            )
    return [name for name in names if name not in counts]


if __name__ == "__main__":
    main()
