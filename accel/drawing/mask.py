"""Pictures of attention: the mask of a tree (Figure 2), and the attention weights of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import accel
from accel.drawing.svg import GREY, Box, Picture, PictureError, Shape, Text, mixed, shortened, text_width
from refimpl.trees import START, ActionType, Tree, actions, double_closing

STACK, COMPOSE, CAUSAL = "#4c78a8", "#f28e2b", "#5b8a72"
OPERATIONS = {"STACK": STACK, "COMPOSE": COMPOSE}
MOST_POSITIONS = 200  # of a square picture
_CELL, _SIZE, _PAD = 22.0, 12.0, 12.0


def draw_mask(tree: Tree) -> Picture:
    """Return Figure 2 (b) for any tree: a row is the position that attends, a column the position attended to."""
    tokens, types = double_closing([START, *actions(tree)])
    _check_size(len(tokens))
    composes = [action == ActionType.CNT1 for action in types]
    row_offsets, keys, *_ = accel.load("ref").attend_sets(np.array(types, np.int8), np.array([0, len(types)]))
    weights = np.zeros((len(types), len(types)))
    weights[np.repeat(np.arange(len(types)), np.diff(row_offsets)), keys] = 1.0
    title = f"STACK/COMPOSE attention mask of {shortened(str(tree))}"
    return _square(tokens, weights, [COMPOSE if x else STACK for x in composes], OPERATIONS, title)


def draw_weights(tokens: Sequence[str], types: Sequence[int] | None, weights: np.ndarray, title: str) -> Picture:
    """Return a picture of attention weights [T, T]; with `types` of a Transformer Grammar, else of causal attention."""
    _check_size(len(tokens))
    if types is None:
        return _square(tokens, weights, [CAUSAL] * len(tokens), {}, title)
    colours = [COMPOSE if action == ActionType.CNT1 else STACK for action in types]
    return _square(tokens, weights, colours, OPERATIONS, title)


def _square(
    tokens: Sequence[str], weights: np.ndarray, colours: Sequence[str], legend: Mapping[str, str], title: str
) -> Picture:
    """Return a grid whose cell (i, j) has row i's colour, as strong as the weight."""
    n = len(tokens)
    names = max(text_width(token, _SIZE) for token in tokens)
    left = _PAD + text_width(f"{n} ", _SIZE) + names + 8
    top = _PAD + names + 8
    shapes: list[Shape] = []
    for i in range(n):
        x, y = left + i * _CELL, top + i * _CELL
        for j in range(n):
            fill = mixed(colours[i], float(weights[i, j])) if weights[i, j] > 0 else "#f6f6f6"
            shapes.append(Box(left + j * _CELL, y, _CELL, _CELL, fill, "#ffffff"))
        shapes.append(Text(_PAD, y + _CELL / 2, str(i), size=_SIZE - 2, fill=GREY))
        shapes.append(Text(left - 8, y + _CELL / 2, tokens[i], "end", _SIZE))
        shapes.append(Text(x + _CELL / 2, top - 8, tokens[i], "start", _SIZE, turn=True))
    shapes.append(Box(left, top, n * _CELL, n * _CELL, stroke="#999999"))
    bottom = top + n * _CELL + _PAD
    x = left
    for name, colour in legend.items():
        shapes += [Box(x, bottom, 14, 14, colour), Text(x + 20, bottom + 7, name, size=_SIZE)]
        x += 20 + text_width(name, _SIZE) + 16
    width = max(left + n * _CELL, x) + _PAD
    return Picture(width, bottom + (14 + _PAD if legend else 0), tuple(shapes), title)


def _check_size(n: int) -> None:
    if n > MOST_POSITIONS:
        raise PictureError(f"{n} positions are too many for one picture: at most {MOST_POSITIONS}")
