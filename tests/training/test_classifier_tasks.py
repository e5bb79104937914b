"""`grove train --task` for classifiers of sentences: logic, sentiment and inference are learned, saved and resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accel
from accel.data.generated.logic import RELATIONS, WORDS, write_files
from accel.data.vocabularies.words import Words
from accel.models.fasttrees import sentence_classifier
from accel.models.fasttrees.sentence_classifier import Config
from accel.tasks import agreement, logic
from accel.trained.opening import Model, open_model
from accel.training import checkpoint
from tests.fixtures.agreement_headers import HEADER
from tests.fixtures.command_line import settings
from tests.fixtures.labelled_examples import INFERENCE, SENTIMENT
from tests.fixtures.text_files import LANGUAGE_MODEL
from tests.fixtures.toy_run import metrics

CLASSIFIER = (*LANGUAGE_MODEL, "mlp_size=5")
SMALL_LOGIC = ("--batch-size", 32, "--epochs", 2, *settings((*CLASSIFIER, "chunk_size=4")))


def test_logic_is_evaluated_at_every_length(tmp_path: Path, grove: Callable[..., str]) -> None:
    write_files(tmp_path / "data", 4000, 1)
    out = tmp_path / "run"
    output = grove(
        "train", "--task", "logic", "--model", "conv_fasttrees", "--data", tmp_path / "data", "--out", out, *SMALL_LOGIC
    )
    accuracy = json.loads((out / "evaluation.json").read_text())["accuracy"]
    assert list(accuracy) == [str(length) for length in range(13)] and all(0 <= x <= 1 for x in accuracy.values())
    assert f"accuracy 12     {accuracy['12']:.4f}" in output
    lines = metrics(out)
    validated = [line for line in lines if "validation_accuracy" in line]
    assert len(validated) == 2 and validated[0]["step"] * 2 == len(lines) and lines[0]["learning_rate"] == 1e-3
    best = checkpoint.read_state(out / "best.safetensors")
    assert best["validation_accuracy"] == max(line["validation_accuracy"] for line in validated)
    assert best["training"]["epsilon"] == 1e-9 and best["training"]["weight_decay"] == 1.2e-6
    before = (out / "evaluation.json").read_bytes()
    assert grove("train", "--out", out, "--resume") == output
    assert grove("evaluate", out, "--data", tmp_path / "data") == output.replace(f"{out}/best.safetensors\n", "")
    assert (out / "evaluation.json").read_bytes() == before


def first_class_model(words: Words, n_classes: int) -> Model:
    """Return a model that always answers with the first class."""

    def scores(ops: Any, config: Any, parameters: Any, batch: Any, memory: Any) -> tuple[np.ndarray, np.ndarray, None]:
        return np.zeros(batch.n_labels), batch.labels == 0, None

    module: Any = SimpleNamespace(scores=scores)
    return Model(Path("a model"), SimpleNamespace(n_classes=n_classes), {}, words, None, module)


def test_accuracies_of_logic_are_those_of_each_length(tmp_path: Path) -> None:
    """In every file, one line has the first relation, and as many others as the length have the second."""
    first, second, *_ = RELATIONS
    for length in range(13):
        (tmp_path / f"test{length}").write_text("".join(f"{name}\ta\tb\n" for name in (first, *[second] * length)))
    model = first_class_model(WORDS, len(RELATIONS))
    result = logic.evaluate(accel.load("cpu"), model, tmp_path, {})
    assert result == {"accuracy": {str(length): pytest.approx(1 / (length + 1)) for length in range(13)}}


def test_accuracies_of_agreement_are_those_of_the_attractors(tmp_path: Path) -> None:
    """Only the test is judged: two of four verbs without attractors are singular, and so on."""
    path, items = tmp_path / "items.tsv", {0: "ZZPP", 1: "Z", 3: "P", 6: "P"}
    lines = [("test", end, n) for n, ends in items.items() for end in ends] + [("train", "P", 0), ("dev", "P", 0)]
    path.write_text(HEADER + "".join(f"{part}\td\tVB{end}\t1\t1\t{n}\t{n}\tbird sings\n" for part, end, n in lines))
    model = first_class_model(Words(("bird",)), 2)
    result = agreement.evaluate(accel.load("cpu"), model, path, {})["accuracy"]
    assert result == {"all": pytest.approx(3 / 7), "0 attractors": 0.5, "1 attractors": 1.0, "3 attractors": 0.0}


def test_a_test_of_logic_is_read_before_the_training(tmp_path: Path, mistake: Callable[..., str]) -> None:
    write_files(tmp_path / "data", 40, 1)
    (tmp_path / "data" / "test0").write_text("=\ta\tz\n")
    wrong = mistake("train", "--task", "logic", "--data", tmp_path / "data", "--out", tmp_path / "run", *SMALL_LOGIC)
    assert "test0:1" in wrong and "'z'" in wrong and not (tmp_path / "run").exists()


def test_neutral_trees_alone_are_no_examples(tmp_path: Path, mistake: Callable[..., str]) -> None:
    data = tmp_path / "data"
    data.write_text("(2 (2 It) (2 goes))\n")
    wrong = mistake("train", "--task", "sentiment", "--data", data, "--out", tmp_path / "run")
    assert wrong == f"{data}: no examples in this file: neutral trees are left out without --fine"


@pytest.mark.parametrize(
    ("task", "text", "more"),
    [("sentiment", SENTIMENT, ("--no-phrases",)), ("inference", INFERENCE, ())],
    ids=lambda x: x[:9],
)
def test_small_classifiers_learn_their_data_by_heart(
    tmp_path: Path, task: str, text: str, more: tuple[str, ...], grove: Callable[..., str]
) -> None:
    data = tmp_path / "data"
    data.write_text(text * 4)
    (tmp_path / "vectors").write_text("2 6\nfilm 1 2 3 4 5 6\nzebra 6 5 4 3 2 1\ndog 0 0 0 0 0 -1\nfilm 9 9 9 9 9 9\n")
    quick = ("projection_size=4", "dropout=0.0", "maximum_rate=0.02", "validate_every=10", "patience=9", "stop_after=0")
    common = ("--data", data, "--validation", data, "--test", data, *more)
    common = (*common, "--vectors", tmp_path / "vectors", "--learn-vectors")
    grove("train", "--task", task, "--out", tmp_path / "run", *common, "--steps=40", *settings((*CLASSIFIER, *quick)))
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["accuracy"] == 1.0
    model = open_model(accel.load("cpu"), tmp_path / "run")
    word_id = model.vocabulary.ids.get("film", model.vocabulary.ids.get("dog"))
    assert model.vocabulary.words[0] == "<unk>" and np.abs(model.parameters["embedding"][word_id]).max() > 0.5


def test_a_released_classifier_is_evaluated_as_it_was_validated(tmp_path: Path, grove: Callable[..., str]) -> None:
    """Its results depend on the other sentences of a batch: batches of the test have the size of the run's."""
    data, run = tmp_path / "data", tmp_path / "run"
    data.write_text(SENTIMENT * 4)
    files = ("--data", data, "--validation", data, "--test", data)
    options = ("--fine", "--no-phrases", "--model", "conv_fasttrees", "--batch-size", 5, "--steps", 8)
    released = settings((*CLASSIFIER, "maximum_rate=0.02", "variant=released"))
    grove("train", "--task", "sentiment", "--out", run, *files, *options, *released)
    expected = checkpoint.read_state(run / "best.safetensors")["validation_loss"]
    assert json.loads((run / "evaluation.json").read_text())["loss"] == expected


