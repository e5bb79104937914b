"""What the project draws: the attention mask of a tree (Figure 2), attention weights, a tree, the losses of a training.

Each function returns a `Picture`; `accel.drawing.svg` writes it as SVG or PNG. `accel.drawing.distances` draws the
distances
of words. `grove draw` is at the end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from math import ceil, floor, isfinite, log10
from pathlib import Path

import numpy as np

import accel
from accel.commands.opened import add_max_height
from accel.data.corpora.tagged import read_whole
from accel.data.corpora.treebank import Reading
from accel.drawing.distances import draw_distances
from accel.drawing.svg import FAINT, INK, Box, Line, Picture, PictureError, Shape, Text, mixed, save, text_width
from accel.tasks.reading import add_reading, changed
from accel.trained.opening import open_model
from accel.training.run import METRICS
from refimpl.trees import START, ActionType, Tree, action_type, actions, double_closing, read_trees

STACK, COMPOSE, CAUSAL = "#4c78a8", "#f28e2b", "#5b8a72"
COLOURS = ("#4c78a8", "#f28e2b", "#5b8a72", "#b04a5a", "#7b6ba8", "#8c7a5b")
OPERATIONS = {"STACK": STACK, "COMPOSE": COMPOSE}
MOST_POSITIONS = 200  # of a square picture
_CELL, _SIZE, _PAD = 22.0, 12.0, 12.0

Points = Sequence[tuple[float, float]]


def draw_mask(tree: Tree) -> Picture:
    """Return Figure 2 (b) of any tree: who attends to whom; a row is the position that attends."""
    tokens, types = double_closing([START, *actions(tree)])
    _check_size(len(tokens))
    composes = [kind == ActionType.CNT1 for kind in types]
    row_offsets, keys, *_ = accel.load("ref").attend_sets(np.array(types, np.int8), np.array([0, len(types)]))
    weights = np.zeros((len(types), len(types)))
    weights[np.repeat(np.arange(len(types)), np.diff(row_offsets)), keys] = 1.0
    title = f"STACK/COMPOSE attention mask of {_shortened(str(tree))}"
    return _square(tokens, weights, [COMPOSE if x else STACK for x in composes], OPERATIONS, title)


def draw_weights(tokens: Sequence[str], types: Sequence[int] | None, weights: np.ndarray, title: str) -> Picture:
    """Return attention weights [T, T] between the tokens; with `types` a Transformer Grammar's, else causal ones."""
    _check_size(len(tokens))
    if types is None:
        return _square(tokens, weights, [CAUSAL] * len(tokens), {}, title)
    colours = [COMPOSE if kind == ActionType.CNT1 else STACK for kind in types]
    return _square(tokens, weights, colours, OPERATIONS, title)


def _square(
    tokens: Sequence[str], weights: np.ndarray, colours: Sequence[str], legend: Mapping[str, str], title: str
) -> Picture:
    """Return a grid: cell (i, j) has row i's colour, as strong as the weight."""
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
        shapes.append(Text(_PAD, y + _CELL / 2, str(i), size=_SIZE - 2, fill="#888888"))
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


def draw_tree(tree: Tree) -> Picture:
    """Return the tree, its labels in blue; every constituent is as wide as its children together, or as its label."""
    row, gap, size = 44.0, 14.0, 14.0
    sequence = [(action, action_type(action)) for action in actions(tree)]
    widths: list[float] = []  # of every node, in the order in which they begin
    inner: list[float] = []  # of its children together
    opened: list[int] = []
    for action, kind in sequence:
        node = opened.pop() if kind == ActionType.CNT1 else len(widths)
        if kind == ActionType.CNT1:
            widths[node] = max(widths[node], inner[node])
        else:
            widths.append(text_width(action.removeprefix("("), size))
            inner.append(0.0)
        if kind == ActionType.ONT:
            opened.append(node)
        elif opened:
            inner[opened[-1]] += widths[node] + (gap if inner[opened[-1]] else 0.0)
    shapes: list[Shape] = []
    parents: list[float] = []  # the middles of the open nodes
    begins = [_PAD]  # where the next child of each of them begins
    node = deepest = 0
    for action, kind in sequence:
        if kind == ActionType.CNT1:
            parents.pop()
            begins.pop()
            continue
        begin, middle, y = begins[-1], begins[-1] + widths[node] / 2, _PAD + 8 + row * len(parents)
        shapes.append(
            Text(middle, y, action.removeprefix("("), "middle", size, STACK if kind == ActionType.ONT else INK)
        )
        if parents:
            shapes.append(Line(((parents[-1], y - row + 10), (middle, y - 10)), "#999999"))
        begins[-1] += widths[node] + gap
        if kind == ActionType.ONT:
            parents.append(middle)
            begins.append(begin + (widths[node] - inner[node]) / 2)
        deepest = max(deepest, len(parents))
        node += 1
    return Picture(widths[0] + 2 * _PAD, _PAD * 2 + 16 + row * deepest, tuple(shapes), _shortened(str(tree)))


