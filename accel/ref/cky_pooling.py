"""Mirror of `refimpl.treeformer.cky_pooling.cky_pool`: the chart of every sentence."""

from __future__ import annotations

import math

import numpy as np

from accel.ref.support.batch import Array, Outputs, central_difference, finite, of_sequence, one_dtype, sequences_of
from refimpl.treeformer import cky_pooling as ref_cky_pooling


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
    for b, part in enumerate(sequences_of(offsets, len(tokens))):
        arguments = tokens[part], parameters, max_height
        chart = of_sequence(b, lambda arguments=arguments: ref_cky_pooling.cky_pool(*arguments))
        nodes.append(np.array(list(chart.vectors.values())))
        weights += chart.weights.values()
    return np.concatenate(nodes), np.concatenate(weights)


cky_pool_vjp = central_difference(cky_pool, 3)
