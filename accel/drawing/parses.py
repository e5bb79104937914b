"""A picture of trees over the same words, one below the other: the gold tree and a model's (GPST, A.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accel.drawing.distances import branches, places_of
from accel.drawing.svg import INK, Box, Picture, PictureError, Shape, Text, text_width

MOST_WORDS = 100
GOLD, SAME, CROSSING, OTHER = "#5b8a72", "#4c78a8", "#c2403d", "#999999"
LEGEND = {SAME: "in the gold tree", CROSSING: "crosses it", OTHER: "neither"}
_SIZE, _SMALL, _PAD, _LEVEL, _BETWEEN = 14.0, 10.0, 12.0, 17.0, 34.0


def draw_parses(
    words: Sequence[str],
    gold: Sequence[tuple[str, int, int]],
    others: Mapping[str, Sequence[tuple[int, int]]],
    title: str,
) -> Picture:
    """Return a picture of the gold tree with its labels, and below it the other trees with their names.

    Constituents, (label, first word, last word) or (first, last), are in the order in which they open. Constituents of
    the other trees are blue if the gold tree has them too, and red if they cross a constituent of the gold tree.

    Raises PictureError for too many words.
    """
    if len(words) > MOST_WORDS:
        raise PictureError(f"{len(words)} words are too many for one picture: at most {MOST_WORDS}")
    rows = {"gold": [span for _, *span in gold], **others}
    left = _PAD + max(text_width(name, _SIZE) for name in rows) + 16
    middles, right = places_of(words, left)
    shapes: list[Shape] = [Text(_PAD, _PAD + 6, title, size=_SIZE)]
    y = _PAD + 6 + _BETWEEN
    for name, spans in rows.items():
        shapes.append(Text(_PAD, y, name, size=_SIZE, fill=GOLD if name == "gold" else INK))
        shapes += [Text(x, y, word, "middle", _SIZE) for x, word in zip(middles, words, strict=True)]
        colours = [GOLD if name == "gold" else _colour((i, j), gold) for i, j in spans]
        lines, nodes = branches([(i, j) for i, j in spans], middles, y + 12, _LEVEL, colours)
        shapes += lines
        if name == "gold":
            for (label, *_), (x, at) in zip(gold, nodes, strict=True):
                width = text_width(label, _SMALL) + 2
                shapes += [Box(x - width / 2, at - 6, width, 12, "#ffffff"), Text(x, at, label, "middle", _SMALL, GOLD)]
        y = max([y + 12, *(at for _, at in nodes)]) + _BETWEEN
    x = _PAD
    for colour, meaning in LEGEND.items():
        shapes += [Box(x, y - 16, 10, 10, colour), Text(x + 16, y - 11, meaning, size=_SMALL)]
        x += 16 + text_width(meaning, _SMALL) + 20
    return Picture(max(right, x, _PAD + text_width(title, _SIZE)) + _PAD, y + _PAD, tuple(shapes), title)


def _colour(span: tuple[int, int], gold: Sequence[tuple[str, int, int]]) -> str:
    i, j = span
    if any((i, j) == (a, b) for _, a, b in gold):
        return SAME
    return CROSSING if any(a < i <= b < j or i < a <= j < b for _, a, b in gold) else OTHER
