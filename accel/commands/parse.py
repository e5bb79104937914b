"""`grove parse`: the trees that a model induces, one a line; with gold trees their F1, of several models side by side.

Trees of a language model come from its distances, those of a Treeformer from its chart, those of GPST from its chart,
its parser or its search. A TG and a TXL (CC) have labelled trees, see `accel.commands.parse_labelled`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import accel
from accel.commands import parse_labelled
from accel.commands.opened import (
    add_max_height,
    check_outs,
    figures,
    progress,
    write_out,
    written_line_by_line,
)
from accel.commands.search_options import add_search
from accel.commands.threads import processes
from accel.data.files.lines import errors_at, is_standard, read_word_lines
from accel.data.published.wsj import CONVENTIONS, GoldSentence, read_gold
from accel.drawing.parses import draw_parses
from accel.drawing.svg import check_name, save
from accel.evaluation.induced_f1 import ORACLE, PRESETS, score, score_baselines, score_oracle, sentence_scores, table
from accel.models.fasttrees.stack import KINDS
from accel.parsing.distances import SPLITS, induced_tree
from accel.parsing.gpst import MODES
from accel.parsing.spans import OPTIONS, Spans, check_options, find_spans, reading_of
from accel.search.options import OF_TREES
from accel.tasks.numbers import at_least
from accel.trained.kinds import CHARTS, GPST_TREES, PROPOSALS, TREE_LOGPS, can, network_of
from accel.trained.opening import Model, open_model
from accel.trained.options import OptionError
from accel.trained.words import encode_words, line_reader, refuse_start

OF_GOLD = ("picture", "by_sentence", "convention", "preset")
"""The options that need gold trees."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sentences", type=Path, nargs="?", metavar="FILE", help="a sentence a line, words apart")
    help_text = "a run's directory or checkpoint; repeat it to compare models on --gold trees"
    parser.add_argument("--checkpoint", type=Path, action="append", required=True, metavar="PATH", help=help_text)
    parser.add_argument(
        "--model",
        choices=(*KINDS, CHARTS["paper"], CHARTS["released"], "gpst"),
        help="refuse a checkpoint of another kind",
    )
    help_text = "the layer of the distances, from 1 (default: 2, or 1 if there is no second one)"
    parser.add_argument("--layer", type=at_least(1), help=help_text)
    parser.add_argument("--split", choices=SPLITS, help="where the distances split a constituent (default: biased)")
    add_max_height(parser)
    parser.add_argument("--mode", choices=MODES, help="where GPST's trees come from (default: inside)")
    add_search(parser, paper="20, as its paper")
    parser.add_argument(
        "--no-sync",
        dest="sync",
        action="store_false",
        default=None,
        help="of a GPST from left to right: keep the best parses after every action, not after every word",
    )
    parser.add_argument("--gold", type=Path, metavar="TREEBANK", help="parse its sentences and score the trees")
    help_text = "words of the gold trees: wsj, without punctuation, digits as N; wsj10, at most ten of these; "
    help_text += "kim, with digits; plain, all"
    parser.add_argument("--convention", choices=CONVENTIONS, help=help_text)
    parser.add_argument("--preset", choices=tuple(PRESETS), help="the spans that count for F1 (default: fasttrees)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="TREES",
        help="write the trees to this file, called TREES.part until all are there (default: to stdout, without --gold)",
    )
    parser.add_argument(
        "--picture", type=Path, metavar="PICTURE", help="draw one tree beside the gold tree, .svg or .png"
    )
    parser.add_argument(
        "--number", type=at_least(1), metavar="N", help="the gold tree of that picture (default: the first)"
    )
    help_text = "write a table of the F1 of every gold tree to this file, to choose one for a picture"
    parser.add_argument("--by-sentence", type=Path, metavar="TSV", help=help_text)
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    help_text = "sentences read side by side (default: 64; a GPST from left to right 32; TG, TXL (CC) 8)"
    parser.add_argument("--batch-size", type=at_least(1), help=help_text)


def run(options: argparse.Namespace) -> int:
    if (options.sentences is None) == (options.gold is None):
        raise ValueError("parse: give either a FILE of sentences, or gold trees with --gold")
    for name in OF_GOLD if options.gold is None else ():
        if getattr(options, name) is not None:
            raise OptionError(name, "is for --gold: give gold trees with it")
    if options.picture is None and options.number is not None:
        raise ValueError("parse: --number is for --picture: give a name for the picture with it")
    check_outs(options, "out", "picture", "by_sentence")
    if options.picture is not None:
        check_name(options.picture)
    ops = accel.load(options.backend)
    models = [open_model(ops, path) for path in options.checkpoint]
    if len(models) > 1 and (options.gold is None or options.out is not None):
        raise ValueError("parse: several models are compared on --gold trees, without --out; give one --checkpoint")
    for model in models:
        if can(model, PROPOSALS):
            raise ValueError(f"{model.path}: a span parser: its best trees are those of grove propose --number 1")
        if options.model not in (None, kind := network_of(model)):
            raise ValueError(f"{model.path}: a model of kind {kind}, not {options.model}: leave --model out")
        if can(model, TREE_LOGPS) and len(models) > 1:
            raise ValueError(f"{model.path}: its trees have labels; give it as the only --checkpoint")
    if can(models[0], TREE_LOGPS):
        return parse_labelled.run(ops, models[0], options)
    for model in models:
        check_options(model, _given(options, *OPTIONS, *OF_TREES))
    gold = [] if options.gold is None else list(read_gold(options.gold, options.convention or "wsj"))
    lines = [sentence.words for sentence in gold] or read_word_lines(options.sentences, line_reader(models[0]))
    places = [sentence.line for sentence in gold] or range(1, len(lines) + 1)
    parsing = _given(options, *OPTIONS, "batch_size")
    for model in models:
        _check_words(model, zip(places, lines, strict=True), options, parsing)
    sentences = [words for words in lines if words]
    out, spans = options.out or (None if gold else Path("-")), {}
    for name, model in zip(_names(models, options.mode), models, strict=True):
        parses = find_spans(ops, model, sentences, processes=processes(ops, model), **parsing)
        parses = progress(parses, len(sentences), printed=out is not None and is_standard(out))
        spans[name] = list(parses) if out is None else _written(out, lines, sentences, parses)
    if gold:
        _beside_gold(ops, models, gold, spans, options)
    return 0


