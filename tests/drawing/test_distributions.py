"""Pictures of distributions over seeds: what they show, and what they refuse."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.drawing.distributions import density, draw_distributions
from accel.drawing.svg import Box, Line, PictureError, svg


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8).filter(lambda values: max(values) - min(values) > 1e-3))
def test_a_density_has_the_area_one(values: list[float]) -> None:
    points = density(values, 400)
    area = sum((x1 - x0) * (p0 + p1) / 2 for (x0, p0), (x1, p1) in zip(points, points[1:], strict=False))
    assert area == pytest.approx(1, abs=0.02)
    assert all(p >= 0 for _, p in points) and points[0][0] < min(values) and points[-1][0] > max(values)


def test_values_means_and_densities_stand_in_their_panels() -> None:
    picture = draw_distributions({"one": {"a": [1.0, 3.0], "b": [2.0]}, "two": {"b": [5.0, 5.0]}}, "title")
    squares = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert len(squares) == 5 and all(0 < square.x < picture.width for square in squares)
    a1, a3, b2, *_ = (square.x for square in squares)
    assert b2 == pytest.approx((a1 + a3) / 2)  # 2 lies between 1 and 3 on the axis of its panel
    curves = [shape for shape in picture.shapes if isinstance(shape, Line) and len(shape.points) > 2]
    assert len(curves) == 1  # equal values, and a single one, have no density
    assert svg(picture).count("<polyline") >= 4


@pytest.mark.parametrize("panels", [{}, {"one": {}}, {"one": {"a": []}}, {"one": {"a": [1.0, math.nan]}}])
def test_nothing_to_draw(panels: dict[str, dict[str, list[float]]]) -> None:
    with pytest.raises(PictureError, match="title: nothing to draw, or a value that is not finite"):
        draw_distributions(panels, "title")
