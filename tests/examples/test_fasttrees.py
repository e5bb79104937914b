"""The examples of FastTrees, shortened to seconds: they run, and compare their tables with the expected ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accel.data.files.brackets import read_trees
from accel.data.generated.grammar import ENGLISH
from accel.data.generated.logic import LONGEST
from accel.evaluation.induced_f1 import BASELINES
from accel.tasks import agreement, arithmetic
from examples.commands import EXPECTED, compare, grove
from examples.fasttrees import answers, language_model, logic, sentiment, transformer
from examples.task_results import FIELDS, value_of
from refimpl.trees import words
from tests.fixtures.labelled_examples import SENTIMENT


def test_logic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--out", str(tmp_path), "--samples", "3000", "--epochs", "2"]
    figures = logic.main(short)
    assert list(figures) == list(logic.MODELS.values())
    assert all(by_length.keys() == {str(k) for k in range(LONGEST + 1)} for by_length in figures.values())
    out = capsys.readouterr().out
    assert out.count("$ grove train --task logic") == 3
    assert "ON-LSTM, 3: " in out.partition("figures are not as expected")[2]  # two epochs do not learn it
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
    assert logic.main(short) == figures  # complete runs are only tested again
    checkpoint, data, out_file = (str(tmp_path / name) for name in ("on_lstm", "data", "answers.json"))
    answers.main(["--checkpoint", checkpoint, "--data", data, "--out", out_file])
    model_answers = json.loads(Path(out_file).read_text())["answers"]
    assert {length: answers.right_of(model_answers, length).mean() for length in model_answers} == figures["ON-LSTM"]


def test_sentiment(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    small = ("projection_size=8", "hidden_size=4", "chunk_size=2", "mlp_size=3", "batch_size=2")
    monkeypatch.setattr(sentiment, "SETTINGS", small)
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").write_text(SENTIMENT)
    rows = sentiment.main(["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--epochs", "2"])
    assert [row["model"] for row in rows] == list(sentiment.CELLS) and all(row["epochs"] == 2 for row in rows)
    results = [json.loads((tmp_path / "out" / f"{name}-0" / "result.json").read_text()) for name in sentiment.CELLS]
    assert [value_of(result, "accuracy") for result in results] == [row["accuracy"] for row in rows]
    assert all(len(result["data"]) == 3 and tuple(result) == FIELDS for result in results)
    assert capsys.readouterr().out.endswith(f"{sentiment.table(rows)}\n")


def test_language_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = language_model.main(["--out", str(tmp_path), "--sentences", "300", "--test", "30", "--epochs", "3"])
    out = capsys.readouterr().out
    titles = list(language_model.MODELS.values())
    assert list(figures) == titles and f"possible is {ENGLISH.perplexity:.3f})" in out
    assert all(of_model["perplexity"] > ENGLISH.perplexity for of_model in figures.values())
    rows = out.partition("grammar's own:\n")[2].splitlines()[1:14]
    layers = [f"{title}, layer {k}" for title in titles for k in language_model.LAYERS]
    assert [row[:26].strip() for row in rows] == [*layers, *BASELINES]
    trees = list(read_trees((tmp_path / "test.trees").read_text().splitlines()))
    assert [" ".join(words(tree)) for tree in trees] == (tmp_path / "test.txt").read_text().splitlines()
    assert not any("." in words(tree) for tree in trees)
    assert language_model.SENTENCE.split()[2] in (tmp_path / "distances.svg").read_text()


def test_transformer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for task in (agreement, arithmetic):
        monkeypatch.setattr(task, "N_TEST", 60)
        monkeypatch.setattr(task, "N_VALIDATION", 60)
    short = ["--sentences", "200", "--problems", "200", "--agreement-steps", "21", "--arithmetic-steps", "21"]
    figures = transformer.main(["--out", str(tmp_path), *short])
    assert list(figures) == list(transformer.MODELS.values())
    assert all(0 <= value <= 1 for of_model in figures.values() for value in of_model.values())
    assert capsys.readouterr().out.count("$ grove train --task") == 6


def test_expected_figures_are_complete() -> None:
    expected = json.loads(Path(logic.__file__).with_name(EXPECTED).read_text())
    assert {name: list(values) for name, values in expected["logic"].items()} == {
        title: [str(k) for k in range(LONGEST + 1)] for title in logic.MODELS.values()
    }
    for program, models in expected.items():
        exact = {model: {name: pair[0] for name, pair in values.items()} for model, values in models.items()}
        assert compare(str(Path(logic.__file__).with_name(program)), exact) == []
        first = next(iter(exact))
        exact[first] = dict.fromkeys(exact[first], float("nan"))
        assert len(compare(str(Path(logic.__file__).with_name(program)), exact)) == len(exact[first])


def test_a_command_that_fails_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        grove("parse", "no.txt", "--checkpoint", "nowhere")
    assert "nowhere" in capsys.readouterr().err
