"""Ensembles of one to ten models that differ by their seeds (the paper's Figure 7): mixtures, and products beside them.

    python -m examples.transformer_grammars.ensembles [--data DIR [--proposals TREES]] [--suites SUITES]

Every size is measured over several subsets of the models, or over all if there are few. The intervals are over subsets;
since subsets share models, they are too narrow for new seeds. TG + TXL (CC) has equally many of both. A product needs
the models' whole distributions, so that only some subsets are measured as products too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb, log
from pathlib import Path
from types import ModuleType

import numpy as np

import accel
from accel.drawing.svg import Picture
from accel.evaluation.significance import Interval, bootstrap_interval
from accel.scoring.trees import event_logps, tree_logps
from accel.tasks.numbers import at_least
from accel.trained.ensembles import of_words
from accel.trained.opening import open_model
from examples.findings import Findings, digest_of, hours, kept, write_analysis
from examples.markdown import table
from examples.panels import Panel, Series, draw_panels
from examples.program import run_program
from examples.provenance import digests
from examples.result_files import MODELS
from examples.transformer_grammars.analyses import parser_of, suite_score, trained
from examples.transformer_grammars.sentences import Data, Judge, judge, read_data

KINDS = {"tg": ("tg",), "txl_cc": ("txl_cc",), "tg+txl_cc": ("tg", "txl_cc"), "txl_terminals": ("txl_terminals",)}
TITLES = MODELS | {"tg+txl_cc": "TG + TXL (CC)"}
PRODUCTS = (2, 4, 10)  # sizes of which products are measured, too
METRICS = {
    "perplexity": ("perplexity", 3, 1.0),
    "agreement": ("agreement, %", 1, 100.0),
    "SG": ("SG, %", 1, 100.0),
}

Subset = tuple[int, ...]


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Findings]]:
    """Train all models, and return the figures of ensembles of every kind and size."""
    parser = parser_of("ensembles", __doc__, suites=True, seeds=10, steps=120, test=100, changed=5, pairs=40)
    parser.add_argument("--subsets", type=at_least(1), default=20, help="ensembles of every size, at most")
    parser.add_argument("--products", type=at_least(0), default=2, help="of them measured as products, too; 0: none")
    options = parser.parse_args(arguments)
    ops, data = accel.load(options.backend), read_data(options)
    runs = {name: [trained(ops, options, data, name, seed, model=name) for seed in range(options.seeds)]
            for name in MODELS}  # fmt: skip
    figures: dict[str, list[Findings]] = {}
    for kind, members in KINDS.items():
        paths = [path for name in members for path in runs[name]]
        judge_of_kind = judge(data, of_words(open_model(ops, paths[0])))
        events = np.stack([_events(ops, path, judge_of_kind, data) for path in paths])
        ends = np.cumsum([0, *_sizes(judge_of_kind, kind)])
        figures[kind] = []
        for size in range(len(members), options.seeds + 1, len(members)):
            chosen_subsets = subsets(options.seeds, size // len(members), options.subsets, len(members))
            mixtures = [judge_of_kind.found(mixture(events[list(subset)], ends).tolist()) for subset in chosen_subsets]
            row: Findings = {"size": size, "subsets": chosen_subsets, "mixture": mixtures}
            if size in PRODUCTS:
                row["product"] = [_product(ops, options.out, [paths[k] for k in subset], judge_of_kind, data)
                                  for subset in chosen_subsets[: options.products]]  # fmt: skip
            for name in ("mixture", "product") if options.suites else ():
                for subset, figures_of_subset in zip(chosen_subsets, row.get(name, ()), strict=False):
                    figures_of_subset |= _of_suites(ops, options, [paths[k] for k in subset], name)
            figures[kind].append(row)
    text = table_of(figures)
    if any(row.get("product") for rows in figures.values() for row in rows):
        text += f"\n\nThe same ensembles as products:\n\n{product_table(figures)}"
    n_hours = hours(path for paths in runs.values() for path in paths)
    write_analysis(options, "ensembles", text, figures, picture_of(figures), data.sources, n_hours)
    return figures


def subsets(n: int, size: int, count: int, groups: int = 1) -> list[Subset]:
    """Return different subsets, `size` members of each of `groups` groups of n: all of them, or `count` drawn ones.

    Examples
    --------
    >>> subsets(3, 2, 20), subsets(2, 1, 20, groups=2)
    ([(0, 1), (0, 2), (1, 2)], [(0, 2), (0, 3), (1, 2), (1, 3)])
    """
    if comb(n, size) ** groups <= count:
        parts = list(combinations(range(n), size))
        subsets_so_far: list[Subset] = [()]
        for group in range(groups):
            subsets_so_far = [(*prefix, *(group * n + k for k in part)) for prefix in subsets_so_far for part in parts]
        return subsets_so_far
    rng, draws = np.random.Generator(np.random.Philox(n * 100 + size)), dict[Subset, None]()
    while len(draws) < count:
        members = [group * n + rng.choice(n, size, replace=False) for group in range(groups)]
        draws[tuple(sorted(np.concatenate(members).tolist()))] = None
    return list(draws)


def mixture(logps: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return log p of every tree under the mean of the models, event by event, from their log p [K, events]."""
    mean_logps = np.logaddexp.reduce(logps, axis=0) - log(len(logps))
    return np.add.reduceat(mean_logps, ends[:-1])


