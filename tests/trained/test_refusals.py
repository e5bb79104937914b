"""Mistakes in Python are answered with one line, with the words of the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel import trained
from accel.data.corpora.treebank import Reading
from accel.trained.interface import TrainedModel
from accel.training.checkpoint import CheckpointError
from tests.fixtures.tiny_runs import KINDS, SENTENCES, TREES, runs

__all__ = ["runs"]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ValueError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", True])
def test_numbers_out_of_range_are_named(runs: dict[str, Path], value: Any) -> None:
    """Once, `words=2.5` drew without an end, and other values raised errors of NumPy and of `range`."""
    models = {kind: trained.open(runs[kind]) for kind in KINDS}
    line, reason = SENTENCES[0], "at least 1 is needed" if value in (0, -1) else "a whole number is needed"
    for name, call in (
        ("batch_size", models["lstm"].token_score), ("batch_size", models["fasttrees"].parse),
        ("batch_size", models["treeformer"].parse), ("batch_size", models["treeformer"].translate),
        ("batch_size", models["span_parser"].propose), ("number", models["span_parser"].propose),
        ("beam", models["treeformer"].translate), ("beam", models["gpst"].token_score), ("beam", models["tg"].parse),
        ("words", models["gpst"].sample), ("top_k", models["txl_terminals"].sample),
        ("batch_size", models["gpst"].word_surprisals), ("batch_size", models["gpst"].embed),
        ("batch_size", models["lstm"].perplexity), ("max_height", models["treeformer"].parse),
    ):  # fmt: skip
        message = refusal(lambda call=call, name=name: call(line, **{name: value}))  # type: ignore[misc]
        assert message == f"{name} {value!r}: {reason}"
    for of_trees in (
        lambda: models["tg"].tree_score(TREES, batch_size=value),
        lambda: models["tg"].perplexity(trees=TREES, batch_size=value),
    ):
        assert refusal(of_trees) == f"batch_size {value!r}: {reason}"
    if value != 0:
        reason = reason.replace("1", "0")
        message = refusal(lambda: models["gpst"].word_surprisals(line, context_lines=value))
        assert message == f"context_lines {value!r}: {reason}"


def test_what_a_model_cannot_do_is_refused(runs: dict[str, Path]) -> None:
    """The errors have the same wording as those of the commands."""
    models: dict[str, TrainedModel] = {kind: trained.open(runs[kind]) for kind in KINDS}
    line = SENTENCES[0]
    for kind, call, lacking in (
        ("treeformer", lambda m: m.sequence_score(line), "surprisals of words"),
        ("lstm", lambda m: m.tree_score(TREES), "log-probabilities of trees"),
        ("tg", lambda m: m.perplexity([line]), "log-probabilities of text"),
        ("lstm", lambda m: m.parse(line), "trees without labels"),
        ("txl_terminals", lambda m: m.parse(line), "labelled trees"),
        ("classifier", lambda m: m.sample(), "texts"),
        ("gpt2", lambda m: m.embed(line), "trees of GPST"),
        ("tg", lambda m: m.propose(line), "proposal trees"),
        ("gpst", lambda m: m.translate(line), "translations"),
    ):
        message = refusal(lambda call=call, kind=kind: call(models[kind]))  # type: ignore[misc]
        assert (
            message.startswith(f"{models[kind].path}: holds a")
            and f"which gives no {lacking}; models that do: " in message
        )


def test_mistakes_are_named(runs: dict[str, Path], tmp_path: Path) -> None:
    tg, gpst, lstm, pairs = (trained.open(runs[kind]) for kind in ("tg", "gpst", "lstm", "treeformer"))
    layers, line = trained.open(runs["fasttrees"]), SENTENCES[0]
    for call, message in (
        (
            lambda: tg.sequence_score([line, "the zebra"]),
            "sentence 2: the word 'zebra' is not in the closed vocabulary",
        ),
        (lambda: tg.token_score(["the", ""]), "sentence 2: an empty sentence"),
        (lambda: gpst.parse({"the": 1}), "batch: is of type dict: give a string or a list"),
        (lambda: gpst.embed([5]), "sentence 1: is of type int: give a string or a list"),
        (lambda: lstm.perplexity(5), "text: is of type int: give a string, a list or a pathlib.Path"),
        (lambda: lstm.perplexity([5]), "text: sentence 1: is of type int: give a string or a list"),
        (lambda: lstm.token_score(["the", ["the", None]]), "sentence 2: word 2 is None, not a string without blanks"),
        (lambda: lstm.token_score([["the", ""]]), "sentence 1: word 2 is '', not a string without blanks"),
        (lambda: lstm.token_score([["old dog"]]), "sentence 1: word 1 is 'old dog', not a string without blanks"),
        (lambda: tg.token_score(line, bow_correction=True), "bow_correction: is no option of a search: these are beam"),
        (lambda: tg.word_surprisals(line, beam=0), "beam 0: at least 1 is needed"),
        (lambda: tg.word_surprisals(line, context_lines=1), f"context_lines: {tg.path} reads every line by itself"),
        (lambda: tg.word_surprisals(line, proposals_per_sentence=1), "proposals_per_sentence: counts the trees of a"),
        (lambda: tg.word_surprisals(line, parser=gpst), f"{gpst.path}: holds a gpst, which gives no proposal trees"),
        (lambda: lstm.word_surprisals(line, beam=3), f"beam: the model {lstm.path} has no such search: leave it out"),
        (lambda: lstm.word_score(line, prob=True, surprisal=True), "prob: a probability is no surprisal"),
        (lambda: gpst.parse(line, layer=2), "layer: is for distances, and "),
        (lambda: gpst.parse(line, depth=2), "depth: is no option of trees without labels: these are layer, split"),
        (lambda: tg.parse(line, mode="inside"), f"mode: is for trees without labels, and {tg.path} has labelled ones"),
        (lambda: tg.tree_score(["(S the", "(S dog)"]), "trees"),
        (lambda: tg.tree_score(["(S the) (S dog)"]), "trees"),
        (lambda: tg.tree_score(["(S the)", "(X the)"]), "trees"),
        (lambda: tg.perplexity(), "perplexity: give one of text, trees and proposals"),
        (lambda: tg.perplexity(trees=TREES, numbered=True), "numbered: is for a file of proposals"),
        (lambda: tg.perplexity(trees=TREES, foo=1), "foo: is no option of perplexity: those of a file are numbered, g"),
        (lambda: tg.perplexity(proposals=tmp_path / "x", foo=1), "foo: is no option of perplexity"),
        (lambda: tg.perplexity(proposals=tmp_path / "x", check=len), "check: is no option of perplexity"),
        (lambda: tg.perplexity(proposals=tmp_path / "x", max_words="5"), "max_words '5': a whole number is needed"),
        (lambda: tg.tree_score(None), "given: is of type NoneType: give a string, a list or a pathlib.Path"),
        (lambda: tg.perplexity(trees=5), "trees: is of type int: give a string, a list or a pathlib.Path"),
        (lambda: tg.tree_score(TREES, reading="x"), "reading: is of type str: give an accel.data.corpora.treebank.Rea"),
        (lambda: tg.tree_score(TREES, ensemble_with=tg), "ensemble_with: is of type TrainedModel: give a list of mo"),
        (lambda: tg.tree_score(TREES, ensemble_with=["runs/b"]), 'ensemble_with: give trained.open("runs/b")'),
        (lambda: tg.perplexity(trees=TREES, ensemble_with="runs/b"), "ensemble_with: is of type str: give a list of"),
        (lambda: tg.word_surprisals(line, parser={}), "parser: is of type dict: give a model that trained.open retu"),
        (lambda: tg.perplexity(trees=[]), "perplexity: no trees are given"),
        (lambda: tg.perplexity(trees=__file__), f'trees: {__file__} is a file: give pathlib.Path("{__file__}")'),
        (lambda: tg.tree_score(__file__), f'given: {__file__} is a file: give pathlib.Path("{__file__}")'),
        (lambda: lstm.perplexity(__file__), f'text: {__file__} is a file: give pathlib.Path("{__file__}")'),
        (lambda: lstm.perplexity(line, ensemble_with=[lstm]), "ensemble_with: language models of words make no ens"),
        (lambda: lstm.perplexity(line, ensemble="product"), "ensemble_with: language models of words make no ensemble"),
        (lambda: lstm.perplexity(line, reading=Reading()), "reading: is for trees, and a text has none: leave it out"),
        (lambda: tg.sample("zebra"), "prefix: the word 'zebra' is not in the closed vocabulary"),
        (lambda: tg.sample(5), "prefix: is of type int: give a string or a list"),
        (lambda: tg.sample(["old dog"]), "prefix: word 1 is 'old dog', not a string without blanks"),
        (lambda: gpst.sample(context=5), "context: is of type int: give a string or a list"),
        (lambda: gpst.sample(context=["the", 5]), "context: sentence 2: is of type int: give a string or a list"),
        (lambda: gpst.sample(context=["the dog", ""]), "context: sentence 2: an empty sentence: leave it out"),
        (lambda: gpst.sample(context=["the", "zebra"]), "context: sentence 2: the word 'zebra' is not in the closed"),
        (lambda: tg.sample(words=0), "words 0: at least 1 is needed"),
        (lambda: tg.sample("the", seed=1.5), "seed 1.5: a whole number is needed"),
        (lambda: pairs.translate(["the dog", "zebra"]), "sentence 2: the word 'zebra' is not in the closed vocab"),
        (lambda: pairs.translate(["the dog", ""]), "sentence 2: an empty sentence"),
        (lambda: layers.parse(line, layer=1.0), "layer 1.0: a whole number is needed"),
        (lambda: layers.parse(line, layer=True), "layer True: a whole number is needed"),
        (lambda: pairs.translate(line, num_beams=2), "num_beams: is no option of translations: these are beam, le"),
        (lambda: pairs.translate("the", extra_length=-2), "extra_length -2: at least -1 is needed"),
        (lambda: pairs.translate(line, length_penalty="1"), "length_penalty 1: a number from 0 to 10 is needed"),
        (lambda: pairs.translate(line, length_penalty=-1), "length_penalty -1: a number from 0 to 10 is needed"),
        (lambda: gpst.sample("the dog", words=58), "words 58: after a prefix of 2 tokens at most 57 fit"),
    ):
        assert refusal(call).startswith(message)
    for path in (tmp_path, tmp_path / "nowhere", Path(__file__)):
        with pytest.raises(CheckpointError, match=str(path)) as error:
            trained.open(path)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="unknown backend 'gpu': choose one of ref, cpu, cuda"):
        trained.open(runs["tg"], "gpu")


def test_a_parser_is_opened_and_sentences_are_no_file(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained.open(runs["tg"])
    with pytest.raises(ValueError, match=r'^parser: give trained.open\("runs/parser"\)$'):
        model.word_surprisals(["the dog"], parser="runs/parser")  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sentences.txt").write_text("the dog\n")
    with pytest.raises(ValueError, match="^batch: sentences.txt is a file: give its sentences$"):
        model.word_surprisals("sentences.txt")
