"""One table of induced trees: the scores of several models and of trivial trees, with tests of their differences.

All rows are over the same sentences. Models that differ in their seed alone are members of one row: their scores are
averaged, and their spread has a column. Intervals are over sentences, each with the mean of its members' F1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from accel.data.published.wsj import GoldSentence
from accel.evaluation.induced_f1 import (
    BASELINES,
    ORACLE,
    ParseScore,
    Spans,
    oracle_spans,
    score,
    sentence_scores,
    trivial_spans,
)
from accel.evaluation.significance import Interval, Welch, bootstrap_interval, welch
from accel.parsing.distances import layer_of
from accel.parsing.gpst import MODES
from accel.parsing.spans import reading_of
from accel.trained.kinds import DISTANCES, FULL_CHARTS, SPANS, can, require
from accel.trained.opening import Model
from accel.trained.words import encode_words


class Row(NamedTuple):
    """The scores of every member, and the F1 of each sentence that counts [members][sentences]."""

    scores: list[ParseScore]
    of_sentences: list[list[float]]

    @property
    def sentence_f1(self) -> float:
        return fmean(member.sentence_f1 for member in self.scores)

    @property
    def corpus_f1(self) -> float:
        return fmean(member.corpus_f1 for member in self.scores)

    @property
    def spread(self) -> float | None:
        """The sample standard deviation of the members' sentence F1; None for a single member."""
        return stdev(member.sentence_f1 for member in self.scores) if len(self.scores) > 1 else None

    def recall(self, label: str) -> float:
        return fmean(member.label_recall[label] for member in self.scores)


def ways_of(
    model: Model, *, layers: Sequence[int] | None, split: str, modes: Sequence[str], beam: int, max_height: int | None
) -> dict[str, dict[str, Any]]:
    """Return the ways in which a model finds trees, by name: options of `accel.parsing.spans.find_spans`.

    Without layers, distances are those of the second layer, or of the only one.

    Raises
    ------
    ValueError
        If the model finds no trees.
    """
    require(model, SPANS)
    if can(model, DISTANCES):
        layers = layers or [layer_of(model.config.n_layers, None, str(model.path))]
        return {f"layer {layer}": {"layer": layer, "split": split} for layer in layers}
    if can(model, FULL_CHARTS):
        return {"chart": {"max_height": max_height}}
    search = {"beam": beam}
    return {mode: {"mode": mode, **(search if mode == MODES[-1] else {})} for mode in modes}


def unread(model: Model, way: Mapping[str, Any], gold: Sequence[GoldSentence]) -> dict[int, str]:
    """Return the places, from 0, of the sentences that a model cannot read in this way, each with the reason."""
    reasons = {}
    for place, sentence in enumerate(gold):
        try:
            encode_words(model, sentence.words, **reading_of(way))
        except ValueError as error:
            reasons[place] = str(error)
    return reasons


def row(gold: Sequence[GoldSentence], members: Sequence[Sequence[Spans]], preset: str) -> Row:
    """Return the row of members, given by their spans of every sentence."""
    return Row(
        [score(gold, spans, preset) for spans in members],
        [sentence_scores(gold, spans, preset) for spans in members],
    )


def baselines(gold: Sequence[GoldSentence], preset: str, seeds: int) -> dict[str, Row]:
    """Return the rows of trivial trees and of the best binary trees; the row of random trees has `seeds` members."""
    rows = {}
    for name in BASELINES:
        members = []
        for seed in range(seeds if name == "random" else 1):
            rng = np.random.Generator(np.random.Philox(seed))
            members.append([trivial_spans(name, len(sentence.words), rng) for sentence in gold])
        rows[name] = row(gold, members, preset)
    best = [oracle_spans([(i, j) for _, i, j in sentence.constituents], len(sentence.words)) for sentence in gold]
    return rows | {ORACLE: row(gold, [best], preset)}


def interval(of_model: Row) -> Interval | None:
    """Return the sentence F1 with its interval over sentences; None if there is one sentence only."""
    values = np.mean(of_model.of_sentences, axis=0)
    return bootstrap_interval(values) if len(values) > 1 else None


def difference(one: Row, other: Row) -> Interval | None:
    """Return the difference of the sentence F1 with its interval over sentences, which are paired."""
    values = np.mean(one.of_sentences, axis=0) - np.mean(other.of_sentences, axis=0)
    return bootstrap_interval(values) if len(values) > 1 else None


def welch_of_members(one: Row, other: Row) -> Welch | None:
    """Return Welch's test of the members' sentence F1; None if a row does not have two members that differ."""
    first, second = ([member.sentence_f1 for member in side.scores] for side in (one, other))
    return welch(first, second) if min(len(set(first)), len(set(second))) > 1 else None
