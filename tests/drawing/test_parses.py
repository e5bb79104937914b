"""The picture of a gold tree and of induced trees: spans that agree are blue, spans that cross are red."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pytest

from accel.drawing.parses import CROSSING, GOLD, OTHER, SAME, draw_parses
from accel.drawing.svg import Box, Line, PictureError, Text, svg

WORDS = ["the", "old", "dog", "&", "cat", "ran"]
CONSTITUENTS = [("S", 0, 5), ("NP", 0, 4), ("NP", 0, 2), ("NN", 4, 4), ("VP", 5, 5)]
FOUND = {"mine": [(0, 5), (0, 2), (1, 2), (3, 5), (4, 5)], "yours": [(0, 5), (1, 5), (1, 4), (1, 2), (3, 4)]}


def test_picture_of_trees() -> None:
    picture = draw_parses(WORDS, CONSTITUENTS, FOUND, "<title>")
    ElementTree.fromstring(svg(picture))
    texts = [shape for shape in picture.shapes if isinstance(shape, Text)]
    lines = [shape for shape in picture.shapes if isinstance(shape, Line)]
    assert [t.text for t in texts if t.text in WORDS] == 3 * WORDS
    names = {t.text: t.y for t in texts if t.text in ("gold", "mine", "yours")}
    assert names["gold"] < names["mine"] < names["yours"]
    rows = [[line for line in lines if low < line.points[0][1] < high] for low, high in (
        (names["gold"], names["mine"]), (names["mine"], names["yours"]), (names["yours"], picture.height))]  # fmt: skip
    across = [Counter(line.stroke for line in row if line.points[0][1] == line.points[1][1]) for row in rows]
    assert across == [{GOLD: 5}, {SAME: 2, OTHER: 1, CROSSING: 2}, {SAME: 1, CROSSING: 2, OTHER: 2}]
    assert [len(row) for row in rows] == [5 + 2 + 3 + 3 + 1 + 1, 15, 15]
    labels = {t.text: t for t in texts if t.text in ("S", "NP", "VP", "NN")}
    words = {t.text: t for t in texts[-40:] if t.text in WORDS}
    assert labels["VP"].x == words["ran"].x and labels["NN"].x == words["cat"].x and labels["S"].y > labels["VP"].y
    assert {"in the gold tree", "crosses it", "neither", "<title>"} <= {t.text for t in texts}
    for shape in picture.shapes:
        points = shape.points if isinstance(shape, Line) else [(shape.x, shape.y)]
        assert all(0 < x < picture.width and 0 < y < picture.height for x, y in points)
        assert not isinstance(shape, Box) or shape.y + shape.height < picture.height


def test_one_word_and_too_many() -> None:
    picture = draw_parses(["yes"], [("INTJ", 0, 0)], {"mine": []}, "")
    assert sum(isinstance(shape, Line) for shape in picture.shapes) == 2
    with pytest.raises(PictureError, match="101 words are too many for one picture: at most 100"):
        draw_parses(["a"] * 101, [], {}, "")
