"""GPST and GPT-2 fine-tuned on classes: from a pre-trained run and from scratch, killed and resumed, evaluated."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.batches.sentences import Example
from accel.models.gpst import model as gpst
from accel.tasks.acceptability import TESTS
from accel.tasks.sentences import batches_of
from accel.trained.opening import open_model
from tests.fixtures.command_line import settings, with_options
from tests.fixtures.gpst_runs import QUICK, TASK, run_of, texts
from tests.fixtures.killed_runs import check_killed_run
from tests.fixtures.labelled_examples import INFERENCE, SENTIMENT
from tests.fixtures.toy_run import metrics

__all__ = ["texts"]
TUNED = settings((*QUICK, "checkpoint_every=3"))


@pytest.fixture(scope="module")
def pretrained(texts: Path) -> Path:
    """A folder with pre-trained runs of a GPST and of a GPT-2, both with pieces of words."""
    for name in ("gpst", "gpt2"):
        assert cli.main(run_of(texts, texts / name, "--sentence-a-line", "--model", name)) == 0
    return texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences that are acceptable if they end with a verb; others are longer, in any vocabulary of pieces."""
    folder = tmp_path_factory.mktemp("acceptability")
    lines = [
        f"s\t{int(verb == 'sleeps')}\t\tthe {noun} {middle}{verb}\n"
        for noun in ("dog", "cat", "bird") for middle in ("", "here ", "there now ")
        for verb in ("sleeps", "a a a a a a a")
    ]  # fmt: skip
    (folder / "tokenized").mkdir()
    for name in ("in_domain_train.tsv", *TESTS.values()):
        (folder / "tokenized" / name).write_text("".join(lines))
    return folder


def tuning(folder: Path, out: Path, *more: object) -> list[str]:
    data = ("--data", folder, "--batch-size", 6, "--epochs", 30)
    return with_options(("train", "--task", "acceptability", "--out", out, *data), *more)


@pytest.fixture(scope="module")
def tuned(pretrained: Path, folder: Path) -> Path:
    more = ("--model", "gpst", "--checkpoint", pretrained / "gpst", *TUNED)
    assert cli.main(tuning(folder, folder / "tuned", *more)) == 0
    return folder / "tuned"


def test_a_pre_trained_model_learns_classes(pretrained: Path, folder: Path, tuned: Path) -> None:
    """Fine-tuning keeps the vocabulary and starts from the parameters; the model is evaluated as any classifier."""
    figures = json.loads((tuned / "evaluation.json").read_text())
    for name in TESTS:  # five seeds, two SentencePieces: 17 or 18 of 18 right; 9 by chance
        assert figures["accuracy"][name] > 0.8 and figures["correlation"][name] > 0.6
    ops = accel.load("cpu")
    before, after = open_model(ops, pretrained / "gpst"), open_model(ops, tuned)
    assert after.module is gpst and after.config.n_classes == 2 and after.vocabulary == before.vocabulary
    assert set(after.parameters) - set(before.parameters) == {"classes"}
    lines = metrics(tuned)
    assert len(lines) == 90 and lines[0]["learning_rate"] == pytest.approx(0.003)
    assert [line["step"] for line in lines if "validation_accuracy" in line] == list(range(3, 91, 3))
    source = folder / "text", [Example("acceptable", (["the", "zebra"],), 1)]
    batch = next(iter(batches_of(ops, after, ("unacceptable", "acceptable"), source)))
    assert after.vocabulary.decode(batch.ids.tolist()) == ["the", "zebra", "</s>", "<s>"]
    assert len(batch.offsets) == 4 and batch.labels.tolist() == [1]


def test_it_starts_where_the_other_ended(pretrained: Path, folder: Path, tmp_path: Path) -> None:
    """With a rate near 0, the parameters are those of the pre-trained checkpoint, and only the classes are new."""
    still = settings(("maximum_rate=1e-30", "own_rate=1e-30"))
    for name in ("gpst", "gpt2"):
        start = pretrained / name / "checkpoint.safetensors"
        arguments = ("--model", name, "--checkpoint", start, "--steps", 2, *(still if name == "gpst" else still[:2]))
        assert cli.main(tuning(folder, tmp_path / name, *arguments)) == 0
        ops = accel.load("cpu")
        before, after = open_model(ops, start), open_model(ops, tmp_path / name)
        for key, x in before.parameters.items():
            np.testing.assert_array_equal(after.parameters[key], x)
        classes = gpst.initialise(after.config, 0)["classes"]
        np.testing.assert_array_equal(after.parameters["classes"], classes)


