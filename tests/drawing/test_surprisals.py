"""Bars of surprisals on one scale, with their words; values that no bars can show are refused."""

from __future__ import annotations

from math import inf

import pytest

from accel.drawing.surprisals import draw_surprisals
from accel.drawing.svg import Box, PictureError, Text, svg


def test_bars_have_one_scale() -> None:
    picture = draw_surprisals([["the", "dog"], ["a"]], [[1.0, 2.0], [4.0]], "bits")
    bars = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert [bar.height / bars[0].height for bar in bars] == pytest.approx([1, 2, 4])
    assert bars[0].y + bars[0].height == bars[1].y + bars[1].height < bars[2].y + bars[2].height
    texts = [shape.text for shape in picture.shapes if isinstance(shape, Text)]
    assert texts == ["bits", "1.0", "the", "2.0", "dog", "4.0", "a"]
    assert picture._repr_svg_() == svg(picture)
    assert all(0 <= shape.x <= picture.width and 0 <= shape.y <= picture.height for shape in bars)


@pytest.mark.parametrize(
    ("sentences", "bits", "said"),
    [
        ([], [], r"surprisals: \[\] for sentences of \[\] words: give one for every word"),
        ([["a"]], [[]], r"surprisals: \[0\] for sentences of \[1\] words: give one for every word"),
        ([["a"]], [[inf]], "inf for 'a': no parse of the search reaches this word; raise beam"),
        ([["a"] * 101], [[1.0] * 101], "101 words are too many for one picture: at most 100"),
    ],
)
def test_what_has_no_bars(sentences: list[list[str]], bits: list[list[float]], said: str) -> None:
    with pytest.raises(PictureError, match=said):
        draw_surprisals(sentences, bits)
