"""Log-probabilities of text: the same in parts as at once, and the same for sentences in a batch as one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import accel
from accel.autodiff.arrays import host
from accel.data.vocabularies.words import Words
from accel.models.fasttrees import language_model
from accel.models.transformer_grammars import model as transformer_grammar
from accel.scoring import text
from accel.scoring.perplexity import Perplexity, text_perplexity
from accel.trained.opening import Model
from tests.fixtures.device_parameters import on_device
from tests.fixtures.toy_text import TEXTS, VOCABULARY, parameters_of, toy
from tests.fixtures.transformer_grammar_models import VARIANTS

NAMES = {name: number for number, name in enumerate("abcdefg")} | {"<eos>": 7}
RELEASED = replace(TEXTS["conv_fasttrees"], embedding_size=8, dilation=1, convolved="gates", variant="released")


def model_of(ops: ModuleType, config: language_model.Config = TEXTS["on_lstm"]) -> Model:
    parameters = on_device(ops, parameters_of(language_model, config))
    vocabulary = SimpleNamespace(encode=lambda words: [NAMES[word] for word in words], ids=NAMES)
    return Model(Path("run"), config, parameters, vocabulary, None, language_model)


def together(ops: ModuleType, model: Model, ids: np.ndarray) -> np.ndarray:
    """Return log p of all words after the first; the text is read at once."""
    batch = toy(ops, [len(ids) - 1], 0)._replace(ids=ops.xp.asarray(ids[:-1]), labels=ops.xp.asarray(ids[1:]))
    return host(language_model.token_logps(ops, model.config, model.parameters, batch)[0])


@pytest.mark.parametrize("length", [1, 4, 11, 70])
def test_a_text_in_pieces_is_the_whole_text(backend: ModuleType, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = model_of(backend), np.random.default_rng(4).integers(0, VOCABULARY, 12).astype(np.int32)
    monkeypatch.setattr(text, "LENGTH", length)
    total, count = text.text_logp(backend, model, ids)
    assert count == 11 and total == pytest.approx(together(backend, model, ids).sum(), rel=1e-12)


@pytest.mark.parametrize("config", [TEXTS["on_lstm"], RELEASED], ids=["on_lstm", "released"])
@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_sentences_are_read_by_themselves(backend: ModuleType, batch_size: int, config: language_model.Config) -> None:
    """A sentence is read after an end of line and up to the next one; the results have the order of the sentences."""
    model, sentences = model_of(backend, config), ["abc", "g", "", "ddef", "ba"]
    logps = list(text.sentence_logps(backend, model, sentences, batch_size=batch_size))
    assert len(logps) == len(sentences)
    for words, computed in zip(sentences, logps, strict=True):
        ids = np.array([7, *(NAMES[word] for word in words), 7], np.int32)
        np.testing.assert_allclose(computed, together(backend, model, ids), rtol=1e-12)


def test_perplexity_is_that_of_a_word(backend: ModuleType) -> None:
    model, ids = model_of(backend), np.random.default_rng(4).integers(0, VOCABULARY, 12).astype(np.int32)
    logp = together(backend, model, ids).sum()
    assert text_perplexity(backend, model, ids).perplexity == pytest.approx(np.exp(-logp / 11), rel=1e-12)
    assert Perplexity(1.0, "exact", -8000.0, 9, n_ends=1).with_ends == np.inf


def test_a_text_has_ends_of_lines() -> None:
    ops = accel.load("cpu")
    model = replace(model_of(ops), vocabulary=Words(("a", "b", "<unk>"), "<unk>"))
    for compute in (
        lambda: text.text_logp(ops, model, np.array([0, 1, 2], np.int32)),
        lambda: list(text.sentence_logps(ops, model, ["ab"])),
    ):
        with pytest.raises(ValueError, match="^run: a language model without <eos>, which .*: train with a vocabulary"):
            compute()


def test_a_transformer_grammar_has_no_text() -> None:
    grammar = Model(Path("tg"), VARIANTS["tg"], {}, None, None, transformer_grammar)
    with pytest.raises(ValueError, match="^tg: holds a tg, which gives no .*; models that do: "):
        text.text_logp(accel.load("cpu"), grammar, np.arange(3))
