"""Minimal pairs: which sentence of a pair is more probable to a model, and how often it is the good one.

Measure "sentence": the probability of all words, without the end of the sentence. Measure "critical": the probability
of the critical words after the words before them; the words after them are not read, unless a parser proposes trees of
the sentence. The bits of several words add up. A pair is right if the good sentence has fewer bits; a tie is wrong.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import fsum, inf, isnan
from statistics import fmean
from types import ModuleType
from typing import Any, NamedTuple

from accel.data.published.minimal_pairs import Pair
from accel.evaluation.significance import bootstrap_interval, interval_of_means
from accel.scoring.surprisals import Progress, bits_of_words, check_surprisals, check_words
from accel.trained.opening import Model
from accel.trained.words import count_unknown, encode_words

MEASURES = ("sentence", "critical")
Change = Callable[[list[str]], list[str]]
"""A change of the words of a sentence; it may add words at the end only."""


class Judged(NamedTuple):
    """A pair with the bits of both sentences, the good one first, or why it was skipped; and the words to be read."""

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
    """A share from 0 to 1 with the ends of its 95 % bootstrap interval; a single pair has no interval."""

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
    """Return a model's judgement of every pair.

    Parameters
    ----------
    measure : one of MEASURES
    change : function
        Changes the words of a sentence before they are read.
    progress : function
        Takes the surprisals and the number of sentences, and returns the surprisals.
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
    tasks = [_task(model, parser, pair, measure, change) for pair in pairs]
    key_of = {words: _key(model, parser, words) for task in tasks for words in task.read}
    distinct = {key: words for words, key in sorted(key_of.items(), reverse=True)}
    sentences = sorted(distinct.values())  # those that begin alike are read side by side
    surprisals = progress(bits_of_words(ops, model, sentences, **search), len(sentences))
    bits_of = dict(zip(map(key_of.__getitem__, sentences), surprisals, strict=True))
    return [
        task if task.skipped else _judged(task, measure, [bits_of[key_of[words]] for words in task.read])
        for task in tasks
    ]


def _key(model: Model, parser: Model | None, words: tuple[str, ...]) -> Hashable:
    """Return what a model reads of a sentence: sentences that it cannot tell apart are read once, and are ties."""
    return words if parser is not None else tuple(map(tuple, encode_words(model, words, generated=True)))


def unknown_words(model: Model, judged: Iterable[Judged]) -> tuple[int, int]:
    """Return how many of the words that were read are unknown to the model, and how many were read."""
    count = Counter(word for one in judged for words in one.read for word in words)
    return sum(n * count_unknown(model, [word]) for word, n in count.items()), count.total()


def chosen(pairs: Iterable[Pair], per: int | None, seed: int) -> list[Pair]:
    """Return `per` pairs of every paradigm, or all, drawn with this seed, in their order."""
    paradigms: dict[str, list[Pair]] = {}
    for pair in pairs:
        paradigms.setdefault(pair.paradigm, []).append(pair)
    sample = []
    for name, members in paradigms.items():
        places = random.Random(f"{seed} {name}").sample(range(len(members)), min(per or len(members), len(members)))
        sample += [members[k] for k in sorted(places)]
    return sample


def accuracy(judged: Iterable[Judged]) -> Accuracy | None:
    """Return the share of right pairs among those that were not skipped; None if all were skipped."""
    right = [float(one.right) for one in judged if not one.skipped]
    if len(right) < 2:
        return Accuracy(right[0], None, None) if right else None
    return Accuracy(*bootstrap_interval(right))


def mean_accuracy(paradigms: Iterable[Sequence[Judged]]) -> Accuracy | None:
    """Return the mean accuracy of paradigms, each counted once; a paradigm with all pairs skipped does not count."""
    right = [[float(one.right) for one in paradigm if not one.skipped] for paradigm in paradigms]
    right = [pairs for pairs in right if pairs]
    if not right:
        return None
    if min(map(len, right)) < 2:
        return Accuracy(fmean(map(fmean, right)), None, None)
    return Accuracy(*interval_of_means(right))


def published_mean(accuracies: Mapping[tuple[str, str], float], paradigms: Iterable[tuple[str, str]]) -> float | None:
    """Return the mean of the published accuracies of paradigms, by (paradigm, phenomenon); None if one is missing."""
    values = [accuracies.get(key) for key in paradigms]
    known_values = [value for value in values if value is not None]
    return fmean(known_values) if values and len(known_values) == len(values) else None


def _task(model: Model, parser: Model | None, pair: Pair, measure: str, change: Change) -> Judged:
    """Return the pair with the words to be read, or with the reason why they cannot be."""
    if pair.skipped:
        return Judged(pair, None, pair.skipped)
    if measure == "critical" and pair.critical is None:
        return Judged(pair, None, "no critical words: compare its whole sentences")
    sentences = [change(pair.good), change(pair.bad)]
    if measure == "critical" and pair.critical is not None and parser is None:
        sentences = [words[: critical.stop] for words, critical in zip(sentences, pair.critical, strict=True)]
    try:
        for words in sentences:
            check_words(model, words, parser)
    except ValueError as error:
        return Judged(pair, None, str(error))
    return Judged(pair, None, read=tuple(map(tuple, sentences)))


def _judged(task: Judged, measure: str, bits: list[list[float]]) -> Judged:
    """Return the pair with its bits."""
    places = task.pair.critical if measure == "critical" else None
    ranges = places or [range(len(word_bits)) for word_bits in bits]
    good, bad = (fsum(word_bits[k] for k in place) for word_bits, place in zip(bits, ranges, strict=True))
    if isnan(good) or isnan(bad):
        raise ValueError(f"{task.pair.place}: bits of {good} and {bad}")
    for word_bits, words in zip(bits, task.read, strict=True):
        if inf in word_bits:
            word = word_bits.index(inf)
            return task._replace(skipped=f"no hypothesis of the search continues with word {word + 1}, {words[word]!r}")
    return task._replace(bits=(good, bad))
