"""The longest sentence that a model reads is read, and one more word is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel import trained
from accel.trained.words import encode_words
from tests.fixtures.tiny_runs import runs

__all__ = ["runs"]


def test_a_context_of_a_gpst(runs: dict[str, Path]) -> None:
    model = trained.open(runs["gpst"])
    longest = ["dog"] * (model.model.config.n_positions - 1)
    assert len(model.word_surprisals([longest], beam=1)[0]) == len(longest) == 59
    with pytest.raises(ValueError, match="a sentence of 60 tokens, more than a context of the model has, 59"):
        model.word_surprisals([[*longest, "dog"]], beam=1)


def test_the_words_of_a_parser(runs: dict[str, Path]) -> None:
    model = trained.open(runs["span_parser"])
    longest = ["dog"] * model.model.config.max_words
    assert len(model.propose([longest], 2)[0]) == 2 and len(longest) == 20
    with pytest.raises(ValueError, match="21 words, more than the parser reads, 20"):
        model.propose([[*longest, "dog"]], 2)


def test_the_height_of_a_chart(runs: dict[str, Path]) -> None:
    model = trained.open(runs["treeformer"]).model
    assert len(encode_words(model, ["dog"] * 3, max_height=3)) == 3
    with pytest.raises(ValueError, match="4 tokens, but the chart ends at height 3: no root"):
        encode_words(model, ["dog"] * 4, max_height=3)
