"""`grove parse`: the trees that a model induces, one a line; with gold trees how well they match.

Those of a language model come from its distances, those of a Treeformer and of GPST from its chart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import accel
from accel.commands.models import add_max_height, line_reader, name_of
from accel.data.lines import LineError, read_lines
from accel.data.wsj import CONVENTIONS, read_gold
from accel.models import encoder_decoder, gpst
from accel.models.fasttrees import KINDS
from accel.parse import SPLITS, induced_spans, induced_tree
from accel.parse_chart import chart_spans, encode_words, require_chart, spans_of_words
from accel.parse_gpst import inside_spans, require_trees
from accel.saved import Model, load_model, write_text
from accel.unsupervised import PRESETS, Spans, score, score_baselines, score_oracle, table

CHARTS_OF = {"paper": "treeformer", "released": "treeformer_released"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sentences", type=Path, nargs="?", metavar="FILE", help="a sentence a line, words apart")
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="PATH", help="a run's directory or checkpoint"
    )
    parser.add_argument(
        "--model", choices=(*KINDS, *CHARTS_OF.values(), "gpst"), help="what the checkpoint has to hold"
    )
    parser.add_argument("--layer", type=int, help="whose distances, from 1 (default: the second)")
    parser.add_argument("--split", choices=SPLITS, help="where the distances split a constituent (default: biased)")
    add_max_height(parser)
    parser.add_argument("--gold", type=Path, metavar="TREEBANK", help="parse its sentences and score the trees")
    parser.add_argument(
        "--convention",
        choices=CONVENTIONS,
        default="wsj",
        help="words of the gold trees: without punctuation; at most ten of them; all, of trees without tags",
    )
    parser.add_argument("--preset", choices=tuple(PRESETS), default="fasttrees", help="whose F1: what counts for it")
    parser.add_argument(
        "--out", type=Path, metavar="TREES", help="write the trees there (default: to stdout, if not scored)"
    )
    parser.add_argument("--backend", default="cpu", choices=accel.BACKENDS)
    parser.add_argument("--batch-size", type=int, default=64, help="how many sentences are read side by side")


def run(options: argparse.Namespace) -> int:
    if (options.sentences is None) == (options.gold is None):
        raise ValueError("parse: name either a file of sentences or, with --gold, the gold trees of some")
    ops = accel.load(options.backend)
    model = load_model(ops, options.checkpoint)
    kind = kind_of(model)
    if options.model not in (None, kind):
        raise ValueError(f"{model.path}: a model of kind {kind}, not {options.model}")
    gold = [] if options.gold is None else list(read_gold(options.gold, options.convention))
    sentences = [sentence.words for sentence in gold] or list(_read_sentences(options.sentences, model))
    find = {encoder_decoder: _spans_of_chart, gpst: _spans_of_pieces}.get(model.module, _spans_of_distances)
    spans = list(find(ops, model, sentences, options))
    trees = "".join(f"{induced_tree(found, words)}\n" for found, words in zip(spans, sentences, strict=True))
    if options.out is not None:
        write_text(options.out, trees)
    elif not gold:
        print(trees, end="")
    if gold:
        rows = {kind: score(gold, spans, options.preset), **score_baselines(gold, preset=options.preset)}
        print(table(rows | {"oracle": score_oracle(gold, options.preset)}, gold))
    return 0


def kind_of(model: Model) -> str:
    """Return what --model calls this model."""
    config = model.config
    if model.module is encoder_decoder:
        return CHARTS_OF.get(config.chart, "encoder_decoder")
    return str(getattr(config, "kind", name_of(model)))


def _spans_of_distances(
    ops: ModuleType, model: Model, sentences: list[list[str]], options: argparse.Namespace
) -> Iterator[Spans]:
    if options.max_height is not None:
        raise ValueError("parse: --max-height is for charts, which this model does not have")
    given = {name: getattr(options, name) for name in ("layer", "split", "batch_size")}
    chosen = {name: value for name, value in given.items() if value is not None}
    return induced_spans(ops, model, sentences, **chosen)


def _spans_of_chart(
    ops: ModuleType, model: Model, sentences: list[list[str]], options: argparse.Namespace
) -> Iterator[Spans]:
    require_chart(model)
    encoded = list(_encoded(model, sentences, options))
    tokens = [[i for ids in words for i in ids] for words in encoded]
    found = chart_spans(ops, model, tokens, max_height=options.max_height, batch_size=options.batch_size)
    return (spans_of_words(spans, words) for spans, words in zip(found, encoded, strict=True))


def _spans_of_pieces(
    ops: ModuleType, model: Model, sentences: list[list[str]], options: argparse.Namespace
) -> Iterator[Spans]:
    require_trees(model)
    if options.max_height is not None:
        raise ValueError("parse: --max-height is for full charts, which this model does not have")
    return inside_spans(ops, model, list(_encoded(model, sentences, options)), batch_size=options.batch_size)


def _encoded(model: Model, sentences: list[list[str]], options: argparse.Namespace) -> Iterator[list[list[int]]]:
    """Yield the ids of every word of models without distances."""
    for name in ("layer", "split"):
        if getattr(options, name) is not None:
            raise ValueError(f"parse: --{name} is for distances, which this model does not have")
    for number, words in enumerate(sentences, 1):
        try:
            yield encode_words(model, words, options.max_height)
        except ValueError as error:
            if options.gold is not None:
                raise ValueError(f"{options.gold}: sentence {number}: {error}") from error
            raise LineError(options.sentences, number, str(error)) from error


def _read_sentences(path: Path, model: Model) -> Iterator[list[str]]:
    """Yield the words of every line; none is empty."""
    read = line_reader(model)
    for number, line in read_lines(path):
        words = read(line)
        if not words:
            raise LineError(path, number, "an empty sentence")
        yield words
