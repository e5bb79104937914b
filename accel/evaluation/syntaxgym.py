"""Syntactic generalisation scores (Hu et al., 2020): which items are right, accuracies of suites, circuits, means.

An item is right if the first prediction of its suite holds. (Two of the published suites have a second prediction,
which the published results leave out: that of fgd_hierarchy demands equal surprisals, and GPT-2 has 15 of its 24 items
right.) A suite counts once in every mean, however many items it has.

The words are the suite's, see `accel.data.published.syntax_suites`; every sentence is read by itself. An item with a
sentence that cannot be read is skipped, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf, isnan
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.files.lines import LineError, read_lines
from accel.data.published.region_formula import share_of_draws
from accel.data.published.syntax_suites import Item, Regions, Suite, outcomes, region_sums
from accel.scoring.surprisals import Progress, bits_of_words, check_words
from accel.trained.opening import Model
from accel.trained.words import count_unknown

CIRCUITS = {
    "Agreement": ("number",),
    "Center Embedding": ("center",),
    "Garden-Path Effects": ("mvrr", "npz"),
    "Gross Syntactic State": ("subordination",),
    "Licensing": ("npi", "reflexive"),
    "Long-Distance Dependencies": ("cleft", "fgd"),
}
"""The suites of each circuit, by the beginnings of their names."""

LEFT_OUT = ("fgd-embed3", "fgd-embed4", "nn-nv-rpl")
"""The paper scores 31 of the 34 published suites, and does not say which. These three are left out here: a toy suite,
and the two that embed a gap in three or four clauses."""

_HEADER = "model,suite,item,correct"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an item: which predictions hold, or why it was skipped.

    Attributes
    ----------
    item : int
    predictions : tuple of bool
        Empty if it was skipped.
    skipped : str
        The reason; empty if it was not skipped.
    bits : mapping
        The sum of every region of every condition; empty if it is not known.
    """

    item: int
    predictions: tuple[bool, ...] = ()
    skipped: str = ""
    bits: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Means:
    """Accuracies of circuits, and means over suites and over circuits; None without any accuracy."""

    suites: int
    circuits: dict[str, float]
    over_suites: float | None
    over_circuits: float | None


def circuit_of(suite: str) -> str | None:
    """Return the circuit of a suite, or None. Spec: SYN-2.

    Examples
    --------
    >>> circuit_of("fgd-embed3"), circuit_of("nn-nv-rpl")
    ('Long-Distance Dependencies', None)
    """
    begins = re.split(r"[-_0-9]", suite)[0]
    return next((circuit for circuit, tags in CIRCUITS.items() if begins in tags), None)


def accuracy(judged: Iterable[Outcome]) -> float | None:
    """Return the share of right items among those that were not skipped; None if all were skipped. Spec: SYN-2."""
    right = [outcome.predictions[0] for outcome in judged if not outcome.skipped]
    return fmean(right) if right else None


