"""Surprisals of the words of sentences, in bits, under every kind of model that reads from left to right.

Every sentence is read by itself: after the start symbol or, by a language model of lines, after an end of line. The
first word has a surprisal, too. The surprisal of a word is the sum over its pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import log
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.scoring.proposal_surprisals import proposal_surprisals
from accel.scoring.text import require_ends, sentence_logps, terminal_logps
from accel.search.options import check_search
from accel.search.pools import Limits
from accel.search.word_level import limits_of, surprisals
from accel.trained.ensembles import check_ensemble
from accel.trained.kinds import (
    CONTEXTS,
    LABELLED_TREES,
    PROPOSALS,
    SURPRISALS,
    TEXT_LOGPS,
    TREE_LOGPS,
    able,
    can,
    kind_of,
    require,
    with_article,
)
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number
from accel.trained.processes import results
from accel.trained.words import Pieces, check_each, encode_words, joined

Progress = Callable[[Iterable[list[float]], int], Iterable[list[float]]]


def check_surprisals(model: Model) -> None:
    """Raise ValueError unless the model gives the surprisals of all words of a sentence."""
    require(model, SURPRISALS)
    if can(model, TEXT_LOGPS):
        require_ends(model)


def check_others(model: Model, others: Sequence[Model], ensemble: str) -> None:
    """Raise ValueError unless the models make an ensemble for surprisals."""
    for one in (model, *others) if others else ():
        if not can(one, TREE_LOGPS):
            kind, kinds = with_article(kind_of(one)), ", ".join(able(TREE_LOGPS))
            raise ValueError(f"{one.path}: holds {kind}, which makes no ensemble; models that do: {kinds}")
    check_ensemble([model, *others], ensemble)


def check_words(model: Model, words: Sequence[str], parser: Model | None = None) -> None:
    """Raise ValueError for a sentence that the model, or the parser that proposes its trees, cannot read."""
    encode_words(model, words, generated=True)
    if parser is not None:
        encode_words(parser, words)


def check_options(model: Model, parser: Model | None, n_proposals: int | None, search: Mapping[str, int]) -> None:
    """Raise OptionError for options of surprisals that this model does not take, or that exclude each other.

    Parameters
    ----------
    parser, n_proposals, search
        The options of `bits_of_words`; None if an option is not set.
    """
    check_search(model, search)
    if parser is None:
        if n_proposals is not None:
            raise OptionError("proposals_per_sentence", "counts the trees of a parser, and none is named")
        return
    if not can(model, LABELLED_TREES):
        raise OptionError("parser", f"is for a TG or a TXL (CC), and {model.path} is neither")
    if search:
        raise OptionError(next(iter(search)), "is for a search: leave it out, or leave out the parser")
    if n_proposals is not None:
        check_number("proposals_per_sentence", n_proposals)
    require(parser, PROPOSALS)


def check_context(model: Model, context_lines: int) -> None:
    """Raise OptionError if the number of lines is none, or the model reads every line by itself."""
    check_number("context_lines", context_lines, least=0)
    if context_lines and not can(model, CONTEXTS):
        raise OptionError("context_lines", f"{model.path} reads every line by itself")


def bits_of_words(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[str]],
    *,
    batch_size: int = 8,
    parser: Model | None = None,
    n_proposals: int = 300,
    others: Sequence[Model] = (),
    ensemble: str = "mixture",
    processes: int = 1,
    **search: Any,
) -> Iterator[list[float]]:
    """Yield for every sentence the surprisal of each word after the words before it, in bits.

    Models of trees sum over the hypotheses of a search, or over a parser's proposals; other surprisals are exact.

    Parameters
    ----------
    batch_size : int
        How many sentences are read side by side. A search handles first words that several sentences share once.
    processes : int
        How many processes search, with one thread each; this changes no result.
    parser, n_proposals
        For a TG or a TXL (CC): the parser that proposes `n_proposals` trees of every sentence, in place of a search.
    others, ensemble
        For a TG or a TXL: more models, and how all are combined at every event: "mixture" or "product".
    search
        Options of the search: `beam` for a GPST (20); for a TG or a TXL (CC) the limits of
        `accel.search.word_level.limits_of`.

    Raises
    ------
    ValueError
        As `check_surprisals`, `check_others`, `check_words` with the number of the sentence, the search, and
        `proposal_surprisals`.
    """
    check_surprisals(model)
    check_number("batch_size", batch_size)
    options = {"batch_size": batch_size, **search, **_ensemble_options(model, others, ensemble)}
    check_each(map(list, sentences), partial(check_words, model, parser=parser))

    def of_batch(batch: Sequence[Sequence[str]]) -> list[list[float]]:
        if parser is not None:
            return list(proposal_surprisals(ops, model, parser, batch, n_proposals, **options))
        return list(SURPRISALS_OF[kind_of(model)](ops, model, batch, **options))

    batches = (sentences[start : start + batch_size] for start in range(0, len(sentences), batch_size))
    for bits in results(of_batch, batches, ops, processes):
        yield from bits


def bits_of_tokens(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]],
    *, batch_size: int = 8, others: Sequence[Model] = (), ensemble: str = "mixture", **search: Any,
) -> Iterator[tuple[list[str], list[float]]]:  # fmt: skip
    """Yield for every sentence its tokens as the model reads them, words or pieces, and their surprisals in bits.

    The options and errors are those of `bits_of_words` without a parser.
    """
    check_surprisals(model)
    check_number("batch_size", batch_size)
    search |= _ensemble_options(model, others, ensemble)
    check_each(map(list, sentences), partial(check_words, model))
    if can(model, TEXT_LOGPS):
        for words, bits in zip(sentences, _line_bits(ops, model, sentences, batch_size=batch_size), strict=True):
            yield model.vocabulary.decode(model.vocabulary.encode(words)), bits
        return
    tokens = [joined(encode_words(model, words, generated=True)) for words in sentences]
    all_bits = _TOKEN_BITS_OF[kind_of(model)](ops, model, tokens, batch_size=batch_size, **search)
    for ids, token_bits in zip(tokens, all_bits, strict=True):
        yield [model.vocabulary.symbols[i] for i in ids], list(token_bits)


def bits_after_lines(
    ops: ModuleType,
    model: Model,
    lines: Sequence[Sequence[str]],
    documents: Sequence[int],
    context_lines: int,
    *,
    batch_size: int = 8,
    beam: int = 20,
) -> Iterator[list[float]]:
    """Yield for every line the surprisals of its words, in bits, after up to `context_lines` lines before it.

    The model is one that `check_context` accepts.

    Parameters
    ----------
    documents : [L]
        The number of every line's document. A line is read after lines of the same document only, as many as a context
        of the model holds.
    """
    encoded = [encode_words(model, words, generated=True) for words in lines]
    tokens = [joined(pieces) for pieces in encoded]
    contexts = []
    for end, line in enumerate(tokens):
        begin, room = end, model.config.n_positions - 1 - len(line)
        while begin > max(0, end - context_lines) and documents[begin - 1] == documents[end]:
            room -= len(tokens[begin - 1])
            if room < 0:
                break
            begin -= 1
        contexts.append(tokens[begin:end])
    limits = Limits(beam, one_pool=True)
    bits = surprisals(ops, model, tokens, limits, batch_size=batch_size, contexts=contexts)
    yield from map(sums_of_words, encoded, bits)


def scores_of(bits: Sequence[float], surprisal: bool, prob: bool, base_two: bool) -> list[float]:
    """Return log p in nats from surprisals in bits or, as the options say, -log p, p, or logarithms to base 2.

    Examples
    --------
    >>> scores_of([1.0, 2.0], False, True, False), scores_of([1.0, 2.0], False, False, True)
    ([0.5, 0.25], [-1.0, -2.0])
    """
    if prob and (surprisal or base_two):
        raise OptionError("prob", "a probability is no surprisal and has no base: leave out one of the options")
    values = np.array(bits, np.float64)
    scores = 2.0**-values if prob else values * (1 if base_two else log(2)) * (1 if surprisal else -1)
    return list(scores.tolist())


def sums_of_words(pieces: Pieces, bits: Sequence[float]) -> list[float]:
    """Return the bits of every word from those of its pieces.

    Examples
    --------
    >>> sums_of_words([[7], [5, 6]], [1.0, 2.0, 4.0])
    [1.0, 6.0]
    """
    sums: list[float] = np.add.reduceat(bits, offsets_of(map(len, pieces))[:-1]).tolist()
    return sums


def _ensemble_options(model: Model, others: Sequence[Model], ensemble: str) -> dict[str, Any]:
    """Return the options that make the models an ensemble, none without others; raises as `check_others`."""
    check_others(model, others, ensemble)
    return {"others": others, "ensemble": ensemble} if others else {}


def _line_bits(
    ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], *, batch_size: int
) -> Iterator[list[float]]:
    for logps in sentence_logps(ops, model, sentences, batch_size=batch_size):
        yield (logps[:-1] / -log(2)).tolist()


def _summed(token_bits: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[list[float]]]:
    """Return a function that yields the bits of words, from one that yields the bits of tokens."""

    def word_bits(
        ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **options: Any
    ) -> Iterator[list[float]]:
        pieces = [encode_words(model, words, generated=True) for words in sentences]
        bits = token_bits(ops, model, [joined(sentence) for sentence in pieces], **options)
        return map(sums_of_words, pieces, bits)

    return word_bits


def _terminal_bits(
    ops: ModuleType, model: Model, tokens: list[list[int]], *, batch_size: int, **ensemble: Any
) -> Iterator[Sequence[float]]:
    all_logps = terminal_logps(ops, model, tokens, batch_size=batch_size, **ensemble)
    return ((logps[:-1] / -log(2)).tolist() for logps in all_logps)


def _action_bits(
    ops: ModuleType,
    model: Model,
    tokens: list[list[int]],
    *,
    batch_size: int,
    others: Sequence[Model] = (),
    ensemble: str = "mixture",
    **search: Any,
) -> Iterator[Sequence[float]]:
    together: dict[str, Any] = {"others": others, "ensemble": ensemble}
    return surprisals(ops, model, tokens, limits_of(**search), batch_size=batch_size, **together)


def _gpst_bits(
    ops: ModuleType, model: Model, tokens: list[list[int]], *, batch_size: int, beam: int = 20
) -> Iterator[Sequence[float]]:
    return surprisals(ops, model, tokens, Limits(beam, one_pool=True), batch_size=batch_size)


_TOKEN_BITS_OF: dict[str, Callable[..., Iterator[Sequence[float]]]] = {
    **dict.fromkeys(able(LABELLED_TREES), _action_bits),
    **dict.fromkeys(able(CONTEXTS), _gpst_bits),
    "txl_terminals": _terminal_bits,
}
SURPRISALS_OF: dict[str, Callable[..., Iterator[list[float]]]] = {
    **dict.fromkeys(able(TEXT_LOGPS), _line_bits),
    **{kind: _summed(token_bits) for kind, token_bits in _TOKEN_BITS_OF.items()},
}
"""For every kind of model with surprisals of words: the function that yields the surprisals."""
