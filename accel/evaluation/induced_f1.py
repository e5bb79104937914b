"""F1 of trees without labels against gold constituents, beside trees that look at no word (FastTrees, Table 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.data.published.wsj import GoldSentence
from accel.evaluation.evalb_input import bare_label
from accel.evaluation.spans import label_recall, unlabelled_f1

Spans = list[tuple[int, int]]

BASELINES = ("random", "balanced", "left", "right")
ORACLE = "oracle"
RANDOM_TREES = 5
"""How many random trees a sentence gets; their scores are averaged."""


@dataclass(frozen=True)
class Preset:
    """Which spans and sentences count for the F1 of a paper.

    Attributes
    ----------
    drop_single_words : bool
        Leave out spans of one word.
    whole_sentence : "drop", "drop_one" or "keep"
        Leave out all spans of the whole sentence; one of them, so that the rest of a chain stays; or none.
    merge_duplicates : bool
        Count equal spans of a sentence once.
    shortest_sentence : int
        Leave out sentences of fewer words; a sentence without any span left scores 100.
    """

    drop_single_words: bool = True
    whole_sentence: str = "drop"
    merge_duplicates: bool = True
    shortest_sentence: int = 1

    def __post_init__(self) -> None:
        if self.whole_sentence not in ("drop", "drop_one", "keep"):
            raise ValueError(f'whole_sentence must be "drop", "drop_one" or "keep", not {self.whole_sentence!r}')


PRESETS = {
    "fasttrees": Preset(),
    "gpst": Preset(),  # the same: the root is dropped, sentences of one word score 100
    "gpst_released": Preset(whole_sentence="drop_one"),  # a chain over a whole sentence keeps a gold span
    "compound_pcfg": Preset(whole_sentence="drop_one", shortest_sentence=2),  # its scorer drops the last span alone
    "evalb": Preset(drop_single_words=False, whole_sentence="keep", merge_duplicates=False),
}
"""What each paper counts. GPST and Compound PCFG print sentence F1 and corpus F1, EVALB corpus F1 only."""


@dataclass(frozen=True)
class ParseScore:
    """Percentages: the mean of the sentences' F1, that of the sums over the corpus, and recall of each gold label."""

    sentence_f1: float
    corpus_f1: float
    label_recall: dict[str, float]


def score(gold: Sequence[GoldSentence], predicted: Sequence[Spans], preset: str = "fasttrees") -> ParseScore:
    """Return the scores of predicted spans.

    Spec: SPAN-1, SPAN-2.  For F1 the preset says which spans count. For recall the whole sentence counts, and
    constituents with the same label over the same words count once.
    """
    recall = label_recall([sentence.constituents for sentence in gold], predicted)
    sides, switches = _compared(gold, predicted, preset)
    sentence_f1, corpus_f1 = (unlabelled_f1(*sides, average=average, **switches) for average in ("sentence", "corpus"))
    return ParseScore(sentence_f1, corpus_f1, recall)


def sentence_scores(gold: Sequence[GoldSentence], predicted: Sequence[Spans], preset: str = "fasttrees") -> list[float]:
    """Return the F1 of every sentence that counts for the preset; their mean is the sentence F1 of `score`."""
    sides, switches = _compared(gold, predicted, preset)
    return [unlabelled_f1([ours], [theirs], **switches) for ours, theirs in zip(*sides, strict=True)]


def _compared(
    gold: Sequence[GoldSentence], predicted: Sequence[Spans], preset: str
) -> tuple[tuple[list[Spans], list[Spans]], dict[str, Any]]:
    """Return the gold and the predicted spans of the sentences that count, and the switches of SPAN-1."""
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}: choose one of {', '.join(PRESETS)}")
    switches = PRESETS[preset]
    sides: tuple[list[Spans], list[Spans]] = [], []
    for sentence, spans in zip(gold, predicted, strict=True):
        if len(sentence.words) >= switches.shortest_sentence:
            root = (0, len(sentence.words) - 1)
            ours = [(i, j) for _, i, j in sentence.constituents]
            theirs = spans or [(0, 0)] if len(sentence.words) == 1 else spans  # the tree (X she) has one bracket
            for side, whole in zip(sides, (ours, theirs), strict=True):
                side.append(_without_one(whole, root) if switches.whole_sentence == "drop_one" else whole)
    return sides, {
        "drop_single_words": switches.drop_single_words,
        "drop_whole_sentence": switches.whole_sentence == "drop",
        "merge_duplicates": switches.merge_duplicates,
        "shortest_sentence": 0,
    }


