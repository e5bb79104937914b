"""The findings of the examples' programs: when stored answers are used again, and the places of panels."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

from accel.drawing.svg import Line, PictureError
from examples.findings import kept
from examples.panels import Panel, Series, draw_panels
from examples.transformer_grammars import ensembles


def test_stored_answers_are_not_computed_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def answer() -> dict[str, Any]:
        calls.append(1)
        return {"answer": len(calls)}

    path = tmp_path / "result.json"
    assert [kept(path, {"of": (1, 2)}, answer) for _ in range(2)] == [{"answer": 1}] * 2
    assert kept(path, {"of": (1, 3)}, answer) == {"answer": 2}


def test_stored_events_are_those_of_the_same_trees(tmp_path: Path) -> None:
    """Ten proposals more and ten pairs less are as many trees, but other trees: stored scores are not used for them."""
    small = ["--d-model", "8", "--layers", "1", "--heads", "1", "--length", "32", "--sentences", "2000", "--test", "10",
             "--steps", "2", "--seeds", "2", "--subsets", "1", "--products", "1", "--batch-size", "4"]  # fmt: skip
    one, other = (["--changed", "1", "--pairs", "3"], ["--changed", "2", "--pairs", "2"])
    ensembles.main(["--out", str(tmp_path / "first"), *small, *one])
    asked_again = ensembles.main(["--out", str(tmp_path / "first"), *small, *other])
    assert asked_again == ensembles.main(["--out", str(tmp_path / "second"), *small, *other])


def test_panels() -> None:
    series = {"a": Series([(0.0, 1.0), (1.0, 3.0)], y_bars=[(0.5, 1.5), (2.0, 4.0)]),
              "b": Series([(0.5, 2.0)], joined=False)}  # fmt: skip
    picture = draw_panels([Panel("x", "y", series, {0.0: "zero", 1.0: "one"})] * 3, "three")
    text = [shape.text for shape in picture.shapes if hasattr(shape, "text")]
    assert text.count("zero") == text.count("one") == 3 and text.count("a") == 1  # the panels share one legend
    for shape in picture.shapes:
        places = [(shape.x, shape.y)] if hasattr(shape, "x") else shape.points
        assert all(0 <= x <= picture.width and 0 <= y <= picture.height for x, y in places)
    with pytest.raises(PictureError, match="not finite"):
        draw_panels([Panel("x", "y", {"a": Series([(0.0, inf)])})], "endless")


@pytest.mark.parametrize("x_names", [None, {0.0: "zero", 1.0: "one"}])
def test_series_stand_side_by_side_at_named_places(x_names: dict[float, str] | None) -> None:
    """Two series of the same points: at a named place both intervals are seen; over numbers each stands at its own."""
    series = {name: Series([(0.0, 1.0), (1.0, 3.0)], y_bars=[(0.5, 1.5), (2.0, 4.0)]) for name in "ab"}
    picture = draw_panels([Panel("x", "y", series, x_names)], "two")
    bars = [shape.points for shape in picture.shapes if isinstance(shape, Line) and shape.width == 2.0]
    places = [bottom[0] for bottom, _ in bars]
    assert len(places) == 4 and all(bottom[0] == top[0] for bottom, top in bars)
    apart = [places[2] - places[0], places[3] - places[1]]
    assert apart == ([0.0, 0.0] if x_names is None else pytest.approx([6.0, 6.0]))
    assert sum(places) / 4 == pytest.approx(227.0)  # the middle of the axis
