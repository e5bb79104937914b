"""`grove train --task language_model`: runs are evaluated, killed and resumed; mistakes in tasks of words are named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from math import exp
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.batches.text import TextBatches, encode_text
from accel.models.fasttrees import language_model
from accel.tasks import language_model as language_model_task
from accel.trained.opening import open_model
from accel.training import checkpoint
from accel.training.loop import evaluate
from refimpl.fasttrees import stack as exact
from refimpl.layers import cross_entropy
from tests.fixtures.command_line import settings, with_options
from tests.fixtures.killed_runs import check_killed_run
from tests.fixtures.labelled_examples import INFERENCE
from tests.fixtures.text_files import LANGUAGE_MODEL, write_text
from tests.fixtures.toy_run import metrics


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for seed, (name, n_lines) in enumerate((("train", 80), ("valid", 30), ("test", 9))):
        write_text(folder / name, n_lines, seed)
    return folder


def text_run(texts: Path, out: Path, *more: object) -> list[str]:
    """Return the command that trains a language model; averaging of its parameters begins early."""
    files = ["--data", texts / "train", "--validation", texts / "valid", "--test", texts / "test"]
    small = [
        "--batch-size",
        3,
        "--length",
        8,
        "--min-count",
        1,
        "--steps",
        26,
        *settings((*LANGUAGE_MODEL, "validate_every=3", "nonmonotone=0")),
    ]
    return with_options(("train", "--task", "language_model", "--out", out, *files, *small), *more)


@pytest.fixture(scope="module")
def trained(texts: Path) -> Path:
    assert cli.main(text_run(texts, texts / "run")) == 0
    return texts / "run"


def expected_logps(run: Path, ids: list[int]) -> np.ndarray:
    """Return log p of every id but the first, from the reference, which reads the whole text at once."""
    model = open_model(accel.load("cpu"), run)
    p = {name: x.astype(np.float64) for name, x in model.parameters.items()}
    cells = {name: x * (0.55 if name.endswith("hh.weight") else 1.0) for name, x in p.items() if "cells" in name}
    h = exact.stack(model.config.kind, cells, p["embedding"][ids[:-1]], chunk_size=2)[0]
    return cross_entropy(h, p["embedding"], p["output_bias"], np.array(ids[1:]))


def test_perplexity_of_a_text_is_the_reference_s(texts: Path, trained: Path, grove: Callable[..., str]) -> None:
    words = open_model(accel.load("cpu"), trained).vocabulary
    logps = expected_logps(trained, encode_text(texts / "test", words).tolist())
    perplexity = exp(-logps.mean())
    lines = grove("perplexity", "--checkpoint", trained, "--text", texts / "test").splitlines()
    assert float(lines[0].split()[1]) == pytest.approx(perplexity, rel=1e-4) and lines[0].endswith("(exact)")
    assert int(lines[2].split()[1]) == len(logps)
    figures = json.loads((trained / "evaluation.json").read_text())
    assert figures == {"perplexity": pytest.approx(perplexity, rel=1e-4), "words": len(logps)}
    assert grove("evaluate", trained).startswith(f"perplexity      {perplexity:.1f}"[:-2])


def test_lines_of_a_text_are_scored_one_by_one(texts: Path, trained: Path, grove: Callable[..., str]) -> None:
    words = open_model(accel.load("cpu"), trained).vocabulary
    lines = [line.split() for line in (texts / "test").read_text().splitlines()]
    expected = [expected_logps(trained, words.encode(["<eos>", *line, "<eos>"])) for line in lines]
    command = ("score", "--checkpoint", trained, texts / "test", "--text", "--batch-size", 4)
    logps = [float(line) for line in grove(*command).splitlines()]
    np.testing.assert_allclose(logps, [x.sum() for x in expected], rtol=1e-5)
    table = [line.split("\t") for line in grove(*command, "--tokens").splitlines()[1:]]
    np.testing.assert_allclose([float(row[2]) for row in table], np.concatenate(expected), atol=1e-5)
    assert [row[1] for row in table] == [word for line in lines for word in (*line, "<eos>")]


@pytest.mark.parametrize(("length", "columns"), [(1, 3), (8, 3), (70, 5)])
def test_epochs_are_those_of_the_batches(
    length: int, columns: int, texts: Path, tmp_path: Path, grove: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of a batch have five words or more, fewer at the end of an epoch; a resumed run keeps its epochs."""
    run = ("train", "--task", "language_model", "--data", texts / "train", "--length", length, "--epochs", 6)
    grove(*run, "--batch-size", columns, "--out", tmp_path / "run", *settings(LANGUAGE_MODEL))
    state = checkpoint.read_state(tmp_path / "run" / "checkpoint.safetensors")
    assert 5 <= state["position"]["epoch"] <= 7 and state["step"] == 6 * state["training"]["validate_every"]
    monkeypatch.setattr(language_model_task, "mean_steps", lambda length: 1.0)
    grove("train", "--resume", "--out", tmp_path / "run", "--epochs", 7)
    assert checkpoint.read_state(tmp_path / "run" / "checkpoint.safetensors")["step"] == 7 * state["step"] // 6


