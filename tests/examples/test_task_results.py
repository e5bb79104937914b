"""Results of the queue's runs, in the form that the result files of FastTrees and Treeformer share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples import task_tables
from examples.findings import hours
from examples.queue_commands import SEEDS
from examples.result_files import FOLDER
from examples.small_runs import PRETRAINED, SMALL_RUNS
from examples.task_results import (
    FIELDS,
    PAPERS,
    TaskResult,
    read_task_results,
    store,
    task_result,
    training_result,
    value_of,
)
from examples.task_tables import TaskTable, sizes_rows, task_sources, task_table

TRAINED: dict[str, Any] = {
    "name": "fasttrees/logic/lstm-2", "table": "fasttrees/logic", "seed": 2, "commit": "0" * 40, "data": {"a/b": "c"},
    "machine": {"threads": 1}, "core_hours": 0.01, "commands": ["accel.cli train --out {run}"],
    "task": "fasttrees/logic", "model": "lstm", "validation_accuracy": [[5, 0.25], [10, 0.125]],
    "last_step": {"step": 10}, "still_improving": False,
    "figures": {"fasttrees/logic/lstm-2/evaluation.json": {"accuracy": {"7": 0.5, "8": 0.25}, "words": 12}},
}  # fmt: skip
INDUCED = {
    "convention": "wsj10",
    "rows": {
        "fasttrees, layer 2": {"sentence_f1": 45.0, "members": [{"label_recall": {"NP": 34.0, "QP": 2.0}}]},
        "right": {"sentence_f1": 58.0, "members": [{"label_recall": {"NP": 44.0}}]},
    },
}


def named(result: dict[str, Any]) -> dict[str, float]:
    return {measure["name"]: measure["value"] for measure in result["measures"]}


def test_a_run_becomes_a_result_file(tmp_path: Path) -> None:
    store(TRAINED, tmp_path)
    [result] = read_task_results(tmp_path)
    assert list(result) == [*FIELDS, "still_improving"] and (tmp_path / "fasttrees" / "logic-lstm-2.json").exists()
    assert named(result) == {"accuracy, 7": 50.0, "accuracy, 8": 25.0, "accuracy, validation": 25.0}
    assert (result["steps"], result["hours"], result["seed"]) == (10, 0.01, 2)
    assert value_of(result, "accuracy, 7") == 50.0 and value_of(result, "perplexity") is None


def test_answers_are_stored_beside_the_measures() -> None:
    answers = {"7": {"pairs": 4, "right": "a0"}}
    figures = TRAINED["figures"] | {"fasttrees/logic/lstm-2/answers.json": {"answers": answers}}
    result = task_result(TRAINED | {"figures": figures})
    assert result["answers"] == answers and named(result) == named(task_result(TRAINED))


def test_measures_of_other_programs() -> None:
    content = {name: value for name, value in TRAINED.items() if name not in ("validation_accuracy", "last_step")}
    content["commands"] = ["examples.treeformer.head_final --steps 1500"]
    content["figures"] = {"figures.json": {"Treeformer": {"test": 0.5}}, "induction.json": INDUCED}
    result = task_result(content)
    assert named(result) == {"accuracy, test": 50.0, "F1, trees": 45.0, "recall, NP": 34.0, "F1, right": 58.0}
    assert result["steps"] == 1500
    content["figures"] = {"evaluation.json": {"BLEU": {"best": 2.5}}, "x/last.evaluation.json": {"perplexity": 9.0}}
    assert named(task_result(content)) == {"BLEU, best": 2.5, "perplexity, last": 9.0}
    assert task_result(content | {"commands": ["examples.treeformer.head_final"]})["steps"] is None


def test_a_training_of_a_program_becomes_a_result(tmp_path: Path) -> None:
    lines = [{"step": step, "loss": 1.0, "seconds": seconds} for step, seconds in ((1, 1800.0), (2, 5400.0))]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "evaluation.json").write_text('{"accuracy": {"7": 0.5}}')
    result = training_result(tmp_path, "fasttrees/logic", "lstm", 2, ["x"], {"a": "b"})
    assert list(result) == list(FIELDS) and named(result) == {"accuracy, 7": 50.0}
    assert (result["model"], result["seed"], result["steps"], result["hours"]) == ("lstm", 2, 2, 2.0)
    assert hours([tmp_path, tmp_path]) == 4.0


def test_trees_of_several_layers_are_named_with_their_convention() -> None:
    layers = {f"fasttrees, layer {k}": {"sentence_f1": 40.0 + k, "members": [{"label_recall": {"NP": 30.0 + k}}]}
              for k in (2, 1)}  # fmt: skip
    content = TRAINED | {"task": "fasttrees/language_model_25_epochs", "model": "fasttrees"}
    content["figures"] = {
        f"{convention}.json": {"convention": convention, "rows": layers | {"right": {"sentence_f1": value}}}
        for convention, value in {"wsj": 39.0, "wsj10": 58.0}.items()
    } | {"evaluation.json": {"perplexity": 90.0}}
    result = task_result({name: value for name, value in content.items() if name != "validation_accuracy"})
    of_wsj = {"F1, WSJ, layer 2": 42.0, "recall, WSJ, NP": 32.0, "F1, WSJ, layer 1": 41.0, "F1, WSJ, right": 39.0}
    assert named(result).items() >= of_wsj.items() and named(result)["F1, WSJ10, right"] == 58.0
    table = task_table("fasttrees/language_model_25_epochs", [result])
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in table.splitlines()[2:]}
    assert rows["FastTrees"][:8] == ["90.00", "42.0", "42.0", "41.0", "41.0", "", "", "56.35, 65.5, 44.3"]
    assert rows["right trees, WSJ10"][1] == "58.0" and rows["right trees, WSJ"][2] == "39.0"
    assert rows["ON-LSTM"][0] == "not run: `make results DATA=data`"


def test_models_of_one_program_become_result_files(tmp_path: Path) -> None:
    """The program `sizes` trains all models in one run; the table from its result files has the same order."""
    seed_figures = [{"parameters": 8, "test": 40.0 + seed, "new": 0.5} for seed in (2, 3)]
    rows = [{"model": title, "depth": 2, "H": height, "found": seed_figures}
            for title, height in (("Transformer", None), *(("Treeformer, paper", h) for h in (10, 0)))]  # fmt: skip
    figures = {"options": {"out": "/somewhere", "steps": 600}, "seeds": [2, 3], "data": {}, "found": rows}
    content = {
        "core_hours": 0.12,
        "commands": ["x"],
        "commit": "c",
        "machine": {},
        "figures": {"a/sizes.json": figures},
    }
    store(content, tmp_path)
    results = read_task_results(tmp_path)
    assert len(results) == 6 and {result["hours"] for result in results} == {0.02}
    assert sizes_rows(results) == rows and "somewhere" not in str(results)
    units = {measure["name"]: measure["unit"] for result in results for measure in result["measures"]}
    assert units == {"parameters": "", "accuracy, test": "%", "accuracy, new": "%"}
    assert (tmp_path / "treeformer" / "sizes-treeformer-2-0-3.json").exists()


def test_every_small_run_has_three_seeds_and_a_table() -> None:
    """The exception is the pre-training from which the runs of GLUE start."""
    runs = [run for run in SMALL_RUNS if run.task and run is not PRETRAINED]
    models = {(run.task, run.model) for run in runs}
    assert {(run.task, run.model, run.seed) for run in runs} == {(*model, seed) for model in models for seed in SEEDS}
    assert {task.split("/")[0] for task, _ in models} == set(PAPERS)


def of_model(model: str, seed: int, **measures: float) -> TaskResult:
    entries = [{"name": name, "unit": "%", "value": value} for name, value in measures.items()]
    unknown = dict.fromkeys(FIELDS) | {"task": "toy", "model": model, "seed": seed, "measures": entries}
    return (
        unknown | {"steps": 10 + 10 * seed, "hours": 0.05} | ({"still_improving": seed > 0} if model == "new" else {})
    )


def test_a_table_has_means_differences_and_what_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"old": "Old", "new": "New", "none": "None"}
    toy = TaskTable(models, {"F1": "F1, %"}, "old", {"none": "9.0"}, "train MODEL", {"left": "left trees"})
    monkeypatch.setitem(task_tables.TASKS, "toy", toy)
    results = [of_model("old", seed, F1=value) for seed, value in enumerate((1.0, 2.0, 3.0))]
    results += [of_model("new", seed, F1=value, left=40.0) for seed, value in enumerate((4.0, 6.0, 8.0))]
    assert task_table("toy", results).splitlines() == [
        "| model | F1, % | paper | minus Old (p) | seeds | steps | still improving | minutes a run |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        "| Old | 2.0 ± 1.0 |  |  | 3 | 10 to 30 |  | 3.0 |",
        "| New | 6.0 ± 2.0 |  | +4.0 (0.055) | 3 | 10 to 30 | 2 of 3 | 3.0 |",
        "| None | not run: `train none` | 9.0 |  | 0 |  |  |  |",
        "| left trees | 40.0 |  |  |  |  |  |  |",
    ]
    [row] = task_sources(results).splitlines()[2:]
    assert row == "| toy | 6 | 0.30 |  |  |"


def test_result_files_have_one_form() -> None:
    """Every file has all fields; a result without a commit has a note that says where it comes from."""
    for result in read_task_results(FOLDER):
        assert [name for name in result if name in FIELDS] == list(FIELDS), result["task"]
        assert result["measures"] and result["commands"] and "/" in result["task"]
        assert result["commit"] or "at commit" in result["note"], result["task"]
        assert not any("/work" in command or "/tmp" in command for command in result["commands"])
