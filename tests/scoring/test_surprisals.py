"""Judging suites: the sentences whose surprisals are needed, and models that have no surprisals of words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accel
from accel.data.corpora.treebank import Reading
from accel.data.published.syntax_suites import read_suite
from accel.data.vocabularies.vocabulary import START_ID, VocabularyError
from accel.data.vocabularies.words import Words
from accel.evaluation import syntaxgym
from accel.evaluation.syntaxgym import Outcome, suite_outcomes, unknown_words
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.fasttrees import language_model
from accel.models.gpst import model as gpst
from accel.models.gpst.config import Config as Gpst
from accel.models.transformer_grammars import model as transformer_grammar
from accel.models.transformer_grammars import span_parser
from accel.scoring import proposal_surprisals, surprisals
from accel.scoring.surprisals import bits_of_words, check_options, check_surprisals
from accel.search.pools import Limits
from accel.trained.opening import Model
from accel.trained.words import encode_words
from refimpl.transformer_grammars import model as reference
from refimpl.trees import Tree
from refimpl.trees import words as words_of
from tests.fixtures.syntax_suites import suite
from tests.fixtures.toy_run import SURE, TREES, VOCABULARY

KNOWN = ("<eos>", "<unk>", "the", "dog", "sees", "see", "me", "near")
CONFIG = SimpleNamespace(kind="lstm")
MODEL = Model(Path("x"), CONFIG, {}, Words(KNOWN, "<unk>"), None, language_model)


def test_sentences_and_their_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences of all items that can be read are scored, condition after condition; the progress counts them all."""
    texts: list[Sequence[str]] = []
    counts: list[int] = []

    def bits(ops: ModuleType, model: Model, sentences: Sequence[Sequence[str]], **_: Any) -> Iterator[list[float]]:
        for words in sentences:
            texts.append(words)
            yield [float(len(word)) for word in words]

    def progress(surprisals: Iterator[list[float]], count: int) -> Iterator[list[float]]:
        counts.append(count)
        return surprisals

    monkeypatch.setattr(syntaxgym, "bits_of_words", bits)
    (tmp_path / "toy.json").write_text(json.dumps(suite()))
    toy_suite, ops = read_suite(tmp_path / "toy.json"), accel.load("cpu")
    outcomes = suite_outcomes(ops, MODEL, [toy_suite], progress=progress)  # type: ignore[arg-type]
    assert [" ".join(words) for words in texts] == [
        "the dog near it sees me", "the dog see me", "dogs near it see", "dogs sees",
    ]  # fmt: skip
    assert counts == [4] and unknown_words(MODEL, [toy_suite]) == (4, 16)  # "it" twice, "dogs" twice
    first, second = outcomes["number_toy"]
    assert first == Outcome(1, (False,), bits={"match": {1: 6, 2: 6, 3: 6}, "mismatch": {1: 6, 2: 0, 3: 5}})
    assert second == Outcome(4, (True,), bits={"match": {1: 4, 2: 6, 3: 3}, "mismatch": {1: 4, 2: 0, 3: 4}})
    closed = Model(Path("x"), CONFIG, {}, Words(("<eos>", *KNOWN[2:], "it")), None, language_model)
    outcomes = suite_outcomes(ops, closed, [toy_suite])
    assert outcomes["number_toy"][0] == first
    reason = "condition 'match': the word 'dogs' is not in the closed vocabulary of 8 words"
    assert outcomes["number_toy"][1] == Outcome(4, skipped=reason) and unknown_words(closed, [toy_suite]) == (0, 10)


