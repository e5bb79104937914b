"""Texts end with whole words, also where a word has several pieces."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accel.data.vocabularies.vocabulary import END_ID, Vocabulary
from accel.models.gpst import model as gpst
from accel.models.gpst.config import Config
from accel.search.pools import Limits
from accel.search.texts import Text, _begun, _first_words, draw_text
from accel.search.word_level import sample
from accel.trained.opening import Model
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_batches import SIZES, parameters_of


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

    def begun(prefix: list[str], vocabulary: Vocabulary, *words: str) -> Text:
        model: Any = SimpleNamespace(vocabulary=vocabulary)
        return _begun(model, prefix, vocabulary.encode_words(prefix), Text(words, 7))

    classes = Vocabulary("unknown_classes", ("UNK", "UNK-LC", "sees"), ())
    assert begun(["zoë", "sees"], classes, "UNK-LC", "sees", "UNK") == Text(("zoë", "sees", "UNK"), 7)
    pieces = Vocabulary("word_pieces", ("##ing", "'", "[UNK]", "don", "play", "t"), ())
    assert begun(["don't"], pieces, "don", "'", "t", "playing").words == ("don't", "playing")
    assert begun(["don't", "play"], pieces, "don", "'", "t", "playing").words == ("don", "'", "t", "playing")


@pytest.mark.parametrize("kind", ["gpst", "gpt2"])
def test_the_start_symbol_is_never_drawn(kind: str) -> None:
    """It would take a place of the context; a text that does not end has as many words as were asked for."""
    vocabulary = Vocabulary("words", ("a", "b", "c", "d"), ())
    config = Config(len(vocabulary), **(SIZES | {"model": kind, "n_positions": 12}))
    model = Model(Path("run"), config, parameters_of(config), vocabulary, None, gpst)
    for seed in range(8):
        text = draw_text(CPU, model, ["a"], words=10, top_k=6, seed=seed)
        texts = sample(CPU, model, Limits(6, one_pool=True), seed=seed, prefix=[2], end=END_ID)
        *_, actions = islice(texts, 10)
        tokens, ids = [i for i in actions if i >= 0], vocabulary.encode_words(text.words)
        assert tokens == ids + [END_ID] * (tokens[-1] == END_ID) and (len(ids) == 11 or tokens[-1] == END_ID)
