"""Ensembles of one to ten models that differ by their seeds (the paper's Figure 7): mixtures, and products beside them.

    python -m examples.transformer_grammars.ensembles [--data DIR [--proposals TREES]]

Every size is measured over several subsets of the models, all of them where there are few; the intervals say how much
subsets differ, and as subsets share models they are too narrow for new seeds. TG + TXL (CC) has as many of each. A
product needs the models' whole distributions, so that only some subsets are measured as products, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb, log
from pathlib import Path
from types import ModuleType

import numpy as np

import accel
from accel.drawing.svg import Picture
from accel.scoring.trees import event_logps, of_words, tree_logps
from accel.trained.opening import open_model
from examples.provenance import digests
from examples.transformer_grammars.analyses import (
    MODELS,
    Data,
    Found,
    Judge,
    digest_of,
    finish,
    hours,
    interval,
    judge,
    kept,
    parser_of,
    read_data,
    table,
    trained,
)
from examples.transformer_grammars.panels import Panel, Series, draw_panels

KINDS = {"tg": ("tg",), "txl_cc": ("txl_cc",), "tg+txl_cc": ("tg", "txl_cc"), "txl_terminals": ("txl_terminals",)}
TITLES = MODELS | {"tg+txl_cc": "TG + TXL (CC)"}
PRODUCTS = (2, 4, 10)  # sizes of which products are measured, too
METRICS = {"perplexity": ("perplexity", 3, 1.0), "agreement": ("agreement, %", 1, 100.0)}

Subset = tuple[int, ...]


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Found]]:
    """Train all models, and return what ensembles of every kind and size are like."""
    parser = parser_of("ensembles", __doc__, seeds=10, steps=120, test=100, changed=5, pairs=40)
    parser.add_argument("--subsets", type=int, default=20, help="ensembles of every size, at most")
    parser.add_argument("--products", type=int, default=2, help="of them measured as products, too")
    options = parser.parse_args(arguments)
    ops, data = accel.load(options.backend), read_data(options)
    runs = {name: [trained(ops, options, data, name, seed, model=name) for seed in range(options.seeds)]
            for name in MODELS}  # fmt: skip
    found: dict[str, list[Found]] = {}
    for kind, members in KINDS.items():
        paths = [path for name in members for path in runs[name]]
        judged = judge(data, of_words(open_model(ops, paths[0])))
        every = np.stack([_events(ops, path, judged, data) for path in paths])
        ends = np.cumsum([0, *_sizes(judged, kind)])
        found[kind] = []
        for size in range(len(members), options.seeds + 1, len(members)):
            chosen = subsets(options.seeds, size // len(members), options.subsets, len(members))
            mixed = [judged.found(mixture(every[list(subset)], ends).tolist()) for subset in chosen]
            row = {"size": size, "subsets": chosen, "mixture": mixed}
            if size in PRODUCTS:
                row["product"] = [_product(ops, options.out, [paths[k] for k in subset], judged, data)
                                  for subset in chosen[: options.products]]  # fmt: skip
            found[kind].append(row)
    text = f"{table_of(found)}\n\nThe same ensembles as products:\n\n{product_table(found)}"
    spent = hours(path for paths in runs.values() for path in paths)
    finish(options, "ensembles", text, found, picture_of(found), data.sources, spent)
    return found


def subsets(n: int, size: int, count: int, groups: int = 1) -> list[Subset]:
    """Return different subsets, `size` of each of `groups` times n: all of them, or `count` that are drawn.

    Examples
    --------
    >>> subsets(3, 2, 20), subsets(2, 1, 20, groups=2)
    ([(0, 1), (0, 2), (1, 2)], [(0, 2), (0, 3), (1, 2), (1, 3)])
    """
    if comb(n, size) ** groups <= count:
        parts = list(combinations(range(n), size))
        out: list[Subset] = [()]
        for group in range(groups):
            out = [(*before, *(group * n + k for k in part)) for before in out for part in parts]
        return out
    rng, found = np.random.Generator(np.random.Philox(n * 100 + size)), dict[Subset, None]()
    while len(found) < count:
        drawn = [group * n + rng.choice(n, size, replace=False) for group in range(groups)]
        found[tuple(sorted(np.concatenate(drawn).tolist()))] = None
    return list(found)


def mixture(logps: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return log p of every tree under the mean of the models, event by event, from their log p [K, events]."""
    together = np.logaddexp.reduce(logps, axis=0) - log(len(logps))
    return np.add.reduceat(together, ends[:-1])


