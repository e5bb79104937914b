"""What a model makes of SyntaxGym's suites: bits of the words, summed over regions, and which predictions hold.

Every sentence is read by itself: behind its start symbol or, by a language model of lines, behind an end of line, so
that the first word counts, too. The words are the suite's, see `accel.data.syntax_suites`; the bits of
a word's pieces add up. An item of which a sentence cannot be read is skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import isfinite, log
from types import ModuleType

import numpy as np

from accel.data.syntax_suites import Item, Regions, Suite, outcomes, region_sums
from accel.data.text import EOS
from accel.models import gpst, language_model, transformer_grammar
from accel.parse_chart import encode_words
from accel.parse_gpst import pieces_of
from accel.saved import Model
from accel.suite_score import Outcome
from accel.text_score import sentence_logps, terminal_logps
from accel.word_search import surprisals

Progress = Callable[[Iterable[list[float]], int], Iterable[list[float]]]


def require_surprisals(model: Model) -> None:
    """Raise ValueError unless the model gives words their surprisals."""
    if model.module is language_model:
        if EOS not in model.vocabulary.ids:
            raise ValueError(f"{model.path}: a language model without {EOS}, behind which a line would be read")
    elif model.module not in (gpst, transformer_grammar):
        kind = model.module.__name__.rpartition(".")[2]
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
    beam: int = 20,
    batch_size: int = 8,
) -> Iterator[list[float]]:
    """Yield for every sentence how unexpected each of its words is after those before it, in bits.

    Of a model of trees, GPST, TG or TXL (CC), summed over the hypotheses of a search of such a beam; of others exact.

    Raises
    ------
    ValueError
        As `require_surprisals`, `pieces_of_words`, and the search.
    """
    require_surprisals(model)
    if model.module is language_model:
        for logps in sentence_logps(ops, model, sentences, batch_size=batch_size):
            yield (logps[:-1] / -log(2)).tolist()
        return
    pieces = [pieces_of_words(model, words) for words in sentences]
    tokens = [[i for of_word in of_sentence for i in of_word] for of_sentence in pieces]
    for of_sentence, bits in zip(pieces, _bits(ops, model, tokens, beam, batch_size), strict=True):
        yield np.add.reduceat(bits, np.cumsum([0, *map(len, of_sentence)])[:-1]).tolist()


def _bits(
    ops: ModuleType, model: Model, tokens: list[list[int]], beam: int, batch_size: int
) -> Iterator[Sequence[float]]:
    """Yield the bits of the pieces of every sentence."""
    if model.module is gpst:
        return surprisals(ops, model.config, model.parameters, tokens, beam=beam, batch_size=batch_size)
    if model.config.model != "txl_terminals":
        raise ValueError(f"{model.path}: surprisals of a {model.config.model} need a search")
    return (logps[:-1] / -log(2) for logps in terminal_logps(ops, model, tokens, batch_size=batch_size))


def suite_outcomes(
    ops: ModuleType,
    model: Model,
    suites: Sequence[Suite],
    *,
    lower: bool = False,
    beam: int = 20,
    batch_size: int = 8,
    progress: Progress = lambda found, count: found,
) -> dict[str, list[Outcome]]:
    """Return for every suite what became of each of its items.

    Parameters
    ----------
    lower : bool
        Read the words in lower case.
    progress : function
        Is given the surprisals and the number of sentences, and returns the surprisals.

    Raises
    ------
    ValueError
        As `bits_of_words`; if a surprisal is not finite.
    """
    reasons = [[_reason(model, item, lower) for item in suite.items] for suite in suites]
    wanted = [
        _words(regions, lower)
        for suite, of_suite in zip(suites, reasons, strict=True)
        for item, reason in zip(suite.items, of_suite, strict=True)
        for regions in (() if reason else item.conditions.values())
    ]
    found = iter(progress(bits_of_words(ops, model, wanted, beam=beam, batch_size=batch_size), len(wanted)))
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
    sums = {}
    for (condition, regions), bits in zip(item.conditions.items(), found, strict=True):
        if not all(map(isfinite, bits)):
            raise ValueError(f"{suite.name}, item {item.number}, condition {condition!r}: surprisals {bits}")
        sums[condition] = region_sums(regions, bits)
    return Outcome(item.number, outcomes(suite, sums), bits=sums)


def _words(regions: Regions, lower: bool) -> list[str]:
    words = [word for of_region in regions.values() for word in of_region]
    return [word.lower() for word in words] if lower else words


def _reason(model: Model, item: Item, lower: bool) -> str:
    """Return why an item cannot be read, or nothing."""
    for condition, regions in item.conditions.items():
        try:
            pieces_of_words(model, _words(regions, lower))
        except ValueError as error:
            return f"condition {condition!r}: {error}"
    return ""
