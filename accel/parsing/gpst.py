"""The trees that GPST finds, in which no word is split: induced ones, its parser's own, or those of a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array, offsets_of
from accel.models.gpst import model as gpst
from accel.parsing.charts import encode_words
from accel.search.word_level import word_level_search
from accel.trained.opening import Model

Spans = list[tuple[int, int]]
MODES = ("inside", "parser", "left-to-right")
Words = Sequence[Sequence[int]]
"""A sentence, one word or more, each of one piece or more."""


def require_trees(model: Model) -> None:
    """Raise ValueError if the model induces no trees as GPST does."""
    if model.module is not gpst or model.config.model != "gpst":
        raise ValueError(f"{model.path}: a model without GPST's trees")


def require_gpst(model: Model) -> None:
    """Raise ValueError if the model does not generate word by word as GPST does, and the GPT-2 beside it."""
    if model.module is not gpst:
        raise ValueError(f"{model.path}: neither a GPST nor a GPT-2")


def pieces_of(model: Model, words: Sequence[str]) -> list[list[int]]:
    """Return the ids of every word of a sentence that is generated word by word.

    Raises
    ------
    ValueError
        As `encode_words`; if they have no room in a context.
    """
    encoded = encode_words(model, words)
    count, most = sum(map(len, encoded)), model.config.n_positions - 1
    if count > most:
        raise ValueError(f"a sentence of {count} tokens, more than a context of the model has, {most}")
    return encoded


def spans_of(
    ops: ModuleType, model: Model, sentences: Sequence[Words], mode: str = "inside",
    *, beam: int = 20, sync: bool = True, batch_size: int | None = None,
) -> Iterator[Spans]:  # fmt: skip
    """Yield for every sentence the spans of its constituents of two words or more, in the order in which they open.

    Parameters
    ----------
    mode : one of MODES
        Where the inside scores are highest (IO-5); where the parser's scores are (PC-1), whatever the composition model
        says; or the best parse that the generative model finds word by word (WS-2).
    beam, sync
        Of that search.
    batch_size : int or None
        How many sentences are read side by side; None: 64, or 16 by the search.
    """
    require_trees(model)
    if mode not in MODES:
        raise ValueError(f"mode: unknown {mode!r}: choose one of {', '.join(MODES)}")
    if batch_size is None:
        batch_size = 16 if mode == "left-to-right" else 64
    if mode == "left-to-right":
        return left_to_right_spans(ops, model, sentences, beam=beam, sync=sync, batch_size=batch_size)
    config = replace(model.config, window=1) if mode == "parser" else model.config  # GPST-3, L1
    return inside_spans(ops, replace(model, config=config), sentences, batch_size=batch_size)


def inside_spans(ops: ModuleType, model: Model, sentences: Iterable[Words], *, batch_size: int = 64) -> Iterator[Spans]:
    """Yield for every sentence the spans of its constituents of two words or more, in the order in which they open."""
    for spans, _ in constituents(ops, model, sentences, batch_size=batch_size):
        yield _opening((i, j) for i, j in spans.tolist())


def constituents(
    ops: ModuleType, model: Model, sentences: Iterable[Words], *, batch_size: int = 64
) -> Iterator[tuple[np.ndarray, Array]]:
    """Yield for every sentence of n words the spans of its words and constituents, and their inside vectors.

    Spec: PC-1, IO-3, IO-5, with words of several pieces as atoms. First and last word [2 n - 1, 2], in post-order, and
    [2 n - 1, d].
    """
    require_trees(model)
    for chunk in _chunks(sentences, batch_size):
        ids, begins_word = (np.concatenate([own[k] for own in chunk]) for k in (0, 1))
        offsets = offsets_of(len(own) for own, _ in chunk)
        read = ops.xp.asarray(ids), ops.xp.asarray(offsets), begins_word
        ends, bounds, vectors = gpst.induced_trees(ops, model.config, model.parameters, *read)
        word, word_ends = np.cumsum(begins_word) - 1, np.append(begins_word[1:], True)
        for offset, begin, end in zip(offsets[:-1], bounds[:-1], bounds[1:], strict=True):
            first, last = offset + ends[begin:end].T
            whole = np.flatnonzero(begins_word[first] & word_ends[last])
            spans = np.stack([word[first], word[last]], axis=1)[whole] - word[offset]
            yield spans, vectors[ops.xp.asarray(begin + whole)]


def left_to_right_spans(
    ops: ModuleType, model: Model, sentences: Iterable[Words],
    *, beam: int = 20, sync: bool = True, batch_size: int = 16,
) -> Iterator[Spans]:  # fmt: skip
    """Yield for every sentence the constituents of two words or more of its best parse, in the order they open.

    Spec: WS-2, without parses that split a word.
    """
    require_trees(model)
    for chunk in _chunks(sentences, batch_size):
        ids, begins_word = ([own[k].tolist() for own in chunk] for k in (0, 1))
        held = ops, model.config, model.parameters, ids
        found = word_level_search(*held, beam=beam, sync=sync, begins_word=begins_word)
        for parses, begins in zip(found, begins_word, strict=True):
            word = (np.cumsum(begins) - 1).tolist()
            yield _opening((word[i], word[j]) for i, j in _composed(parses.hypotheses[0].actions))


def _chunks(sentences: Iterable[Words], batch_size: int) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
    """Yield the tokens of so many sentences at a time, each with where its words begin."""
    if batch_size < 1:
        raise ValueError(f"batch_size: {batch_size} is below 1")
    pieces = (
        ([i for word in words for i in word], [k == 0 for w in words for k in range(len(w))]) for words in sentences
    )
    encoded = ((np.array(ids, np.int32), np.array(begins, bool)) for ids, begins in pieces)
    while chunk := list(islice(encoded, batch_size)):
        yield chunk


def _composed(actions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last token of what every COMP completes."""
    stack, last = list[int](), -1
    for action in actions:
        if action >= 0:
            last += 1
            stack.append(last)
        else:
            stack.pop()
            yield stack[-1], last


def _opening(spans: Iterable[tuple[int, int]]) -> Spans:
    """Return those of two words or more, the one that opens first in front."""
    return sorted(((i, j) for i, j in spans if i < j), key=lambda span: (span[0], -span[1]))
