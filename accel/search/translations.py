"""Translations by an encoder-decoder, from words to words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np

from accel.search.beam import MOST_PENALTY, length_limit, translate
from accel.trained.kinds import TRANSLATIONS, require
from accel.trained.opening import Model
from accel.trained.options import OptionError, check_number
from accel.trained.words import check_each, encode_words, joined

SEARCH = ("beam", "length_penalty", "extra_length", "batch_size")
"""The options of translations."""


@dataclass(frozen=True)
class Translation:
    """The words of a target.

    Attributes
    ----------
    words : tuple of str
    limit : int or None
        The number of tokens at which the search gave up before the target ended; None if the target ended.
    separator : str
        What stands between the words: nothing between characters.
    """

    words: tuple[str, ...]
    limit: int | None = None
    separator: str = " "

    def __str__(self) -> str:
        return self.separator.join(self.words)


def translations(
    ops: ModuleType, model: Model, sources: Sequence[Sequence[str]], *, extra_length: int = 50, **search: Any
) -> list[Translation]:
    """Return the best target for every source; the options are those of `accel.search.beam.translate`.

    Raises
    ------
    ValueError
        If the model writes no translations; with the number of the sentence, as `encode_words`. OptionError for an
        unknown option, or a value out of range.
    """
    require(model, TRANSLATIONS)
    _check(search)
    check_each(map(list, sources), partial(encode_words, model))
    tokens = [np.array(joined(encode_words(model, words)), np.int32) for words in sources]
    shortest = min(map(len, tokens), default=0)
    check_number("extra_length", extra_length, -shortest)
    targets = translate(ops, model.config, model.parameters, tokens, extra_length=extra_length, **search)
    separator = "" if model.of_characters else " "
    results = []
    for source, target in zip(tokens, targets, strict=True):
        limit = length_limit(source, extra_length)
        words = tuple(model.vocabulary.decode(target))
        results.append(Translation(words, limit if len(target) == limit else None, separator))
    return results


def _check(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in SEARCH:
            raise OptionError(name, f"is no option of translations: these are {', '.join(SEARCH)}")
        if name != "length_penalty":
            check_number(name, value)
        elif not isinstance(value, Real) or not 0 <= float(value) <= MOST_PENALTY:
            raise OptionError(name, f"a number from 0 to {MOST_PENALTY} is needed", value)
