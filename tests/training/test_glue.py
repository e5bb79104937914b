"""GLUE: GPST and GPT-2 trained on small files of every official shape, evaluated, and put in a table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.published.glue import SETS, read_development
from accel.evaluation.classification import matthews
from accel.tasks.glue import METRICS, PARTS
from accel.tasks.sentences import batches_of
from accel.trained.opening import open_model
from accel.training.checkpoint import read_state
from accel.training.run import BEST
from tests.fixtures.command_line import Grove, settings, with_options
from tests.fixtures.glue_files import FILES, write_glue
from tests.fixtures.gpst_runs import TASK
from tests.fixtures.toy_run import metrics


def tuning(folder: Path, name: str, out: Path, *more: object) -> list[str]:
    data = ("--name", name, "--data", folder, "--batch-size", 2, *settings(TASK))
    return with_options(("train", "--task", "glue", "--out", out, *data), *more)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of GPST for every set, and two seeds of GPT-2 for CoLA and MNLI."""
    folder = tmp_path_factory.mktemp("glue")
    for name in SETS:
        write_glue(folder, name)
        assert cli.main(tuning(folder, name, folder / f"gpst_{name}", "--steps", 2)) == 0
    for seed in (0, 1):
        for name in ("cola", "mnli"):
            more = ("--model", "gpt2", "--steps", 2, "--seed", seed)
            assert cli.main(tuning(folder, name, folder / f"gpt2_{name}_{seed}", *more)) == 0
    return folder


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_learned_and_evaluated(runs: Path, name: str) -> None:
    figures = json.loads((runs / f"gpst_{name}" / "evaluation.json").read_text())
    n_files = len(SETS[name].development)
    assert figures["examples"] == n_files * len(FILES[name].development) and figures["cut"] == 0
    assert set(figures) == {"examples", "cut", *METRICS[name]}
    for metric in METRICS[name]:
        values = figures[metric].values() if name in PARTS else [figures[metric]]
        assert all(-1 <= value <= 1 for value in values)
    model = open_model(accel.load("cpu"), runs / f"gpst_{name}")
    assert model.config.n_classes == max(1, len(SETS[name].classes))
    last = metrics(runs / f"gpst_{name}")[-1]
    assert "validation_loss" in last and ("validation_accuracy" in last) == bool(SETS[name].classes)


def test_matthews_is_that_of_both_development_files(tmp_path: Path, grove: Callable[..., str]) -> None:
    """In CoLA's own folder, the figure is computed over both files together, from the classes that the model gives."""
    (tmp_path / "raw").mkdir()
    for number, name in enumerate(("in_domain_train.tsv", "in_domain_dev.tsv", "out_of_domain_dev.tsv")):
        lines = [f"s\t{int(verb == 'runs')}\t\tit {'then ' * number}{verb}\n" for verb in ("runs", "a", "runs", "the")]
        (tmp_path / "raw" / name).write_text("".join(lines[number:]))
    rate = settings(("maximum_rate=0.03", "dropout=0.0", "network_dropout=0.0"))
    grove(*tuning(tmp_path, "cola", tmp_path / "run", "--model", "gpt2", "--epochs", 2, *rate))
    ops, labels, answers = accel.load("cpu"), list[int](), list[int]()
    model = open_model(ops, tmp_path / "run")
    for part in read_development("cola", tmp_path):
        (batch,) = batches_of(ops, model, ("0", "1"), part[:2])
        right = model.module.scores(ops, model.config, model.parameters, batch)[1]
        labels += batch.labels.tolist()
        answers += np.where(right, batch.labels, 1 - batch.labels).tolist()
    figures = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert len(labels) == 5 == figures["examples"] and figures["matthews"] == matthews(labels, answers)


