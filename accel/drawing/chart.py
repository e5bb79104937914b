"""A picture of Treeformer's chart: a triangle of phrases above the words, dark where the decoder attends (Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import host
from accel.data.vocabularies.vocabulary import END
from accel.drawing.attention import cross_attention
from accel.drawing.svg import GREY, INK, Box, Picture, PictureError, Shape, Text, mixed, text_width
from accel.parsing.charts import chart_spans, largest_weights, split_weights
from accel.parsing.distances import induced_tree
from accel.search.beam import length_limit, translate
from accel.trained.kinds import FULL_CHARTS, TRANSLATIONS, require
from accel.trained.opening import Model
from accel.trained.options import OptionError
from accel.trained.words import encode_words, joined, line_reader
from refimpl.trees import Tree

MOST_WORDS = 60
EXTRA_LENGTH = 100  # how much longer than the source an output that the model writes may be
_COLOUR = "#1f4e8c"
_SIZE, _PAD, _ROW, _WIDEST = 13.0, 14.0, 26.0, 900.0


def draw_chart(
    words: Sequence[str], weights: np.ndarray, max_height: int | None, title: str, below: str = ""
) -> Picture:
    """Return a picture with a cell for every phrase of at most `max_height` words, above the middle of its words.

    Parameters
    ----------
    words : sequence of str
        The tokens of the chart.
    weights : [M]
        The weights of phrases, row by row; their sum is 1. Cells show them in %; the largest weight is the darkest.
    below : str
        A text under the picture.

    Raises
    ------
    PictureError
        If there are too many words, or the number of weights is not that of phrases.
    """
    n = len(words)
    height = n if max_height is None else min(n, max_height)
    if n > MOST_WORDS:
        raise PictureError(f"{n} words are too many for one picture: at most {MOST_WORDS}")
    if len(weights) != n * height - height * (height - 1) // 2:
        raise PictureError(f"{len(weights)} weights for a chart over {n} words of height {height}")
    word_width = max(text_width(word, _SIZE) for word in words) + 8
    vertical = word_width * n > _WIDEST
    cell = 30.0 if vertical else max(30.0, word_width)
    left, top = _PAD + 110, _PAD + 26
    floor = top + height * _ROW
    shapes: list[Shape] = [Text(_PAD, _PAD + 6, title, size=_SIZE + 1)]
    start = 0
    for h in range(1, height + 1):
        row = weights[start : start + n - h + 1]
        start += len(row)
        y = floor - h * _ROW
        name = "words" if h == 1 else f"{h} words"
        shapes.append(Text(_PAD, y + _ROW / 2, name, size=_SIZE - 1, fill=GREY))
        shapes.append(Text(left - 14, y + _ROW / 2, f"{100 * row.sum():.0f} %", "end", _SIZE - 1, GREY))
        x = left + (h - 1) * cell / 2
        for i, weight in enumerate(row.tolist()):
            shapes += _cell(x + i * cell, y, cell, weight, weight / max(float(weights.max()), 1e-30))
    for i, word in enumerate(words):
        middle = left + (i + 0.5) * cell
        if vertical:
            shapes.append(Text(middle, floor + 8, word, "end", _SIZE, turn=True))
        else:
            shapes.append(Text(middle, floor + 14, word, "middle", _SIZE))
    width = max(left + n * cell, _PAD + text_width(title, _SIZE + 1)) + _PAD
    bottom = floor + (word_width if vertical else 24) + 8
    for line in wrap(below, int((width - 2 * _PAD) / text_width(below, _SIZE) * len(below)) if below else 1):
        shapes.append(Text(_PAD, bottom + 8, line, size=_SIZE))
        bottom += 18
    return Picture(width, bottom + _PAD, tuple(shapes), title)


def _cell(x: float, y: float, width: float, weight: float, share: float) -> list[Shape]:
    shapes: list[Shape] = [Box(x, y, width, _ROW, mixed(_COLOUR, share), "#ffffff")]
    if weight >= 0.005:
        ink = "#ffffff" if share > 0.7 else INK  # the ink with more contrast
        shapes.append(Text(x + width / 2, y + _ROW / 2, f"{100 * weight:.0f}", "middle", 10.0, ink))
    return shapes


def chart_of_run(ops: ModuleType, model: Model, source: str, target: str | None) -> Picture:
    """Return the picture of a trained model that reads a source and writes a target (None: the model's output)."""
    words, tokens = _read(model, source)
    config, vocabulary = model.config, model.vocabulary
    require(model, TRANSLATIONS)
    if target is None:
        [target_ids] = translate(ops, config, model.parameters, [np.array(tokens)], extra_length=EXTRA_LENGTH)
        if len(target_ids) == length_limit(tokens, EXTRA_LENGTH):
            raise PictureError(
                f"the model writes {len(target_ids)} tokens without an end: give the target with --target"
            )
    else:
        try:
            target_ids = joined(encode_words(model, line_reader(model)(target)))
        except ValueError as error:
            raise OptionError("target", str(error)) from error
    weights = cross_attention(ops, model, tokens, target_ids)
    output = " ".join(vocabulary.decode(target_ids))
    title = "Cross-attention in %: mean of layers, heads and output positions"
    return draw_chart([*words, END], weights, config.max_height or None, title, f"Output: {output}")


def parse_of_run(ops: ModuleType, model: Model, sentence: str, max_height: int | None) -> Tree:
    """Return a trained model's tree over the tokens of a sentence; each label is the weight of the node's split."""
    words, tokens = _read(model, sentence, max_height)
    [(weights, _)], [spans] = (
        list(function(ops, model, [tokens], max_height=max_height)) for function in (split_weights, chart_spans)
    )
    labels = {span: f"{weight:.2f}" for span, weight in largest_weights(host(weights), len(tokens)).items()}
    return induced_tree(spans, words, labels)


def _read(model: Model, text: str, max_height: int | None = None) -> tuple[list[str], list[int]]:
    """Return the tokens of a text for the chart of a model, as words or pieces and as ids."""
    require(model, FULL_CHARTS)
    words = line_reader(model)(text)
    tokens = joined(encode_words(model, words, max_height=max_height))
    return words if len(tokens) == len(words) else [model.vocabulary.symbols[i] for i in tokens], tokens
