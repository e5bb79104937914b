"""Acceptability and sentiment by Transformers: files, symbols around sentences and classes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accel
from accel.data.batches.sentences import Example
from accel.data.files.lines import LineError, find_file
from accel.data.published.acceptability import read_acceptability
from accel.data.vocabularies.words import Words
from accel.tasks import acceptability
from accel.tasks.acceptability import FORMS, TESTS
from accel.tasks.sentences import TRANSFORMERS, batches_of
from accel.trained.opening import Model, open_model
from tests.fixtures.command_line import Grove
from tests.fixtures.parallel_text import SMALL

LINE = "gj04\t1\t\tthe more the merrier .\n"
QUICK = [*SMALL, "--set=max_height=3", "--epochs=12", "--batch-size=8", "--set=checkpoint_every=1000"]


def test_sentences_and_classes(tmp_path: Path) -> None:
    path = tmp_path / "in_domain_train.tsv"
    path.write_text(LINE + "bc01\t0\t*?\tthey it saw .")
    assert list(read_acceptability(path)) == [
        Example("acceptable", ("the more the merrier .".split(),), 1),
        Example("unacceptable", ("they it saw .".split(),), 2),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": an empty file"),
        (LINE + "gj04\t1\tthey saw it\n", ":2: 3 columns, not 4: source, label, mark, sentence"),
        ("gj04\t2\t\tthey saw it\n", ":1: unknown label '2': it must be 0 or 1"),
        ("gj04\t1\t\t \n", ":1: an empty sentence"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(text)
    with pytest.raises(LineError) as error:
        list(read_acceptability(path))
    assert str(error.value) == f"{path}{message}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sentences that are acceptable if they end with a verb."""
    lines = [
        f"s\t{int(verb == 'run')}\t\tthe {noun} {middle}{verb}\n"
        for noun in ("dogs", "cats", "birds", "bees") for middle in ("", "here ", "there now ") for verb in ("run", "a")
    ]  # fmt: skip
    (tmp_path / "tokenized").mkdir()
    for name in ("in_domain_train.tsv", *TESTS.values()):
        (tmp_path / "tokenized" / name).write_text("".join(lines))
    return tmp_path


def test_figures_are_those_of_each_file_and_of_both(tmp_path: Path) -> None:
    """The model accepts sentences with yes first; correlations by hand: (1 x 2 - 0) / sqrt(1 x 2 x 2 x 3), -1 and 0."""

    def scores(ops: Any, config: Any, parameters: Any, batch: Any) -> tuple[None, np.ndarray]:
        return None, (batch.ids[batch.offsets[:-1]] == 0) == batch.labels

    (tmp_path / "raw").mkdir()
    for name, lines in {
        "in_domain_dev": ("1 yes", "1 no", "0 no", "0 no"),
        "out_of_domain_dev": ("1 no", "0 yes"),
    }.items():
        text = "".join("s\t{}\t\t{} it is\n".format(*line.split()) for line in lines)
        (tmp_path / "raw" / f"{name}.tsv").write_text(text)
    config: Any = SimpleNamespace(kind="lstm", pair=False, n_classes=2)
    module: Any = SimpleNamespace(NAME="sentence_classifier", scores=scores)
    model = Model(Path("a model"), config, {}, Words(("yes", "no", "it", "is")), None, module)
    figures = acceptability.evaluate(accel.load("cpu"), model, tmp_path, {"form": "raw"})
    assert figures["accuracy"] == {"in domain": 0.75, "out of domain": 0.0, "both": 0.5}
    assert figures["correlation"] == pytest.approx({"in domain": 12**-0.5 * 2, "out of domain": -1, "both": 0})


@pytest.mark.parametrize("kind", [*TRANSFORMERS, "lstm"])
def test_acceptability(folder: Path, run_grove: Grove, kind: str) -> None:
    arguments = ("--task", "acceptability", "--model", kind, "--data", folder, "--out", folder / "run")
    small = QUICK if kind in TRANSFORMERS else ["--epochs=2"]
    status, out, err = run_grove("train", *arguments, *small)
    assert status == 0, err
    figures = json.loads((folder / "run" / "evaluation.json").read_text())
    assert figures.keys() == {"accuracy", "correlation"}
    shares = figures["accuracy"]
    assert shares.keys() == {*TESTS, "both"} == figures["correlation"].keys()
    assert shares["both"] == pytest.approx(sum(shares[name] for name in TESTS) / 2)  # both files have 24 sentences
    if kind in TRANSFORMERS:
        assert figures["accuracy"]["in domain"] > 0.7 and figures["correlation"]["out of domain"] > 0.3
    ops = accel.load("cpu")
    model = open_model(ops, folder / "run")
    source = folder / "text", [Example("acceptable", (["the", "zebra"],), 1)]
    batch = next(iter(batches_of(ops, model, ("unacceptable", "acceptable"), source)))
    symbols = ["<s>", "the", "<unk>", "</s>"] if kind in TRANSFORMERS else ["the", "<unk>"]
    assert model.vocabulary.decode(batch.ids.tolist()) == symbols and batch.offsets.tolist() == [0, len(symbols)]


@pytest.mark.parametrize("kind", ["transformer", "treeformer"])
def test_sentiment(tmp_path: Path, run_grove: Grove, kind: str) -> None:
    trees = ["(3 (2 a) (3 good))", "(1 (2 a) (1 bad))", "(4 (3 good) (2 film))", "(0 (1 bad) (2 film))", "(2 no)"]
    (tmp_path / "trees").write_text("\n".join(trees * 8) + "\n")
    files = [part for name in ("data", "validation", "test") for part in (f"--{name}", tmp_path / "trees")]
    arguments = ("--task", "sentiment", "--no-phrases", "--model", kind, *files, "--out", tmp_path / "run")
    status, _, err = run_grove("train", *arguments, *QUICK)
    assert status == 0 and "32 examples of 2 classes" in err, err
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["accuracy"] == 1.0


def test_mistakes(folder: Path, run_grove: Grove) -> None:
    def failed(*more: object) -> str:
        arguments = ("--task", "acceptability", "--data", folder, "--out", folder / "run")
        status, _, err = run_grove("train", *arguments, *more)
        assert status == 2 and not (folder / "run").exists()
        return err.splitlines()[-1]

    assert "raw/in_domain_train.tsv" in failed("--form", "raw")
    assert "; a treeformer takes none" in failed("--model", "treeformer", "--vectors", folder / "v")
    assert "max_height: -1, but the least whole number is 0" in failed(
        "--model", "treeformer", "--set", "max_height=-1"
    )
    for name in reversed(TESTS.values()):
        (folder / "tokenized" / name).write_text(LINE + "x\n")
        assert f"{name}:2: 1 columns, not 4" in failed()


@pytest.mark.parametrize("form", FORMS)
def test_real_files(data_dir: Path, form: str) -> None:
    """The files have the published sizes; they are read from the published archive."""
    counts = {"in_domain_train.tsv": 8551, "in_domain_dev.tsv": 527, "out_of_domain_dev.tsv": 516}
    for name, count in counts.items():
        path = find_file(data_dir / "cola" / "cola_public.zip", f"{form}/{name}")
        assert len(list(read_acceptability(path))) == count