def test_the_best_model_of_cola_has_the_highest_correlation(tmp_path: Path, run_grove: Grove) -> None:
    """Accuracy would select a model that gives all sentences the more frequent class, whose correlation is 0."""
    write_glue(tmp_path, "cola")
    more = ("--steps", 12, "--set", "validate_every=1", "--set", "maximum_rate=0.05")
    status, _, err = run_grove(*tuning(tmp_path, "cola", tmp_path / "run", *more))
    lines = [line for line in metrics(tmp_path / "run") if "validation_matthews" in line]
    best = max(lines, key=lambda line: line["validation_matthews"])
    assert best["validation_matthews"] > 0 and read_state(tmp_path / "run" / BEST)["step"] == best["step"]
    figures = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert figures["matthews"] == pytest.approx(best["validation_matthews"], abs=1e-6)
    last = f"{lines[-1]['validation_matthews']:.4f}"
    assert f", validation matthews {last}" in err and not status
    row = f"{last} at step 12; best {best['validation_matthews']:.4f} at step {best['step']}"
    assert re.search(rf"^validation matthews +{row}$", run_grove("info", tmp_path / "run")[1], re.MULTILINE)


@pytest.mark.parametrize("model", ["gpst", "gpt2"])
def test_scores_are_learned_by_heart(tmp_path: Path, model: str, grove: Callable[..., str]) -> None:
    folder = write_glue(tmp_path, "stsb")
    (folder / "dev.tsv").write_bytes((folder / "train.tsv").read_bytes())
    rates = ("maximum_rate=0.02", *(("own_rate=0.02",) if model == "gpst" else ()))
    still = settings((*rates, "dropout=0.0", "network_dropout=0.0", "d_model=16"))
    grove(*tuning(tmp_path, "stsb", tmp_path / "run", "--model", model, "--epochs", 40, *still))
    figures = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert figures["pearson"] > 0.95 and figures["spearman"] == 1.0
    assert metrics(tmp_path / "run")[-1]["validation_loss"] < 1.0


def test_long_examples(tmp_path: Path, run_grove: Grove) -> None:
    """Long examples are left out of training, and cut to a context in validation; both are counted."""
    folder = write_glue(tmp_path, "rte")
    (folder / "dev.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n0\ta b c d e f g h\ta b\tentailment\n1\ta\tb\tnot_entailment\n"
    )
    limits = ("--steps", 1, "--max-tokens", 9, "--set", "n_positions=11")
    status, out, err = run_grove(*tuning(tmp_path, "rte", tmp_path / "run", *limits))
    assert status == 0 and "cut             1" in out
    assert "1 examples of 2 classes; 2 for validation, 1 of them cut to the 10 tokens of a context" in err
    assert "left out: 1 training examples of more than 9 tokens" in err
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["cut"] == 1


def test_mistakes(tmp_path: Path, mistake: Callable[..., str]) -> None:
    write_glue(tmp_path, "stsb")

    def failed(*more: object) -> str:
        wrong = mistake(*tuning(tmp_path, "stsb", tmp_path / "run", *more))
        assert not (tmp_path / "run").exists()
        return wrong

    assert failed("--max-tokens", 3) == "--max-tokens 3: every training example has more than 3 tokens; use 10 or more"
    assert failed("--set", "select=accuracy") == "select: accuracy, but gpst has none; use loss"
    assert failed("--set", "select=f1") == "select: 'f1', but stsb has no such metric; use loss"
    assert failed("--set", "n_classes=2").startswith("--set n_classes=2: n_classes follows from the data")
    assert failed("--set", "n_positions=5").startswith("n_positions: every training example has more than 4 tokens")
    wrong = mistake("train", "--task", "glue", "--name", "wnli", "--out", tmp_path / "run")
    assert wrong.startswith("--name wnli: ") and wrong.endswith(
        "choose one of cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte"
    )


