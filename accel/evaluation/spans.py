"""Scores of spans without labels against gold spans: sentence and corpus F1, and recall for each gold label.

Papers that induce trees leave out different spans; here each such choice is a switch with a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from itertools import accumulate
from typing import Literal

from accel.evaluation.evalb_input import bare_label

Span = Sequence[int]
"""(i, j): words i to j, both included, 0-based."""


def unlabelled_f1(
    gold_spans: Sequence[Iterable[Span]],
    predicted_spans: Sequence[Iterable[Span]],
    *,
    average: Literal["sentence", "corpus"] = "sentence",
    drop_single_words: bool = True,
    drop_whole_sentence: bool = True,
    merge_duplicates: bool = True,
    skip_empty: bool = False,
    shortest_sentence: int = 1,
    ignored_words: Sequence[Set[int]] | None = None,
) -> float:
    r"""Return the F1 of predicted spans, in percent.

    Spec: SPAN-1.  $F = 200 M / (G + P)$ with M matched, G gold and P predicted spans; $100$ where $G + P = 0$

    gold_spans, predicted_spans : [S] of (i, j); a sentence has one word more than the greatest j of its spans
    average : the mean of the sentences' F, or the F of the sums over the corpus
    drop_single_words, drop_whole_sentence : leave out, on both sides, spans of one word, or of all words
    merge_duplicates : count equal spans of one side once; else the k-th gold copy matches the k-th predicted one
    skip_empty : leave out sentences without a gold span; if not, they score 100 if nothing is predicted, else 0
    shortest_sentence : leave out sentences of fewer words
    ignored_words : [S] sets of positions whose words are first taken out of both sides, for example punctuation
    -> 0 to 100; 100 if the spans are equal
    Raises ValueError for different numbers of sentences, a span that is not 0 <= i <= j, or no sentence left.

    >>> unlabelled_f1([[(0, 3), (0, 1), (2, 3)]], [[(0, 3), (0, 1), (0, 2)]])
    50.0
    """
    if average not in ("sentence", "corpus"):
        raise ValueError(f"average must be sentence or corpus, not {average}")
    ignored = [frozenset[int]()] * len(gold_spans) if ignored_words is None else ignored_words
    counts: list[tuple[int, int]] = []  # 2 M and G + P of each sentence
    for (gold, predicted), positions in zip(_sentences(gold_spans, predicted_spans), ignored, strict=True):
        sides = _without(gold, positions), _without(predicted, positions)
        n_words = 1 + max((j for side in sides for _, j in side), default=-1)
        if n_words < shortest_sentence:
            continue
        ours, theirs = (
            _span_counts(side, n_words, drop_single_words, drop_whole_sentence, merge_duplicates) for side in sides
        )
        if ours or not skip_empty:
            counts.append((2 * (ours & theirs).total(), ours.total() + theirs.total()))
    return _average(counts, average)


def _average(counts: list[tuple[int, int]], average: str) -> float:
    """Return the F, in percent, of sentences with these counts of 2 M and G + P."""
    if not counts:
        raise ValueError("no sentence is left to score")
    if average == "corpus":
        return _percent(sum(m for m, _ in counts), sum(n for _, n in counts))
    return sum(_percent(m, n) for m, n in counts) / len(counts)


def _span_counts(
    spans: list[tuple[int, int]],
    n_words: int,
    drop_single_words: bool,
    drop_whole_sentence: bool,
    merge_duplicates: bool,
) -> Counter[tuple[int, int]]:
    """Return how often every span of one side counts."""
    remaining = _remaining(spans, n_words, drop_single_words, drop_whole_sentence)
    return Counter(set(remaining) if merge_duplicates else remaining)


def label_recall(
    gold_spans: Sequence[Iterable[tuple[str, int, int]]],
    predicted_spans: Sequence[Iterable[Span]],
    *,
    drop_single_words: bool = True,
    drop_whole_sentence: bool = False,
) -> dict[str, float]:
    r"""Return, for each gold label, the share of its constituents whose span is predicted, in percent over the corpus.

    Spec: SPAN-2.  Labels are cut at their first ``-`` or ``=``; equal labels over equal words count once.

    gold_spans : [S] of (label, i, j), as `refimpl.trees.spans` gives them; predicted_spans : [S] of (i, j)
    Raises ValueError for different numbers of sentences, or a span that is not 0 <= i <= j.

    >>> label_recall([[("S", 0, 2), ("NP-SBJ", 0, 1)], [("S", 0, 1)]], [[(0, 2), (1, 2)], [(0, 1)]])
    {'NP': 0.0, 'S': 100.0}
    """
    recalled, total = Counter[str](), Counter[str]()
    labelled = [list(sentence) for sentence in gold_spans]
    bare = [[(i, j) for _, i, j in sentence] for sentence in labelled]
    for sentence, (gold, predicted) in zip(labelled, _sentences(bare, predicted_spans), strict=True):
        n_words = 1 + max((j for _, j in gold + predicted), default=-1)
        theirs = set(predicted)
        ours = set(_remaining(gold, n_words, drop_single_words, drop_whole_sentence))
        for label, i, j in {(bare_label(label), i, j) for label, i, j in sentence}:
            if (i, j) in ours:
                total[label] += 1
                recalled[label] += (i, j) in theirs
    return {label: 100.0 * recalled[label] / total[label] for label in sorted(total)}


def _sentences(
    gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]
) -> Iterable[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences but {len(predicted)} predicted ones")
    for number, (ours, theirs) in enumerate(zip(gold, predicted, strict=True), 1):
        sides = [[(i, j) for i, j in side] for side in (ours, theirs)]
        for i, j in sides[0] + sides[1]:
            if not 0 <= i <= j:
                raise ValueError(f"sentence {number}: ({i}, {j}) is no span")
        yield sides[0], sides[1]


def _without(spans: list[tuple[int, int]], ignored: Set[int]) -> list[tuple[int, int]]:
    """Return the spans over the words that are not ignored, renumbered; a span without words is left out."""
    n_words = 1 + max((j for _, j in spans), default=-1)
    before = [0, *accumulate(int(word not in ignored) for word in range(n_words))]
    return [(before[i], before[j + 1] - 1) for i, j in spans if before[i] < before[j + 1]]


def _remaining(
    spans: list[tuple[int, int]], n_words: int, drop_single_words: bool, drop_whole_sentence: bool
) -> list[tuple[int, int]]:
    """Return the spans that are not left out."""
    return [
        (i, j)
        for i, j in spans
        if not (drop_single_words and i == j) and not (drop_whole_sentence and (i, j) == (0, n_words - 1))
    ]


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 100.0
