"""A picture of distributions: for every measure a panel, for every name in it the values and their density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, isfinite, pi, sqrt
from statistics import fmean, stdev

from accel.drawing.curves import COLOURS, Points, round_ticks
from accel.drawing.svg import FAINT, Box, Line, Picture, PictureError, Shape, Text, mixed, text_width

_WIDTH, _ROW, _CURVE, _GAP, _TOP, _BOTTOM = 300.0, 52.0, 34.0, 60.0, 52.0, 30.0
_POINTS = 60  # points of a curve

Panels = Mapping[str, Mapping[str, Sequence[float]]]


def draw_distributions(panels: Panels, title: str) -> Picture:
    """Return a picture with a panel for every measure, side by side, and in it a row for every name.

    A row has a square for each value, a stroke at their mean and, for two different values or more, the density of a
    Gaussian kernel (`density`).

    Parameters
    ----------
    panels : mapping from measure to mapping from name to [n] float

    Raises
    ------
    PictureError
        If there is nothing to draw, or a value is not finite.
    """
    values = [x for rows in panels.values() for of_name in rows.values() for x in of_name]
    if not values or not all(map(isfinite, values)) or not all(of for rows in panels.values() for of in rows.values()):
        raise PictureError(f"{title}: nothing to draw, or a value that is not finite")
    names = list(dict.fromkeys(name for rows in panels.values() for name in rows))
    left = 16.0 + max(text_width(name, 12) for name in names)
    shapes: list[Shape] = [Text(8, 16, title, size=13)]
    for row, name in enumerate(names):
        shapes.append(Text(8, _TOP + _ROW * (row + 1) - 12, name))
    for number, (measure, rows) in enumerate(panels.items()):
        shapes += _panel(measure, rows, names, left + number * (_WIDTH + _GAP))
    width = max(left + len(panels) * (_WIDTH + _GAP), text_width(title, 13) + 16)
    return Picture(width, _TOP + _ROW * len(names) + _BOTTOM, tuple(shapes), title)


def density(values: Sequence[float], count: int = _POINTS) -> Points:
    """Return points of the Gaussian kernel density of n >= 2 values that differ; its width is 1.06 s n^(-1/5).

    Examples
    --------
    >>> [(round(x, 1), round(p, 2)) for x, p in density([0.0, 2.0], 3)]
    [(-3.9, 0.0), (1.0, 0.23), (5.9, 0.0)]
    """
    width = 1.06 * stdev(values) * len(values) ** -0.2
    begin, end = min(values) - 3 * width, max(values) + 3 * width
    places = [begin + (end - begin) * k / (count - 1) for k in range(count)]
    scale = 1 / (len(values) * width * sqrt(2 * pi))
    return [(x, scale * sum(exp(-(((x - value) / width) ** 2) / 2) for value in values)) for x in places]


def _panel(measure: str, rows: Mapping[str, Sequence[float]], names: Sequence[str], left: float) -> list[Shape]:
    curves = {name: density(values) for name, values in rows.items() if len(set(values)) > 1}
    ticks = round_ticks([*(x for curve in curves.values() for x, _ in curve), *(x for of in rows.values() for x in of)])
    bottom = _TOP + _ROW * len(names)

    def across(x: float) -> float:
        return left + _WIDTH * (x - ticks[0]) / (ticks[-1] - ticks[0])

    shapes: list[Shape] = [Text(left + _WIDTH / 2, 36, measure, "middle", 12)]
    for tick in ticks:
        shapes += [Line(((across(tick), _TOP), (across(tick), bottom)), FAINT)]
        shapes.append(Text(across(tick), bottom + 14, f"{tick:,.10g}", "middle", 11))
    for name, values in rows.items():
        row, colour = names.index(name), COLOURS[names.index(name) % len(COLOURS)]
        base = _TOP + _ROW * (row + 1) - 10
        if curve := curves.get(name):
            highest = max(p for _, p in curve)
            shapes.append(Line(tuple((across(x), base - _CURVE * p / highest) for x, p in curve), colour, 2.0))
        shapes += [Box(across(x) - 2, base + 2, 4, 4, mixed(colour, 0.6)) for x in values]
        mean = across(fmean(values))
        shapes.append(Line(((mean, base - _CURVE), (mean, base + 7)), colour, 1.0))
    return shapes
