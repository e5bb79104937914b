"""A picture of curves over one pair of axes, for example the losses of trainings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite, log10
from pathlib import Path

from accel.drawing.svg import FAINT, Line, Picture, PictureError, Shape, Text, mixed, text_width
from accel.training.run import METRICS

COLOURS = ("#4c78a8", "#f28e2b", "#5b8a72", "#b04a5a", "#7b6ba8", "#8c7a5b")

Points = Sequence[tuple[float, float]]


def draw_curves(curves: Mapping[str, Points], *, x_label: str, y_label: str, title: str) -> Picture:
    """Return curves over one pair of axes; a curve whose name ends in "*" is thin and not in the legend."""
    points = [point for curve in curves.values() for point in curve]
    if not points or not all(isfinite(x) and isfinite(y) for x, y in points):
        raise PictureError(f"{title}: nothing to draw, or a value that is not finite")
    x_ticks, y_ticks = (round_ticks([point[axis] for point in points]) for axis in (0, 1))
    left, top, width, height = 58.0, 34.0, 460.0, 260.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return left + width * across, top + height * (1 - up)

    shapes: list[Shape] = [Text(left, 16, title, size=13)]
    for tick in x_ticks:
        shapes.append(Text(at(tick, 0)[0], top + height + 14, f"{tick:,.6g}", "middle", 11))
    for tick in y_ticks:
        y = at(0, tick)[1]
        shapes += [Line(((left, y), (left + width, y)), FAINT), Text(left - 8, y, f"{tick:,.6g}", "end", 11)]
    shapes.append(Text(left + width / 2, top + height + 34, x_label, "middle", 12))
    shapes.append(Text(14, top + height / 2, y_label, "middle", 12, turn=True))
    legend = [name for name in curves if not name.endswith("*")]
    for name, curve in sorted(curves.items(), key=lambda item: not item[0].endswith("*")):
        thin = name.endswith("*")
        colour = COLOURS[legend.index(name.rstrip("*")) % len(COLOURS)]
        line = tuple(at(x, y) for x, y in curve)
        if len(line) > 1:
            shapes.append(Line(line, mixed(colour, 0.35) if thin else colour, 1.0 if thin else 2.0))
    for number, name in enumerate(legend):
        y = top + 12 + 18 * number
        x = left + width - 30 - max(text_width(other, 11) for other in legend)
        shapes.append(Line(((x, y), (x + 18, y)), COLOURS[number % len(COLOURS)], 3.0))
        shapes.append(Text(x + 24, y, name, size=11))
    return Picture(left + width + 20, top + height + 50, tuple(shapes), title)


def round_ticks(values: Sequence[float]) -> list[float]:
    """Return four to eight round numbers, the first not above the values, the last not below."""
    low, high = min(values), max(values)
    span = high - low or abs(high) or 1.0
    unit = 10.0 ** floor(log10(span))
    step = next(unit * part for part in (0.2, 0.5, 1.0, 2.0) if span / (unit * part) <= 6)
    return [step * k for k in range(floor(low / step), max(ceil(high / step), floor(low / step) + 1) + 1)]


def read_losses(path: Path) -> tuple[Points, Points]:
    """Return (step, loss) of every step and of every validation, from a run's directory or its metrics.jsonl."""
    path = path / METRICS if path.is_dir() else path
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        training = [(line["step"], line["loss"]) for line in lines]
        return training, [(line["step"], line["validation_loss"]) for line in lines if "validation_loss" in line]
    except (KeyError, TypeError, ValueError) as error:
        raise PictureError(f"{path}: not the metrics of a training: {error}") from error


def draw_losses(paths: Sequence[Path]) -> Picture:
    """Return the losses of runs, given by their directories or metrics: of steps thin, of validations thick."""
    curves: dict[str, Points] = {}
    for path in paths:
        name = path.parent.name if path.name == METRICS else path.name
        training, validation = read_losses(path)
        curves |= {name: validation, f"{name}*": training} if validation else {name: training}
    return draw_curves(curves, x_label="step", y_label="nats an event", title="Loss; thin: training, thick: validation")
