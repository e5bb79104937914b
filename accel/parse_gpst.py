"""The trees that GPST induces: every span is split where its inside score is highest, and no word is (section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType

import numpy as np

from accel.layers import DropoutSites, embedding, linear
from accel.models import composition, gpst, split_parser
from accel.saved import Model
from accel.tape import Tape, constant

Spans = list[tuple[int, int]]


def require_trees(model: Model) -> None:
    """Raise ValueError if the model induces no trees as GPST does."""
    if model.module is not gpst or model.config.model != "gpst":
        raise ValueError(f"{model.path}: a model without GPST's trees")


def inside_spans(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[Sequence[int]]], *, batch_size: int = 64
) -> Iterator[Spans]:
    """Yield for every sentence the spans of its constituents of two words or more, in the order in which they open.

    Spec: PC-1, IO-5, with words of several pieces as atoms.

    Parameters
    ----------
    sentences : of words, of ids
        One word or more, each of one piece or more.
    """
    require_trees(model)
    for start in range(0, len(sentences), batch_size):
        chunk = sentences[start : start + batch_size]
        ids = np.array([i for words in chunk for pieces in words for i in pieces], np.int32)
        begins_word = np.array([k == 0 for words in chunk for pieces in words for k in range(len(pieces))])
        offsets = np.cumsum([0, *(sum(map(len, words)) for words in chunk)])
        first, last = _ends_of_nodes(ops, model, ids, begins_word, offsets)
        word = np.cumsum(begins_word) - 1  # of every token
        sentence = np.searchsorted(offsets, first, side="right") - 1
        found: list[Spans] = [[] for _ in chunk]
        spans = np.stack([word[first], word[last]], axis=1) - word[offsets[sentence]][:, None]
        for b, (i, j) in zip(sentence.tolist(), spans.tolist(), strict=True):
            if i < j:
                found[b].append((i, j))
        yield from (sorted(of_one, key=lambda span: (span[0], -span[1])) for of_one in found)


def _ends_of_nodes(
    ops: ModuleType, model: Model, ids: np.ndarray, begins_word: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last token, of the batch, of all nodes of the trees of sentences of pieces."""
    xp, config, tape, sites = ops.xp, model.config, Tape(ops, recording=False), DropoutSites(None)
    p = {name: constant(value) for name, value in model.parameters.items()}
    on_device = xp.asarray(ids)
    scores = split_parser.split_scores(tape, config, p, on_device, offsets, sites).value
    cuts_word = ~np.append(begins_word[1:], True)  # at the point behind every token
    if len(scores):
        lowered = xp.asarray(np.delete(cuts_word, offsets[1:] - 1))  # words are merged before all else
        scores = xp.where(lowered, scores - (scores.max() - scores.min() + 1), scores)
    charts = composition.charts_of(ops, scores, xp.asarray(offsets), config.window)
    leaves = linear(tape, p, "down", embedding(tape, p["embedding"], on_device), "down_bias")
    inside = composition.inside(tape, config, p, leaves, charts, sites)
    of_splits = np.concatenate([np.zeros(0), *(composition.host(score.value) for score in inside.scores)])
    first, last = charts.ends(offsets)
    word, cell = (
        np.cumsum(begins_word),
        len(ids) + np.repeat(np.arange(len(charts.spans)), np.diff(charts.split_offsets)),
    )
    of_several = word[first[cell]] < word[last[cell]]
    of_splits[of_several & cuts_word[last[charts.left]]] = -np.inf
    nodes = composition.induced(charts, of_splits, offsets).nodes
    return first[nodes], last[nodes]