def test_averages_are_validated_and_saved(texts: Path, trained: Path) -> None:
    """The last validation is that of the averages in the newest checkpoint; the best file holds the best validation."""
    model = open_model(accel.load("cpu"), trained / "checkpoint.safetensors")
    newest = checkpoint.load(trained / "checkpoint.safetensors", language_model.parameter_shapes(model.config))
    assert list(newest.optimizer) == ["average"] and newest.state["averaged"] > 5
    text = encode_text(texts / "valid", model.vocabulary)
    ops = accel.load("cpu")
    batches = TextBatches(text, 10, ops=ops, length=8)
    average = {name: value.astype(np.float32) for name, value in newest.optimizer["average"].items()}
    figures = evaluate(ops, language_model, model.config, average, batches)
    validated = [line["validation_loss"] for line in metrics(trained) if "validation_loss" in line]
    assert figures["loss"] == pytest.approx(validated[-1], rel=1e-6) and newest.state["results"] == validated
    best = checkpoint.read_state(trained / "best.safetensors")
    assert best["validation_loss"] == min(validated) == newest.state["best"]


def test_the_rate_follows_the_length_of_the_batch(trained: Path) -> None:
    rates = {line["learning_rate"] for line in metrics(trained)}
    assert len(rates) > 3 and all((rate / 30 * 8) == pytest.approx(round(rate / 30 * 8)) for rate in rates)


@pytest.mark.parametrize("call", [7, 21], ids=["before averaging", "while averaging"])
def test_a_killed_language_model_resumes_bit_for_bit(texts: Path, trained: Path, tmp_path: Path, call: int) -> None:
    """Carried states, the position in the data, averages and results are all restored."""
    check_killed_run(language_model, text_run(texts, tmp_path / "run"), call, trained)