def chance(suite: Suite, draws: int = 20_000) -> float:
    """Return the accuracy of chance on a suite: how often its prediction holds for random surprisals. Spec: SYN-2.

    The sums of all regions are independent and normally distributed. The draws are the same every time; one half of
    them are the other half with all signs changed, so that a single comparison of sums holds in exactly half of them.
    """
    rng = np.random.Generator(np.random.Philox(0))
    sums = {
        name: {number: np.outer((1, -1), rng.standard_normal(draws // 2)) for number in regions}
        for name, regions in suite.items[0].conditions.items()
    }
    return share_of_draws(suite.predictions[0], sums)


def means(accuracies: Mapping[str, float | None], leave_out: Sequence[str] = ()) -> Means:
    """Return the means over suites; suites without an accuracy and those in `leave_out` do not count. Spec: SYN-2."""
    suites = {name: part for name, part in accuracies.items() if part is not None and name not in leave_out}
    members = {circuit: [suites[name] for name in suites if circuit_of(name) == circuit] for circuit in CIRCUITS}
    circuits = {circuit: fmean(parts) for circuit, parts in members.items() if parts}
    return Means(
        suites=len(suites),
        circuits=circuits,
        over_suites=fmean(suites.values()) if suites else None,
        over_circuits=fmean(circuits.values()) if circuits else None,
    )


def read_results(path: str | Path) -> dict[str, dict[str, list[Outcome]]]:
    """Return the published results of a file, per model and suite. Spec: SYN-2.

    After the header every line has a model, a suite, an item, and True or False.

    Raises
    ------
    LineError
        With the line: another header, another number of fields, an item that is no number or stands twice, a result
        that is neither True nor False. Without a line: a file without results.
    """
    results: dict[str, dict[str, list[Outcome]]] = {}
    keys: set[tuple[str, str, int]] = set()
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
            raise LineError(path, number, f"{item!r} is no item number")
        if correct not in ("True", "False"):
            raise LineError(path, number, f"{correct!r} is neither True nor False")
        if (model, suite, int(item)) in keys:
            raise LineError(path, number, f"item {item} of {suite} stands twice for model {model}: remove one")
        keys.add((model, suite, int(item)))
        results.setdefault(model, {}).setdefault(suite, []).append(Outcome(int(item), (correct == "True",)))
    if not results:
        raise LineError(path, 0, "no results")
    return results


def suite_outcomes(
    ops: ModuleType,
    model: Model,
    suites: Sequence[Suite],
    *,
    lower: bool = False,
    progress: Progress = lambda bits, count: bits,
    **search: Any,
) -> dict[str, list[Outcome]]:
    """Return for every suite the outcomes of its items. Spec: SYN-1.

    Parameters
    ----------
    lower : bool
        Read the words in lower case.
    progress : function
        Takes the surprisals and the number of sentences, and returns the surprisals.
    search
        Options of `bits_of_words`.

    Raises
    ------
    ValueError
        As `bits_of_words`; if a surprisal is not a number.
    """
    parser = search.get("parser")
    reasons = [[_reason(model, item, lower, parser) for item in suite.items] for suite in suites]
    sentences = [
        _words(regions, lower)
        for suite, item_reasons in zip(suites, reasons, strict=True)
        for item, reason in zip(suite.items, item_reasons, strict=True)
        for regions in (() if reason else item.conditions.values())
    ]
    bits = iter(progress(bits_of_words(ops, model, sentences, **search), len(sentences)))
    return {
        suite.name: [
            Outcome(item.number, skipped=reason)
            if reason
            else _outcome(suite, item, islice(bits, len(item.conditions)), lower)
            for item, reason in zip(suite.items, item_reasons, strict=True)
        ]
        for suite, item_reasons in zip(suites, reasons, strict=True)
    }


def unknown_words(
    model: Model, suites: Iterable[Suite], lower: bool = False, parser: Model | None = None
) -> tuple[int, int]:
    """Return how many words of readable items are unknown to the model, and how many there are. Spec: SYN-1.

    An item that the parser cannot read is not readable.
    """
    unknown = count = 0
    for item in (item for suite in suites for item in suite.items if not _reason(model, item, lower, parser)):
        for regions in item.conditions.values():
            words = _words(regions, lower)
            unknown += count_unknown(model, words)
            count += len(words)
    return unknown, count


def _outcome(suite: Suite, item: Item, condition_bits: Iterator[list[float]], lower: bool) -> Outcome:
    sums, reason = {}, ""
    for (condition, regions), bits in zip(item.conditions.items(), condition_bits, strict=True):
        if any(map(isnan, bits)):
            raise ValueError(f"{suite.name}, item {item.number}, condition {condition!r}: surprisals {bits}")
        if inf in bits:
            word = bits.index(inf)
            name = f"word {word + 1}, {_words(regions, lower)[word]!r}"
            reason = reason or f"condition {condition!r}: no hypothesis of the search continues with {name}"
        sums[condition] = region_sums(regions, bits)
    return Outcome(item.number, skipped=reason) if reason else Outcome(item.number, outcomes(suite, sums), bits=sums)


def _words(regions: Regions, lower: bool) -> list[str]:
    words = [word for region in regions.values() for word in region]
    return [word.lower() for word in words] if lower else words


def _reason(model: Model, item: Item, lower: bool, parser: Model | None) -> str:
    """Return why an item cannot be read, or an empty text."""
    for condition, regions in item.conditions.items():
        try:
            check_words(model, _words(regions, lower), parser)
        except ValueError as error:
            return f"condition {condition!r}: {error}"
    return ""