def test_the_table(runs: Path, grove: Callable[..., str], tmp_path: Path) -> None:
    """The table has means and deviations over seeds, "-" without a run, and averages over the columns of all rows."""
    gpst = [runs / f"gpst_{name}" for name in SETS]
    gpt2 = [f"GPT-2={runs / f'gpt2_{name}_{seed}'}" for seed in (0, 1) for name in ("cola", "mnli")]
    lines = grove("glue", *gpst, *gpt2, "--out", tmp_path / "table.json").splitlines()
    head = "seeds SST-2 CoLA MRPC F1 QQP F1 QNLI RTE MNLI m MNLI mm average"
    assert " ".join(lines[0].split()) == head
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    values = [json.loads((runs / f"gpt2_mnli_{k}" / "evaluation.json").read_text())["accuracy"] for k in (0, 1)]
    cell = rows["GPT-2"]["cells"]["MNLI m"]
    assert cell["mean"] == pytest.approx(np.mean([x["matched"] for x in values])) and cell["seeds"] == 2
    of_gpt2 = [f"{100 * cell['mean']:.2f}" for cell in rows["GPT-2"]["cells"].values()]
    average = f"{100 * rows['GPT-2']['average']:.2f}"
    assert lines[2].split() == ["GPT-2", "2", "-", of_gpt2[0], *"----", *of_gpt2[1:], average]
    assert lines[1].split()[:2] == ["gpst", "1"] and lines[3].split()[0] == "deviation"
    assert lines[5] == "average: of 3 of 8 columns, those that every row has: CoLA, MNLI m, MNLI mm"
    assert lines[6] == f"{runs / 'gpst_stsb'}: STS-B is no column of this table; --table glue has all"
    assert "task glue, rte" in " ".join(grove("info", gpst[-1]).split())
    whole = grove("glue", *gpst, "--table", "glue").splitlines()
    assert len(whole) == 2 and "-" not in whole[1].replace("-", " -").split()
    assert grove("glue", runs / "gpst_stsb").splitlines()[-2].startswith("average: of 0 of 8 columns")


def test_mistakes_of_the_table(
    runs: Path, tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    one = runs / "gpst_cola"
    assert mistake("glue", one, f"b={one}") == f"{one}: given twice; seeds of a model are different runs"
    first, other = runs / "gpt2_cola_0", runs / "other"
    for out, size in ((other, "n_positions=1025"), (runs / "wide", "d_model=16")):
        grove(*tuning(runs, "cola", out, "--model", "gpt2", "--steps", 1, "--set", size))
    wrong = mistake("glue", first, other)
    use = f"use NAME={other} with another name"
    assert wrong == f"{other}: gpt2 on CoLA with seed 0, as {first}; {use}, or train with another --seed"
    wrong = mistake("glue", first, runs / "wide")
    assert wrong.startswith(f"{runs / 'wide'}: gpt2: d_model is 16, and 8 in {first}; use NAME=")
    assert len(grove("glue", first, f"wide={runs / 'wide'}").splitlines()) == 5
    (other / "evaluation.json").write_text('{"loss": 1}')
    wrong = f"{other / 'evaluation.json'}: has no matthews: run grove evaluate {other} again"
    assert mistake("glue", f"x={other}") == wrong
    (other / "evaluation.json").unlink()
    assert mistake("glue", other) == f"{other}: has no evaluation.json; use grove evaluate {other}"
    advice = "does not exist; name a directory that `grove train` or `grove export` wrote"
    assert mistake("glue", tmp_path / "none") == f"{tmp_path / 'none'}: {advice}"


@pytest.mark.parametrize(
    ("name", "file", "n_examples"), [("cola", "cola/cola_public.zip", 1043), ("sst2", "sst", 872)], ids=["CoLA", "SST"]
)
def test_real_files(
    data_dir: Path, tmp_path: Path, name: str, file: str, n_examples: int, grove: Callable[..., str]
) -> None:
    grove(*tuning(data_dir / file, name, tmp_path / "run", "--steps", 2))
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["examples"] == n_examples
    assert grove("glue", tmp_path / "run").splitlines()[1].startswith("gpst")