def draw_curves(curves: Mapping[str, Points], *, x_label: str, y_label: str, title: str) -> Picture:
    """Return curves over one pair of axes; a name that ends in "*" is drawn thin, and is not in the legend."""
    points = [point for curve in curves.values() for point in curve]
    if not points or not all(isfinite(x) and isfinite(y) for x, y in points):
        raise PictureError(f"{title}: nothing to draw, or a value that is not finite")
    x_ticks, y_ticks = (round_ticks([point[axis] for point in points]) for axis in (0, 1))
    left, top, width, height = 58.0, 34.0, 460.0, 260.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return left + width * across, top + height * (1 - up)

    shapes: list[Shape] = [Text(left, 16, title, size=13)]
    for tick in x_ticks:
        shapes.append(Text(at(tick, 0)[0], top + height + 14, f"{tick:,.6g}", "middle", 11))
    for tick in y_ticks:
        y = at(0, tick)[1]
        shapes += [Line(((left, y), (left + width, y)), FAINT), Text(left - 8, y, f"{tick:,.6g}", "end", 11)]
    shapes.append(Text(left + width / 2, top + height + 34, x_label, "middle", 12))
    shapes.append(Text(14, top + height / 2, y_label, "middle", 12, turn=True))
    named = [name for name in curves if not name.endswith("*")]
    for name, curve in sorted(curves.items(), key=lambda item: not item[0].endswith("*")):
        thin = name.endswith("*")
        colour = COLOURS[named.index(name.rstrip("*")) % len(COLOURS)]
        line = tuple(at(x, y) for x, y in curve)
        if len(line) > 1:
            shapes.append(Line(line, mixed(colour, 0.35) if thin else colour, 1.0 if thin else 2.0))
    for number, name in enumerate(named):
        y = top + 12 + 18 * number
        x = left + width - 30 - max(text_width(other, 11) for other in named)
        shapes.append(Line(((x, y), (x + 18, y)), COLOURS[number % len(COLOURS)], 3.0))
        shapes.append(Text(x + 24, y, name, size=11))
    return Picture(left + width + 20, top + height + 50, tuple(shapes), title)


def round_ticks(values: Sequence[float]) -> list[float]:
    """Return four to eight round numbers, the first not above the values, the last not below."""
    low, high = min(values), max(values)
    span = high - low or abs(high) or 1.0
    unit = 10.0 ** floor(log10(span))
    step = next(unit * part for part in (0.2, 0.5, 1.0, 2.0) if span / (unit * part) <= 6)
    return [step * k for k in range(floor(low / step), max(ceil(high / step), floor(low / step) + 1) + 1)]


def _check_size(n: int) -> None:
    if n > MOST_POSITIONS:
        raise PictureError(f"{n} positions are too many for one picture: at most {MOST_POSITIONS}")


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def read_losses(path: Path) -> tuple[Points, Points]:
    """Return (step, loss) of every step, and of every validation, from a run's directory or its metrics.jsonl."""
    path = path / METRICS if path.is_dir() else path
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        every = [(line["step"], line["loss"]) for line in lines]
        return every, [(line["step"], line["validation_loss"]) for line in lines if "validation_loss" in line]
    except (KeyError, TypeError, ValueError) as error:
        raise PictureError(f"{path}: not the metrics of a training: {error}") from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=("mask", "tree", "attention", "loss", "distances", "chart", "parse"))
    parser.add_argument(
        "input",
        nargs="+",
        help="a tree in brackets or a treebank; loss: runs or their metrics; distances, chart, parse: the words",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="PICTURE", help="a name that ends in .svg or .png")
    parser.add_argument("--number", type=int, default=1, help="which tree of the treebank (default: the first)")
    parser.add_argument(
        "--checkpoint", metavar="PATH", help="whose attention, distances or chart: a run or a checkpoint in it"
    )
    parser.add_argument("--target", metavar="WORDS", help="of a chart: what is written (default: the model's output)")
    add_max_height(parser)
    parser.add_argument("--layer", type=int, help="from 1 (default: the last; of distances the second)")
    parser.add_argument("--head", type=int, help="from 1 (default: the mean of all)")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    add_reading(parser, default=None, otherwise="trees as they are; for attention as the model was trained")


