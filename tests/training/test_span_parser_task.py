"""`grove train --task span_parser`: from a treebank to a parser that is evaluated, killed and resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import accel
from accel import cli
from accel.data.batches.constituents import encode_bracketed, parser_batches
from accel.data.corpora.constituents import read_bracketed, tree_of
from accel.data.corpora.treebank import read_sentences, tags
from accel.evaluation.evalb import evalb
from accel.evaluation.evalb_input import COLLINS, with_tags
from accel.models.transformer_grammars import span_parser
from accel.parsing.propose import parses
from accel.trained.opening import open_model
from accel.training.checkpoint import read_state
from accel.training.loop import evaluate, train
from accel.training.settings import TrainingConfig
from refimpl.trees import Tree, words
from tests.fixtures.killed_runs import check_killed_run
from tests.fixtures.span_parser_runs import READING, STRANGE, run_of, trained, treebank, write
from tests.fixtures.toy_run import metrics

__all__ = ["trained", "treebank"]


def test_it_learns_and_is_evaluated(treebank: Path, trained: Path, grove: Callable[..., str]) -> None:
    figures = json.loads((trained / "evaluation.json").read_text())
    assert (figures["sentences"], figures["too_long"]) == (21, 1) and figures["f1"] > 55.0  # ten seeds: 65.8 to 73.0
    lines = metrics(trained)
    last = sum(line["loss"] for line in lines[-10:]) / 10
    assert last < 0.6 * lines[0]["loss"] and "validation_accuracy" in lines[39]  # ten seeds: 0.11 to 0.36 of it
    assert grove("evaluate", trained).startswith(f"f1              {figures['f1']:.4f}")
    model = open_model(accel.load("cpu"), trained)
    assert model.config.n_labels == len(model.vocabulary.labels) and model.reading == READING
    assert {"S", "NP", "VP"} <= set(model.vocabulary.labels) and "FRAG" not in model.vocabulary.labels
    gold = [tree for tree, *_ in read_sentences(treebank / "test") if len(words(tree)) <= 30]
    best = parses(accel.load("cpu"), model, [words(tree) for tree in gold], 1)
    trees = [tree_of(ranked[0][0], words(tree)) for ranked, tree in zip(best, gold, strict=True)]
    score = evalb(gold, [with_tags(x, tags(y) or []) for x, y in zip(trees, gold, strict=True)], COLLINS)
    assert (figures["f1"], figures["exact"]) == pytest.approx((score.f1, score.complete_match))


def test_sentences_left_out_are_counted(treebank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(run_of(treebank, tmp_path / "run", "--steps", 6)) == 0
    messages = capsys.readouterr().err
    assert "; train: 1 of more than 30 words left out; valid: 1 with a chain of labels never seen left out" in messages
    assert "150 trees, " in messages


def test_validation_leaves_out_trees_without_tags(
    treebank: Path, tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    """Training leaves them out, too; a test scores all trees, and so is refused before the training."""
    path = tmp_path / "mixed.trees"
    path.write_text((treebank / "valid").read_text() + "(S (NP the dog) (VP sings))\n")
    run = run_of(treebank, tmp_path / "run", "--leave-out-untagged", "--steps", 2, "--set", "validate_every=1")
    run[run.index("--validation") + 1] = str(path)
    of_test = run.index("--test") + 1
    assert mistake(*run[:of_test], path, *run[of_test + 1 :]) == (
        f"{path}:27: not every word has a part-of-speech tag, and all trees of --test are parsed: remove this tree"
    )
    assert not (tmp_path / "run").exists()
    grove(*run)
    run[run.index("--out") + 1], run[run.index("--validation") + 1] = tmp_path / "whole", treebank / "valid"
    grove(*run)
    f1 = [line["validation_f1"] for line in metrics(tmp_path / "run")]
    assert f1 == [line["validation_f1"] for line in metrics(tmp_path / "whole")] and f1[-1] > 0


def test_validation_is_the_mean_of_its_trees(treebank: Path, trained: Path) -> None:
    ops = accel.load("cpu")
    model = open_model(ops, trained / "checkpoint.safetensors")
    sentences, _ = read_bracketed(treebank / "valid", READING, 30)
    encoded, _ = encode_bracketed(treebank / "valid", sentences, model.vocabulary)
    assert len(encoded) == 25
    figures = evaluate(ops, span_parser, model.config, model.parameters, parser_batches(encoded, 30, ops=ops))
    last = metrics(trained)[-1]
    assert figures["loss"] == pytest.approx(last["validation_loss"], rel=1e-5)
    assert figures["accuracy"] == last["validation_accuracy"]


def test_the_best_checkpoint_has_the_highest_f1(
    treebank: Path, trained: Path, tmp_path: Path, grove: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for line in metrics(trained) if "validation_f1" in line]
    best = max(lines, key=lambda line: line["validation_f1"])
    assert len(lines) > 1 and read_state(trained / "best.safetensors")["step"] == best["step"]
    parsed = grove("propose", "--checkpoint", trained, "--trees", treebank / "valid", "--number", 1,
                   "--max-words", 30, "--out", tmp_path / "trees")  # fmt: skip
    assert f"F1              {best['validation_f1']:.2f}\n" in parsed
    assert cli.main(run_of(treebank, tmp_path / "run", "--steps", 6)) == 0
    assert "best checkpoint: that of the highest F1 (select)\n" in capsys.readouterr().err
    assert cli.main(run_of(treebank, tmp_path / "loss", "--steps", 6, "--set", "select=loss")) == 0
    assert "best checkpoint" not in capsys.readouterr().err


def test_tags_are_learned(treebank: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    out = tmp_path / "run"
    assert cli.main(run_of(treebank, out, "--learn-tags", "--steps", 20, "--set", "checkpoint_every=10")) == 0
    model = open_model(accel.load("cpu"), out / "checkpoint.safetensors")
    assert model.config.n_tags == 1 and model.parameters["tag"].shape == (1, model.config.d_model)
    message = "--learn-tags: trees that are taken as they are have no tags to learn: leave out --keep-tags"
    assert message in mistake(*run_of(treebank, tmp_path / "other", "--learn-tags", "--keep-tags"))
    bare = tmp_path / "bare"
    bare.write_text("(S (NP the dog) (VP sleeps soundly))\n")
    message = f"--learn-tags: the trees of {bare} have no part-of-speech tags: leave it out"
    assert mistake(*run_of(treebank, tmp_path / "other", "--learn-tags", "--data", bare)) == message


@pytest.mark.parametrize("call", [20, 61])
def test_a_killed_run_resumes_bit_for_bit(treebank: Path, trained: Path, tmp_path: Path, call: int) -> None:
    check_killed_run(span_parser, run_of(treebank, tmp_path / "run"), call, trained)


@pytest.mark.parametrize("reading", [{}, {"encoder": "lstm", "d_affix": 1}])
def test_backends_learn_alike(
    backend: ModuleType, treebank: Path, trained: Path, tmp_path: Path, reading: dict[str, Any]
) -> None:
    """Two steps of every backend have the losses of `cpu`; the gradients of the reference are too slow for more."""
    sentences, _ = read_bracketed(treebank / "train", READING, 4)
    model = open_model(accel.load("cpu"), trained)
    encoded, _ = encode_bracketed(treebank / "train", sentences, model.vocabulary)
    config = span_parser.Config(len(model.vocabulary), len(model.vocabulary.labels), 4, 1, 2, 4, 4, 4, 1, **reading)
    training = TrainingConfig(batch_size=8, steps=2, warmup_steps=1, maximum_rate=1e-2, seed=1)
    losses = {}
    for name, ops in (("cpu", accel.load("cpu")), ("own", backend)):
        batches = parser_batches(encoded[:2], 8, ops=ops, seed=1, epochs=None)
        train(ops, span_parser, config, training, batches, tmp_path / name, progress=False)
        losses[name] = [line["loss"] for line in metrics(tmp_path / name)]
    assert losses["own"] == pytest.approx(losses["cpu"], rel=1e-4)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--max-words", 1), "train: no sentence is left: each of the 151 has more than 1 words"),
        (("--model", "lstm_parser", "--set", "d_model=7"), "d_model: 7, but it is odd; use 8"),
        (("--set", "n_labels=3"), "--set n_labels=3: n_labels follows from the data or from other options; "),
        (("--batch-size", 9), "batch_size: 9, but the longest sentence has 28 words; use 28 or more"),
        (("--set", "max_words=9"), "--set max_words=9: max_words follows from the data or from other options; "),
        (("--vocabulary", "sentencepiece", "--vocabulary-size", 18), "vocabulary size 18, but "),
        (("--validation", "nowhere"), "nowhere: No such file or directory"),
        (("--test", "nowhere"), "nowhere: No such file or directory"),
        (("--test", __file__), f"{__file__}:1:1: "),
    ],
)
def test_mistakes_are_named(
    treebank: Path, tmp_path: Path, more: tuple, message: str, mistake: Callable[..., str]
) -> None:
    assert message in mistake(*run_of(treebank, tmp_path / "run", *more))
    assert not (tmp_path / "run").exists()


def test_trees_that_teach_nothing_are_named(treebank: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    strange = write(tmp_path / "strange", STRANGE)
    message = mistake(*run_of(treebank, tmp_path / "run", "--validation", strange))
    assert message.endswith("strange: every one of 1 trees has a chain of labels that was never seen")
    zebra = write(tmp_path / "zebra", Tree("S", (Tree("NP", ("zebra",)), ".")))
    for option in ("--validation", "--test"):
        message = mistake(*run_of(treebank, tmp_path / "run", option, zebra, "--vocabulary", "words"))
        assert "zebra:1: the word 'zebra' is not in the closed vocabulary of " in message
        assert message.endswith("; use --vocabulary unknown_classes") and not (tmp_path / "run").exists()
    bare = tmp_path / "bare"
    bare.write_text("(S (NP the dog) (VP sleeps))\n")
    message = mistake(*run_of(treebank, tmp_path / "run", "--data", bare, "--no-keep-tags"))
    assert "bare:1: not every word has a part-of-speech tag" in message