def test_a_tuned_model_still_has_trees_and_can_be_tuned_again(
    folder: Path, tuned: Path, tmp_path: Path, grove: Callable[..., str]
) -> None:
    (tmp_path / "text").write_text("the dog sleeps\n")
    assert grove("parse", "--checkpoint", tuned, tmp_path / "text").count("(X") == 2
    (tmp_path / "pairs").write_text(INFERENCE)
    data = ("--data", tmp_path / "pairs", "--test", tmp_path / "pairs", "--steps", 2)
    more = ("--model", "gpst", "--checkpoint", tuned)
    grove("train", "--task", "inference", "--out", tmp_path / "run", *data, *more)
    assert open_model(accel.load("cpu"), tmp_path / "run").config.n_classes == 3


@pytest.mark.parametrize("name", ["gpst", "gpt2"])
@pytest.mark.parametrize(
    ("task", "text", "more"),
    [("sentiment", SENTIMENT, ("--no-phrases",)), ("inference", INFERENCE, ())],
    ids=lambda x: x[:9],
)
def test_small_models_learn_their_data_by_heart_from_scratch(
    tmp_path: Path, task: str, text: str, more: tuple[str, ...], name: str, grove: Callable[..., str]
) -> None:
    (tmp_path / "data").write_text(text * 4)
    files = [part for option in ("data", "validation", "test") for part in (f"--{option}", tmp_path / "data")]
    rates = ("maximum_rate=0.01", "own_rate=0.01") if name == "gpst" else ("maximum_rate=0.02",)  # ten seeds: all right
    options = settings((*TASK, *rates, "dropout=0.0", "network_dropout=0.0", "d_model=16"))
    run = ("--out", tmp_path / "run", "--model", name, "--epochs", 100, "--batch-size", 4, *options)
    grove("train", "--task", task, *run, *files, *more)
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["accuracy"] == 1.0
    assert open_model(accel.load("cpu"), tmp_path / "run").vocabulary.kind == "unknown_classes"
    before = (tmp_path / "run" / "evaluation.json").read_bytes()
    assert "accuracy" in grove("evaluate", tmp_path / "run", "--data", tmp_path / "data")
    assert (tmp_path / "run" / "evaluation.json").read_bytes() == before


def test_a_killed_run_resumes_bit_for_bit(pretrained: Path, folder: Path, tuned: Path, tmp_path: Path) -> None:
    arguments = tuning(folder, tmp_path / "run", "--model", "gpst", "--checkpoint", pretrained / "gpst", *TUNED)
    check_killed_run(gpst, arguments, 50, tuned)


def test_mistakes_are_named(pretrained: Path, folder: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    def failed(*more: object) -> str:
        wrong = mistake(*tuning(folder, tmp_path / "run", *more))
        assert not (tmp_path / "run").exists()
        return wrong

    run = pretrained / "gpst"
    assert failed("--checkpoint", run) == "--checkpoint: is for gpst and gpt2; a fasttrees starts from scratch"
    assert failed("--model", "gpst", "--vectors", run).endswith("; a gpst takes none")
    wrong = failed("--model", "gpt2", "--checkpoint", run)
    assert wrong == f"--checkpoint: {run}/best.safetensors: holds a gpst, not a gpt2"
    assert failed("--model", "gpst", "--checkpoint", tmp_path).startswith(
        f"{tmp_path}: no run, for it has neither best.safetensors nor "
    )
    wrong = failed("--model", "gpst", "--checkpoint", run, "--set", "d_model=16")
    assert wrong == "--set d_model=16: d_model follows from the data or from other options; leave it out"
    wrong = failed("--model", "gpst", *settings((*TASK, "n_positions=6")))
    path = folder / "tokenized" / "in_domain_train.tsv"
    assert wrong == f"{path}:2: 11 tokens with the symbols after the sentences, more than a context of the model has, 5"
    shutil.copytree(folder / "tokenized", tmp_path / "data" / "tokenized")
    path = tmp_path / "data" / "tokenized" / TESTS["out of domain"]
    path.write_text(f"{path.read_text()}s\t1\t\t{'the ' * 13}\n")
    wrong = failed("--model", "gpst", *settings((*TASK, "n_positions=14")), "--data", tmp_path / "data")
    assert (
        wrong == f"{path}:19: 15 tokens with the symbols after the sentences, more than a context of the model has, 13"
    )


@pytest.mark.parametrize(
    ("task", "files"),
    [
        ("acceptability", {"--data": "cola/cola_public.zip"}),
        ("inference", {"--data": "sick/train.txt.xz", "--test": "sick/dev.txt.xz"}),
    ],
    ids=["CoLA", "SICK"],
)
def test_real_files(
    data_dir: Path, tmp_path: Path, task: str, files: dict[str, str], grove: Callable[..., str]
) -> None:
    paths = [part for option, file in files.items() for part in (option, data_dir / file)]
    short = ("--model", "gpst", "--steps", 2, *settings(TASK))
    output = grove("train", "--task", task, "--out", tmp_path / "run", *paths, *short)
    assert "accuracy" in output and len(metrics(tmp_path / "run")) == 2
