"""The trees that Treeformer's chart induces: every phrase is split where its pooling weight is greatest (section 6.6).

An encoder-decoder reads a source followed by the end symbol, a classifier also with the start symbol before it. These
symbols are tokens of the chart, but not of the tree, whose root is the phrase of all words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.data.vocabularies.vocabulary import END, END_ID
from accel.data.vocabularies.words import Words
from accel.models.encoder_decoder import model as encoder_decoder
from accel.trained.kinds import FULL_CHARTS, require
from accel.trained.opening import Model
from accel.trained.words import Pieces
from refimpl.trees import START

Spans = list[tuple[int, int]]


def frame(model: Model) -> tuple[list[int], list[int]]:
    """Return the symbols before and after the words of every sequence that the model reads."""
    if not isinstance(model.vocabulary, Words):
        return [], [END_ID]
    first, last = ([model.vocabulary.ids[x]] if x in model.vocabulary.ids else [] for x in (START, END))
    return first, last


def split_weights(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[int]],
    *,
    max_height: int | None = None,
    batch_size: int = 64,
) -> Iterator[tuple[Array, Array]]:
    """Yield for every batch of sentences, given by their tokens, the weights of all splits [P] and their offsets [B+1].

    Phrases that hold a symbol of `frame` are left out. Cost: O(n^3) weights.
    """
    require(model, FULL_CHARTS)
    xp, (first, last) = ops.xp, frame(model)
    for start in range(0, len(sentences), batch_size):
        chunk = sentences[start : start + batch_size]
        ids = xp.asarray(np.concatenate([[*first, *tokens, *last] for tokens in chunk]).astype(np.int32))
        lengths = np.array([len(tokens) for tokens in chunk])
        offsets = offsets_of(lengths + len(first) + len(last))
        sources = ids, xp.asarray(offsets), max_height
        weights = encoder_decoder.chart_weights(ops, model.config, model.parameters, *sources)
        inner = np.concatenate([_inner_splits(n, len(first), len(last), max_height) for n in np.diff(offsets)])
        yield weights[xp.asarray(inner)], xp.asarray(offsets_of(lengths))


def chart_spans(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[int]],
    *,
    max_height: int | None = None,
    batch_size: int = 64,
) -> Iterator[Spans]:
    """Yield for every sentence the spans of its constituents of two tokens or more, in the order in which they open.

    Spec: CKY-4, of trained models.

    Parameters
    ----------
    sentences : sequence of sequences of int
        The tokens of every sentence.
    max_height : int or None
        The tokens of the chart's longest phrase; no sentence may have more. None: charts of full height.
    """
    for weights, offsets in split_weights(ops, model, sentences, max_height=max_height, batch_size=batch_size):
        spans, begins = (host(x) for x in ops.chart_trees(weights, offsets, max_height=max_height))
        for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            yield [(i, j) for i, j in spans[begin:end].tolist()]


def largest_weights(weights: np.ndarray, n: int) -> dict[tuple[int, int], float]:
    """Return for every span of two tokens or more the weight of its best split, from the weights [P] of a sentence."""
    largest, start = dict[tuple[int, int], float](), 0
    for height in range(2, n + 1):
        end = start + (n - height + 1) * (height - 1)
        row = weights[start:end].reshape(-1, height - 1).max(axis=1)
        largest |= {(i, i + height - 1): float(weight) for i, weight in enumerate(row)}
        start = end
    return largest


def spans_of_words(spans: Spans, words: Pieces) -> Spans:
    """Return the constituents of two words or more from those of tokens; a constituent that cuts a word is left out.

    Examples
    --------
    >>> spans_of_words([(0, 3), (0, 1), (2, 3)], [[7], [5, 6], [8]])  # the second word has two tokens
    [(0, 2)]
    """
    ends = list(accumulate(len(tokens) for tokens in words))
    last = {end - 1: i for i, end in enumerate(ends)}
    first = {end - len(tokens): i for i, (end, tokens) in enumerate(zip(ends, words, strict=True))}
    word_spans = [(first[i], last[j]) for i, j in spans if i in first and j in last]
    return [(i, j) for i, j in word_spans if i < j]


def _inner_splits(n: int, n_before: int, n_after: int, max_height: int | None) -> np.ndarray:
    """Return a mask of the splits of a chart over n tokens: True for phrases without a symbol of `frame`."""
    masks = [np.zeros(0, bool)]
    for height in range(2, (n if max_height is None else min(n, max_height)) + 1):
        first = np.arange(n - height + 1)
        masks.append(np.repeat((first >= n_before) & (first + height <= n - n_after), height - 1))
    return np.concatenate(masks)
