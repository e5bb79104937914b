"""The report: the share of mutants that the tests catch, and a list of those that they do not."""

from __future__ import annotations

import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.mutants.mutant import Drawn, Mutant

REPORT = Path(__file__).with_name("REPORT.md").relative_to(Path(__file__).parents[2])
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
"""Mutants that compute the same as the code: `path`, `before`, `after` (spaces at the ends do not count), and `why`."""
CAUGHT_LATER = ("survived", "caught")
INTRODUCTION = (
    "What the tests catch of wrong versions of our own code in {folders}. `make mutants` draws places of these folders "
    "by a seed, as many from every folder, or of some files; changes one place at a time, in a copy of the checkout; "
    "and runs the tests that run these lines. This page is written by the program, of all that was drawn in one state "
    "folder. A mutant that computes the same as the right code is *equivalent*; [a file](equivalent.toml) says why of "
    "each. The share is that of the caught ones among all others. What does not compile, or whose source has changed "
    "since it was drawn, is left out."
)


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the reason why a mutant is equivalent, by its path, old text and new text."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return {(x["path"], x["before"].strip(), x["after"].strip()): x["why"] for x in entries}


def key(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.path, mutant.before.strip(), mutant.after.strip()


def introduction(folders: Iterable[str]) -> str:
    names = ", ".join(f"`{folder}`" for folder in sorted(folders))
    return f"# Mutants\n\n{_folded(INTRODUCTION.format(folders=names))}\n"


def write(path: Path, drawn: list[Drawn], outcomes: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    parts = [part(one, outcomes, first, equivalents()) for one in drawn]
    folders = {"/".join(mutant.path.split("/")[:2]) for one in drawn for mutant in one.mutants}
    path.write_text("\n".join([introduction(folders), *parts]), encoding="utf-8")
    print("\n".join(text.split("| folder")[0] for text in parts))


def part(
    drawn: Drawn, outcomes: Mapping[str, Any], first: Mapping[str, Any], why: Mapping[tuple[str, str, str], str]
) -> str:
    """Return the report of one draw, without mutants that did not run or compile, or whose source has changed."""
    counts: dict[str, Counter[str]] = {}
    limits: Counter[float] = Counter()
    survivors, n_ended = [], 0
    for mutant in drawn.mutants:
        outcome = outcomes.get(mutant.name)
        if outcome is not None and outcome.result in ("caught", "survived"):
            kind = "equivalent" if key(mutant) in why and outcome.result == "survived" else outcome.result
            counts.setdefault(_folder(mutant.path), Counter())[kind] += 1
            limits[outcome.limit] += 1
            n_ended += (outcome.result, outcome.by) == ("caught", "time")
            if outcome.result == "survived":
                survivors.append(mutant)
    total = sum(counts.values(), Counter())
    run = [m.name for m in drawn.mutants if m.name in first]
    n_later = sum((first[name].result, outcomes[name].result) == CAUGHT_LATER for name in run)
    lines = [
        f"## Drawn by seed {drawn.seed} {'of new files' if drawn.files else 'of all files'}",
        "",
        _summary(drawn, total, n_later, n_ended, limits),
        "",
        "| folder | run | caught | equivalent | passed | share |",
    ]
    lines += ["|---|---:|---:|---:|---:|---:|", *(_row(name, counts[name]) for name in sorted(counts))]
    lines += [_row("all", total), "", "### Passed", ""]
    lines += [_item(mutant, "") for mutant in survivors if key(mutant) not in why] or ["None.\n"]
    lines += ["### Equivalent", ""]
    lines += [_item(mutant, why[key(mutant)]) for mutant in survivors if key(mutant) in why] or ["None.\n"]
    return "\n".join(lines).rstrip() + "\n"


def _folder(path: str) -> str:
    return "/".join(path.split("/")[:2]) + (" (CUDA C++)" if path.endswith(".cu") else "")


def _share(count: Counter[str]) -> float:
    return 100 * count["caught"] / max(1, count["caught"] + count["survived"])


def _summary(drawing: Drawn, total: Counter[str], n_later: int, n_ended: int, limits: Mapping[float, int]) -> str:
    of_limits = (f"{limit:g} ({n} mutants)" if limit else f"not noted ({n} mutants)" for limit, n in limits.items())
    text = _folded(
        f"{total.total()} of the {len(drawing.mutants)} drawn were run: {total['caught']} are caught, "
        f"{total['equivalent']} are equivalent, {total['survived']} passed: {_share(total):.1f} %. "
        f"Of the caught ones {n_later} passed at first, and are caught by tests that were added or measured since; "
        f"{n_ended} are counted as caught because a test took too long. "
        "The tests of a mutant, the fastest first, had at most so many seconds, and then property tests with more "
        f"examples as many again: {', '.join(sorted(of_limits))}."
    )
    return "\n\n".join([text, *([_folded(f"The files: {', '.join(drawing.files)}.")] if drawing.files else [])])


def _folded(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _row(name: str, count: Counter[str]) -> str:
    figures = (count.total(), count["caught"], count["equivalent"], count["survived"])
    return f"| {name} | {' | '.join(map(str, figures))} | {_share(count):.1f} % |"


def _item(mutant: Mutant, why: str) -> str:
    head = f"{mutant.path}:{mutant.line}" + (f": {why}" if why else "")
    return f"{_folded(head)}\n\n```diff\n{mutant.diff()}```\n"
