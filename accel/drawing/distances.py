"""A picture of syntactic distances: a row of bars for each layer above the words, the induced tree below them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accel.drawing.svg import FAINT, GREY, INK, Box, Line, Picture, PictureError, Shape, Text, text_width

MOST_WORDS = 200
CHOSEN, OTHER = "#4c78a8", "#b9c8da"
_SIZE, _SMALL, _PAD, _GAP, _ROW, _BAR, _LEVEL = 14.0, 10.0, 12.0, 16.0, 64.0, 14.0, 12.0


def draw_distances(
    words: Sequence[str], distances: np.ndarray, spans: Sequence[tuple[int, int]], layer: int, title: str
) -> Picture:
    """Return a picture of distances [layers, T] as rows of bars above the words, and of the tree of `layer`, from 1.

    The first layer's row is the nearest to the words. The bars of a row begin a little below its least distance, since
    only their order counts: a constituent is split at its highest bar. `spans` are the tree's constituents of two words
    or more, in the order in which they open.
    """
    n_layers = len(distances)
    if len(words) > MOST_WORDS:
        raise PictureError(f"{len(words)} words are too many for one picture: at most {MOST_WORDS}")
    names = [f"layer {k}" for k in range(1, n_layers + 1)]
    left = _PAD + max(text_width(name, _SIZE) for name in names) + 20 + text_width("+0.0000", _SMALL)
    middles, end = places_of(words, left)
    shapes: list[Shape] = []
    for k in range(n_layers):
        bottom = _PAD + _ROW * (n_layers - k) - 10
        shapes.append(Text(_PAD, bottom - (_ROW - 18) / 2, names[k], size=_SIZE, fill=INK if k + 1 == layer else GREY))
        shapes += _bars(distances[k], middles, left, end, bottom, CHOSEN if k + 1 == layer else OTHER)
    line = _PAD + _ROW * n_layers + 8
    shapes += [Text(x, line, word, "middle", _SIZE) for x, word in zip(middles, words, strict=True)]
    lines, nodes = branches(spans, middles, line + 14)
    deepest = max([line + 14, *(y for _, y in nodes)])
    return Picture(end + _PAD, deepest + _LEVEL + _PAD, (*shapes, *lines), title)


def _end_names(low: float, high: float) -> list[str]:
    """Return names of the greatest and the least distance of a row; if almost equal, the first is their difference."""
    if low == high:
        return [f"{high:.2f}"]
    for digits in (2, 3, 4):
        names = [f"{high:.{digits}f}", f"{low:.{digits}f}"]
        if names[0] != names[1]:
            return names
    return [f"+{high - low:.0e}", f"{low:.2f}"]


def places_of(words: Sequence[str], left: float) -> tuple[list[float], float]:
    """Return the middles of words side by side, and the end of the last one."""
    middles, end = list[float](), left
    for word in words:
        width = text_width(word, _SIZE)
        middles.append(end + width / 2)
        end += width + _GAP
    return middles, end


def _bars(
    distances: np.ndarray, middles: Sequence[float], left: float, right: float, bottom: float, colour: str
) -> list[Shape]:
    low, high = float(distances.min()), float(distances.max())
    tallest, least = _ROW - 18, 6.0
    shapes: list[Shape] = [Line(((left - 4, bottom), (right - _GAP + 4, bottom)), FAINT)]
    for name, y in zip(_end_names(low, high), (bottom - tallest, bottom - least), strict=False):
        shapes.append(Text(left - 10, y, name, "end", _SMALL, GREY))
    for x, distance in zip(middles, distances.tolist(), strict=True):
        share = (distance - low) / (high - low) if high > low else 1.0
        height = least + share * (tallest - least)
        shapes.append(Box(x - _BAR / 2, bottom - height, _BAR, height, colour))
    return shapes


def branches(
    spans: Sequence[tuple[int, int]], middles: Sequence[float], top: float, level: float = _LEVEL,
    colours: Sequence[str] | None = None,
) -> tuple[list[Shape], list[tuple[float, float]]]:  # fmt: skip
    """Return the lines of a tree that grows downwards from its words, and the place of every constituent."""
    shapes: list[Shape] = []
    places: list[tuple[float, float]] = []
    nodes = {i: (x, top, i) for i, x in enumerate(middles)}  # by first word: middle, height, last word
    for number in reversed(range(len(spans))):
        (i, j), children = spans[number], []
        word = i
        while word <= j:
            children.append(nodes[word])
            word = nodes[word][2] + 1
        y = max(child[1] for child in children) + level
        colour = "#777777" if colours is None else colours[number]
        shapes += [Line(((x, start), (x, y)), colour) for x, start, _ in children]
        shapes.append(Line(((children[0][0], y), (children[-1][0], y)), colour))
        nodes[i] = ((children[0][0] + children[-1][0]) / 2, y, j)
        places.append(nodes[i][:2])
    return shapes, places[::-1]
