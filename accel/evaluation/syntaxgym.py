"""Syntactic generalisation scores (Hu et al., 2020): which items are right, accuracies of suites, circuits, means.

An item is right if the first prediction of its suite holds. (Of the published suites two have a second one, which the
published results leave out: that of fgd_hierarchy demands equal surprisals, and GPT-2 has 15 of its 24 items right.)
A suite counts once in every mean, however many items it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from accel.data.files.lines import LineError, read_lines

CIRCUITS = {
    "Agreement": ("number",),
    "Center Embedding": ("center",),
    "Garden-Path Effects": ("mvrr", "npz"),
    "Gross Syntactic State": ("subordination",),
    "Licensing": ("npi", "reflexive"),
    "Long-Distance Dependencies": ("cleft", "fgd"),
}
"""The suites of each, by how their names begin."""

LEFT_OUT = ("fgd-embed3", "fgd-embed4", "nn-nv-rpl")
"""Of the 34 published suites the three that are not among the 31 of the paper."""

_HEADER = "model,suite,item,correct"


@dataclass(frozen=True)
class Outcome:
    """What became of an item: which predictions hold, or why it was skipped.

    Attributes
    ----------
    item : int
    predictions : tuple of bool
        Empty if it was skipped.
    skipped : str
        Why; empty if it was not.
    bits : mapping
        For every condition the sum of every region, where they are known.
    """

    item: int
    predictions: tuple[bool, ...] = ()
    skipped: str = ""
    bits: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Means:
    """Accuracies of circuits, and means over suites and circuits; None where there is nothing to average."""

    suites: int
    circuits: dict[str, float]
    over_suites: float | None
    over_circuits: float | None


def circuit_of(suite: str) -> str | None:
    """Return the circuit of a suite, if it has one.

    Examples
    --------
    >>> circuit_of("fgd-embed3"), circuit_of("nn-nv-rpl")
    ('Long-Distance Dependencies', None)
    """
    begins = re.split(r"[-_0-9]", suite)[0]
    return next((circuit for circuit, tags in CIRCUITS.items() if begins in tags), None)


def accuracy(outcomes: Iterable[Outcome]) -> float | None:
    """Return how many of the items that were not skipped are right, as a part of 1; None if all were."""
    right = [outcome.predictions[0] for outcome in outcomes if not outcome.skipped]
    return fmean(right) if right else None


def means(accuracies: Mapping[str, float | None], leave_out: Sequence[str] = ()) -> Means:
    """Return the means over suites; those that have no accuracy, or are to be left out, are in none of them."""
    kept = {name: found for name, found in accuracies.items() if found is not None and name not in leave_out}
    of_circuit = {circuit: [kept[name] for name in kept if circuit_of(name) == circuit] for circuit in CIRCUITS}
    circuits = {circuit: fmean(found) for circuit, found in of_circuit.items() if found}
    return Means(
        suites=len(kept),
        circuits=circuits,
        over_suites=fmean(kept.values()) if kept else None,
        over_circuits=fmean(circuits.values()) if circuits else None,
    )


def read_results(path: str | Path) -> dict[str, dict[str, list[Outcome]]]:
    """Return the published results of a file, per model and suite: lines of model, suite, item and True or False.

    Raises
    ------
    LineError
        At its line: another header, another number of fields, an item that is no number or there twice, neither True
        nor False; a file without results.
    """
    found: dict[str, dict[str, list[Outcome]]] = {}
    seen: set[tuple[str, str, int]] = set()
    for number, line in read_lines(path):
        if number == 1:
            if line != _HEADER:
                raise LineError(path, 1, f"results begin with the line {_HEADER}")
            continue
        fields = line.split(",")
        if len(fields) != 4:
            raise LineError(path, number, f"{len(fields)} fields, not 4")
        model, suite, item, correct = fields
        if not item.isdecimal():
            raise LineError(path, number, f"{item!r} is no number of an item")
        if correct not in ("True", "False"):
            raise LineError(path, number, f"{correct!r} is neither True nor False")
        if (model, suite, int(item)) in seen:
            raise LineError(path, number, f"item {item} of {suite} a second time for {model}")
        seen.add((model, suite, int(item)))
        found.setdefault(model, {}).setdefault(suite, []).append(Outcome(int(item), (correct == "True",)))
    if not found:
        raise LineError(path, 0, "no results")
    return found
