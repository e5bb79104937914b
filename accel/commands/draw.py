"""`grove draw`: pictures of masks, attention, trees, losses, distances and charts, as SVG or PNG."""

from __future__ import annotations

import argparse
import os
from itertools import islice
from pathlib import Path
from shlex import quote
from types import ModuleType

import accel
from accel.autodiff.arrays import host
from accel.commands.opened import add_max_height, check_outs, write_out
from accel.data.corpora.sequences import read_given, read_whole, require_known
from accel.data.corpora.treebank import Reading, Sentence
from accel.data.files.archive import archive_of
from accel.data.files.brackets import read_trees
from accel.data.files.lines import LineError, is_standard
from accel.drawing.attention import attention_weights
from accel.drawing.chart import chart_of_run, parse_of_run
from accel.drawing.curves import draw_losses
from accel.drawing.distances import draw_distances
from accel.drawing.mask import draw_mask, draw_weights
from accel.drawing.svg import Picture, PictureError, check_name, save, shortened, svg
from accel.drawing.tree import draw_tree
from accel.parsing.distances import distances, layer_of
from accel.tasks.numbers import at_least
from accel.tasks.reading import add_reading, changed
from accel.trained.kinds import ATTENTION, require
from accel.trained.opening import Model, open_model
from accel.trained.options import OptionError

_OF_TREES = ("number", "drop_traces", "drop_function_tags", "keep_tags", "leave_out_untagged")
TAKEN = {
    "mask": _OF_TREES,
    "tree": _OF_TREES,
    "attention": (*_OF_TREES, "checkpoint", "layer", "head"),
    "loss": (),
    "distances": ("checkpoint", "layer"),
    "chart": ("checkpoint", "target"),
    "parse": ("checkpoint", "max_height"),
}
"""The options that each kind of picture takes, in addition to those that all kinds take."""
GIVEN = dict.fromkeys(("mask", "tree", "attention"), 'a tree with brackets, like "(S the bird)", or a file of trees')
GIVEN |= {"loss": "runs, or their metrics"}
GIVEN |= dict.fromkeys(("distances", "chart", "parse"), "the words of a sentence")
"""What each kind of picture is drawn from."""
OPTIONS = tuple(dict.fromkeys(name for names in TAKEN.values() for name in names))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=tuple(TAKEN), help="what to draw")
    parser.add_argument(
        "input",
        nargs="+",
        help="a tree in brackets or a treebank; loss: runs or their metrics; distances, chart, parse: the words",
    )
    help_text = "a name that ends in .svg or .png; - for SVG"
    parser.add_argument("--out", type=Path, required=True, metavar="PICTURE", help=help_text)
    help_text = "of a mask, a tree or attention: which tree of the treebank, from 1 (default: 1)"
    parser.add_argument("--number", type=at_least(1), metavar="N", help=help_text)
    parser.add_argument(
        "--checkpoint", metavar="PATH", help="whose attention, distances or chart: a run or a checkpoint in it"
    )
    parser.add_argument("--target", metavar="WORDS", help="of a chart: the output (default: the model's)")
    add_max_height(parser)
    help_text = "of attention or distances: from 1 (default: the last; of distances the second, if there is one)"
    parser.add_argument("--layer", type=at_least(1), help=help_text)
    parser.add_argument("--head", type=at_least(1), help="of attention: from 1 (default: the mean of all)")
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    add_reading(parser, default=None, otherwise="trees as they are; for attention as the model was trained")


def run(options: argparse.Namespace) -> int:
    _check_options(options)
    if not is_standard(options.out):
        check_name(options.out)
    check_outs(options, "out", reads=map(Path, options.input))
    _check_input(options)
    if options.kind == "loss":
        picture = draw_losses([Path(name) for name in options.input])
    elif options.kind == "distances":
        picture = _draw_distances(options)
    elif options.kind in ("chart", "parse"):
        picture = _draw_chart(options)
    elif len(options.input) > 1:
        raise PictureError(f"{options.kind}: give one tree in quotation marks, or one file")
    elif options.kind == "attention":
        picture = _draw_attention(options)
    else:
        tree = _read_tree(options, Reading()).tree
        picture = draw_mask(tree) if options.kind == "mask" else draw_tree(tree)
    if is_standard(options.out):
        write_out(options.out, svg(picture))
        return 0
    save(picture, options.out)
    print(options.out)
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """Raise OptionError for an option that this kind of picture does not take."""
    is_typed = options.input[0].lstrip().startswith("(")
    for name in OPTIONS:
        if getattr(options, name) is None:
            continue
        kinds = [kind for kind, names in TAKEN.items() if name in names]
        if options.kind not in kinds:
            raise OptionError(name, f"is not for draw {options.kind}, but for {', '.join(kinds)}: leave it out")
        if name == "number" and is_typed:
            raise OptionError(name, "is for a file of trees, and a tree is given: leave it out")


