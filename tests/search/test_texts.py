"""Texts end with whole words, also where a word has several pieces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from accel.data.vocabularies.vocabulary import Vocabulary
from accel.search.texts import _first_words


def test_the_last_word_has_all_of_its_pieces() -> None:
    vocabulary = Vocabulary("word_pieces", ("##ing", "[UNK]", "play", "the"), ())
    pieces = vocabulary.encode_words(["the", "playing", "the"])
    assert len(pieces) == 4
    model: Any = SimpleNamespace(vocabulary=vocabulary)
    texts = (tuple(pieces[: n + 1]) for n in range(len(pieces)))
    assert _first_words(model, texts, [], 2).words == ("the", "playing")
    assert next(texts, None) is None
