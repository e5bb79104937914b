"""Which sentence of a minimal pair a model takes for the more probable one, and how often it is the good one.

Measure "sentence": the probability of all words, without the end of the sentence. Measure "critical": the probability
of the critical words after those before them; what follows is not read. Of several words the bits add up. A pair is
right if the good sentence has fewer bits: a tie is wrong.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum, isfinite
from statistics import fmean
from types import ModuleType
from typing import NamedTuple

from accel.data.minimal_pairs import Pair
from accel.parse_chart import encode_words
from accel.saved import Model
from accel.significance import bootstrap_interval, interval_of_means
from accel.suite_surprisals import Progress, bits_of_words, pieces_of_words, require_surprisals

MEASURES = ("sentence", "critical")
Change = Callable[[list[str]], list[str]]
"""What is done to the words of a sentence; words may come behind them, and nowhere else."""


class Judged(NamedTuple):
    """A pair with the bits of the good sentence and of the bad one; or why it was skipped."""

    pair: Pair
    bits: tuple[float, float] | None
    skipped: str = ""

    @property
    def right(self) -> bool:
        return self.bits is not None and self.bits[0] < self.bits[1]

    @property
    def tie(self) -> bool:
        return self.bits is not None and self.bits[0] == self.bits[1]


class Accuracy(NamedTuple):
    """A part of 1, and the ends of its bootstrap interval of 95 %; without them where one pair stands alone."""

    value: float
    low: float | None
    high: float | None


def judge(
    ops: ModuleType,
    model: Model,
    pairs: Sequence[Pair],
    *,
    measure: str = "sentence",
    change: Change = lambda words: words,
    beam: int = 20,
    batch_size: int = 8,
    progress: Progress = lambda found, count: found,
) -> list[Judged]:
    """Return what a model makes of every pair.

    Raises
    ------
    ValueError
        If the measure is unknown; as `bits_of_words`; if bits are not finite.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure: unknown {measure!r}: choose one of {', '.join(MEASURES)}")
    require_surprisals(model)
    reasons = [_reason(model, pair, measure, change) for pair in pairs]
    read = [
        () if reason else tuple(tuple(words) for words in _read(pair, measure, change))
        for pair, reason in zip(pairs, reasons, strict=True)
    ]
    wanted = list(dict.fromkeys(words for both in read for words in both))
    found = progress(bits_of_words(ops, model, wanted, beam=beam, batch_size=batch_size), len(wanted))
    bits = dict(zip(wanted, found, strict=True))
    return [
        Judged(pair, None, reason) if reason else Judged(pair, _sums(pair, measure, *(bits[words] for words in both)))
        for pair, reason, both in zip(pairs, reasons, read, strict=True)
    ]


def unknown_words(model: Model, judged: Iterable[Judged], measure: str, change: Change) -> tuple[int, int]:
    """Return how many words of the pairs that were read the model takes for unknown ones, and how many there are."""
    count = Counter(
        word for one in judged if not one.skipped for words in _read(one.pair, measure, change) for word in words
    )
    unknown = [word for word in count if model.vocabulary.decode(encode_words(model, [word])[0]) != [word]]
    return sum(count[word] for word in unknown), count.total()


def chosen(pairs: Iterable[Pair], per: int | None, seed: int) -> list[Pair]:
    """Return of every paradigm so many pairs, or all, drawn with this seed; in their order."""
    of_paradigm: dict[str, list[Pair]] = {}
    for pair in pairs:
        of_paradigm.setdefault(pair.paradigm, []).append(pair)
    found = []
    for name, own in of_paradigm.items():
        drawn = random.Random(f"{seed} {name}").sample(range(len(own)), min(per or len(own), len(own)))
        found += [own[k] for k in sorted(drawn)]
    return found


def accuracy(judged: Iterable[Judged]) -> Accuracy | None:
    """Return how many of the pairs that were not skipped are right; None if all were."""
    right = [float(one.right) for one in judged if not one.skipped]
    if len(right) < 2:
        return Accuracy(right[0], None, None) if right else None
    return Accuracy(*bootstrap_interval(right))


def mean_accuracy(paradigms: Iterable[Sequence[Judged]]) -> Accuracy | None:
    """Return the mean accuracy of paradigms, each of which counts once; those of which all was skipped do not."""
    right = [[float(one.right) for one in judged if not one.skipped] for judged in paradigms]
    right = [own for own in right if own]
    if not right:
        return None
    if min(map(len, right)) < 2:
        return Accuracy(fmean(map(fmean, right)), None, None)
    return Accuracy(*interval_of_means(right))


def published_mean(accuracies: Mapping[tuple[str, str], float], paradigms: Iterable[tuple[str, str]]) -> float | None:
    """Return the mean of what was published of paradigms, given with their phenomena; None if one is missing."""
    found = [accuracies.get(key) for key in paradigms]
    known = [value for value in found if value is not None]
    return fmean(known) if found and len(known) == len(found) else None


def _read(pair: Pair, measure: str, change: Change) -> list[list[str]]:
    """Return the words that are read of both sentences."""
    both = [change(pair.good), change(pair.bad)]
    if measure == "critical" and pair.critical is not None:
        return [words[: critical.stop] for words, critical in zip(both, pair.critical, strict=True)]
    return both


def _reason(model: Model, pair: Pair, measure: str, change: Change) -> str:
    """Return why a pair cannot be judged, or nothing."""
    if pair.skipped:
        return pair.skipped
    if measure == "critical" and pair.critical is None:
        return "no critical words: only whole sentences can be compared"
    try:
        for words in _read(pair, measure, change):
            pieces_of_words(model, words)
    except ValueError as error:
        return str(error)
    return ""


def _sums(pair: Pair, measure: str, *bits: Sequence[float]) -> tuple[float, float]:
    good, bad = bits
    if measure == "critical" and pair.critical is not None:
        good, bad = (of_one[critical.start :] for of_one, critical in zip(bits, pair.critical, strict=True))
    sums = fsum(good), fsum(bad)
    if not all(map(isfinite, sums)):
        raise ValueError(f"{pair.place}: bits of {sums[0]} and {sums[1]}")
    return sums
