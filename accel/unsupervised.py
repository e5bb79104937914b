"""How well trees without labels match gold constituents, beside trees that look at no word (FastTrees, Table 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel.data.wsj import GoldSentence
from refimpl.bracket_score import label_recall, unlabelled_f1

Spans = list[tuple[int, int]]

BASELINES = ("random", "balanced", "left", "right")
RANDOM_TREES = 5
"""How many random trees a sentence gets; their scores are averaged."""


@dataclass(frozen=True)
class ParseScore:
    """Percentages: the mean of the sentences' F1, that of the sums over the corpus, and recall of each gold label."""

    sentence_f1: float
    corpus_f1: float
    label_recall: dict[str, float]


def score(gold: Sequence[GoldSentence], predicted: Sequence[Spans]) -> ParseScore:
    """Return the scores of predicted spans.

    Spec: SPAN-1, SPAN-2.  For F1, spans of one word and of the whole sentence do not count, and equal ones count once;
    for recall the whole sentence counts, and constituents with the same label over the same words count once.
    """
    bare = [[(i, j) for _, i, j in sentence.constituents] for sentence in gold]
    return ParseScore(
        unlabelled_f1(bare, predicted, average="sentence"),
        unlabelled_f1(bare, predicted, average="corpus"),
        label_recall([sentence.constituents for sentence in gold], predicted),
    )


def score_baselines(gold: Sequence[GoldSentence], seed: int = 0) -> dict[str, ParseScore]:
    """Return the scores of the four trivial kinds of trees; of random ones the mean of several draws."""
    out = {}
    for name in BASELINES:
        rng = np.random.Generator(np.random.Philox(seed))
        draws = RANDOM_TREES if name == "random" else 1
        out[name] = _mean([score(gold, [trivial_spans(name, len(s.words), rng) for s in gold]) for _ in range(draws)])
    return out


def trivial_spans(name: str, n_words: int, rng: np.random.Generator) -> Spans:
    """Return the constituents of two words or more of a binary tree that looks at no word, in the order they open.

    Parameters
    ----------
    name : one of BASELINES
        Where a constituent is split: at a place drawn uniformly, in the middle (of an odd number of words the right
        part is the longer one), before the last word, or behind the first.

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
    out: Spans = []
    agenda = [(0, n_words - 1)]
    while agenda:
        i, j = agenda.pop()
        if i < j:
            out.append((i, j))
            k = last_of_left[name](i, j)
            agenda += [(k + 1, j), (i, k)]
    return out


def table(rows: Mapping[str, ParseScore], gold: Sequence[GoldSentence], columns: int = 8) -> str:
    """Return the scores as a table, with the recall of the most frequent labels of two words or more."""
    count = Counter(label for sentence in gold for label, i, j in set(sentence.constituents) if i < j)
    labels = sorted(label for label, _ in count.most_common(columns))
    width = max(map(len, rows))
    lines = [f"{'':{width}}  sentence F1  corpus F1" + "".join(f"{label:>8}" for label in labels)]
    for name, found in rows.items():
        recalls = "".join(f"{found.label_recall[label]:8.1f}" for label in labels)
        lines.append(f"{name:{width}}  {found.sentence_f1:11.1f}  {found.corpus_f1:9.1f}{recalls}")
    counts = "".join(f"{count[label]:8,}" for label in labels)
    lines.append(f"{'gold':{width}}  {len(gold):11,} sentences {counts}")
    return "\n".join(lines)


def _mean(scores: Sequence[ParseScore]) -> ParseScore:
    return ParseScore(
        float(np.mean([s.sentence_f1 for s in scores])),
        float(np.mean([s.corpus_f1 for s in scores])),
        {label: float(np.mean([s.label_recall[label] for s in scores])) for label in scores[0].label_recall},
    )
