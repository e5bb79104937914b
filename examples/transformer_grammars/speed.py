"""Training steps per second of the three models, of equal size, batch and lengths (the paper's Table 3).

    python -m examples.transformer_grammars.speed [--data DIR] [--backend cuda] [--clock cpu]

A step reads one segment of every row of a batch, and computes the loss, the gradient and the update; the models take
turns. A document has four sentences. On a machine that others use too, `--clock cpu` takes the time of this process
instead, which does not include a GPU's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from types import ModuleType

import accel
from accel.data.batches.trees import Batches
from accel.data.corpora.sequences import read_whole
from accel.data.corpora.treebank import DOCUMENT, encode_trees
from accel.data.generated.grammar import ENGLISH
from accel.data.vocabularies.building import build
from accel.drawing.svg import Picture
from accel.models.transformer_grammars import model as transformer_grammar
from accel.tasks.numbers import at_least
from accel.training.communicator import serial
from accel.training.run import start
from accel.training.settings import TrainingConfig
from accel.training.step import make_step
from benchmarks.timing import CLOCKS, Clock, Times
from examples.findings import Findings, digest_of, write_analysis
from examples.markdown import table
from examples.panels import Panel, Series, draw_panels
from examples.program import run_program
from examples.provenance import digests
from examples.result_files import MODELS
from examples.transformer_grammars.analyses import parser_of
from examples.transformer_grammars.train import config_of, reading_of, split_files
from refimpl.trees import Tree

SENTENCES = 4  # of a document


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, Findings]]:
    """Return the steps a second of every model on sentences and on documents: median, least and greatest."""
    parser = parser_of("speed", __doc__, sentences=4000, seeds=1)
    parser.add_argument("--repeats", type=at_least(1), default=7)
    parser.add_argument("--steps-each", type=at_least(1), default=10, help="steps that are timed together")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args(arguments)
    ops, clock = accel.load(options.backend), Clock(CLOCKS[options.clock], options.repeats)
    trees, sources = _trees(options)
    documents = [Tree(DOCUMENT, tuple(trees[k : k + SENTENCES])) for k in range(0, len(trees), SENTENCES)]
    figures: dict[str, dict[str, Findings]] = {name: {} for name in MODELS}
    begin = clock.read()
    for kind, trees_of_kind in (("sentences", trees), ("documents", documents)):
        calls = [_steps(ops, options, name, trees_of_kind) for name in MODELS]
        for name, times in zip(MODELS, clock.times(*calls), strict=True):
            figures[name][kind] = _rates(times, options.steps_each)
    n_hours = (clock.read() - begin) / 3600
    write_analysis(options, "speed", table_of(figures), figures, picture_of(figures), sources, n_hours)
    return figures


def _trees(options: argparse.Namespace) -> tuple[list[Tree], dict[str, str]]:
    if not options.data:
        trees = list(ENGLISH.sample(options.sentences, 1))
        return trees, {"generated train": digest_of(map(str, trees))}
    file = split_files(options.data)["train"]
    return [sentence.tree for sentence in read_whole(file, reading_of(options))], digests([file])


def _steps(ops: ModuleType, options: argparse.Namespace, name: str, trees: Sequence[Tree]) -> Callable[[], None]:
    """Return a function that makes the next steps of a training."""
    kind = ("unknown_classes", options.vocabulary_size) if options.data else ("words", None)
    vocabulary = build(trees, *kind)
    config = config_of(options, len(vocabulary), model=name)
    training = TrainingConfig(batch_size=options.batch_size, maximum_rate=options.rate)
    run = start(ops, transformer_grammar, config, training, serial(), "")
    corpus = encode_trees(trees, vocabulary)
    batches = Batches(corpus, vocabulary, config, options.batch_size, ops=ops, seed=0, epochs=None, prefetch=0)

    def steps() -> None:
        for _ in range(options.steps_each):
            make_step(run, next(batches))

    return steps


def _rates(times: Times, steps: int) -> Findings:
    return {"median": steps / times.median, "least": steps / times.greatest, "greatest": steps / times.least}


def table_of(figures: dict[str, dict[str, Findings]]) -> str:
    """Return a row for each model: medians with the least and the greatest."""
    kinds = list(next(iter(figures.values())))
    rows = [[MODELS[name], *(_shown(rates[kind]) for kind in kinds)] for name, rates in figures.items()]
    return table(["steps a second", *kinds], rows)


def _shown(rate: Findings) -> str:
    return f"{rate['median']:.2f} [{rate['least']:.2f}, {rate['greatest']:.2f}]"


def picture_of(figures: dict[str, dict[str, Findings]]) -> Picture:
    """Return a point for each model and kind of text, with the least and the greatest of the repetitions."""
    names = {float(k): MODELS[name] for k, name in enumerate(figures)}
    series = {}
    for kind in next(iter(figures.values())):
        rates = [rates_of_model[kind] for rates_of_model in figures.values()]
        points = [(float(k), rate["median"]) for k, rate in enumerate(rates)]
        bars = [(rate["least"], rate["greatest"]) for rate in rates]
        series[kind] = Series(points, y_bars=bars, joined=False)
    return draw_panels([Panel("", "steps a second", series, names)], "Training speed")


if __name__ == "__main__":
    run_program(main)
