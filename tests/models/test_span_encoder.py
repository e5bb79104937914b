"""The vectors of pieces from LSTMs in both directions, and from the affixes of words."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import accel
from accel.data.batches.constituents import Encoded, assemble
from accel.data.vocabularies.affixes import AFFIXES, BUCKETS, affixes_of
from accel.models.passes import scoring
from accel.models.transformer_grammars.span_encoder import encoded
from accel.models.transformer_grammars.span_parser import Config, initialise

NONE = np.zeros(0, np.int32)
D = 8


def vectors(ops: ModuleType, sentences: Sequence[Sequence[str]], d_affix: int = 3, **settings: Any) -> np.ndarray:
    """Return the vectors of the pieces [P, D]; all words have id 5, so only their affixes differ."""
    config = Config(20, 2, D, 2, 2, 8, 8, encoder="lstm", d_affix=d_affix, **settings)
    batch = assemble([Encoded([[5]] * len(x), affixes_of(x), NONE, NONE) for x in sentences], ops)
    return np.asarray(encoded(scoring(ops, config, initialise(config, 1)), batch).value)


def test_halves_know_their_side() -> None:
    """The first half of a vector depends on words up to its own, the second half on its own and later words."""
    ops = accel.load("cpu")
    config = Config(20, 2, D, 1, encoder="lstm", d_affix=3)
    f = scoring(ops, config, initialise(config, 1))
    one, other = (
        encoded(f, assemble([Encoded([[5]] * 4, affixes_of(words), NONE, NONE)], ops)).value
        for words in (["a", "dog", "sleeps", "here"], ["a", "dog", "ran", "here"])
    )
    is_changed = one != other  # rows: the start symbol, four words, the end symbol
    assert not is_changed[:3, : D // 2].any() and is_changed[:3, D // 2 :].all()
    assert is_changed[3].all()
    assert is_changed[4:, : D // 2].all() and not is_changed[4:, D // 2 :].any()


def test_a_sentence_alone_has_the_same_vectors() -> None:
    ops = accel.load("cpu")
    sentences = [["a", "dog", "sleeps"], ["birds"], ["the", "7", "cats", "ran", "-", "fast"]]
    together = vectors(ops, sentences)
    alone = [vectors(ops, [sentence]) for sentence in sentences]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-5, atol=1e-6)


def test_without_affixes_words_of_one_id_are_alike() -> None:
    ops = accel.load("cpu")
    one, other = (vectors(ops, [["a", word]], d_affix=0) for word in ("dog", "cat"))
    np.testing.assert_array_equal(one, other)
    one, other = (vectors(ops, [["a", word]]) for word in ("dog", "cat"))
    assert (one != other).any()


@pytest.mark.parametrize(
    ("word", "other", "shared"),
    [
        ("walked", "talked", [3, 4, 5, 6, 7]),  # their last characters, one to four, and shapes
        ("Paris", "Peru", [0, 7]),
        ("1999", "2024", [7]),
        ("a", "a", list(range(AFFIXES))),
    ],
)
def test_affixes(word: str, other: str, shared: list[int]) -> None:
    first, second = affixes_of([word, other])
    same = np.flatnonzero(first == second).tolist()
    assert set(shared) <= set(same) and (word == other or len(same) < AFFIXES)
    assert first.dtype == np.int32 and first.min() > 0 and first.max() < BUCKETS


def test_affixes_are_the_same_on_every_machine() -> None:
    assert affixes_of([]).shape == (0, AFFIXES)
    assert affixes_of(["IL-2"]).tolist() == [[3740, 6739, 6008, 6682, 4985, 1447, 3241, 5633]]