def test_two_rates_on_a_line_go_on_bit_for_bit(texts: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    """A killed run with a separate rate for the embedding resumes; all of Adam's moments are restored."""
    choices = ("optimizer=adam", "schedule=linear", "warmup_steps=5", "own_rate_of=embed", "own_rate=0.2")
    more = ("--steps", "14", *settings((*choices, "maximum_rate=0.01")))
    whole = tmp_path / "whole"
    assert cli.main(text_run(texts, whole, *more)) == 0
    check_killed_run(language_model, text_run(texts, tmp_path / "killed", *more), 10, whole)
    wrong = mistake(*text_run(texts, tmp_path / "other", *settings(("own_rate_of=x.", "own_rate=1.0"))))
    assert wrong == "own_rate_of: no parameter has a name that begins with 'x.'"


def test_a_convolution_from_before_its_setting_resumes(texts: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    """A checkpoint without the setting convolves all features of the inputs, as the older version did."""
    run, setting = tmp_path / "run", "convolved=inputs"
    first = text_run(texts, run, "--steps", 4, "--model", "conv_fasttrees", *settings((setting,)))
    grove(*first)
    content = json.loads((run / "config.json").read_text())
    content["options"]["set"].remove(setting)
    (run / "config.json").write_text(json.dumps(content))
    for name in ("checkpoint.safetensors", "best.safetensors"):
        state = checkpoint.read_state(run / name)
        config = language_model.Config(**state["config"])
        saved = checkpoint.load(run / name, language_model.parameter_shapes(config))
        del saved.state["config"]["convolved"]
        checkpoint.save(run / name, saved)
    grove("train", "--out", run, "--resume", "--steps=8")
    model = open_model(accel.load("cpu"), run)
    assert model.config.convolved == "inputs" and model.parameters["cells.0.conv.weight"].shape == (6, 6, 2)


def test_mistakes_are_named(texts: Path, trained: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    out = tmp_path / "run"
    assert mistake("train", "--task", "logic", "--out", out) == "train: --data is missing"
    assert "--task poetry: choose one of " in mistake("train", "--task", "poetry", "--out", out)
    bad = text_run(texts, out, "--set", "chunk_size=3")
    assert mistake(*bad) == "chunk_size: 3, but it does not divide 8, the size of layer 0; use 2"
    wrong = mistake("train", "--task", "logic", "--out", trained, "--resume")
    assert wrong == f"--task logic: {trained} holds a run of the task language_model: leave out --task"
    wrong = mistake("perplexity", "--checkpoint", trained, "--trees", texts / "test")
    assert wrong.endswith("holds a fasttrees, which gives log-probabilities of text, not of trees: use --text")
    assert wrong.startswith(f"{trained}/best.safetensors: holds a ")
    pair = ("--checkpoint", trained, "--checkpoint", trained)
    assert mistake("perplexity", *pair, "--text", texts / "test").startswith(
        "--checkpoint: give one language model of words"
    )
    (tmp_path / "unknown").write_text("w1\nzebra w1\n")
    (tmp_path / "ends").write_text("w1\nw1 <eos>\n")
    for command in (("perplexity", "--text"), ("score", "--text"), ("surprisal",), ("parse",)):
        wrong = mistake(*command, tmp_path / "unknown", "--checkpoint", trained)
        assert wrong.startswith(f"{tmp_path}/unknown:2: ") and "zebra" in wrong
        wrong = mistake(*command, tmp_path / "ends", "--checkpoint", trained)
        assert wrong.startswith(f"{tmp_path}/ends:2:") and "<eos> is the end of a line, which is added here" in wrong
    end = f"{tmp_path}/ends:2:4: <eos> is the end of a line, which is added here: remove it: awk "
    assert mistake("perplexity", "--checkpoint", trained, "--text", tmp_path / "ends").startswith(end)
    assert mistake(*text_run(texts, out, "--data", tmp_path / "ends")).startswith(end)
    (tmp_path / "trees").write_text("(3 good)\n(7 film)\n")
    wrong = mistake("train", "--task", "sentiment", "--data", tmp_path / "trees", "--out", out)
    assert wrong == f"{tmp_path}/trees:2: unknown label '7': it must be one of 0 1 2 3 4"
    (tmp_path / "pairs").write_text("neutral\t( a )\t( b )\nmaybe\t( a )\t( b )\n")
    wrong = mistake("train", "--task", "inference", "--data", tmp_path / "pairs", "--out", out)
    assert wrong.startswith(f"{tmp_path}/pairs:2: unknown label 'maybe'")
    (tmp_path / "pairs").write_text(INFERENCE)
    for line, reason in (("dog 1 2", "2 number(s) after the word, not 300"), ("dog" + " x" * 300, "not a number")):
        (tmp_path / "vectors").write_text(f"{line}\n")
        options = ("--data", tmp_path / "pairs", "--vectors", tmp_path / "vectors", "--learn-vectors", "--out", out)
        assert mistake("train", "--task", "inference", *options).startswith(f"{tmp_path}/vectors:1: {reason}")
    wrong = mistake("train", "--task", "inference", *options, "--vectors", tmp_path / "vectors")
    assert wrong == "--learn-vectors: is for one file of --vectors, not for 2; name one"
    assert not os.path.exists(out)