def _sizes(judge_of_kind: Judge, kind: str) -> np.ndarray:
    """Return the number of events of each tree of the corpus."""
    if kind == "txl_terminals":
        return np.asarray(judge_of_kind.corpus.terminals, np.int64) + 1
    return np.diff(judge_of_kind.corpus.offsets)


def _events(ops: ModuleType, path: Path, judge_of_kind: Judge, data: Data) -> np.ndarray:
    """Return a model's log p of every event of every tree; they are stored beside the model."""
    model = open_model(ops, path)
    question = json.dumps([digests([model.path]), data.sources, judge_of_kind.digest])
    file = path / f"events-{digest_of([question])}.npy"
    if not file.exists():
        with open(file.with_suffix(".partial"), "wb") as partial:
            np.save(
                partial,
                np.concatenate(list(event_logps(ops, [model], judge_of_kind.corpus, groups=judge_of_kind.sizes))),
            )
        file.with_suffix(".partial").replace(file)
    return np.load(file)


def _product(ops: ModuleType, out: Path, paths: Sequence[Path], judge_of_kind: Judge, data: Data) -> Findings:
    models = [open_model(ops, path) for path in paths]
    question = {
        "models": digests(model.path for model in models),
        "of": data.sources,
        "trees": judge_of_kind.digest,
    }
    name = "-".join(path.name for path in paths)

    def make() -> Findings:
        logps = tree_logps(ops, models, judge_of_kind.corpus, ensemble="product", groups=judge_of_kind.sizes)
        return judge_of_kind.found(list(logps))

    (out / "products").mkdir(exist_ok=True)
    return kept(out / "products" / f"{digest_of([name])}.json", question, make)


def _of_suites(ops: ModuleType, options: argparse.Namespace, paths: Sequence[Path], ensemble: str) -> Findings:
    """Return the score of an ensemble on the suites of --suites; it is stored."""
    models = [open_model(ops, path) for path in paths]
    question = {"models": digests(model.path for model in models), "ensemble": ensemble, "beam": options.beam}
    question |= {"suites": [str(path) for path in options.suites], "parser": str(options.parser)}
    name = "-".join([ensemble, *(path.name for path in paths)])

    def make() -> Findings:
        return suite_score(ops, models[0], options, others=models[1:], ensemble=ensemble)

    (options.out / "suites").mkdir(exist_ok=True)
    return kept(options.out / "suites" / f"{digest_of([name])}.json", question, make)


def table_of(figures: Mapping[str, Sequence[Findings]]) -> str:
    """Return a row for each kind and size: the mean over subsets with its interval by a bootstrap of the subsets."""
    rows = []
    for kind, rows_of_kind in figures.items():
        for row in rows_of_kind:
            cells = [_interval(row["mixture"], metric) for metric in METRICS if metric in row["mixture"][0]]
            rows.append([TITLES[kind], str(row["size"]), str(len(row["mixture"])), *cells])
    heads = [METRICS[metric][0] for metric in METRICS if metric in next(iter(figures.values()))[0]["mixture"][0]]
    return table(["mixture of", "models", "subsets", *heads], rows)


def product_table(figures: Mapping[str, Sequence[Findings]]) -> str:
    """Return products beside the mixtures of the same models."""
    rows, heads = [], dict[str, None]()
    for kind, rows_of_kind in figures.items():
        for row in rows_of_kind:
            cells = []
            products = row.get("product", ())
            for metric in (metric for metric in METRICS if products and metric in products[0]):
                for name, values in (("mixture", row["mixture"][: len(products)]), ("product", products)):
                    heads[f"{METRICS[metric][0]}, {name}"] = None
                    cells.append(_interval(values, metric))
            if products:
                rows.append([TITLES[kind], str(row["size"]), str(len(products)), *cells])
    return table(["models", "number", "subsets", *heads], rows)


def _mean(values: Sequence[float]) -> Interval:
    """Return the mean with its interval by a bootstrap; for a single value both ends are that value."""
    return bootstrap_interval(values) if len(values) > 1 else Interval(values[0], values[0], values[0])


def _interval(values: Sequence[Findings], metric: str) -> str:
    _, digits, scale = METRICS[metric]
    mean = _mean([scale * value[metric] for value in values])
    ends = f" ({mean.low:.{digits}f} to {mean.high:.{digits}f})" if len(values) > 1 else ""
    return f"{mean.value:.{digits}f}{ends}"


def picture_of(figures: Mapping[str, Sequence[Findings]]) -> Picture:
    """Return a panel for every metric over the number of models."""
    metrics = [name for name in METRICS if name in next(iter(figures.values()))[0]["mixture"][0]]
    sizes = sorted({row["size"] for rows_of_kind in figures.values() for row in rows_of_kind})
    names = {float(size): str(size) for size in sizes}
    panels = []
    for metric in metrics:
        label, _, scale = METRICS[metric]
        series = {}
        for kind, rows_of_kind in figures.items():
            means = [_mean([scale * value[metric] for value in row["mixture"]]) for row in rows_of_kind]
            points = [(float(row["size"]), one.value) for row, one in zip(rows_of_kind, means, strict=True)]
            series[TITLES[kind]] = Series(points, y_bars=[(one.low, one.high) for one in means])
        panels.append(Panel("models", label, series, names))
    return draw_panels(panels, "Mixtures of models that differ by their seeds")


if __name__ == "__main__":
    run_program(main)