def _without_one(spans: Spans, span: tuple[int, int]) -> Spans:
    at = spans.index(span) if span in spans else len(spans)
    return [*spans[:at], *spans[at + 1 :]]


def score_baselines(gold: Sequence[GoldSentence], seed: int = 0, preset: str = "fasttrees") -> dict[str, ParseScore]:
    """Return the scores of the four kinds of trivial trees; those of random trees are means of several draws."""
    scores = {}
    for name in BASELINES:
        rng = np.random.Generator(np.random.Philox(seed))
        draws = RANDOM_TREES if name == "random" else 1
        trees = ([trivial_spans(name, len(s.words), rng) for s in gold] for _ in range(draws))
        scores[name] = _mean([score(gold, spans, preset) for spans in trees])
    return scores


def score_oracle(gold: Sequence[GoldSentence], preset: str = "fasttrees") -> ParseScore:
    """Return the best scores that binary trees can have."""
    return score(gold, [oracle_spans([(i, j) for _, i, j in s.constituents], len(s.words)) for s in gold], preset)


def trivial_spans(name: str, n_words: int, rng: np.random.Generator) -> Spans:
    """Return the constituents of two words or more of a binary tree that looks at no word, in the order they open.

    Parameters
    ----------
    name : one of BASELINES
        Where a constituent is split: at a place drawn uniformly; in the middle (of an odd number of words the right
        part is longer); before the last word; or after the first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> trivial_spans("right", 4, rng), trivial_spans("balanced", 3, rng)
    ([(0, 3), (1, 3), (2, 3)], [(0, 2), (1, 2)])
    """
    last_of_left: dict[str, Callable[[int, int], int]] = {
        "random": lambda i, j: int(rng.integers(i, j)),
        "balanced": lambda i, j: (i + j - 1) // 2,
        "left": lambda i, j: j - 1,
        "right": lambda i, j: i,
    }
    return _binary_spans(n_words, last_of_left[name])


def oracle_spans(gold: Iterable[tuple[int, int]], n_words: int) -> Spans:
    """Return the constituents of a binary tree that has all gold spans, which do not cross; the rest branches right.

    Examples
    --------
    >>> oracle_spans([(0, 4), (1, 3)], 5)
    [(0, 4), (1, 4), (1, 3), (2, 3)]
    """
    depth = np.zeros(n_words, int)  # in how many constituents each word stands together with the next
    for i, j in set(gold):
        depth[i:j] += 1
    return _binary_spans(n_words, lambda i, j: i + int(depth[i:j].argmin()))


def _binary_spans(n_words: int, last_of_left: Callable[[int, int], int]) -> Spans:
    spans: Spans = []
    agenda = [(0, n_words - 1)]
    while agenda:
        i, j = agenda.pop()
        if i < j:
            spans.append((i, j))
            k = last_of_left(i, j)
            agenda += [(k + 1, j), (i, k)]
    return spans


def label_counts(gold: Sequence[GoldSentence]) -> Counter[str]:
    """Return how many constituents of two words or more have each label, cut as in `label_recall`."""
    constituent_sets = ({(bare_label(label), i, j) for label, i, j in sentence.constituents} for sentence in gold)
    return Counter(label for constituents in constituent_sets for label, i, j in constituents if i < j)


def frequent_labels(count: Counter[str], n_labels: int) -> list[str]:
    """Return the most frequent labels in alphabetical order; of equally frequent ones the first in the alphabet."""
    return sorted(sorted(count, key=lambda label: (-count[label], label))[:n_labels])


def table(rows: Mapping[str, ParseScore], gold: Sequence[GoldSentence], columns: int = 8) -> str:
    """Return the scores as a table, with the recall of the most frequent labels of two words or more."""
    count = label_counts(gold)
    labels = frequent_labels(count, columns)
    width = max(map(len, rows))
    lines = [f"{'':{width}}  sentence F1  corpus F1" + "".join(f"{label:>8}" for label in labels)]
    for name, scores in rows.items():
        recalls = "".join(f"{scores.label_recall[label]:8.1f}" for label in labels)
        lines.append(f"{name:{width}}  {scores.sentence_f1:11.1f}  {scores.corpus_f1:9.1f}{recalls}")
    counts = "".join(f"{count[label]:8,}" for label in labels)
    lines.append(f"{'gold':{width}}  {len(gold):11,} sentences {counts}")
    return "\n".join(lines)


def _mean(scores: Sequence[ParseScore]) -> ParseScore:
    return ParseScore(
        float(np.mean([s.sentence_f1 for s in scores])),
        float(np.mean([s.corpus_f1 for s in scores])),
        {label: float(np.mean([s.label_recall[label] for s in scores])) for label in scores[0].label_recall},
    )