def run(options: argparse.Namespace) -> int:
    if options.kind == "loss":
        picture = _draw_losses([Path(name) for name in options.input])
    elif options.kind == "distances":
        picture = _draw_distances(options)
    elif options.kind in ("chart", "parse"):
        picture = _draw_chart(options)
    elif len(options.input) > 1:
        raise PictureError("one tree makes one picture: put it in quotation marks, or name one file")
    elif options.kind == "attention":
        picture = _draw_attention(options)
    else:
        tree = _read_tree(options, Reading())
        picture = draw_mask(tree) if options.kind == "mask" else draw_tree(tree)
    save(picture, options.out)
    print(options.out)
    return 0


def _read_tree(options: argparse.Namespace, reading: Reading) -> Tree:
    [text] = options.input
    if text.lstrip().startswith("("):
        [tree, *others] = read_trees([text])
    else:
        sentences = read_whole(text, changed(reading, options))
        tree, others = next(islice((s.tree for s in sentences), max(options.number, 1) - 1, None), None), []
    if tree is None or others or options.number < 1:
        raise PictureError(f"{_shortened(text)}: has no tree of number {options.number}, or more than one")
    return tree


def _draw_losses(paths: Sequence[Path]) -> Picture:
    curves: dict[str, Points] = {}
    for path in paths:
        name = path.parent.name if path.name == METRICS else path.name
        every, validation = read_losses(path)
        curves |= {name: validation, f"{name}*": every} if validation else {name: every}
    return draw_curves(curves, x_label="step", y_label="nats an event", title="Loss; thin: training, thick: validation")


def _draw_attention(options: argparse.Namespace) -> Picture:
    if options.checkpoint is None:
        raise PictureError("attention: --checkpoint says whose")
    from accel.drawing.attention import attention_weights  # NumPy and a backend, which no other picture needs

    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    found = attention_weights(ops, model, _read_tree(options, model.reading))
    layers, heads = found.weights.shape[:2]
    layer = layers if options.layer is None else options.layer
    if not 1 <= layer <= layers or not 1 <= (options.head or 1) <= heads:
        raise PictureError(f"the model has layers 1 to {layers}, each with heads 1 to {heads}")
    chosen = found.weights[layer - 1]
    weights = chosen.mean(axis=0) if options.head is None else chosen[options.head - 1]
    which = "mean of the heads" if options.head is None else f"head {options.head}"
    types = found.types if model.config.model == "tg" else None
    return draw_weights(found.tokens, types, weights, f"Attention, layer {layer}, {which}")


def _draw_distances(options: argparse.Namespace) -> Picture:
    if options.checkpoint is None:
        raise PictureError("distances: --checkpoint says whose")
    from accel.autodiff.arrays import host
    from accel.parsing.distances import distances

    ops, words = accel.load(options.backend), " ".join(options.input).split()
    model = open_model(ops, options.checkpoint)
    [(found, offsets)] = distances(ops, model, [words])
    layer = min(2, len(found)) if options.layer is None else options.layer
    if not 1 <= layer <= len(found):
        raise PictureError(f"the model has layers 1 to {len(found)}")
    spans = host(ops.distance_trees(found[layer - 1], offsets)[0])
    title = f"Distances of {_shortened(' '.join(words))}, and the tree of layer {layer}"
    return draw_distances(words, host(found), [(i, j) for i, j in spans.tolist()], layer, title)


def _draw_chart(options: argparse.Namespace) -> Picture:
    if options.checkpoint is None:
        raise PictureError(f"{options.kind}: --checkpoint says whose")
    from accel.drawing.chart import chart_of_run, parse_of_run

    ops, text = accel.load(options.backend), " ".join(options.input)
    if options.kind == "chart":
        return chart_of_run(ops, options.checkpoint, text, options.target)
    return draw_tree(parse_of_run(ops, options.checkpoint, text, options.max_height))
