"""The committed pictures in a real browser: no text is cut off, and none overlaps another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accel.drawing.chart import draw_chart
from accel.drawing.curves import draw_curves
from accel.drawing.distances import draw_distances
from accel.drawing.mask import draw_mask
from accel.drawing.parses import draw_parses
from accel.drawing.svg import Picture, Text, svg
from accel.drawing.tree import draw_tree
from refimpl.trees import Tree
from tests.fixtures.browser import CHROMIUM, look_at

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)")

ROOT = Path(__file__).parents[2]
PICTURES = sorted(path for folder in ("specs", "examples") for path in (ROOT / folder).rglob("*.svg"))


def test_committed_pictures_show_all_they_say(tmp_path: Path) -> None:
    page = tmp_path / "pictures.html"
    page.write_text("".join(f"<div>{path.read_text(encoding='utf-8')}</div>" for path in PICTURES), encoding="utf-8")
    view = look_at(page, tmp_path, 2400, dark=False)
    assert len(PICTURES) >= 8 and not view.faults and not view.messages


def test_pictures_of_wide_words_show_all_they_say(tmp_path: Path) -> None:
    words = ["WASHINGTON", "i", "MMMM", "太陽が昇る", "Österreich", "%", "incomprehensibilities"]
    tree = Tree("S", (Tree("WIDE-LABEL-WIDE", tuple(words[:3])), Tree("NP", tuple(words[3:]))))
    spans = [(0, 6), (0, 2), (1, 2), (3, 6), (4, 6), (5, 6)]
    distances = np.array([[0.5, 0.500001, 0.5, 0.5, 0.5, 0.5, 0.5], [-1.25, 3, 2, 1, 0, 1, 2]])
    pictures = [
        draw_tree(tree),
        draw_mask(tree),
        draw_distances(words, distances, spans, 1, "distances"),
        draw_parses(words, [("WIDE", i, j) for i, j in spans], {"a long name of a tree": spans}, "WWWWWW" * 20),
        draw_chart(words, np.full(13, 1 / 13), 2, "chart", "MMMM " * 40),
        draw_curves({"MMMMMMMM": [(0, 2e-5), (1e6, 0.3)]}, y_label="y", title="curves", logarithmic=True),
    ]
    page = tmp_path / "pictures.html"
    page.write_text("".join(f"<div>{svg(picture)}</div>" for picture in pictures), encoding="utf-8")
    assert not look_at(page, tmp_path, 2000, dark=False).faults


def test_faults_of_a_picture_are_found(tmp_path: Path) -> None:
    texts = (Text(10, 10, "left"), Text(20, 10, "over it"), Text(80, 40, "beyond the rim"), Text(10, 40, "apart"))
    page = tmp_path / "picture.html"
    page.write_text(svg(Picture(100, 50, texts, "bad")) + "<p style='width:900px'>wide</p><script>nothing()</script>")
    view = look_at(page, tmp_path, 600, dark=False)
    cut, overlap = "bad: 'beyond the rim' is cut off", "bad: 'left' and 'over it' overlap"
    assert view.faults[1:] == [overlap, cut] and view.faults[0].startswith("the page is ")
    [message] = view.messages
    assert "nothing is not defined" in message
