"""A picture of curves over one pair of axes, for example the losses of trainings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite, log10
from pathlib import Path

from accel.drawing.svg import FAINT, Box, Line, Picture, PictureError, Shape, Text, mixed, text_width
from accel.training.metrics import metrics_file, read_metrics
from accel.training.run import METRICS

COLOURS = ("#4c78a8", "#f28e2b", "#5b8a72", "#b04a5a", "#7b6ba8", "#8c7a5b")

Points = Sequence[tuple[float, float]]


def dashes_of(number: int) -> tuple[float, ...]:
    """Return the dashes of a curve by its number: none in the first round of colours, one dash more in each round.

    Examples
    --------
    >>> dashes_of(5), dashes_of(6), dashes_of(12)
    ((), (6.0, 3.0), (6.0, 3.0, 2.0, 3.0))
    """
    n_rounds = number // len(COLOURS)
    return (6.0, 3.0) + (2.0, 3.0) * (n_rounds - 1) if n_rounds else ()


def draw_curves(curves: Mapping[str, Points], *, y_label: str, title: str, logarithmic: bool = False) -> Picture:
    """Return a picture of curves over the steps of trainings.

    A curve with the name of another and one "*" or more is thin, has the other's colour and is not in the legend. The
    legend stands on the right, at the bottom if there are fewer points there than at the top. If there are more names
    than colours, the further curves are dashed, and the legend stands beside the axes.

    Raises PictureError if there is nothing to draw, a value is not finite, or 0 or less on a `logarithmic` y axis.
    """
    points = [point for curve in curves.values() for point in curve]
    if not points or not all(isfinite(x) and isfinite(y) for x, y in points):
        raise PictureError(f"{title}: nothing to draw, or a value that is not finite")
    if logarithmic and min(y for _, y in points) <= 0:
        raise PictureError(f"{title}: a logarithmic axis has no place for 0 and less")
    x_ticks = round_ticks([x for x, _ in points])
    y_ticks = (log_ticks if logarithmic else round_ticks)([y for _, y in points])
    left = max(58.0, 34.0 + max(text_width(f"{tick:,.10g}", 11) for tick in y_ticks))
    top, width, height = 34.0, 460.0, 260.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        y, low, high = (log10(value) if logarithmic else value for value in (y, y_ticks[0], y_ticks[-1]))
        return left + width * across, top + height * (1 - (y - low) / (high - low))

    shapes: list[Shape] = [Text(left, 16, title, size=13)]
    for tick in x_ticks:
        shapes.append(Text(at(tick, y_ticks[0])[0], top + height + 14, f"{tick:,.10g}", "middle", 11))
    for tick in y_ticks:
        y = at(x_ticks[0], tick)[1]
        shapes += [Line(((left, y), (left + width, y)), FAINT), Text(left - 8, y, f"{tick:,.10g}", "end", 11)]
    shapes.append(Text(left + width / 2, top + height + 34, "step", "middle", 12))
    shapes.append(Text(14, top + height / 2, y_label, "middle", 12, turn=True))
    legend = [name for name in curves if not name.endswith("*")]
    for name, curve in sorted(curves.items(), key=lambda item: not item[0].endswith("*")):
        thin = name.endswith("*")
        number = legend.index(name.rstrip("*"))
        colour, dashes = COLOURS[number % len(COLOURS)], dashes_of(number)
        line = tuple(at(x, y) for x, y in curve)
        tone = mixed(colour, 0.35) if thin else colour
        if len(line) > 1:
            shapes.append(Line(line, tone, 1.0 if thin else 2.0, dashes))
        for x, y in line if len(line) == 1 else ():
            shapes.append(Box(x - 2.5, y - 2.5, 5, 5, "none" if dashes else tone, tone))
    names_width = max(text_width(other, 11) for other in legend)
    is_outside = len(legend) > len(COLOURS)
    x = left + width + 20 if is_outside else left + width - 30 - names_width
    beside = [place[1] - top for place in (at(*point) for point in points) if place[0] > x - 6]
    above, below = 18 * len(legend) + 6, height - 18 * len(legend) - 6
    is_below = not is_outside and sum(y > below for y in beside) < sum(y < above for y in beside)
    for number, name in enumerate(legend):
        y = top + (below if is_below else 0) + 12 + 18 * number
        shapes.append(Line(((x, y), (x + 18, y)), COLOURS[number % len(COLOURS)], 3.0, dashes_of(number)))
        shapes.append(Text(x + 24, y, name, size=11))
    right = max(20.0, text_width(f"{x_ticks[-1]:,.10g}", 11) / 2 + 4, (50 + names_width) * is_outside)
    bottom = top + max(height + 50, 18 * len(legend) + 12)
    return Picture(left + width + right, bottom, tuple(shapes), title)


def round_ticks(values: Sequence[float]) -> list[float]:
    """Return four to eight round numbers, the first not above the values, the last not below."""
    low, high = min(values), max(values)
    span = high - low or abs(high) or 1.0
    unit = 10.0 ** floor(log10(span))
    step = next(unit * part for part in (0.2, 0.5, 1.0, 2.0) if span / (unit * part) <= 6)
    return [step * k for k in range(floor(low / step), max(ceil(high / step), floor(low / step) + 1) + 1)]


def log_ticks(values: Sequence[float]) -> list[float]:
    """Return numbers 1, 2 and 5 times powers of ten, the first not above the values, the last not below.

    Over more than three powers of ten, the numbers are powers only.
    """
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    parts = (1, 2, 5) if high - low <= 3 else (1,)
    ticks = [part * 10.0**power for power in range(low, high + 1) for part in parts]
    first = max(k for k, tick in enumerate(ticks) if tick <= min(values))
    last = min(k for k, tick in enumerate(ticks) if tick >= max(values) and k > first)
    return ticks[first : last + 1]


def read_losses(path: Path) -> tuple[Points, Points]:
    """Return (step, loss) of every step and of every validation, from a run's directory or its metrics.jsonl."""
    lines = read_metrics(metrics_file(path))
    validations = [(line["step"], line["validation_loss"]) for line in lines if "validation_loss" in line]
    return [(line["step"], line["loss"]) for line in lines], validations


def draw_losses(paths: Sequence[Path]) -> Picture:
    """Return a picture of the losses of runs, given by their directories or metrics: steps thin, validations thick.

    If a run has no validations, the losses of its steps are thick and called training.
    """
    curves: dict[str, Points] = {}
    names: list[str] = []
    for path in paths:
        full = Path(os.path.abspath(path))  # "." and "..", too, get a name
        name = full.parent.name if full.name == METRICS else full.name
        if name in names:
            raise PictureError(f"{path}: two runs are called {name}: rename a directory")
        if name.endswith("*"):
            raise PictureError(f"{path}: the name of a run cannot end with *: rename the directory")
        names.append(name)
        training, validation = read_losses(path)
        curves |= {name: validation, f"{name}*": training} if validation else {f"{name}, training": training}
    title = "Loss; thin: training, thick: validation" if len(curves) > len(paths) else "Loss"
    return draw_curves(curves, y_label="nats an event", title=title)
