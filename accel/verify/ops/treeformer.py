"""Rows of the table for Treeformer: the chart of phrases, and the trees of its largest weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import conditions, laws
from accel.verify.op import Case, Example, Op, Outputs, offsets_of, pieces
from accel.verify.ops.fasttrees import SEQUENCES, lengths_of_sequences, replaced, split_spans, with_nan
from accel.verify.peaks import with_peak_of_phrases
from accel.verify.strategies import floats, ones_and_zeros, regimes, seeds
from refimpl import trees
from refimpl.treeformer import cky_pooling

heights = st.one_of(st.none(), st.integers(1, 3), st.integers(1, 9))


def n_pairs(n: int, max_height: int | None = None) -> int:
    """Return how many weights a chart of n tokens has."""
    return sum(j - i for i, j in cky_pooling.phrases(n, max_height))


@st.composite
def chart_cases(draw: Callable) -> Case:
    """Draw tokens and directions of any regime (huge: very sharp weights), and matrices that keep a vector's size."""
    width, seed = draw(st.sampled_from([1, 2, 3, 8, 17]), label="d"), draw(seeds, label="seed")
    regime, sharpness = draw(regimes, label="tokens"), draw(regimes, label="direction")
    matrix = floats(draw(st.sampled_from(["unit", "unit", "tied", "zeros"]), label="compose"), seed, 2 * width, width)
    lengths = draw(lengths_of_sequences, label="lengths")
    if draw(st.integers(0, 9), label="long") == 9:
        lengths.append(21)
    shared = {
        "compose": np.float64(np.float32(matrix / math.sqrt(2 * width))),
        "direction": floats(sharpness, seed + 1, width),
        "max_height": draw(heights, label="max_height"),
    }
    examples = [{"tokens": floats(regime, seed + 2 + b, n, width)} for b, n in enumerate(lengths)]
    return Case(shared, examples)


def charts_of_sizes(words: int = 4, sentences: int = 2, width: int = 3) -> Case:
    """Whole charts of sentences of two words, and of a last one of `words` words."""
    compose = np.float64(np.float32(floats("unit", 0, 2 * width, width) / math.sqrt(2 * width)))
    lengths = [*[2] * (sentences - 1), words]
    shared = {"compose": compose, "direction": floats("unit", 1, width), "max_height": None}
    return Case(shared, [{"tokens": floats("unit", 2 + b, n, width)} for b, n in enumerate(lengths)])


def low_charts_of_sizes(words: int = 4) -> Case:
    """Charts of phrases of up to three words."""
    case = charts_of_sizes(words)
    return Case(case.shared | {"max_height": 3}, case.examples)


def ref_cky_pool(shared: Example, example: Example, start: int) -> Outputs:
    """Return the nodes and weights in order; the backends' direction stands for key, query and w."""
    tokens = example["tokens"]
    one, root = np.eye(tokens.shape[1], dtype=tokens.dtype), tokens.dtype.type(math.sqrt(tokens.shape[1]))
    parameters = {"compose": shared["compose"], "key": one, "query": one, "w": shared["direction"] * root}
    chart = cky_pooling.cky_pool(tokens, parameters, shared["max_height"])
    return np.array(list(chart.vectors.values())), np.concatenate([tokens[:0, 0], *chart.weights.values()])


def batched_charts(case: Case) -> dict[str, Any]:
    parts = [e["tokens"] for e in case.examples]
    arguments = {"tokens": np.concatenate(parts)} | {name: case.shared[name] for name in ("compose", "direction")}
    return arguments | {"offsets": offsets_of([len(p) for p in parts]), "max_height": case.shared["max_height"]}


def split_charts(outputs: Outputs, case: Case) -> list[Outputs]:
    """Cut nodes and weights; further outputs of a backend are not compared."""
    lengths, height = [len(e["tokens"]) for e in case.examples], case.shared["max_height"]
    nodes = pieces(outputs[0], [cky_pooling.n_nodes(n, height) for n in lengths])
    return list(zip(nodes, pieces(outputs[1], [n_pairs(n, height) for n in lengths]), strict=True))


