"""Pictures of the learning curves in RESULTS.md, from the result files of the queue and of examples.measure.

A picture shows the trainings whose curves have the same unit. It leaves out the first tenth of the steps, so that
differences at the end can be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from accel.drawing.curves import Points, draw_curves
from accel.drawing.svg import Picture
from examples.gpst_tables import MODELS, SIZES
from examples.queue_tables import PARSERS, Run
from examples.result_files import NAMES, Result
from examples.task_tables import CELLS, CHARTS

LEAST = 3  # a curve has at least so many validations


@dataclass
class Group:
    """The curves of one picture: one for each seed of every model."""

    title: str
    y_label: str
    logarithmic: bool = False
    curves: dict[str, list[Points]] = field(default_factory=dict)


def learning_curves(results: Sequence[Result], runs: Sequence[Run]) -> dict[str, Picture]:
    """Return the pictures by the names of their files."""
    groups: dict[str, Group] = {}
    for run in (run for run in runs if "/" in run["name"]):
        _add(groups, *run["name"].split("/", 1), run)
    of_queue = {run["name"].partition("/")[0] for run in runs}
    for result in results:
        if "validation" in result and result["experiment"] not in of_queue:
            content = {"validation_loss": result["validation"]}
            _add(groups, result["experiment"], f"{result['model']}-{result['seed']}", content)
    return {f"curves-{name}.svg": _drawn(group) for name, group in sorted(groups.items())}


def links(results: Sequence[Result], runs: Sequence[Run]) -> str:
    """Return the lines of Markdown that show the pictures on the page."""
    pictures = learning_curves(results, runs).items()
    return "\n\n".join(f"![{picture.title}](results/{name})" for name, picture in pictures)


def _add(groups: dict[str, Group], folder: str, name: str, content: Mapping[str, Any]) -> None:
    """Add the curve of a training to the group that it belongs to, and make the group if it is the first."""
    model = name.rpartition("-")[0]
    if name.startswith("parser-"):
        key, group = f"{folder}-parsers", Group(f"{folder}: parsers", "validation trees right, %")
        title, measure = PARSERS[name.removeprefix("parser-")], "validation_accuracy"
    elif model in NAMES:
        words = model == "txl_terminals"
        key = f"{folder}-words" if words else folder
        of_both = NAMES[model] if words else "TG and TXL (CC)"
        group = Group(f"{folder}: {of_both}", "validation loss, nats a symbol")
        title, measure = NAMES[model], "validation_loss"
    elif folder == "logic":
        key, group = folder, Group("logical inference, published data", "validation accuracy, %")
        title, measure = CELLS[model], "validation_accuracy"
    elif folder == "cogs":
        key, group = folder, Group("COGS", "validation loss, nats a symbol", logarithmic=True)
        title, measure = CHARTS[model], "validation_loss"
    elif folder in SIZES and model in MODELS:
        title, measure = MODELS[model], "validation_loss"
        key, group = f"{folder}-{model}", Group(f"{title}, {SIZES[folder]}", "validation loss, nats an event")
    else:
        return
    curve = content.get(measure, [])
    if len(curve) >= LEAST:
        scale = 100 if measure == "validation_accuracy" else 1
        points = [(step, scale * value) for step, value in curve]
        groups.setdefault(key, group).curves.setdefault(title, []).append(without_beginning(points))


def without_beginning(curve: Points) -> Points:
    """Return a curve without its first point and the first tenth of its steps."""
    return [(step, value) for step, value in curve[1:] if step > curve[-1][0] / 10]


def mean_of(curves: Sequence[Points]) -> Points:
    """Return the mean of the curves at the steps that all of them have."""
    values = [dict(curve) for curve in curves]
    shared = sorted(set.intersection(*map(set, values)))
    return [(step, fmean(curve[step] for curve in values)) for step in shared]


def _drawn(group: Group) -> Picture:
    curves: dict[str, Points] = {}
    for title, of_model in sorted(group.curves.items()):
        curves[title] = mean_of(of_model)
        if len(of_model) > 1:
            curves |= {title + "*" * number: curve for number, curve in enumerate(of_model, 1)}
    least, most = (bound(map(len, group.curves.values())) for bound in (min, max))
    seeds = f"{most}" if least == most else f"{least} to {most}"
    of_seeds = f", each of {seeds} seeds and their mean" if most > 1 else ""
    return draw_curves(curves, y_label=group.y_label, title=f"{group.title}{of_seeds}",
                       logarithmic=group.logarithmic)  # fmt: skip
