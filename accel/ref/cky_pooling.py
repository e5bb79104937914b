"""Mirror of `refimpl.treeformer.cky_pooling`: the chart of every sentence, and the trees of the largest weights."""

from __future__ import annotations

import math

import numpy as np

from accel.ref.support.batch import (
    Array,
    Outputs,
    central_difference,
    finite,
    of_sequence,
    offsets_of,
    one_dtype,
    ranges_of,
)
from refimpl.treeformer import cky_pooling as ref_cky_pooling
from refimpl.trees import spans


def cky_pool(tokens: Array, compose: Array, direction: Array, offsets: Array, *, max_height: int | None) -> Outputs:
    """Mirror of `refimpl.treeformer.cky_pooling.cky_pool`: nodes [M, d], weights [P]; `direction` is u of CKY-2."""
    one_dtype(tokens=tokens, compose=compose, direction=direction)
    finite(tokens=tokens)
    d = tokens.shape[1]
    if compose.shape != (2 * d, d) or direction.shape != (d,):
        raise ValueError(f"compose, direction: shapes {compose.shape} and {direction.shape} do not fit {d} columns")
    one = np.eye(d, dtype=tokens.dtype)
    parameters = {"compose": compose, "key": one, "query": one, "w": direction * tokens.dtype.type(math.sqrt(d))}
    nodes, weights = [tokens[:0]], [tokens[:0, 0]]
    for b, part in enumerate(_sequences(offsets, len(tokens))):
        arguments = tokens[part], parameters, max_height
        chart = of_sequence(b, lambda arguments=arguments: ref_cky_pooling.cky_pool(*arguments))
        nodes.append(np.array(list(chart.vectors.values())))
        weights += chart.weights.values()
    return np.concatenate(nodes), np.concatenate(weights)


def chart_trees(weights: Array, offsets: Array, *, max_height: int | None) -> Outputs:
    """Mirror of `refimpl.treeformer.cky_pooling.chart_trees`: spans [S, 2] of two words or more, span_offsets [B+1]."""
    finite(weights=weights)
    lengths = [part.stop - part.start for part in _sequences(offsets, int(offsets[-1]))]
    phrases = [(b, i, j) for b, n in enumerate(lengths) for i, j in ref_cky_pooling.phrases(n, max_height)[n:]]
    bounds = offsets_of([j - i for _, i, j in phrases])
    if bounds[-1] != len(weights):
        raise ValueError(f"weights: {len(weights)}, but the charts have {bounds[-1]}")
    charts = [ref_cky_pooling.Chart(n, {}, {}) for n in lengths]
    for (b, i, j), start, end in zip(phrases, bounds[:-1], bounds[1:], strict=True):
        charts[b].weights[i, j] = weights[start:end]
    trees = [of_sequence(b, lambda chart=chart: ref_cky_pooling.chart_trees(chart)) for b, chart in enumerate(charts)]
    nodes = [(i, j) for tree in trees for _, i, j in spans(tree) if j > i]
    return np.array(nodes, np.int32).reshape(-1, 2), offsets_of([n - 1 for n in lengths])


def _sequences(offsets: Array, n_rows: int) -> list[slice]:
    parts = ranges_of(offsets)
    for b, part in enumerate(parts):
        if part.start == part.stop:
            raise ValueError(f"sequence {b}: empty")
    if offsets[-1] != n_rows:
        raise ValueError(f"offsets: end at {offsets[-1]}, not at {n_rows}")
    return parts


cky_pool_vjp = central_difference(cky_pool, 3)
