"""What a model makes of SyntaxGym's suites: bits of the words, summed over regions, and which predictions hold.

Every sentence is read by itself: behind its start symbol or, by a language model of lines, behind an end of line, so
that the first word counts, too. The words are the suite's, see `accel.data.published.syntax_suites`; the bits of
a word's pieces add up. An item of which a sentence cannot be read is skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf, isnan, log
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.data.batches.text import EOS
from accel.data.published.syntax_suites import Item, Regions, Suite, outcomes, region_sums
from accel.evaluation.syntaxgym import Outcome
from accel.models.fasttrees import language_model
from accel.models.gpst import model as gpst
from accel.models.transformer_grammars import model as transformer_grammar
from accel.parsing.charts import encode_words
from accel.parsing.gpst import pieces_of
from accel.scoring.proposal_surprisals import proposal_surprisals, require_parsable
from accel.scoring.text import sentence_logps, terminal_logps
from accel.search import action_search
from accel.search.word_level import surprisals
from accel.trained.opening import Model

Progress = Callable[[Iterable[list[float]], int], Iterable[list[float]]]


def require_surprisals(model: Model) -> None:
    """Raise ValueError unless the model gives words their surprisals."""
    if model.module is language_model:
        if EOS not in model.vocabulary.ids:
            raise ValueError(f"{model.path}: a language model without {EOS}, behind which a line would be read")
    elif model.module not in (gpst, transformer_grammar):
        kind = model.module.NAME
        raise ValueError(f"{model.path}: holds a {kind}, which has no surprisals of words")


def pieces_of_words(model: Model, words: Sequence[str]) -> list[list[int]]:
    """Return the ids of every word, one or those of its pieces.

    Raises
    ------
    ValueError
        If there are no words, one is outside a closed vocabulary, or they have no room in a context.
    """
    return pieces_of(model, words) if model.module is gpst else encode_words(model, words)


def bits_of_words(
    ops: ModuleType,
    model: Model,
    sentences: Sequence[Sequence[str]],
    *,
    beam: int | None = None,
    batch_size: int = 8,
    parser: Model | None = None,
    n_proposals: int = 300,
    **limits: int,
) -> Iterator[list[float]]:
    """Yield for every sentence how unexpected each of its words is after those before it, in bits.

    Of a model of trees summed over the hypotheses of a search, or a parser's proposals; of others exact.

    Parameters
    ----------
    beam : int or None
        Of that search; None: 20 for a GPST, 100 for a TG or a TXL (CC).
    batch_size : int
        How many sentences are read side by side.
    parser, n_proposals
        Of a TG or a TXL (CC): what proposes so many trees of every sentence, in place of a search.
    limits
        Of a TG or a TXL (CC) the other ones of `accel.search.action_search.limits_of`.

    Raises
    ------
    ValueError
        As `require_surprisals`, `pieces_of_words`, the search, and `proposal_surprisals`.
    """
    require_surprisals(model)
    if parser is not None:
        yield from proposal_surprisals(ops, model, parser, sentences, n_proposals, batch_size=batch_size)
        return
    if model.module is language_model:
        for logps in sentence_logps(ops, model, sentences, batch_size=batch_size):
            yield (logps[:-1] / -log(2)).tolist()
        return
    pieces = [pieces_of_words(model, words) for words in sentences]
    tokens = [[i for of_word in of_sentence for i in of_word] for of_sentence in pieces]
    search = limits | ({} if beam is None else {"beam": beam})
    for of_sentence, bits in zip(pieces, _bits(ops, model, tokens, batch_size, search), strict=True):
        yield sums_of_words(of_sentence, bits)


def sums_of_words(pieces: Sequence[Sequence[int]], bits: Sequence[float]) -> list[float]:
    """Return the bits of every word from those of its pieces.

    Examples
    --------
    >>> sums_of_words([[7], [5, 6]], [1.0, 2.0, 4.0])
    [1.0, 6.0]
    """
    sums: list[float] = np.add.reduceat(bits, offsets_of(map(len, pieces))[:-1]).tolist()
    return sums


def _bits(
    ops: ModuleType, model: Model, tokens: list[list[int]], batch_size: int, search: dict[str, int]
) -> Iterator[Sequence[float]]:
    """Yield the bits of the pieces of every sentence."""
    if model.module is gpst:
        return surprisals(ops, model.config, model.parameters, tokens, batch_size=batch_size, **{"beam": 20} | search)
    if model.config.model == "txl_terminals":
        return (logps[:-1] / -log(2) for logps in terminal_logps(ops, model, tokens, batch_size=batch_size))
    limits = action_search.limits_of(**search)
    return action_search.surprisals(ops, model, tokens, limits, batch_size=batch_size)


def suite_outcomes(
    ops: ModuleType,
    model: Model,
    suites: Sequence[Suite],
    *,
    lower: bool = False,
    progress: Progress = lambda found, count: found,
    **search: Any,
) -> dict[str, list[Outcome]]:
    """Return for every suite what became of each of its items.

    Parameters
    ----------
    lower : bool
        Read the words in lower case.
    progress : function
        Is given the surprisals and the number of sentences, and returns the surprisals.
    search
        Options of `bits_of_words`.

    Raises
    ------
    ValueError
        As `bits_of_words`; if a surprisal is not a number.
    """
    parser = search.get("parser")
    reasons = [[_reason(model, item, lower, parser) for item in suite.items] for suite in suites]
    wanted = [
        _words(regions, lower)
        for suite, of_suite in zip(suites, reasons, strict=True)
        for item, reason in zip(suite.items, of_suite, strict=True)
        for regions in (() if reason else item.conditions.values())
    ]
    found = iter(progress(bits_of_words(ops, model, wanted, **search), len(wanted)))
    return {
        suite.name: [
            Outcome(item.number, skipped=reason)
            if reason
            else _outcome(suite, item, islice(found, len(item.conditions)))
            for item, reason in zip(suite.items, of_suite, strict=True)
        ]
        for suite, of_suite in zip(suites, reasons, strict=True)
    }


def unknown_words(model: Model, suites: Iterable[Suite], lower: bool = False) -> tuple[int, int]:
    """Return how many words of the items that can be read the model takes for unknown ones, and how many there are."""
    unknown = count = 0
    for item in (item for suite in suites for item in suite.items if not _reason(model, item, lower)):
        for regions in item.conditions.values():
            words = _words(regions, lower)
            unknown += sum(model.vocabulary.decode(encode_words(model, [word])[0]) != [word] for word in words)
            count += len(words)
    return unknown, count


def _outcome(suite: Suite, item: Item, found: Iterator[list[float]]) -> Outcome:
    sums, reason = {}, ""
    for (condition, regions), bits in zip(item.conditions.items(), found, strict=True):
        if any(map(isnan, bits)):
            raise ValueError(f"{suite.name}, item {item.number}, condition {condition!r}: surprisals {bits}")
        if inf in bits:
            word = bits.index(inf)
            named = f"word {word + 1}, {_words(regions, False)[word]!r}"
            reason = reason or f"condition {condition!r}: no hypothesis of the search goes on with {named}"
        sums[condition] = region_sums(regions, bits)
    return Outcome(item.number, skipped=reason) if reason else Outcome(item.number, outcomes(suite, sums), bits=sums)


def _words(regions: Regions, lower: bool) -> list[str]:
    words = [word for of_region in regions.values() for word in of_region]
    return [word.lower() for word in words] if lower else words


def _reason(model: Model, item: Item, lower: bool, parser: Model | None = None) -> str:
    """Return why an item cannot be read, or nothing."""
    for condition, regions in item.conditions.items():
        try:
            pieces_of_words(model, _words(regions, lower))
            if parser is not None:
                require_parsable(parser, _words(regions, lower))
        except ValueError as error:
            return f"condition {condition!r}: {error}"
    return ""