def test_surprisals_of_nan_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every comparison with NaN is false, so that NaN would decide a prediction."""
    monkeypatch.setattr(syntaxgym, "bits_of_words", lambda *_, **__: iter([[1.0, np.nan, 1.0, 1.0, 1.0, 1.0]]))
    (tmp_path / "toy.json").write_text(json.dumps(suite()))
    with pytest.raises(ValueError, match="number_toy, item 1, condition 'match': surprisals .*nan"):
        suite_outcomes(accel.load("cpu"), MODEL, [read_suite(tmp_path / "toy.json")])


def test_infinite_surprisals_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the word with an infinite surprisal; the other items keep their own surprisals."""
    bits = [[1.0] * 6, [1.0, np.inf, np.inf, np.inf], [1.0] * 4, [2.0, 1.0]]
    monkeypatch.setattr(syntaxgym, "bits_of_words", lambda *_, **__: iter(bits))
    (tmp_path / "toy.json").write_text(json.dumps(suite()))
    first, second = suite_outcomes(accel.load("cpu"), MODEL, [read_suite(tmp_path / "toy.json")])["number_toy"]
    reason = "condition 'mismatch': no hypothesis of the search continues with word 2, 'dog'"
    assert first == Outcome(1, skipped=reason)
    assert second.bits["match"] == {1: 1, 2: 2, 3: 1} and not second.skipped
    (tmp_path / "toy.json").write_text(json.dumps(suite()).replace("dog", "Dog"))
    outcomes = suite_outcomes(accel.load("cpu"), MODEL, [read_suite(tmp_path / "toy.json")], lower=True)
    assert outcomes["number_toy"][0].skipped == reason  # the word as the model reads it


def test_a_transformer_xl_of_words_is_exact() -> None:
    """Bits are exact in any batch, also in sentences longer than a segment; the end of the sequence is no word."""
    config = replace(SURE, model="txl_terminals")
    parameters = transformer_grammar.initialise(config, 3)
    model = Model(Path("x"), config, parameters, VOCABULARY, Reading(), transformer_grammar)
    sentences = [words_of(tree) for tree in TREES[7:12]]
    assert max(map(len, sentences)) > config.segment_length
    reference_config = reference.Config(
        **{field.name: getattr(config, field.name) for field in fields(reference.Config)}
    )
    for sentence, bits in zip(sentences, bits_of_words(accel.load("cpu"), model, sentences, batch_size=2), strict=True):
        ids = np.array([START_ID, *VOCABULARY.encode_words(sentence)])
        logps = reference.token_logps(reference_config, parameters, ids, ids, np.append(ids[1:], -1))
        np.testing.assert_allclose(bits, logps[:-1] / -np.log(2), rtol=1e-4)


def test_models_without_surprisals_are_named() -> None:
    check_surprisals(MODEL)
    with pytest.raises(
        ValueError, match="x: holds an encoder_decoder, which gives no surprisals of words; models that do: "
    ):
        check_surprisals(Model(Path("x"), SimpleNamespace(chart="none", n_classes=0), {}, None, None, encoder_decoder))
    with pytest.raises(ValueError, match="x: a language model without <eos>"):
        check_surprisals(Model(Path("x"), CONFIG, {}, Words(("a",)), None, language_model))