def _written(
    out: Path, lines: Iterable[Sequence[str]], sentences: Sequence[Sequence[str]], parses: Iterable[Spans]
) -> list[Spans]:
    """Write every tree as soon as it is found, and return all of them."""
    pairs = zip(parses, sentences, strict=True)
    return [spans for spans, _ in written_line_by_line(out, lines, pairs, lambda pair: str(induced_tree(*pair)))]


def _names(models: Sequence[Model], mode: str | None) -> list[str]:
    """Return the models' kinds, or a GPST's --mode; if two are the same, the names of the runs, or their paths."""
    names = [mode or network_of(model) for model in models]
    if len(set(names)) == len(names):
        return names
    runs = [Path(os.path.abspath(model.path)).parent.name for model in models]
    return runs if len(set(runs)) == len(runs) else [str(model.path) for model in models]


def _beside_gold(
    ops: ModuleType, models: Sequence[Model], gold: list[GoldSentence], spans: dict[str, list[Spans]],
    options: argparse.Namespace,
) -> None:  # fmt: skip
    """Print the scores of the trees, and write the picture of one sentence and the table of all."""
    preset = options.preset or "fasttrees"
    if options.picture is not None:
        _draw(ops, models, gold, spans, options)
    if options.by_sentence is not None:
        write_out(options.by_sentence, _by_sentence(gold, spans, preset))
    rows = {name: score(gold, trees, preset) for name, trees in spans.items()} | score_baselines(gold, preset=preset)
    with figures(options.out, options.by_sentence):
        print(table(rows | {ORACLE: score_oracle(gold, preset)}, gold))


def _by_sentence(gold: Sequence[GoldSentence], spans: Mapping[str, Sequence[Spans]], preset: str) -> str:
    """Return a tab-separated table of the F1 of every sentence; a sentence that does not count has none."""
    lines = ["\t".join(["number", "words", *spans, "sentence"])]
    for number, sentence in enumerate(gold):
        scores = [_f1(sentence, trees[number], preset) for trees in spans.values()]
        lines.append("\t".join([str(number + 1), str(len(sentence.words)), *scores, " ".join(sentence.words)]))
    return "".join(f"{line}\n" for line in lines)


def _f1(sentence: GoldSentence, spans: Spans, preset: str) -> str:
    return "".join(f"{value:.1f}" for value in sentence_scores([sentence], [spans], preset))


def _draw(
    ops: ModuleType, models: Sequence[Model], gold: list[GoldSentence], spans: Mapping[str, Sequence[Spans]],
    options: argparse.Namespace,
) -> None:  # fmt: skip
    """Draw a gold tree, and below it the models' trees with their F1; of a single GPST one tree for each mode."""
    number = 1 if options.number is None else options.number
    if not 1 <= number <= len(gold):
        raise ValueError(f"--number {number}: {options.gold} has trees 1 to {len(gold)}")
    sentence, trees = gold[number - 1], {name: of_all[number - 1] for name, of_all in spans.items()}
    if len(models) == 1 and can(models[0], GPST_TREES):
        search = _given(options, "beam")
        _check_words(models[0], [(sentence.line, sentence.words)], options, {"mode": MODES[-1]})
        modes = {mode: {"mode": mode} for mode in MODES} | {"without sync": {"mode": MODES[-1], "sync": False}}
        parse = partial(find_spans, ops, models[0], [sentence.words])
        trees = {name: next(parse(**mode, **search)) for name, mode in modes.items()}
    preset = options.preset or "fasttrees"
    scores = {name: _f1(sentence, tree, preset) for name, tree in trees.items()}
    titled_trees = {f"{name}, F1 {scores[name]}" if scores[name] else name: tree for name, tree in trees.items()}
    title = f"{options.gold.name}, tree {number}"
    save(draw_parses(sentence.words, sentence.constituents, titled_trees, title), options.picture)


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options of these names that were given."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _check_words(
    model: Model, lines: Iterable[tuple[int, list[str]]], options: argparse.Namespace, parsing: dict[str, Any]
) -> None:
    """Raise LineError at the first sentence that cannot be read."""
    for line, words in lines:
        with errors_at(options.gold or options.sentences, line):
            if words:
                refuse_start(words)
                encode_words(model, words, **reading_of(parsing))
