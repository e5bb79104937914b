"""The figures of a model at every checkpoint that its run has kept (the paper's Figure 5).

    python -m examples.transformer_grammars.evolution                        # three models of generated English
    python -m examples.transformer_grammars.evolution --runs RUN ... --data DIR [--test 200] [--suites SUITES]

Runs of the same kind of model are its seeds. Runs of --runs must have been trained with keep_checkpoints; they are
tested on the test trees of --data, or on --proposals. The program writes to --out only.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import accel
from accel.data.corpora.treebank import Corpus
from accel.drawing.svg import Picture
from accel.models.transformer_grammars import model as transformer_grammar
from accel.trained.opening import open_model
from accel.training.checkpoint import read_state
from accel.training.last_checkpoints import kept_checkpoints
from examples.findings import Findings, hours, write_analysis
from examples.markdown import spread, table
from examples.panels import Panel, draw_panels, extents
from examples.program import run_program
from examples.provenance import digests
from examples.result_files import MODELS
from examples.transformer_grammars.analyses import measured, parser_of, trained
from examples.transformer_grammars.sentences import Data, read_data, readable_pairs, test_proposals
from examples.transformer_grammars.train import split_files

COLUMNS = {"perplexity": ("perplexity", 2, 1.0), "agreement": ("agreement, %", 1, 100.0), "SG": ("SG, %", 1, 100.0)}

Evolution = dict[str, dict[int, list[Findings]]]
"""The figures of each seed, for every kind of model at every step."""


def main(arguments: Sequence[str] | None = None) -> Evolution:
    """Return the figures of every checkpoint of every run."""
    parser = parser_of("evolution", __doc__, suites=True, seeds=1, steps=500, test=100)
    parser.add_argument("--runs", type=Path, nargs="+", default=[], help="runs whose checkpoints were kept")
    options = parser.parse_args(arguments)
    ops = accel.load(options.backend)
    if options.runs:
        runs = {path: _data_of(ops, path, options) for path in options.runs}
    else:
        data = read_data(options)
        runs = {trained(ops, options, data, name, seed, keep=options.steps, model=name): data
                for seed in range(options.seeds) for name in MODELS}  # fmt: skip
    figures = evolution(ops, options, runs)
    sources = {name: value for data in runs.values() for name, value in data.sources.items()}
    write_analysis(options, "evolution", table_of(figures), figures, picture_of(figures), sources, hours(runs))
    return figures


def evolution(ops: ModuleType, options: argparse.Namespace, runs: Mapping[Path, Data]) -> Evolution:
    """Measure every checkpoint of every run; stored figures are not measured again."""
    figures: Evolution = {}
    for run, data in runs.items():
        folder = options.out / "measured" / run.name
        folder.mkdir(parents=True, exist_ok=True)
        for path in _checkpoints(run):
            state = read_state(path)
            seeds = figures.setdefault(state["config"]["model"], {}).setdefault(state["step"], [])
            seeds.append(measured(ops, options, data, path, folder / f"{path.stem}.json"))
            print(f"{run.name}, step {state['step']}: {seeds[-1]}", flush=True)
    return {name: dict(sorted(figures[name].items())) for name in MODELS if name in figures}


def _checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints that a run has kept under their steps, in order."""
    paths = kept_checkpoints(run)
    if not paths:
        raise SystemExit(f"{run}: holds no checkpoint under its step: train with --set keep_checkpoints=20")
    return paths


def _data_of(ops: ModuleType, run: Path, options: argparse.Namespace) -> Data:
    """Return the test data of a run of --runs, in its vocabulary."""
    if not options.data and options.proposals is None:
        raise SystemExit("--runs: give the test trees with --data or --proposals")
    model = open_model(ops, _checkpoints(run)[-1])
    if model.module is not transformer_grammar or model.reading is None:
        raise SystemExit(f"{run}: holds no model of trees")
    path = options.proposals or split_files(options.data)["test"]
    path, groups = test_proposals(path, options, replace(model.reading, documents="none"))
    nothing = Corpus(*([None] * 4))  # type: ignore[arg-type]
    pairs = readable_pairs(model.vocabulary, options.pairs)
    return Data(str(path), model.reading, model.vocabulary, nothing, nothing, groups, pairs, digests([path]))


def table_of(figures: Evolution) -> str:
    """Return a row for every step, and columns for every model: means and deviations over seeds."""
    metrics = [name for name in COLUMNS if name in next(iter(next(iter(figures.values())).values()))[0]]
    steps = sorted({step for steps_of_model in figures.values() for step in steps_of_model})
    rows = []
    for step in steps:
        cells = []
        for metric in metrics:
            _, digits, scale = COLUMNS[metric]
            for steps_of_model in figures.values():
                values = [seed[metric] for seed in steps_of_model.get(step, [])]
                cells.append(spread(values, digits, scale) if values else "")
        rows.append([f"{step:,}", *cells])
    heads = [f"{COLUMNS[metric][0]}: {MODELS[name]}" for metric in metrics for name in figures]
    return table(["step", *heads], rows)


def picture_of(figures: Evolution) -> Picture:
    """Return a panel for every metric; bars reach from the least to the greatest seed."""
    panels = []
    for metric in (name for name in COLUMNS if name in next(iter(next(iter(figures.values())).values()))[0]):
        label, _, scale = COLUMNS[metric]
        series = {}
        for name, steps_of_model in figures.items():
            values = [[scale * seed[metric] for seed in seeds] for seeds in steps_of_model.values()]
            series[MODELS[name]] = extents([float(step) for step in steps_of_model], values)
        panels.append(Panel("step", label, series))
    return draw_panels(panels, "Evolution during training", columns=len(panels))


if __name__ == "__main__":
    run_program(main)