def _sizes(judged: Judge, kind: str) -> np.ndarray:
    """Return how many events each tree of the corpus has."""
    if kind == "txl_terminals":
        return np.asarray(judged.corpus.terminals, np.int64) + 1
    return np.diff(judged.corpus.offsets)


def _events(ops: ModuleType, path: Path, judged: Judge, data: Data) -> np.ndarray:
    """Return a model's log p of every event of every tree; they are kept beside the model."""
    model = open_model(ops, path)
    asked = json.dumps([digests([model.path]), data.sources, len(judged.corpus)])
    file = path / f"events-{digest_of([asked])}.npy"
    if not file.exists():
        with open(file.with_suffix(".partial"), "wb") as partial:
            np.save(partial, np.concatenate(list(event_logps(ops, [model], judged.corpus, groups=judged.sizes))))
        file.with_suffix(".partial").replace(file)
    return np.load(file)


def _product(ops: ModuleType, out: Path, paths: Sequence[Path], judged: Judge, data: Data) -> Found:
    models = [open_model(ops, path) for path in paths]
    asked = {"models": digests(model.path for model in models), "of": data.sources, "trees": len(judged.corpus)}
    name = "-".join(path.name for path in paths)

    def make() -> Found:
        logps = tree_logps(ops, models, judged.corpus, ensemble="product", groups=judged.sizes)
        return judged.found(list(logps))

    (out / "products").mkdir(exist_ok=True)
    return kept(out / "products" / f"{digest_of([name])}.json", asked, make)


def table_of(found: Mapping[str, Sequence[Found]]) -> str:
    """Return a row for each kind and size: the mean over subsets with its bootstrapped interval."""
    rows = []
    for kind, of_kind in found.items():
        for row in of_kind:
            cells = [_interval(row["mixture"], metric) for metric in METRICS if metric in row["mixture"][0]]
            rows.append([TITLES[kind], str(row["size"]), str(len(row["mixture"])), *cells])
    heads = [METRICS[metric][0] for metric in METRICS if metric in next(iter(found.values()))[0]["mixture"][0]]
    return table(["mixture of", "models", "subsets", *heads], rows)


def product_table(found: Mapping[str, Sequence[Found]]) -> str:
    """Return products beside the mixtures of the same models."""
    rows, heads = [], dict[str, None]()
    for kind, of_kind in found.items():
        for row in of_kind:
            cells = []
            products = row.get("product", ())
            for metric in (metric for metric in METRICS if products and metric in products[0]):
                for name, values in (("mixture", row["mixture"][: len(products)]), ("product", products)):
                    heads[f"{METRICS[metric][0]}, {name}"] = None
                    cells.append(_interval(values, metric))
            if products:
                rows.append([TITLES[kind], str(row["size"]), str(len(products)), *cells])
    return table(["models", "number", "subsets", *heads], rows)


def _interval(values: Sequence[Found], metric: str) -> str:
    _, digits, scale = METRICS[metric]
    found = interval([scale * value[metric] for value in values])
    ends = f" ({found.low:.{digits}f} to {found.high:.{digits}f})" if len(values) > 1 else ""
    return f"{found.value:.{digits}f}{ends}"


def picture_of(found: Mapping[str, Sequence[Found]]) -> Picture:
    """Return perplexity against agreement as the paper has it; where there is none, against the number of models."""
    has_agreement = "agreement" in next(iter(found.values()))[0]["mixture"][0]
    series = {}
    for kind, of_kind in found.items():
        cost = [interval([value["perplexity"] for value in row["mixture"]]) for row in of_kind]
        sizes = [row["size"] for row in of_kind]
        if not has_agreement:
            points = [(float(n), one.value) for n, one in zip(sizes, cost, strict=True)]
            series[TITLES[kind]] = Series(points, y_bars=[one[1:] for one in cost])
            continue
        right = [interval([100 * value["agreement"] for value in row["mixture"]]) for row in of_kind]
        points = [(x.value, y.value) for x, y in zip(cost, right, strict=True)]
        x_bars, y_bars = ([(one.low, one.high) for one in axis] for axis in (cost, right))
        series[TITLES[kind]] = Series(points, x_bars, y_bars, [str(n) for n in sizes])
    labels = ("perplexity", METRICS["agreement"][0]) if has_agreement else ("models", "perplexity")
    return draw_panels([Panel(*labels, series)], "Mixtures of models that differ by their seeds")


if __name__ == "__main__":
    main()
