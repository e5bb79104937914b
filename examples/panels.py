"""Pictures of several panels under one legend: points with intervals, and lines between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite
from statistics import fmean

from accel.drawing.curves import COLOURS, Points, round_ticks
from accel.drawing.svg import FAINT, Box, Line, Picture, PictureError, Shape, Text, mixed, text_width

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM, _LEGEND = 330.0, 220.0, 62.0, 34.0, 22.0, 54.0, 22.0

_ASIDE = 6.0  # between the series at a named place: the width of a mark

Bars = Sequence[tuple[float, float]]  # the ends of an interval


@dataclass(frozen=True)
class Series:
    """Points of one colour, with an interval for every point or for none."""

    points: Points
    y_bars: Bars = ()
    joined: bool = True


def extents(places: Sequence[float], values: Sequence[Sequence[float]]) -> Series:
    """Return the mean of the values of every place; its bar reaches from the least to the greatest of them."""
    points = [(place, fmean(of_place)) for place, of_place in zip(places, values, strict=True)]
    return Series(points, y_bars=[(min(of_place), max(of_place)) for of_place in values])


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `x_names`, if given, replace the round numbers of the x axis.

    At a named place the series stand side by side, so that none hides the interval of another one.
    """

    x_label: str
    y_label: str
    series: Mapping[str, Series]
    x_names: Mapping[float, str] | None = None


@dataclass(frozen=True)
class _Axes:
    """The ranges of values of both axes, and their place on the sheet."""

    x: tuple[float, float]
    y: tuple[float, float]
    left: float
    top: float

    def aside(self, right: float) -> _Axes:
        return replace(self, left=self.left + right)

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + _WIDTH * across, self.top + _HEIGHT * (1 - up)


def draw_panels(panels: Sequence[Panel], title: str, columns: int = 2) -> Picture:
    """Return the panels, row by row; a name has the same colour in all panels, and is in the legend once.

    Raises
    ------
    PictureError
        If there is nothing to draw, or a value is not finite.
    """
    names = list(dict.fromkeys(chain.from_iterable(panel.series for panel in panels)))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    shapes: list[Shape] = [Text(_LEFT, 16, title, size=13)]
    begin, x = 40.0, _LEFT
    for name in names:
        shapes += [Line(((x, begin), (x + 18, begin)), colours[name], 3.0), Text(x + 24, begin, name, size=11)]
        x += 24 + text_width(name, 11) + 18
    columns = min(columns, len(panels))
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        left = _LEFT + column * (_LEFT + _WIDTH + _RIGHT)
        top = begin + _LEGEND + row * (_TOP + _HEIGHT + _BOTTOM) - 4
        shapes += _panel(panel, colours, left, top, title)
    width = max(columns * (_LEFT + _WIDTH + _RIGHT), x, _LEFT + text_width(title, 13))
    rows = -(-len(panels) // columns)
    return Picture(width, begin + _LEGEND + rows * (_TOP + _HEIGHT + _BOTTOM) - _TOP, tuple(shapes), title)


def _panel(panel: Panel, colours: Mapping[str, str], left: float, top: float, title: str) -> list[Shape]:
    axes = _axes(panel, left, top, title)
    if panel.x_names is None:
        x_ticks = {tick: f"{tick:,.6g}" for tick in _between(round_ticks(list(axes.x)), axes.x)}
    else:
        x_ticks = dict(panel.x_names)
    shapes: list[Shape] = []
    for tick, name in x_ticks.items():
        shapes.append(Text(axes.at(tick, 0)[0], top + _HEIGHT + 14, name, "middle", 11))
    for tick in _between(round_ticks(list(axes.y)), axes.y):
        y = axes.at(0, tick)[1]
        shapes += [Line(((left, y), (left + _WIDTH, y)), FAINT), Text(left - 8, y, f"{tick:,.6g}", "end", 11)]
    shapes.append(Text(left + _WIDTH / 2, top + _HEIGHT + 34, panel.x_label, "middle", 12))
    shapes.append(Text(left - _LEFT + 14, top + _HEIGHT / 2, panel.y_label, "middle", 12, turn=True))
    middle, step = (len(panel.series) - 1) / 2, 0.0 if panel.x_names is None else _ASIDE
    places = {name: axes.aside(step * (number - middle)) for number, name in enumerate(panel.series)}
    for name, series in panel.series.items():
        shapes += _bars(series, places[name], colours[name])
    for name, series in panel.series.items():
        shapes += _marks(series, places[name], colours[name])
    return shapes


def _axes(panel: Panel, left: float, top: float, title: str) -> _Axes:
    """Return axes with a margin around all points and intervals."""
    all_series = list(panel.series.values())
    x = [*(point[0] for one in all_series for point in one.points), *(panel.x_names or ())]
    y = [
        value for one in all_series for value in (*(point[1] for point in one.points), *chain.from_iterable(one.y_bars))
    ]
    if not y or not all(map(isfinite, (*x, *y))):
        raise PictureError(f"{title}: nothing to draw over {panel.x_label}, or a value that is not finite")
    return _Axes(_room(x), _room(y), left, top)


def _room(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _between(ticks: Sequence[float], ends: tuple[float, float]) -> list[float]:
    return [tick for tick in ticks if ends[0] <= tick <= ends[1]]


def _bars(series: Series, axes: _Axes, colour: str) -> list[Shape]:
    ends = [((x, low), (x, high)) for (x, _), (low, high) in zip(series.points, series.y_bars, strict=False)]
    return [Line((axes.at(*one), axes.at(*other)), mixed(colour, 0.45), 2.0) for one, other in ends]


def _marks(series: Series, axes: _Axes, colour: str) -> list[Shape]:
    places = [axes.at(x, y) for x, y in series.points]
    shapes: list[Shape] = [Box(x - 3, y - 3, 6, 6, colour) for x, y in places]
    if series.joined and len(places) > 1:
        shapes.insert(0, Line(tuple(places), colour, 1.5))
    return shapes