def test_a_parser_must_be_one() -> None:
    """A model that is no parser is refused before it reads a sentence."""
    grammar = Model(Path("tg"), SURE, {}, VOCABULARY, Reading(), transformer_grammar)
    with pytest.raises(ValueError, match="^x: holds an? .*lstm, which gives no proposal trees"):
        check_options(grammar, MODEL, None, {})


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("looks_ahead", [False, True])
def test_a_sentence_has_one_number_in_every_batch(
    batch_size: int, processes: int, looks_ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser reads fewer words than the model, whose vocabulary is closed; other sentences have surprisals."""
    grammar = Model(Path("tg"), SURE, {}, VOCABULARY, Reading(), transformer_grammar)
    parser = Model(Path("parser"), SimpleNamespace(max_words=2), {}, VOCABULARY, Reading(), span_parser)
    word = VOCABULARY.terminals[0]
    monkeypatch.setitem(
        surprisals.SURPRISALS_OF, "tg", lambda *arguments, **_: (encode_words(grammar, x) for x in arguments[2])
    )
    options: dict[str, Any] = {"parser": parser} if looks_ahead else {}
    last, message = ([word] * 3, "3 words, more than the parser") if looks_ahead else (["zebra"], "the word 'zebra'")
    with pytest.raises(ValueError, match=f"^sentence 3: {message}"):
        sentences = [[word], [word], last]
        list(
            bits_of_words(accel.load("cpu"), grammar, sentences, batch_size=batch_size, processes=processes, **options)
        )


def test_trees_with_unknown_labels_are_the_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the model can read no tree of the parser, the error names both models."""
    grammar = Model(Path("tg"), SURE, {}, VOCABULARY, Reading(), transformer_grammar)
    monkeypatch.setattr(proposal_surprisals, "propose", lambda *_, **__: [[(Tree("UNSEEN", ("a",)), 0.0)]])
    with pytest.raises(ValueError, match="^x: proposes trees that tg cannot read: .*UNSEEN"):
        next(proposal_surprisals.proposal_surprisals(accel.load("cpu"), grammar, MODEL, [["a"]], 1))


def test_a_tree_with_an_unknown_label_has_no_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other trees of its sentence stay: a model that learned from a parser's best trees may lack rare labels."""
    label, inputs = VOCABULARY.labels[0], list[Tree]()
    known_tree, unseen_tree = Tree(label, ("a",)), Tree(label, (Tree("UNSEEN", ("a",)),))

    def encode(trees: Iterator[Tree], *_: Any) -> None:
        inputs.extend(trees)
        raise VocabularyError("enough")

    grammar = Model(Path("tg"), SURE, {}, VOCABULARY, Reading(), transformer_grammar)
    monkeypatch.setattr(proposal_surprisals, "propose", lambda *_, **__: [[(unseen_tree, 0.0), (known_tree, -1.0)]])
    monkeypatch.setattr(proposal_surprisals, "encode_trees", encode)
    with pytest.raises(ValueError, match="enough"):
        next(proposal_surprisals.proposal_surprisals(accel.load("cpu"), grammar, MODEL, [["a"]], 2))
    assert inputs == [known_tree]


@pytest.mark.parametrize(("positions", "most"), [(9, 4), (8, 4), (7, 2), (6, 2), (5, 0)])
def test_lines_before_a_line_are_whole(positions: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context is as many whole lines as the model has positions for, beside the line itself and its start."""
    lines, all_contexts = [[7, 7], [8, 8], [9, 9, 9]], []

    def bits(*_: Any, contexts: list[list[list[int]]], **__: Any) -> Iterator[list[float]]:
        all_contexts.extend(contexts)
        yield from ([1.0] * len(line) for line in lines)

    monkeypatch.setattr(
        surprisals, "encode_words", lambda model, words, generated: [[word] for word in words if generated]
    )
    monkeypatch.setattr(surprisals, "surprisals", bits)
    model = Model(Path("x"), SimpleNamespace(n_positions=positions), {}, None, None, None)
    list(surprisals.bits_after_lines(accel.load("cpu"), model, lines, [0, 0, 0], 2))
    assert sum(map(len, all_contexts[2])) == most and all_contexts[0] == []


def test_a_gpst_is_searched_with_twenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default beam is 20, whether lines are read each by itself or after other lines."""
    all_limits = []

    def bits(ops: ModuleType, model: Model, tokens: list[list[int]], limits: Limits, **_: Any) -> Iterator[list[float]]:
        all_limits.append(limits)
        yield from ([1.0] * len(line) for line in tokens)

    monkeypatch.setattr(surprisals, "encode_words", lambda model, words, generated: [[word] for word in words])
    monkeypatch.setattr(surprisals, "surprisals", bits)
    config = Gpst(9)
    model = Model(Path("x"), config, {}, SimpleNamespace(symbols=KNOWN), None, gpst)
    ops, lines = accel.load("cpu"), [[2, 3]]
    list(surprisals.bits_of_words(ops, model, lines))
    list(surprisals.bits_of_tokens(ops, model, lines))
    list(surprisals.bits_after_lines(ops, model, lines, [0], 1))
    assert all_limits == [Limits(20, one_pool=True)] * 3
