"""`grove parse`: the trees that a model induces, one a line; with gold trees their F1.

Trees of a language model come from its distances, those of a Treeformer from its chart, those of GPST from its chart,
its parser or its search. A TG and a TXL (CC) have labelled trees, see `accel.commands.parse_labelled`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import accel
from accel.commands import parse_labelled
from accel.commands.numbers import at_least
from accel.commands.opened import add_max_height, check_out, figures, line_by_line, progress, write_out
from accel.commands.search_options import add_search
from accel.data.files.lines import LineError, read_word_lines
from accel.data.published.wsj import CONVENTIONS, GoldSentence, read_gold
from accel.drawing.parses import draw_parses
from accel.drawing.svg import save
from accel.evaluation.induced_f1 import PRESETS, score, score_baselines, score_oracle, table
from accel.models.fasttrees.stack import KINDS
from accel.parsing.distances import SPLITS, induced_tree
from accel.parsing.gpst import MODES
from accel.parsing.spans import OPTIONS, Spans, check_options, find_spans, reading_of
from accel.search.options import OF_TREES
from accel.trained.kinds import CHARTS, GPST_TREES, PROPOSALS, TREE_LOGPS, can, network_of
from accel.trained.opening import Model, open_model
from accel.trained.words import encode_words, line_reader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sentences", type=Path, nargs="?", metavar="FILE", help="a sentence a line, words apart")
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="PATH", help="a run's directory or checkpoint"
    )
    parser.add_argument(
        "--model",
        choices=(*KINDS, CHARTS["paper"], CHARTS["released"], "gpst"),
        help="refuse a checkpoint of another kind",
    )
    parser.add_argument("--layer", type=at_least(1), help="the layer of the distances, from 1 (default: 2)")
    parser.add_argument("--split", choices=SPLITS, help="where the distances split a constituent (default: biased)")
    add_max_height(parser)
    parser.add_argument("--mode", choices=MODES, help="where GPST's trees come from (default: inside)")
    add_search(parser)
    parser.add_argument(
        "--no-sync",
        dest="sync",
        action="store_false",
        default=None,
        help="... keep the best parses after every action, not every word",
    )
    parser.add_argument("--gold", type=Path, metavar="TREEBANK", help="parse its sentences and score the trees")
    help_text = "words of the gold trees: without punctuation, digits as N (wsj); at most ten of them; with digits; all"
    parser.add_argument("--convention", choices=CONVENTIONS, help=help_text)
    parser.add_argument("--preset", choices=tuple(PRESETS), help="the spans that count for F1 (default: fasttrees)")
    parser.add_argument(
        "--out", type=Path, metavar="TREES", help="write the trees to this file (default: to stdout, without --gold)"
    )
    parser.add_argument(
        "--picture", type=Path, metavar="PICTURE", help="draw one tree beside the gold tree, .svg or .png"
    )
    parser.add_argument(
        "--number", type=at_least(1), metavar="N", help="the gold tree of that picture (default: the first)"
    )
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    help_text = "sentences read side by side (default: 64; a GPST from left to right 16; TG, TXL (CC) 8)"
    parser.add_argument("--batch-size", type=at_least(1), help=help_text)


def run(options: argparse.Namespace) -> int:
    if (options.sentences is None) == (options.gold is None):
        raise ValueError("parse: give either a FILE of sentences, or gold trees with --gold")
    if options.gold is None and options.picture is not None:
        raise ValueError("parse: --picture is for --gold: give gold trees with it")
    if options.picture is None and options.number is not None:
        raise ValueError("parse: --number is for --picture: give a name for the picture with it")
    check_out(options.out)
    check_out(options.picture, "--picture")
    ops = accel.load(options.backend)
    model = open_model(ops, options.checkpoint)
    if can(model, PROPOSALS):
        raise ValueError(f"{model.path}: a span parser: its best trees are those of grove propose --number 1")
    kind = network_of(model)
    if options.model not in (None, kind):
        raise ValueError(f"{model.path}: a model of kind {kind}, not {options.model}")
    if can(model, TREE_LOGPS):
        return parse_labelled.run(ops, model, options)
    check_options(model, _given(options, *OPTIONS, *OF_TREES))
    gold = [] if options.gold is None else list(read_gold(options.gold, options.convention or "wsj"))
    preset = options.preset or "fasttrees"
    lines = [sentence.words for sentence in gold] or read_word_lines(options.sentences, line_reader(model))
    places = [sentence.line for sentence in gold] or range(1, len(lines) + 1)
    parsing = _given(options, *OPTIONS, "batch_size")
    _check_words(model, zip(places, lines, strict=True), options, parsing)
    sentences = [words for words in lines if words]
    spans = list(progress(find_spans(ops, model, sentences, **parsing), len(sentences)))
    trees = (str(induced_tree(tree, words)) for tree, words in zip(spans, sentences, strict=True))
    if options.out is not None or not gold:
        write_out(options.out or Path("-"), "".join(f"{tree}\n" for tree in line_by_line(lines, trees)))
    if gold:
        rows = {
            options.mode or kind: score(gold, spans, preset),
            **score_baselines(gold, preset=preset),
        }
        if options.picture is not None:
            _draw(ops, model, gold, options.mode or kind, spans, options)
        with figures(options.out):
            print(table(rows | {"oracle": score_oracle(gold, preset)}, gold))
    return 0


def _draw(
    ops: ModuleType, model: Model, gold: list[GoldSentence], name: str, spans: list[Spans], options: argparse.Namespace
) -> None:
    """Draw a gold tree, and below it the model's tree; of GPST one for each mode."""
    number = 1 if options.number is None else options.number
    if not 1 <= number <= len(gold):
        raise ValueError(f"--number {number}: {options.gold} has trees 1 to {len(gold)}")
    words, trees = gold[number - 1].words, {name: spans[number - 1]}
    if can(model, GPST_TREES):
        search = _given(options, "beam")
        _check_words(model, [(gold[number - 1].line, words)], options, {"mode": MODES[-1]})
        modes = {mode: {"mode": mode} for mode in MODES} | {"without sync": {"mode": MODES[-1], "sync": False}}
        trees = {name: next(find_spans(ops, model, [words], **mode, **search)) for name, mode in modes.items()}
    title = f"{options.gold.name}, tree {number}"
    save(draw_parses(words, gold[number - 1].constituents, trees, title), options.picture)


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options of these names that were given."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _check_words(
    model: Model, lines: Iterable[tuple[int, list[str]]], options: argparse.Namespace, parsing: dict[str, Any]
) -> None:
    """Raise LineError at the first sentence that cannot be read."""
    for line, words in lines:
        try:
            if words:
                encode_words(model, words, **reading_of(parsing))
        except ValueError as error:
            raise LineError(options.gold or options.sentences, line, str(error)) from error
