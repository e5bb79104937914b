"""The tables of FastTrees' and Treeformer's tasks in RESULTS.md, in Markdown: means over seeds, beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from examples.categories import categories
from examples.markdown import less, spread, table
from examples.task_results import TaskResult, value_of, values_of
from examples.treeformer import sizes

CELLS = {
    "lstm": "LSTM",
    "on_lstm": "ON-LSTM",
    "fasttrees": "FastTrees",
    "conv_fasttrees": "Conv. FastTrees",
    "faster_fasttrees": "Faster FastTrees",
}
WITH_DISTANCES = {model: title for model, title in CELLS.items() if model != "lstm"}
BLOCKS = {"transformer": "Transformer", "fasttrees": "with FastTrees", "conv_fasttrees": "with Conv. FastTrees"}
CHARTS = {
    "transformer": "Transformer",
    "transformer_deeper": "Transformer, deeper encoder",
    "treeformer": "Treeformer, paper's chart",
    "treeformer_released": "Treeformer, released chart",
}
ALBERT = {"albert": "ALBERT", "albert_treeformer": "ALBERT with the chart"}
TRIVIAL = {f"F1, {kind}": f"{kind} trees" for kind in ("random", "balanced", "left", "right")}
BY_LENGTH = {f"accuracy, {n}": str(n) for n in range(7, 13)}
CONSTRUCTIONS = {
    f"accuracy, {name}": name
    for name in ("test", "known subjects", "two prepositions", "relative in preposition",
                 "preposition in subject relative", "preposition in object relative", "relative in relative")
}  # fmt: skip


@dataclass(frozen=True)
class TaskTable:
    """The rows, columns and paper's figures of a task; the first column is compared with that of model `against`."""

    models: Mapping[str, str]
    measures: Mapping[str, str]
    against: str
    paper: Mapping[str, str] = field(default_factory=dict)  # of the same columns
    command: str = "python -m examples.queue --small --data data"  # trains a model that has no result
    constants: Mapping[str, str] = field(default_factory=dict)  # measures with their own row, equal for all models


LOGIC = {"lstm": "88, 84, 80, 78, 71, 69", "on_lstm": "91, 87, 85, 81, 78, 75", "fasttrees": "91, 88, 83, 80, 76, 74",
         "conv_fasttrees": "93, 90, 86, 83, 80, 79", "faster_fasttrees": "66, 62, 57, 55, 53, 53"}  # fmt: skip
SENTIMENT = {"lstm": "87.86", "on_lstm": "88.30", "fasttrees": "88.69", "conv_fasttrees": "88.46",
             "faster_fasttrees": "86.99"}  # fmt: skip
BY_LAYER = {"perplexity": "perplexity", **{f"F1, {text}, layer {k}": f"F1, {text}, layer {k}" for k in (2, 1, 3)
                                           for text in ("WSJ10", "WSJ")}}  # fmt: skip
