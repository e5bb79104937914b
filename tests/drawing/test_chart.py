"""The picture of a chart: a cell for each phrase, as dark as its weight."""

from __future__ import annotations

import numpy as np
import pytest

from accel.drawing.chart import draw_chart
from accel.drawing.svg import Box, PictureError, Text


def test_picture_of_a_chart() -> None:
    """Every phrase has its cell above the middle of its words, as dark as its weight."""
    names, weights = ["a", "b", "c", "d"], np.array([0.1, 0.0, 0.2, 0.05, 0.05, 0.4, 0.2])
    picture = draw_chart(names, weights, 2, "title", "below " * 31)
    texts = {shape.text: shape for shape in picture.shapes if isinstance(shape, Text)}
    cells = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert len(cells) == 7 and texts["2 words"].y < texts["words"].y < texts["a"].y
    assert {"35 %", "65 %", "10", "40", "title"} <= texts.keys() and "0" not in texts
    for i in range(4):
        assert cells[i].x + cells[i].width / 2 == pytest.approx(texts[names[i]].x)
    for i in range(3):
        assert cells[4 + i].x + cells[4 + i].width / 2 == pytest.approx((texts[names[i]].x + texts[names[i + 1]].x) / 2)
        assert cells[4 + i].y < cells[0].y
    darkness = [int(cell.fill[1:3], 16) for cell in cells]
    assert np.argsort(darkness).tolist()[0] == 5 and darkness[1] == max(darkness)
    assert sum("below" in text for text in texts) > 1
    for shape in picture.shapes:
        assert 0 < shape.x < picture.width and 0 < shape.y < picture.height
    long = draw_chart(["incomprehensibilities"] * 12, np.full(12, 1 / 12), 1, "")
    assert all(shape.turn for shape in long.shapes if isinstance(shape, Text) and shape.text[:3] == "inc")
    assert long.width < 600
    with pytest.raises(PictureError, match="7 weights for a chart over 4 words of height 4"):
        draw_chart(names, weights, None, "")
    with pytest.raises(PictureError, match="61 words are too many"):
        draw_chart(["a"] * 61, np.zeros(61), 1, "")
