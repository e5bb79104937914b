"""Surprisals of the words of sentences, in bits, under every kind of model that reads from left to right.

Every sentence is read by itself: after the start symbol or, by a language model of lines, after an end of line. So the
first word counts, too. The surprisal of a word is the sum over its pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.data.batches.text import EOS
from accel.scoring.proposal_surprisals import proposal_surprisals
from accel.scoring.text import sentence_logps, terminal_logps
from accel.search.word_level import Limits, limits_of, surprisals
from accel.trained.kinds import CONTEXTS, LABELLED_TREES, SURPRISALS, TEXT_LOGPS, able, can, kind_of, require
from accel.trained.opening import Model
from accel.trained.words import Pieces, encode_words, joined

Progress = Callable[[Iterable[list[float]], int], Iterable[list[float]]]


def check_surprisals(model: Model) -> None:
    """Raise ValueError unless the model gives the surprisals of all words of a sentence."""
    require(model, SURPRISALS)
    if can(model, TEXT_LOGPS) and EOS not in model.vocabulary.ids:
        raise ValueError(f"{model.path}: a language model without {EOS}, which has to stand before the first word")


def check_words(model: Model, words: Sequence[str], parser: Model | None = None) -> None:
    """Raise ValueError for a sentence that the model, or the parser that proposes its trees, cannot read."""
    encode_words(model, words, generated=True)
    if parser is not None:
        encode_words(parser, words)


def bits_of_words(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[str]],
    *,
    batch_size: int = 8,
    parser: Model | None = None,
    n_proposals: int = 300,
    **search: int,
) -> Iterator[list[float]]:
    """Yield for every sentence the surprisal of each word after the words before it, in bits.

    Models of trees sum over the hypotheses of a search, or over a parser's proposals; other surprisals are exact.

    Parameters
    ----------
    batch_size : int
        How many sentences are read side by side.
    parser, n_proposals
        For a TG or a TXL (CC): the parser that proposes `n_proposals` trees of every sentence, in place of a search.
    search
        Options of the search: `beam` for a GPST (20); for a TG or a TXL (CC) the limits of
        `accel.search.word_level.limits_of`.

    Raises
    ------
    ValueError
        As `check_surprisals`, `encode_words`, the search, and `proposal_surprisals`.
    """
    check_surprisals(model)
    if parser is not None:
        yield from proposal_surprisals(ops, model, parser, sentences, n_proposals, batch_size=batch_size)
    else:
        yield from SURPRISALS_OF[kind_of(model)](ops, model, sentences, batch_size=batch_size, **search)


def sums_of_words(pieces: Pieces, bits: Sequence[float]) -> list[float]:
    """Return the bits of every word from those of its pieces.

    Examples
    --------
    >>> sums_of_words([[7], [5, 6]], [1.0, 2.0, 4.0])
    [1.0, 6.0]
    """
    sums: list[float] = np.add.reduceat(bits, offsets_of(map(len, pieces))[:-1]).tolist()
    return sums


def _line_bits(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], *, batch_size: int
) -> Iterator[list[float]]:
    for logps in sentence_logps(ops, model, sentences, batch_size=batch_size):
        yield (logps[:-1] / -log(2)).tolist()


def _summed(token_bits: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[list[float]]]:
    """Return a function that yields the bits of words, from one that yields the bits of tokens."""

    def word_bits(
        ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **options: int
    ) -> Iterator[list[float]]:
        pieces = [encode_words(model, words, generated=True) for words in sentences]
        bits = token_bits(ops, model, [joined(sentence) for sentence in pieces], **options)
        return map(sums_of_words, pieces, bits)

    return word_bits


def _terminal_bits(
    ops: ModuleType, model: Model, tokens: list[list[int]], *, batch_size: int
) -> Iterator[Sequence[float]]:
    return (logps[:-1] / -log(2) for logps in terminal_logps(ops, model, tokens, batch_size=batch_size))


def _action_bits(
    ops: ModuleType, model: Model, tokens: list[list[int]], *, batch_size: int, **search: int
) -> Iterator[Sequence[float]]:
    return surprisals(ops, model, tokens, limits_of(**search), batch_size=batch_size)


def _gpst_bits(
    ops: ModuleType, model: Model, tokens: list[list[int]], *, batch_size: int, beam: int = 20
) -> Iterator[Sequence[float]]:
    return surprisals(ops, model, tokens, Limits(beam, one_pool=True), batch_size=batch_size)


SURPRISALS_OF: dict[str, Callable[..., Iterator[list[float]]]] = {
    **dict.fromkeys(able(TEXT_LOGPS), _line_bits),
    **dict.fromkeys(able(LABELLED_TREES), _summed(_action_bits)),
    **dict.fromkeys(able(CONTEXTS), _summed(_gpst_bits)),
    "txl_terminals": _summed(_terminal_bits),
}
"""For every kind of model with surprisals of words: the function that yields them."""
