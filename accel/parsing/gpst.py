"""The trees of GPST: of its chart, of its parser or of a search. No tree splits a word."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.autodiff.arrays import Array, host, offsets_of
from accel.models.gpst import model as gpst
from accel.search.pools import Limits
from accel.search.word_level import word_level_search
from accel.trained.kinds import GPST_TREES, require
from accel.trained.opening import Model
from accel.trained.options import check_number
from accel.trained.processes import results
from accel.trained.words import Pieces, encode_words, joined

Spans = list[tuple[int, int]]
MODES = ("inside", "parser", "left-to-right")
SORTED = 8
"""How many batches of sentences are sorted by length together, before a search from left to right."""


def spans_of(
    ops: ModuleType, model: Model, sentences: Sequence[Pieces], mode: str = "inside",
    *, beam: int = 20, sync: bool = True, batch_size: int | None = None, processes: int = 1,
) -> Iterator[Spans]:  # fmt: skip
    """Yield for every sentence the spans of its constituents of two words or more, in the order in which they open.

    Parameters
    ----------
    mode : one of MODES
        "inside": the tree of the highest inside scores (IO-5). "parser": the tree of the parser's scores alone (PC-1).
        "left-to-right": the best parse of the generative model's word-level search (WS-2).
    beam, sync, processes
        Options of that search. `processes` processes search, with one thread each; this changes no result.
    batch_size : int or None
        How many sentences are read side by side; None: 32 for the search, else 64.
    """
    require(model, GPST_TREES)
    if mode not in MODES:
        raise ValueError(f"mode: unknown {mode!r}: choose one of {', '.join(MODES)}")
    if batch_size is None:
        batch_size = 32 if mode == "left-to-right" else 64
    if mode == "left-to-right":
        search: dict[str, Any] = {"beam": beam, "sync": sync, "batch_size": batch_size, "processes": processes}
        return left_to_right_spans(ops, model, sentences, **search)
    config = replace(model.config, window=1) if mode == "parser" else model.config  # GPST-3, L1
    return inside_spans(ops, replace(model, config=config), sentences, batch_size=batch_size)


def inside_spans(
    ops: ModuleType, model: Model, sentences: Iterable[Pieces], *, batch_size: int = 64
) -> Iterator[Spans]:
    """Yield for every sentence the spans of its constituents of two words or more, in the order in which they open."""
    for spans, _ in constituents(ops, model, sentences, batch_size=batch_size):
        yield _in_opening_order((i, j) for i, j in spans.tolist())


def constituents(
    ops: ModuleType, model: Model, sentences: Iterable[Pieces], *, batch_size: int
) -> Iterator[tuple[np.ndarray, Array]]:
    """Yield for every sentence of n words the spans of its words and constituents, and their inside vectors.

    Spec: PC-1, IO-3, IO-5, with words of several pieces as atoms. Spans [2 n - 1, 2] are first and last word, in
    post-order; vectors are [2 n - 1, d].
    """
    require(model, GPST_TREES)
    for chunk in _chunks(sentences, batch_size):
        ids, begins_word = (np.concatenate([sentence[k] for sentence in chunk]) for k in (0, 1))
        offsets = offsets_of(len(tokens) for tokens, _ in chunk)
        tokens = ops.xp.asarray(ids), ops.xp.asarray(offsets), begins_word
        ends, bounds, vectors = gpst.induced_trees(ops, model.config, model.parameters, *tokens)
        word, word_ends = np.cumsum(begins_word) - 1, np.append(begins_word[1:], True)
        for offset, begin, end in zip(offsets[:-1], bounds[:-1], bounds[1:], strict=True):
            first, last = offset + ends[begin:end].T
            kept_nodes = np.flatnonzero(begins_word[first] & word_ends[last])
            spans = np.stack([word[first], word[last]], axis=1)[kept_nodes] - word[offset]
            yield spans, vectors[ops.xp.asarray(begin + kept_nodes)]


@dataclass(frozen=True)
class Embedding:
    """The nodes of a sentence of n words, in post-order.

    Attributes
    ----------
    words : tuple of str
    spans : [2 n - 1, 2] int64
        The first and the last word of every word and constituent.
    vectors : [2 n - 1, d] float32
        Their inside vectors.
    """

    words: tuple[str, ...]
    spans: NDArray[np.int64]
    vectors: NDArray[np.float32]


def embeddings(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], *, batch_size: int
) -> Iterator[Embedding]:
    """Yield for every sentence the vectors of `constituents`, on the host; raises as `encode_words`."""
    pieces = [encode_words(model, words) for words in sentences]
    nodes = constituents(ops, model, pieces, batch_size=batch_size)
    for words, (spans, vectors) in zip(sentences, nodes, strict=True):
        yield Embedding(tuple(words), spans.astype(np.int64), host(vectors).astype(np.float32))


def left_to_right_spans(
    ops: ModuleType, model: Model, sentences: Iterable[Pieces],
    *, beam: int = 20, sync: bool = True, batch_size: int = 32, processes: int = 1,
) -> Iterator[Spans]:  # fmt: skip
    """Yield for every sentence the constituents of two words or more of its best parse, in the order they open.

    Spec: WS-2, without parses that split a word. Sentences of similar length are searched side by side.
    """
    require(model, GPST_TREES)
    check_number("batch_size", batch_size)
    several, orders = iter(sentences), deque[list[int]]()

    def batches() -> Iterator[list[Pieces]]:
        while window := list(islice(several, SORTED * batch_size)):
            order = sorted(range(len(window)), key=lambda number: sum(map(len, window[number])))
            orders.append(order)
            for start in range(0, len(order), batch_size):
                yield [window[number] for number in order[start : start + batch_size]]

    def search(batch: list[Pieces]) -> list[Spans]:
        return list(_searched_spans(ops, model, batch, beam, sync))

    batch_trees = chain.from_iterable(results(search, batches(), ops, processes))
    for first in batch_trees:
        order = orders.popleft()
        trees = dict(zip(order, [first, *islice(batch_trees, len(order) - 1)], strict=True))
        yield from (trees[number] for number in range(len(order)))


def _searched_spans(
    ops: ModuleType, model: Model, sentences: Sequence[Pieces], beam: int, sync: bool
) -> Iterator[Spans]:
    (chunk,) = _chunks(sentences, len(sentences))
    ids, begins_word = ([sentence[k].tolist() for sentence in chunk] for k in (0, 1))
    searched = word_level_search(ops, model, ids, Limits(beam, one_pool=True), sync=sync, begins_word=begins_word)
    for parses, begins in zip(searched, begins_word, strict=True):
        if not parses.hypotheses:
            raise ValueError(f"{model.path}: nothing is possible for a sentence of {len(begins)} tokens")
        word = (np.cumsum(begins) - 1).tolist()
        yield _in_opening_order((word[i], word[j]) for i, j in _composed(parses.hypotheses[0].actions))


def _chunks(sentences: Iterable[Pieces], batch_size: int) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
    """Yield the tokens of `batch_size` sentences at a time, each with a mask of the tokens that begin a word."""
    check_number("batch_size", batch_size)
    pieces = ((joined(words), [k == 0 for word in words for k in range(len(word))]) for words in sentences)
    encoded = ((np.array(ids, np.int32), np.array(begins, bool)) for ids, begins in pieces)
    while chunk := list(islice(encoded, batch_size)):
        yield chunk


def _composed(actions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last token of the constituent that every COMP completes."""
    stack, last = list[int](), -1
    for action in actions:
        if action >= 0:
            last += 1
            stack.append(last)
        else:
            stack.pop()
            yield stack[-1], last


def _in_opening_order(spans: Iterable[tuple[int, int]]) -> Spans:
    """Return the spans of two words or more in the order in which they open."""
    return sorted(((i, j) for i, j in spans if i < j), key=lambda span: (span[0], -span[1]))
