"""The result files of FastTrees and Treeformer, one for each model and seed of a task, all in one form.

    results/fasttrees/logic-on_lstm-0.json

`task`, `model`, `seed`, `steps`; `hours` of one core, training and test; `data`, files and the beginnings of their
SHA-256; `commit`, `machine`, `commands`; `measures`, each with `name`, `unit` and `value`. What is not known is null:
figures that are older than these files have no hours, or no digests, and a `note` says where they come from. In
commands {data} is the folder of published data, and {run} that of the run. Some tasks have `answers`, to all test
examples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accel.evaluation.induced_f1 import BASELINES
from accel.evaluation.induction import ORACLE
from accel.training.directory import write_text
from accel.training.metrics import read_metrics
from accel.training.run import METRICS
from examples import provenance
from examples.treeformer import sizes

PAPERS = ("fasttrees", "treeformer")
TaskResult = dict[str, Any]
FIELDS = ("task", "model", "seed", "steps", "hours", "data", "commit", "machine", "commands", "measures")
UNITS = {"accuracy": ("%", 100), "matthews": ("%", 100), "perplexity": ("", 1), "BLEU": ("", 1)}
"""Of the figures of `grove evaluate`: the unit of a measure, and what the figure is multiplied by."""
SIZES = "sizes.json"
"""The file of `examples.treeformer.sizes`, with the figures of all its models."""


def store(content: Mapping[str, Any], folder: Path) -> None:
    """Write the result of a run of the queue to the folder of its paper, in the form of these files."""
    if content.get("task"):
        result = task_result(content)
        _write(folder / stored_name(result), result)
    for name, figures in content.get("figures", {}).items():
        if name.endswith(SIZES):
            for result in results_of_sizes(content, figures):
                _write(folder / stored_name(result), result)


def results_of_sizes(content: Mapping[str, Any], figures: Mapping[str, Any]) -> Iterator[TaskResult]:
    """Yield the results of the models that `examples.treeformer.sizes` made in one run."""
    n_models = sum(len(row["found"]) for row in figures["found"])
    for row in figures["found"]:
        name = sizes.Variant(row["model"], row["depth"], row["H"]).name
        for seed, of_seed in zip(figures["seeds"], row["found"], strict=True):
            by_name = {"parameters": of_seed["parameters"]} | {f"accuracy, {k}": of_seed[k] for k in ("test", "new")}
            measures = [{"name": k, "unit": "" if k == "parameters" else "%", "value": v} for k, v in by_name.items()]
            values = ("treeformer/sizes", name, seed, figures["options"]["steps"],
                      round(content["core_hours"] / n_models, 4), figures["data"], content["commit"],
                      content["machine"], content["commands"], measures)  # fmt: skip
            note = "hours: those of the run, divided by the number of its models"
            yield dict(zip(FIELDS, values, strict=True)) | {"note": note}


def stored_name(result: TaskResult) -> str:
    """Return the name of a result file in the folder of all results."""
    return f"{result['task']}-{result['model']}-{result['seed']}.json"


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def task_result(content: Mapping[str, Any]) -> TaskResult:
    """Return the result of a run of the queue in the form of these files."""
    result = {name: content[name] for name in ("task", "model", "seed", "data", "commit", "machine", "commands")}
    measures = []
    answers = {}
    for path, figures in content["figures"].items():
        if "answers" in figures:
            answers = {"answers": figures["answers"]}
            continue
        checkpoint = Path(path).name.removesuffix("evaluation.json").rstrip(".")  # empty: the best one
        ending = f", {checkpoint}" if path.endswith(".evaluation.json") else ""
        measures += [measure | {"name": measure["name"] + ending} for measure in measures_of(figures)]
    if "validation_accuracy" in content:
        best = max(accuracy for _, accuracy in content["validation_accuracy"])
        measures.append(measure_of("accuracy, validation", best))
    match = re.search(r"--steps (\d+)", " ".join(content["commands"]))
    steps = content["last_step"]["step"] if "last_step" in content else int(match[1]) if match else None
    more = {"steps": steps, "hours": content["core_hours"], "measures": measures}
    if "still_improving" in content:
        more["still_improving"] = content["still_improving"]
    return {name: (result | more)[name] for name in FIELDS} | more | answers


def training_result(
    run: Path, task: str, model: str, seed: int, commands: list[str], data: dict[str, str]
) -> TaskResult:
    """Return the result of a training by a program of the examples; its hours are the elapsed time of the steps."""
    lines = read_metrics(run / METRICS)
    figures = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    values = (task, model, seed, len(lines), round(sum(line["seconds"] for line in lines) / 3600, 4), data,
              provenance.commit(), provenance.machine(), commands, measures_of(figures))  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def measures_of(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the measures in what `grove evaluate`, `grove induction` or a program of the examples stored."""
    if "convention" in figures:
        return list(_of_trees(figures["rows"], figures["convention"]))
    if all(isinstance(value, Mapping) for value in figures.values()) and not UNITS.keys() & figures.keys():
        [figures] = figures.values()  # of the only model of a program
        return [measure_of(f"accuracy, {name}", value) for name, value in figures.items()]
    measures = []
    for name in UNITS.keys() & figures.keys():
        inner = figures[name]
        by_name = {f"{name}, {k}": v for k, v in inner.items()} if isinstance(inner, Mapping) else {name: inner}
        measures += [measure_of(key, value) for key, value in by_name.items()]
    return measures


def measure_of(name: str, value: float) -> dict[str, Any]:
    unit, scale = UNITS[name.partition(",")[0]]
    return {"name": name, "unit": unit, "value": round(scale * value, 4)}


def _of_trees(rows: Mapping[str, Any], convention: str) -> Iterator[dict[str, Any]]:
    """Yield F1 of every row and recall of the first one; if there are several ways to find trees, a name holds the way
    and the convention."""
    ways = [title for title in rows if title not in (*BASELINES, ORACLE)]
    ending = f", {convention.upper()}" if len(ways) > 1 else ""
    for title, row in rows.items():
        kind = title if title not in ways else title.rpartition(", ")[2] if ending else "trees"
        yield {"name": f"F1{ending}, {kind}", "unit": "%", "value": round(row["sentence_f1"], 4)}
        if title == ways[0]:
            [member] = row["members"]
            for label in ("ADJP", "NP", "PP", "SBAR", "VP"):
                if label in member["label_recall"]:
                    name = f"recall{ending}, {label}"
                    yield {"name": name, "unit": "%", "value": round(member["label_recall"][label], 4)}


def read_task_results(folder: Path) -> list[TaskResult]:
    """Return all results of the papers' folders."""
    paths = (path for paper in PAPERS for path in sorted((folder / paper).glob("*-*.json")))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def value_of(result: TaskResult, name: str) -> float | None:
    """Return a measure of a result, None if it was not measured."""
    return next((measure["value"] for measure in result["measures"] if measure["name"] == name), None)


def values_of(results: Sequence[TaskResult], model: str, name: str) -> list[float]:
    """Return a measure of every result of a model, in order; results without it are left out."""
    values = (value_of(result, name) for result in results if result["model"] == model)
    return [value for value in values if value is not None]
