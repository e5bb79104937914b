"""How well predicted brackets match gold brackets, as EVALB counts (Sekine and Collins, 1997).

`accel.evaluation.evalb_input` reads EVALB's files, `accel.evaluation.spans` scores spans without labels.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from accel.evaluation.evalb_input import EvalbParameters, Sentence, Side, equivalents, restore_quotes


class TooManyErrors(ValueError):
    """More sentences could not be compared than MAX_ERROR allows. Spec: EVAL-1."""


@dataclass(frozen=True)
class SentenceScore:
    """One line of EVALB's table; the counts of a sentence that has an error or is skipped are 0. Spec: EVAL-1."""

    length: int
    status: Literal["valid", "error", "skip"]
    reason: str = ""
    matched: int = 0
    gold: int = 0
    predicted: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0


@dataclass(frozen=True)
class Score:
    """EVALB's summary: unrounded percentages over the valid sentences, and counts of sentences. Spec: EVAL-4."""

    recall: float
    precision: float
    f1: float
    complete_match: float
    tagging: float
    valid: int
    errors: int
    skipped: int
    average_crossing: float
    no_crossing: float
    two_or_less_crossing: float
    per_sentence: tuple[SentenceScore, ...] = field(repr=False)


def score_sentence(gold: Sentence, predicted: Sentence, parameters: EvalbParameters) -> SentenceScore:
    """Return the line of EVALB's table for one sentence.

    Spec: EVAL-1, EVAL-2, EVAL-3.  Cost: O(n) for n brackets; the crossing ones O(n^2), each in one array operation.

    >>> from accel.evaluation.evalb_input import read_sentences
    >>> gold, predicted = read_sentences(["(S (NP (NN a)) (VP (VB b)))", "(S (NP (NN a)) (NP (VB b)))"])
    >>> score = score_sentence(gold, predicted, EvalbParameters())
    >>> score.matched, score.gold, score.predicted
    (2, 3, 3)
    """
    ours, theirs = Side(gold, parameters), Side(predicted, parameters)
    if not theirs.words and not theirs.unreadable:
        return SentenceScore(ours.length, "skip", "nothing predicted")
    if ours.unreadable or theirs.unreadable:
        return SentenceScore(ours.length, "error", ours.unreadable or theirs.unreadable)
    if len(ours.words) != len(theirs.words):
        restore_quotes(ours, theirs, parameters)
    if len(ours.words) != len(theirs.words):
        return SentenceScore(ours.length, "error", f"Length unmatch ({len(ours.words)}|{len(theirs.words)})")
    same_word, same_label = equivalents(parameters.equal_words), equivalents(parameters.equal_labels)
    for (_, a), (_, b) in zip(ours.words, theirs.words, strict=True):
        if b not in same_word(a):
            return SentenceScore(ours.length, "error", f"Words unmatch ({a}|{b})")
    gold_brackets, predicted_brackets = ours.constituents(parameters), theirs.constituents(parameters)
    return SentenceScore(
        ours.length,
        "valid",
        matched=_matched(gold_brackets, predicted_brackets, same_label if parameters.labelled else None),
        gold=len(gold_brackets),
        predicted=len(predicted_brackets),
        crossing=_crossing(gold_brackets, predicted_brackets, len(ours.words)),
        words=len(ours.words),
        correct_tags=sum(b in same_label(a) for (a, _), (b, _) in zip(ours.words, theirs.words, strict=True)),
    )


def _matched(
    gold: list[tuple[str, int, int]],
    predicted: list[tuple[str, int, int]],
    same_label: Callable[[str], set[str]] | None,
) -> int:
    """Return how many gold brackets take the first free predicted bracket over the same words with an equal label."""
    free: dict[tuple[str, int, int], deque[int]] = defaultdict(deque)
    for place, (label, i, j) in enumerate(predicted):
        free[label if same_label else "", i, j].append(place)
    n_matches = 0
    for label, i, j in gold:
        labels = same_label(label) if same_label else {""}
        candidates = [free[one, i, j] for one in labels if free.get((one, i, j))]
        if candidates:
            min(candidates, key=lambda places: places[0]).popleft()
            n_matches += 1
    return n_matches


