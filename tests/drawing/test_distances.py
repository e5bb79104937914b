"""The picture of distances: bars in the order of the distances, the tree below its words."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from accel.drawing.distances import CHOSEN, OTHER, draw_distances
from accel.drawing.svg import Box, Line, PictureError, Text, svg

WORDS = ["the", "old", "dog", "&", "cat"]
SPANS = [(0, 4), (0, 2), (1, 2), (3, 4)]


def test_picture_of_distances() -> None:
    distances = np.array([[0.5, 0.1, 0.2, 0.9, 0.3], [0.5] * 5])
    picture = draw_distances(WORDS, distances, SPANS, 1, "<title>")
    ElementTree.fromstring(svg(picture))
    boxes = [s for s in picture.shapes if isinstance(s, Box)]
    bars = {colour: [box for box in boxes if box.fill == colour] for colour in (CHOSEN, OTHER)}
    heights = [bar.height for bar in bars[CHOSEN]]
    assert list(np.argsort(heights)) == [1, 2, 4, 0, 3] and min(heights) > 0
    assert len({bar.height for bar in bars[OTHER]}) == 1 and len(bars[OTHER]) == 5
    texts = [s for s in picture.shapes if isinstance(s, Text)]
    assert [s.text for s in texts if s.text in WORDS] == WORDS
    assert {"0.90", "0.10", "0.50", "layer 1", "layer 2"} <= {s.text for s in texts}
    words = {s.text: s for s in texts}
    branches = [s for s in picture.shapes if isinstance(s, Line) and s.points[0][1] > words["the"].y]
    assert len(branches) == 3 * len(SPANS)  # a line to each of two children, and a line between them
    lowest = max(y for s in branches for _, y in s.points)
    [root] = [s for s in branches if {y for _, y in s.points} == {lowest}]
    assert root.points[0][0] < words["old"].x and root.points[1][0] > words["&"].x
    for shape in picture.shapes:
        points = shape.points if isinstance(shape, Line) else [(shape.x, shape.y)]
        assert all(0 < x < picture.width and 0 < y < picture.height for x, y in points)
    with pytest.raises(PictureError, match="201 words are too many"):
        draw_distances(["a"] * 201, np.zeros((1, 201)), [], 1, "")


@pytest.mark.parametrize(
    ("low", "high", "names"),
    [
        (0.501, 0.504, ["0.504", "0.501"]),
        (-1.25, 0.5, ["0.50", "-1.25"]),
        (0.5, 0.500001, ["+1e-06", "0.50"]),
        (0.5, 0.5, ["0.50"]),
    ],
)
def test_the_ends_of_a_row_have_different_names(low: float, high: float, names: list[str]) -> None:
    picture = draw_distances(WORDS, np.array([[low, high, low, low, low]]), SPANS, 1, "")
    assert [s.text for s in picture.shapes if isinstance(s, Text) and s.anchor == "end"] == names
