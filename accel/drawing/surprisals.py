"""A picture of surprisals: for every sentence a row of bars above its words."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from accel.drawing.distances import places_of
from accel.drawing.svg import FAINT, Box, Line, Picture, PictureError, Shape, Text, text_width

MOST_WORDS = 100
COLOUR = "#4c78a8"
_SIZE, _SMALL, _PAD, _BAR, _TALLEST, _BETWEEN = 14.0, 10.0, 12.0, 18.0, 90.0, 40.0


def draw_surprisals(
    sentences: Sequence[Sequence[str]], surprisals: Sequence[Sequence[float]], title: str = "Surprisal, bits"
) -> Picture:
    """Return a picture of the surprisals of the words of one sentence or several, in bits, as bars on one scale.

    Raises
    ------
    PictureError
        If there are no words or too many, not one surprisal for each word, or a surprisal that is not finite.
    """
    values = [float(x) for row in surprisals for x in row]
    if [len(words) for words in sentences] != [len(row) for row in surprisals] or not values:
        counts, sizes = list(map(len, surprisals)), list(map(len, sentences))
        advice = "give one for every word, and at least one word"
        raise PictureError(f"surprisals: {counts} for sentences of {sizes} words: {advice}")
    if max(map(len, sentences)) > MOST_WORDS:
        raise PictureError(f"{max(map(len, sentences))} words are too many for one picture: at most {MOST_WORDS}")
    if not all(map(isfinite, values)):
        words, row = next(pair for pair in zip(sentences, surprisals, strict=True) if not all(map(isfinite, pair[1])))
        word, value = next(pair for pair in zip(words, row, strict=True) if not isfinite(pair[1]))
        raise PictureError(f"surprisals: {value} for {word!r}: no parse of the search reaches this word; raise beam")
    scale = _TALLEST / max(*values, 1e-9)
    shapes: list[Shape] = [Text(_PAD, _PAD + 6, title, size=_SIZE)]
    bottom, right = _PAD + 6.0, _PAD + text_width(title, _SIZE)
    for words, row in zip(sentences, surprisals, strict=True):
        bottom += _BETWEEN + _TALLEST
        middles, end = places_of([word.center(5) for word in words], _PAD)
        shapes.append(Line(((_PAD, bottom), (end, bottom)), FAINT))
        for x, word, value in zip(middles, words, row, strict=True):
            height = scale * float(value)
            shapes.append(Box(x - _BAR / 2, bottom - height, _BAR, height, COLOUR))
            shapes.append(Text(x, bottom - height - 8, f"{value:.1f}", "middle", _SMALL, "#666666"))
            shapes.append(Text(x, bottom + 12, word, "middle", _SIZE))
        right = max(right, end)
    return Picture(right + _PAD, bottom + 24 + _PAD, tuple(shapes), title)