def _check_input(options: argparse.Namespace) -> None:
    """Raise PictureError if the input is empty, or is a file where words are needed."""
    text, source = " ".join(options.input), GIVEN[options.kind]
    if not text.strip():
        raise PictureError(f"{options.kind}: the input is empty: give {source}")
    if source == GIVEN["parse"] and all(map(os.path.isfile, options.input)):
        use = f'"$(head -n 1 {quote(options.input[0])})" for those of its first line'
        raise PictureError(f"{text}: a file, but draw {options.kind} takes {source}: type {use}")


def _read_tree(options: argparse.Namespace, reading: Reading) -> Sentence:
    """Return the tree that is typed, with line 0, or the tree --number of the file."""
    [text] = options.input
    reading = changed(reading, options)
    if text.lstrip().startswith("("):
        return _read_typed(text, reading)
    if not (is_standard(text) or os.path.exists(text) or archive_of(Path(text))):
        raise PictureError(f"{shortened(text)}: no such file: give {GIVEN['tree']}")
    number = options.number or 1
    sentences = list(islice(read_whole(text, reading), number))
    if len(sentences) < number:
        raise PictureError(f"--number {number}: {text} has {len(sentences)} trees: give one of these numbers")
    return sentences[-1]


def _read_typed(text: str, reading: Reading) -> Sentence:
    """Return the tree of a text, read in the same way as a tree of a file."""
    trees = list(read_trees([text]))
    if len(trees) > 1:
        raise PictureError(f"{shortened(text)}: {len(trees)} trees: give one, or a file and --number")
    try:
        [sentence] = read_given(trees, reading)
    except LineError as error:
        raise PictureError(f"{shortened(text)}: {error.reason}") from error
    return sentence._replace(line=0)


def _opened(options: argparse.Namespace) -> tuple[ModuleType, Model]:
    if options.checkpoint is None:
        raise PictureError(f"{options.kind}: give the model with --checkpoint")
    ops = accel.load(options.backend)
    return ops, open_model(ops, options.checkpoint)


def _draw_attention(options: argparse.Namespace) -> Picture:
    ops, model = _opened(options)
    require(model, ATTENTION)
    sentence = _read_tree(options, model.reading or Reading())
    require_known(options.input[0] if sentence.line else shortened(options.input[0]), [sentence], model.vocabulary)
    attention = attention_weights(ops, model, sentence.tree)
    layers, heads = attention.weights.shape[:2]
    layer = layers if options.layer is None else options.layer
    if layer > layers:
        raise OptionError("layer", f"the model has layers 1 to {layers}", layer)
    if (options.head or 1) > heads:
        raise OptionError("head", f"the model has heads 1 to {heads}", options.head)
    heads_of_layer = attention.weights[layer - 1]
    weights = heads_of_layer.mean(axis=0) if options.head is None else heads_of_layer[options.head - 1]
    heads_name = "mean of the heads" if options.head is None else f"head {options.head}"
    n_restricted = model.config.restricted_heads(layer - 1)  # restricted heads come first; a TXL has none
    types = attention.types if n_restricted >= (options.head or 1) else None
    return draw_weights(attention.tokens, types, weights, f"Attention, layer {layer}, {heads_name}")


def _draw_distances(options: argparse.Namespace) -> Picture:
    ops, model = _opened(options)
    words = " ".join(options.input).split()
    [(layer_distances, offsets)] = distances(ops, model, [words])
    layer = layer_of(len(layer_distances), options.layer, "the model")
    spans = host(ops.distance_trees(layer_distances[layer - 1], offsets)[0])
    title = f"Distances of {shortened(' '.join(words))}, and the tree of layer {layer}"
    return draw_distances(words, host(layer_distances), [(i, j) for i, j in spans.tolist()], layer, title)


def _draw_chart(options: argparse.Namespace) -> Picture:
    ops, model = _opened(options)
    text = " ".join(options.input)
    if options.kind == "chart":
        return chart_of_run(ops, model, text, options.target)
    return draw_tree(parse_of_run(ops, model, text, options.max_height))
