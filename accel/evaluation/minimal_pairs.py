"""Which sentence of a minimal pair a model takes for the more probable one, and how often it is the good one.

Measure "sentence": the probability of all words, without the end of the sentence. Measure "critical": the probability
of the critical words after those before them; what follows is not read, unless a parser proposes trees of the sentence.
Of several words the bits add up. A pair is right if the good sentence has fewer bits: a tie is wrong.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum, inf, isnan
from statistics import fmean
from types import ModuleType
from typing import Any, NamedTuple

from accel.data.published.minimal_pairs import Pair
from accel.evaluation.significance import bootstrap_interval, interval_of_means
from accel.scoring.surprisals import Progress, bits_of_words, check_surprisals, check_words
from accel.trained.opening import Model
from accel.trained.words import count_unknown

MEASURES = ("sentence", "critical")
Change = Callable[[list[str]], list[str]]
"""What is done to the words of a sentence; words may come after them, and nowhere else."""


class Judged(NamedTuple):
    """A pair with the bits of the good sentence and of the bad one, or why it was skipped; and what is read of them."""

    pair: Pair
    bits: tuple[float, float] | None
    skipped: str = ""
    read: tuple[tuple[str, ...], ...] = ()

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
    progress: Progress = lambda bits, count: bits,
    **search: Any,
) -> list[Judged]:
    """Return what a model makes of every pair.

    Parameters
    ----------
    measure : one of MEASURES
    change : function
        What is done to the words of a sentence before they are read.
    progress : function
        Is given the surprisals and the number of sentences, and returns the surprisals.
    search
        Options of `bits_of_words`.

    Raises
    ------
    ValueError
        If the measure is unknown; as `bits_of_words`; if bits are not a number.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure: unknown {measure!r}: choose one of {', '.join(MEASURES)}")
    check_surprisals(model)
    parser = search.get("parser")
    asked = [_asked(model, parser, pair, measure, change) for pair in pairs]
    wanted = list(dict.fromkeys(words for one in asked for words in one.read))
    read = progress(bits_of_words(ops, model, wanted, **search), len(wanted))
    bits = dict(zip(wanted, read, strict=True))
    return [one if one.skipped else _judged(one, measure, [bits[words] for words in one.read]) for one in asked]


def unknown_words(model: Model, judged: Iterable[Judged]) -> tuple[int, int]:
    """Return how many words that were read the model takes for unknown ones, and how many there are."""
    count = Counter(word for one in judged for words in one.read for word in words)
    return sum(n * count_unknown(model, [word]) for word, n in count.items()), count.total()


def chosen(pairs: Iterable[Pair], per: int | None, seed: int) -> list[Pair]:
    """Return of every paradigm so many pairs, or all, drawn with this seed; in their order."""
    of_paradigm: dict[str, list[Pair]] = {}
    for pair in pairs:
        of_paradigm.setdefault(pair.paradigm, []).append(pair)
    sample = []
    for name, members in of_paradigm.items():
        drawn = random.Random(f"{seed} {name}").sample(range(len(members)), min(per or len(members), len(members)))
        sample += [members[k] for k in sorted(drawn)]
    return sample


def accuracy(judged: Iterable[Judged]) -> Accuracy | None:
    """Return how many of the pairs that were not skipped are right; None if all were."""
    right = [float(one.right) for one in judged if not one.skipped]
    if len(right) < 2:
        return Accuracy(right[0], None, None) if right else None
    return Accuracy(*bootstrap_interval(right))


def mean_accuracy(paradigms: Iterable[Sequence[Judged]]) -> Accuracy | None:
    """Return the mean accuracy of paradigms, each of which counts once; those of which all was skipped do not."""
    right = [[float(one.right) for one in judged if not one.skipped] for judged in paradigms]
    right = [of_paradigm for of_paradigm in right if of_paradigm]
    if not right:
        return None
    if min(map(len, right)) < 2:
        return Accuracy(fmean(map(fmean, right)), None, None)
    return Accuracy(*interval_of_means(right))


def published_mean(accuracies: Mapping[tuple[str, str], float], paradigms: Iterable[tuple[str, str]]) -> float | None:
    """Return the mean of what was published of paradigms, given with their phenomena; None if one is missing."""
    values = [accuracies.get(key) for key in paradigms]
    known = [value for value in values if value is not None]
    return fmean(known) if values and len(known) == len(values) else None


def _asked(model: Model, parser: Model | None, pair: Pair, measure: str, change: Change) -> Judged:
    """Return the pair with the words that are to be read, or with the reason why they cannot be."""
    if pair.skipped:
        return Judged(pair, None, pair.skipped)
    if measure == "critical" and pair.critical is None:
        return Judged(pair, None, "no critical words: only whole sentences can be compared")
    read = [change(pair.good), change(pair.bad)]
    if measure == "critical" and pair.critical is not None and parser is None:
        read = [words[: critical.stop] for words, critical in zip(read, pair.critical, strict=True)]
    try:
        for words in read:
            check_words(model, words, parser)
    except ValueError as error:
        return Judged(pair, None, str(error))
    return Judged(pair, None, read=tuple(map(tuple, read)))


def _judged(one: Judged, measure: str, bits: list[list[float]]) -> Judged:
    """Return the pair with its bits."""
    places = one.pair.critical if measure == "critical" else None
    every = places or [range(len(of_words)) for of_words in bits]
    good, bad = (fsum(of_words[k] for k in place) for of_words, place in zip(bits, every, strict=True))
    if isnan(good) or isnan(bad):
        raise ValueError(f"{one.pair.place}: bits of {good} and {bad}")
    for of_words, words in zip(bits, one.read, strict=True):
        if inf in of_words:
            word = of_words.index(inf)
            return one._replace(skipped=f"no hypothesis of the search goes on with word {word + 1}, {words[word]!r}")
    return one._replace(bits=(good, bad))