def test_released_logic_is_evaluated_in_batches_of_its_training(
    tmp_path: Path, grove: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "data", 4000, 1)
    released = ("--model", "conv_fasttrees", "--variant", "released", "--steps", 1, "--batch-size", 32)
    files = ("--data", tmp_path / "data", "--out", tmp_path / "run")
    grove("train", "--task", "logic", *files, *released, *settings((*CLASSIFIER, "chunk_size=4")))

    def largest_batch(ops: Any, module: Any, config: Any, parameters: Any, batches: Any) -> dict[str, int]:
        return {"accuracy": max(batch.n_labels for batch in batches)}

    monkeypatch.setattr(logic, "evaluate_batches", largest_batch)
    ops = accel.load("cpu")
    result = logic.evaluate(ops, open_model(ops, tmp_path / "run"), tmp_path / "data", {})
    assert max(result["accuracy"].values()) == 32


TABLES = {"a": "film 1 2 3\nThe 1 1 1\nthe 0 0 1\n", "b": "2 3\ndog 3 2 1\nthe 0 1 0\n"}


def test_frozen_tables_are_kept_and_resumed(
    tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    """The vocabulary is the words with a vector; the tables are saved beside the checkpoints and exported with them."""
    (tmp_path / "data.tsv").write_text("sentence\tlabel\nThe film\t1\nthe Dog\t0\na zebra film\t1\n")
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    run, vectors = tmp_path / "run", ("--vectors", tmp_path / "a", "--vectors", tmp_path / "b")
    data = ("--data", tmp_path / "data.tsv", "--validation", tmp_path / "data.tsv", "--test", tmp_path / "data.tsv")
    small = settings(("projection_size=4", "hidden_size=4", "chunk_size=2", "mlp_size=3", "validate_every=2"))
    command = ("train", "--task", "sentiment", "--model", "on_lstm", "--out", run, *data, *vectors, *small)
    grove(*command, "--steps=4")
    model = open_model(accel.load("cpu"), run)
    assert model.vocabulary.words == ("<unk>", "film", "The", "the", "dog")
    assert model.vocabulary.encode(["The", "Dog", "zebra"]) == [2, 4, 0]
    tables = [[[0] * 3, [1, 2, 3], [1, 1, 1], [0, 0, 1], [0] * 3], [[0] * 3, [0] * 3, [0, 1, 0], [0, 1, 0], [3, 2, 1]]]
    assert [model.parameters[f"tables.{k}"].tolist() for k in (0, 1)] == tables
    for name in TABLES:
        (tmp_path / name).unlink()  # the run has copies
    scores = grove("train", "--out", run, "--resume", "--steps=8").replace(f"{run}/best.safetensors\n", "")
    assert metrics(run)[-1]["step"] == 8 and grove("evaluate", run) == scores
    grove("export", run, tmp_path / "exported")
    assert grove("evaluate", tmp_path / "exported", "--data", tmp_path / "data.tsv") == scores
    output = " ".join(grove("info", run).split())
    assert f"vectors {tmp_path}/a {tmp_path}/b" in output
    learned = ("--vectors", tmp_path / "a", "--learn-vectors", "--vector-words", 1, "--out", tmp_path / "x")
    wrong = mistake("train", "--task", "sentiment", "--model", "on_lstm", *data, *learned)
    assert wrong == "--vector-words: is for --vectors that are not learned; leave it out"
    wrong = mistake("train", "--out", run, "--resume", "--vectors", tmp_path / "c")
    assert wrong.startswith(f"{run}: a resumed run keeps its settings: --vectors: ")
    wrong = mistake("train", "--task", "sentiment", "--out", tmp_path / "x", *data, "--vectors", run / "config.json")
    assert wrong.startswith(f"{run}/config.json:1: 0 number(s) after the word, not one or more")


def test_a_classifier_from_before_the_tables_resumes(tmp_path: Path, grove: Callable[..., str]) -> None:
    """It keeps its old settings and its one file of vectors, which it continues to learn."""
    (tmp_path / "data").write_text(SENTIMENT)
    (tmp_path / "vectors").write_text("film 1 2 3 4 5 6\n")
    run, older = tmp_path / "run", ("mlp_layers=1", "activation=elu", "patience=2", "least_rate=0", "stop_after=0")
    files = ("--data", tmp_path / "data", "--validation", tmp_path / "data", "--vectors", tmp_path / "vectors")
    small = settings((*CLASSIFIER, *older))
    grove("train", "--task", "sentiment", "--out", run, *files, "--learn-vectors", "--steps=4", *small)
    content = json.loads((run / "config.json").read_text())
    for name in ("learn_vectors", "vector_words"):
        del content["options"][name]
    content["options"]["vectors"] = str(tmp_path / "vectors")
    content["options"]["set"] = [x for x in content["options"]["set"] if x not in older]
    (run / "config.json").write_text(json.dumps(content))
    for name in ("checkpoint.safetensors", "best.safetensors"):
        state = checkpoint.read_state(run / name)
        saved = checkpoint.load(run / name, sentence_classifier.parameter_shapes(Config(**state["config"])))
        for field in ("n_tables", "pool", "mlp_layers", "activation"):
            del saved.state["config"][field]
        for field in ("least_rate", "stop_after"):
            del saved.state["training"][field]
        checkpoint.save(run / name, saved)
    grove("train", "--out", run, "--resume", "--steps=8")
    assert metrics(run)[-1]["step"] == 8 and "accuracy" in grove("evaluate", run, "--data", tmp_path / "data")