PERPLEXITY_AND_F1 = {"on_lstm": "56.25, 66.8, 49.4", "fasttrees": "56.35, 65.5, 44.3", "faster_fasttrees": "59.10"}
TRIVIAL_WSJ = {
    f"F1, {text}, {kind}": f"{kind} trees, {text}" for text in ("WSJ10", "WSJ") for kind in ("random", "right")
}
TASKS = {
    "fasttrees/trees": TaskTable(
        WITH_DISTANCES,
        {"F1, WSJ10, layer 2": "F1, WSJ10", **{f"recall, WSJ10, {label}": label for label in ("ADJP", "NP", "PP")}},
        "on_lstm", {"on_lstm": "66.8", "fasttrees": "65.5"}, "make results DATA=data",
    ),
    "fasttrees/language_model_generated": TaskTable(
        {model: CELLS[model] for model in ("on_lstm", "fasttrees", "faster_fasttrees")},
        {"perplexity": "perplexity", **{f"F1, layer {k}": f"F1 of layer {k}" for k in (1, 2, 3)}}, "on_lstm",
        constants=TRIVIAL,
    ),
    "fasttrees/language_model_10_epochs": TaskTable(
        WITH_DISTANCES, BY_LAYER, "on_lstm", PERPLEXITY_AND_F1 | {"conv_fasttrees": "57.30"}, "make results DATA=data",
        TRIVIAL_WSJ,
    ),
    "fasttrees/language_model_25_epochs": TaskTable(
        {model: CELLS[model] for model in ("on_lstm", "fasttrees", "faster_fasttrees")}, BY_LAYER, "on_lstm",
        PERPLEXITY_AND_F1, "make results DATA=data", TRIVIAL_WSJ,
    ),
    "fasttrees/logic_published": TaskTable(CELLS, BY_LENGTH, "on_lstm", LOGIC, "make results DATA=data"),
    "fasttrees/sentiment": TaskTable(CELLS, {"accuracy": "accuracy, %"}, "on_lstm", SENTIMENT),
    "fasttrees/sentiment_vectors": TaskTable(CELLS, {"accuracy": "accuracy, %"}, "on_lstm", SENTIMENT),
    "fasttrees/sentiment_random": TaskTable(CELLS, {"accuracy": "accuracy, %"}, "on_lstm", SENTIMENT),
    "fasttrees/inference": TaskTable(
        CELLS, {"accuracy": "accuracy, %"}, "on_lstm",
        {"lstm": "86.12", "on_lstm": "85.82", "fasttrees": "86.04", "conv_fasttrees": "86.23",
         "faster_fasttrees": "85.21"},
    ),
    "fasttrees/translation": TaskTable(
        BLOCKS, {"BLEU, best": "BLEU"}, "transformer",
        {"transformer": "28.43", "fasttrees": "30.31", "conv_fasttrees": "29.72"},
    ),
    "fasttrees/agreement": TaskTable(
        BLOCKS,
        {"accuracy, all": "accuracy, %", **{f"accuracy, {n} attractors": f"{n} attractors" for n in range(3)}},
        "transformer", {"transformer": "94.8", "fasttrees": "94.8", "conv_fasttrees": "95.7"},
    ),
    "fasttrees/agreement_generated": TaskTable(
        BLOCKS, {"accuracy, one noun between": "one noun between, %", "accuracy, two": "two, %"}, "transformer"
    ),
    "fasttrees/arithmetic_1000_steps": TaskTable(
        BLOCKS, {"accuracy, validation": "characters, %", "accuracy": "answers, %"}, "transformer"
    ),
    "fasttrees/arithmetic": TaskTable(
        BLOCKS, {"accuracy, validation": "characters, %", "accuracy": "answers, %"}, "transformer",
        {"transformer": ", 76.10", "fasttrees": ", 84.26", "conv_fasttrees": ", 82.62"},
    ),
    "treeformer/translation": TaskTable(
        {model: title for model, title in CHARTS.items() if model != "transformer_deeper"}, {"BLEU, best": "BLEU"},
        "transformer", {"transformer": "34.5", "treeformer_released": "35.4"},
    ),
    "treeformer/head_final": TaskTable(
        {model: title for model, title in CHARTS.items() if model != "treeformer_released"}, CONSTRUCTIONS,
        "transformer",
    ),
    "treeformer/head_final_trees": TaskTable(
        {"treeformer": CHARTS["treeformer"]},
        {"F1, trees": "F1", **{f"recall, {label}": label for label in ("NP", "PP", "SBAR", "VP")}}, "treeformer",
        constants=TRIVIAL,
    ),
    "treeformer/cogs_30000_steps": TaskTable(
        {model: CHARTS[model] for model in ("transformer", "treeformer")},
        {"accuracy, gen": "generalisation, %", "accuracy, test": "test, %",
         "accuracy, gen, checkpoint-00030000": "generalisation, last step"},
        "transformer", {"transformer": "78.5", "treeformer": "80.1"}, "make results DATA=data",
    ),
    "treeformer/scan": TaskTable(
        {model: CHARTS[model] for model in ("transformer", "treeformer")},
        {"accuracy, length": "length, %", "accuracy, jump": "jump, %"}, "transformer",
    ),
    "treeformer/summarisation": TaskTable(
        {model: CHARTS[model] for model in ("transformer", "treeformer_released")},
        {f"ROUGE, {n}": f"ROUGE-{n}" for n in ("1", "2", "L")}, "transformer",
        {"transformer": "37.1, 17.7, 34.8", "treeformer_released": "38.7, 18.6, 35.4"},
        "grove train --task summarisation --model MODEL --data GIGAWORD --out RUN",
    ),
    "treeformer/cognition": TaskTable(
        {model: CHARTS[model] for model in ("transformer", "treeformer_released")},
        {"error, instances": "errors in instances, %", "error, aggregates": "in aggregates, %"}, "transformer",
        {"transformer": "29.0, 64.3", "treeformer_released": "24.8, 58.5"},
        "grove train --task cognition --model MODEL --data COGNITION --seed 1 --out RUN",
    ),
    "treeformer/glue_sst2": TaskTable(ALBERT, {"accuracy": "accuracy, %"}, "albert"),
    "treeformer/glue_cola": TaskTable(
        ALBERT, {"matthews": "Matthews correlation, %"}, "albert", {"albert": "56.4", "albert_treeformer": "61.5"}
    ),
}  # fmt: skip
SOURCES = {
    "fasttrees/trees": ("fasttrees/language_model_10_epochs",),
    "treeformer/head_final_trees": ("treeformer/head_final",),
    "treeformer/translation": ("treeformer/translation", "fasttrees/translation"),
}
"""The tasks whose results a table shows, for the tables that do not show the task of their own name."""