@st.composite
def weight_cases(draw: Callable) -> Case:
    """Draw charts that reach their roots. Weights need not be probabilities: only their order counts."""
    regime, seed = draw(regimes), draw(seeds)
    lengths = draw(lengths_of_sequences, label="lengths")
    if draw(st.integers(0, 4), label="long") == 4:
        lengths.append(30)
    examples = [{"weights": floats(regime, seed + b, n_pairs(n, None)), "n": n} for b, n in enumerate(lengths)]
    return Case({"max_height": draw(st.sampled_from([None, max(lengths), 99]), label="max_height")}, examples)


def weights_of_sizes(tied: bool, words: int = 4, sentences: int = 2) -> Case:
    lengths = [*(1 + b % 3 for b in range(sentences - 1)), words]
    weights = [ones_and_zeros(b, x) if tied else floats("unit", b, x) for b, x in enumerate(map(n_pairs, lengths))]
    examples = [{"weights": x, "n": n} for x, n in zip(weights, lengths, strict=True)]
    return Case({"max_height": None}, examples)


def ref_chart_trees(shared: Example, example: Example, start: int) -> Outputs:
    n, weights = example["n"], example["weights"]
    nodes = cky_pooling.phrases(n)[n:]
    by_span = dict(zip(nodes, pieces(weights, [j - i for i, j in nodes]), strict=True)) if nodes else {}
    tree = cky_pooling.chart_trees(cky_pooling.Chart(n, {}, by_span))
    return (np.array([(i, j) for _, i, j in trees.spans(tree) if i < j], int).reshape(-1, 2),)


def batched_weights(case: Case) -> dict[str, Any]:
    weights = np.concatenate([e["weights"] for e in case.examples])
    return {"weights": weights, "offsets": offsets_of([e["n"] for e in case.examples]), **case.shared}


def too_low(arguments: dict[str, Any]) -> dict[str, Any]:
    """Give three tokens, and a chart with phrases of one and two tokens only."""
    return {"weights": np.ones(2), "offsets": np.array([0, 3], np.int64), "max_height": 2}


TREEFORMER = (
    Op(
        "cky_pool", "cky_pooling", "CKY-3", chart_cases(), ref_cky_pool,
        batched_charts, split_charts, diff=("tokens", "compose", "direction"), options=("max_height",), finite=True,
        laws=(laws.whole_chart, laws.weights_of_splits), sized=(charts_of_sizes, low_charts_of_sizes),
        peaks=with_peak_of_phrases,
        condition=lambda s, e, start, unit: conditions.cky_pool(
            e["tokens"], s["compose"], s["direction"], s["max_height"], unit
        ),
        errors=(
            *SEQUENCES,
            ("tokens|NaN|row 1", replaced("tokens", with_nan)),
            ("tokens|infinity", replaced("tokens", lambda x: x + np.inf)),
            ("compose", replaced("compose", lambda x: x[:-1].copy())),
            ("direction", replaced("direction", lambda x: np.ones(99))),
            ("direction:|float32", replaced("direction", np.float32)),
            ("max_height", lambda a: a | {"max_height": 0}),
        ),
    ),
    Op(
        "chart_trees", "cky_pooling", "CKY-4", weight_cases(), ref_chart_trees,
        batched_weights, split_spans, options=("max_height",), exact=True, finite=True,
        laws=(laws.binary_and_nested,), sized=(partial(weights_of_sizes, False), partial(weights_of_sizes, True)),
        errors=(
            *SEQUENCES,
            ("sequence 0|3 tokens|height 2|no root", too_low),
            ("weights|NaN", lambda a: too_low(a) | {"weights": np.full(2, np.nan)}),
            ("weights", lambda a: too_low(a) | {"max_height": None}),
            ("max_height", lambda a: a | {"max_height": 0}),
        ),
    ),
)  # fmt: skip
