"""Texts end with whole words, also where a word has several pieces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from accel.data.vocabularies.vocabulary import Vocabulary
from accel.search.texts import Text, _begun, _first_words


def test_the_last_word_has_all_of_its_pieces() -> None:
    vocabulary = Vocabulary("word_pieces", ("##ing", "[UNK]", "play", "the"), ())
    pieces = vocabulary.encode_words(["the", "playing", "the"])
    assert len(pieces) == 4
    model: Any = SimpleNamespace(vocabulary=vocabulary)
    texts = (tuple(pieces[: n + 1]) for n in range(len(pieces)))
    assert _first_words(model, texts, [], 2).words == ("the", "playing")
    assert next(texts, None) is None


def test_words_are_counted_after_the_prefix_as_the_vocabulary_spells_it() -> None:
    """A BERT list makes three words of "don't": one word is drawn after it, and the text does not go on for ever."""
    vocabulary = Vocabulary("word_pieces", ("##ing", "'", "[UNK]", "don", "play", "t", "the"), ())
    prefix, more = vocabulary.encode_words(["don't"]), vocabulary.encode_words(["playing", "the", "play"])
    model: Any = SimpleNamespace(vocabulary=vocabulary)
    texts = ((*prefix, *more[: n + 1]) for n in range(len(more)))
    assert _first_words(model, texts, prefix, 1).words == ("don", "'", "t", "playing")
    assert next(texts)[len(prefix) :] == tuple(more)


def test_a_prefix_is_written_as_it_was_given() -> None:
    """Unknown words have no classes in the text, a BERT list cuts no word, and a continued word is spelled anew."""
    assert _begun(["Zoë", "sees"], ["UNK-LC", "sees"], Text(("UNK-LC", "sees", "a"), 7)) == Text(("Zoë", "sees", "a"), 7)
    assert _begun(["don't"], ["don", "'", "t"], Text(("don", "'", "t", "playing"))).words == ("don't", "playing")
    assert _begun(["<", "play"], ["<unk>", "play"], Text(("<unk>", "playing"))).words == ("<unk>", "playing")
