"""Milliseconds of training a sentence, by its length: the encoder with Treeformer's charts and without (Figure 7).

    python -m examples.treeformer.speed [--clock cpu]

A call computes the loss of a classifier and its gradient; the models take turns. On a machine that others use too,
`--clock cpu` takes the time of this process instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

import accel
from accel.data.batches.sentences import SentenceBatch
from accel.drawing.svg import Picture
from accel.models.encoder_decoder import model
from accel.models.encoder_decoder.config import Config
from accel.tasks.numbers import at_least
from benchmarks.timing import CLOCKS, Clock
from examples.findings import Findings, write_analysis
from examples.markdown import table
from examples.panels import Panel, Series, draw_panels
from examples.program import run_program

CHARTS = {"Transformer": "none", "Treeformer, paper": "paper", "Treeformer, released": "released"}


def main(arguments: Sequence[str] | None = None) -> list[Findings]:
    """Time every model at every length; write table, figures and picture; return the times, in milliseconds."""
    options = _parser().parse_args(arguments)
    ops, clock, begin = accel.load("cpu"), Clock(CLOCKS[options.clock], options.repeats), perf_counter()
    plain = Config(
        1000, n_classes=2, d_model=options.d_model, d_ff=2 * options.d_model, n_layers=options.layers, n_heads=4,
        max_height=options.height, dropout=0, attention_dropout=0, relu_dropout=0, label_smoothing=0,
    )  # fmt: skip
    configs = [replace(plain, chart=chart) for chart in CHARTS.values()]
    rows = []
    for length in options.lengths:
        times = clock.times(*(_step(ops, config, options.batch, length) for config in configs))
        milliseconds = {title: [1000 * seconds / options.batch for seconds in (one.median, one.least, one.greatest)]
                        for title, one in zip(CHARTS, times, strict=True)}  # fmt: skip
        rows.append({"length": length, "median, least, greatest": milliseconds})
        print(f"{length} tokens: {', '.join(f'{values[0]:.2f} ms' for values in milliseconds.values())}", flush=True)
    write_analysis(options, "speed", table_of(rows), rows, picture_of(rows), {}, (perf_counter() - begin) / 3600)
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.treeformer.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("runs/treeformer/speed"), help="table, figures and picture")
    lengths = [10, 25, 50, 75, 100]
    parser.add_argument("--lengths", type=at_least(1), nargs="+", default=lengths, help="tokens (10 25 50 75 100)")
    parser.add_argument("--batch", type=at_least(1), default=16, help="sentences of a call (16)")
    parser.add_argument("--d-model", type=at_least(8), default=512, help="features; the inner layer has twice as many")
    parser.add_argument("--layers", type=at_least(1), default=6)
    parser.add_argument("--height", type=at_least(0), default=10, help="H; 0: any (10)")
    parser.add_argument("--repeats", type=at_least(1), default=7, help="calls of which the median is taken (7)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.set_defaults(seeds=1)
    return parser


def _step(ops: ModuleType, config: Config, n_sentences: int, length: int) -> Callable[[], Any]:
    """Return a function that computes the loss of a batch of sentences of one length, and its gradient."""
    ids = np.random.default_rng(0).integers(0, config.vocabulary_size, n_sentences * length, np.int32)
    offsets = np.arange(n_sentences + 1) * length
    batch = SentenceBatch(ids, offsets, np.zeros(n_sentences, np.int32), n_sentences)
    parameters = model.initialise(config, 0)
    gradients = {name: np.empty_like(x) for name, x in parameters.items()}
    return partial(model.loss_and_grad, ops, config, parameters, batch, gradients=gradients)


def relative(row: Findings, title: str) -> float:
    """Return a model's speed in % of the Transformer's."""
    times = row["median, least, greatest"]
    return float(100 * times["Transformer"][0] / times[title][0])


def table_of(rows: Sequence[Findings]) -> str:
    """Return a row for every length: milliseconds, and the speed of both charts in % of the Transformer's."""
    titles = list(CHARTS)
    lines = [[str(row["length"]), *(f"{row['median, least, greatest'][title][0]:.2f}" for title in titles),
              *(f"{relative(row, title):.0f}" for title in titles[1:])] for row in rows]  # fmt: skip
    return table(["tokens", *(f"{title}, ms" for title in titles), *(f"{title}, %" for title in titles[1:])], lines)


def picture_of(rows: Sequence[Findings]) -> Picture:
    """Return a panel of milliseconds a sentence, with least and greatest, and one of % of the Transformer's speed."""
    series, shares = {}, {}
    for title in CHARTS:
        values = [(float(row["length"]), row["median, least, greatest"][title]) for row in rows]
        points = [(length, middle) for length, (middle, _, _) in values]
        series[title] = Series(points, y_bars=[(least, greatest) for _, (_, least, greatest) in values])
        shares[title] = Series([(float(row["length"]), relative(row, title)) for row in rows])
    panels = [Panel("tokens of a sentence", "ms a sentence", series),
              Panel("tokens of a sentence", "speed, % of the Transformer's", shares)]  # fmt: skip
    return draw_panels(panels, "Training speed of the encoder, forward and backward")


if __name__ == "__main__":
    run_program(main)