def task_table(name: str, results: Sequence[TaskResult]) -> str:
    """Return the rows of all models: means and sample deviations over seeds, or, without results, a command."""
    task = TASKS[name]
    of_task = [result for result in results if result["task"] in SOURCES.get(name, (name,))]
    first, *_ = task.measures
    baseline = values_of(of_task, task.against, first)
    is_compared = len(task.models) > 1 and len(baseline) > 1
    head = ["model", *task.measures.values(), *(["paper"] if task.paper else []),
            *([f"minus {task.models[task.against]} (p)"] if is_compared else []), "seeds", "steps",
            "still improving", "minutes a run"]  # fmt: skip
    rows = [_row(task, of_task, model, baseline, is_compared=is_compared) for model in task.models]
    for measure, title in task.constants.items():
        values = [value for result in of_task if (value := value_of(result, measure)) is not None]
        if values:
            kind, _, _ = measure.rpartition(" ")  # "F1," or "F1, WSJ10,"
            place = next(k for k, name in enumerate(task.measures, 1) if name.startswith(kind))
            cells = [title, *[""] * (len(head) - 1)]
            cells[place] = f"{fmean(values):.1f}"
            rows.append(cells)
    return table(head, rows)


def _row(
    task: TaskTable, results: Sequence[TaskResult], model: str, baseline: Sequence[float], *, is_compared: bool
) -> list[str]:
    of_model = [result for result in results if result["model"] == model]
    paper = [task.paper.get(model, "").removeprefix(", ")] if task.paper else []
    if not of_model:
        empty = [""] * (len(task.measures) - 1)
        command = task.command.replace("MODEL", model)
        return [
            task.models[model],
            f"not run: `{command}`",
            *empty,
            *paper,
            *([""] if is_compared else []),
            "0",
            "",
            "",
            "",
        ]
    digits = {"perplexity": 2}
    cells = [spread(values_of(results, model, measure), digits.get(measure, 1)) for measure in task.measures]
    difference = [_difference(task, results, model, baseline)] if is_compared else []
    steps = {result["steps"] for result in of_model if result["steps"] is not None}
    hours = [result["hours"] for result in of_model if result["hours"] is not None]
    improving = [result["still_improving"] for result in of_model if "still_improving" in result]
    return [
        task.models[model], *cells, *paper, *difference, str(len(of_model)),
        " to ".join(f"{n:,}" for n in sorted({min(steps), max(steps)})) if steps else "",
        f"{sum(improving)} of {len(improving)}" if improving else "", f"{60 * fmean(hours):.1f}" if hours else "",
    ]  # fmt: skip


def _difference(task: TaskTable, results: Sequence[TaskResult], model: str, baseline: Sequence[float]) -> str:
    """Return the difference of the first measure to the model that the others are compared with, and Welch's p."""
    values = values_of(results, model, next(iter(task.measures)))
    return "" if model == task.against or len(values) < 2 else less(values, baseline)


def task_sources(results: Sequence[TaskResult]) -> str:
    """Return where the results of every task come from."""
    rows = []
    for name in sorted({result["task"] for result in results}):
        of_task = _of(name, results)
        hours = [result["hours"] for result in of_task if result["hours"] is not None]
        data = {file: digest[:8] for result in of_task for file, digest in (result["data"] or {}).items()}
        files = [f"{file} {digest}" for file, digest in data.items()]
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        rows.append([
            name, str(len(of_task)), f"{sum(hours):.2f}" if hours else "", _joined(of_task, "commit"),
            ", ".join(files[:3]) + more,
        ])  # fmt: skip
    return table(("task", "results", "core hours", "commit", "data (SHA-256)"), rows, n_names=5)


def _joined(results: Sequence[TaskResult], name: str) -> str:
    return ", ".join(sorted({str(result[name])[:12] for result in results if result[name] is not None}))


def sizes_rows(results: Sequence[TaskResult]) -> list[dict[str, Any]]:
    """Return the rows of `examples.treeformer.sizes`, of all seeds that there are."""
    of_task = _of("treeformer/sizes", results)
    rows = []
    for name in dict.fromkeys(result["model"] for result in of_task):
        variant = sizes.variant_of(name)
        figures = [
            {measure["name"].removeprefix("accuracy, "): measure["value"] for measure in result["measures"]}
            for result in of_task
            if result["model"] == name
        ]
        rows.append({"model": variant.title, "depth": variant.depth, "H": variant.height, "found": figures})
    order = list(sizes.CHARTS)
    return sorted(rows, key=lambda row: (row["H"] not in (None, sizes.HEIGHT), row["depth"], row["H"] == 0,
                                         row["H"] or 0, order.index(row["model"])))  # fmt: skip


def _of(task: str, results: Sequence[TaskResult]) -> list[TaskResult]:
    return [result for result in results if result["task"] == task]


TABLES_OF_TASKS: dict[str, Callable[[str, Sequence[Any]], str]] = {
    "task": task_table,
    "categories": lambda task, results: categories(TASKS[task].models, _of(task, results)),
    "sizes": lambda task, results: sizes.table_of(sizes_rows(results), sizes.TASKS[task].shown),
    "task_sources": lambda _, results: task_sources(results),
}