def _crossing(gold: list[tuple[str, int, int]], predicted: list[tuple[str, int, int]], n_words: int) -> int:
    """Return how many predicted brackets cross a gold bracket."""
    latest_end = np.full(n_words + 1, -1)  # of the gold brackets that start here
    earliest_start = np.full(n_words + 1, n_words + 1)  # of the gold brackets that end here
    for _, i, j in gold:
        latest_end[i] = max(latest_end[i], j)
        earliest_start[j] = min(earliest_start[j], i)
    return sum(
        bool((latest_end[i + 1 : j] > j).any() or (earliest_start[i + 1 : j] < i).any()) for _, i, j in predicted
    )


def evalb(
    gold_trees: Iterable[Sentence],
    predicted_trees: Iterable[Sentence],
    parameters: EvalbParameters,
    *,
    max_length: int | None = None,
) -> Score:
    r"""Return the labelled bracketing score of a corpus, as EVALB computes it.

    Spec: EVAL-4.  $R = 100 M / G$,  $P = 100 M / P'$,  $F = 2PR / (P + R)$ over the sums of the valid sentences

    gold_trees, predicted_trees : [S] of Tree, tuple of Tree, TreeError or None, every word under a tag (`with_tags`);
        None: an empty line, TreeError: an unreadable line
    parameters : for example `COLLINS`, or what `read_parameters` read
    max_length : count only sentences with at most this many words in the gold tree; CUTOFF_LEN in EVALB's second table
    Raises ValueError for different numbers of sentences, `TooManyErrors` at more than MAX_ERROR + 1 errors.

    >>> from accel.evaluation.evalb_input import COLLINS, read_sentences
    >>> gold, predicted = read_sentences(["(S (NP (NN a)) (VP (VB b)))", "(S (NP (NN a)) (NP (VB b)))"])
    >>> score = evalb([gold, gold], [gold, predicted], COLLINS)
    >>> round(score.f1, 2), score.complete_match, score.valid, score.errors
    (83.33, 50.0, 2, 0)
    """
    gold, predicted = list(gold_trees), list(predicted_trees)
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences but {len(predicted)} predicted ones")
    rows: list[SentenceScore] = []
    n_errors = 0
    for number, (ours, theirs) in enumerate(zip(gold, predicted, strict=True), 1):
        row = score_sentence(ours, theirs, parameters)
        n_errors += row.status == "error"
        if parameters.max_error is not None and n_errors > parameters.max_error + 1:
            raise TooManyErrors(f"sentence {number}: {row.reason}: error {n_errors}, MAX_ERROR {parameters.max_error}")
        rows.append(row)
    return _total([row for row in rows if max_length is None or row.length <= max_length])


def _total(rows: Sequence[SentenceScore]) -> Score:
    valid = [row for row in rows if row.status == "valid"]
    n_matches = sum(row.matched for row in valid)
    recall = _percent(n_matches, sum(row.gold for row in valid))
    precision = _percent(n_matches, sum(row.predicted for row in valid))
    return Score(
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / (precision + recall) if n_matches else 0.0,
        complete_match=_percent(sum(row.matched == row.gold == row.predicted for row in valid), len(valid)),
        tagging=_percent(sum(row.correct_tags for row in valid), sum(row.words for row in valid)),
        valid=len(valid),
        errors=sum(row.status == "error" for row in rows),
        skipped=sum(row.status == "skip" for row in rows),
        average_crossing=_percent(sum(row.crossing for row in valid), len(valid)) / 100,
        no_crossing=_percent(sum(row.crossing == 0 for row in valid), len(valid)),
        two_or_less_crossing=_percent(sum(row.crossing <= 2 for row in valid), len(valid)),
        per_sentence=tuple(rows),
    )


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
