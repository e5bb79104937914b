"""The sentences that an encoder-decoder writes for others, from words to words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from accel.search.beam import length_limit, translate
from accel.trained.kinds import TRANSLATIONS, require
from accel.trained.opening import Model
from accel.trained.words import encode_words, joined, reads_characters


@dataclass(frozen=True)
class Translation:
    """The words of a target.

    Attributes
    ----------
    words : tuple of str
    limit : int or None
        The number of tokens at which the search gave up before the target ended; None: it has an end.
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
        If the model writes no translations; as `encode_words`.
    """
    require(model, TRANSLATIONS)
    tokens = [np.array(joined(encode_words(model, words)), np.int32) for words in sources]
    targets = translate(ops, model.config, model.parameters, tokens, extra_length=extra_length, **search)
    separator = "" if reads_characters(model) else " "
    results = []
    for source, target in zip(tokens, targets, strict=True):
        limit = length_limit(source, extra_length)
        words = tuple(model.vocabulary.decode(target))
        results.append(Translation(words, limit if len(target) == limit else None, separator))
    return results
