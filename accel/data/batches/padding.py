"""Batches of trees padded to few sizes: batches of the same sizes share the CUDA graph of a training step.

The padding lies after everything else. Its positions have no label and attend only to one another, and no other
position attends to them. No other number of a training step changes, except by the order in which a library adds the
terms of a product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from accel.data.batches.assemble import Batch, Config

PAIR_SIZES = 4  # for every power of two; few, because batches have many pairs, and each costs little
PAIRS = 256  # the most pairs of one position of the padding: one warp of a GPU walks over all of them


def padded(batch: Batch, config: Config, size_of: Callable[..., int]) -> Batch:
    """Return a batch on the host whose arrays are padded to sizes; `size_of(n)` returns a size of n or more.

    An empty batch stays as it is, and so does a batch of a model that reads distances between positions.
    """
    if config.reads_distances or not len(batch.ids):
        return batch
    n, n_pairs = len(batch.ids), len(batch.keys)
    pairs = size_of(n_pairs, PAIR_SIZES)
    rows = size_of(n + 1 + (pairs - n_pairs) // PAIRS)
    n_memory = batch.n_memory
    memory = size_of(n_memory)
    last = memory + rows - 1  # a key of the padding
    key_order = batch.key_order
    if key_order is not None:
        order = np.where(key_order < n_memory, key_order, key_order + memory - n_memory)
        key_order = np.concatenate([order, np.arange(n_memory, memory), np.arange(memory + n, memory + rows)])
    shares = np.arange(1, rows - n + 1) * (pairs - n_pairs) // (rows - n)
    return replace(
        batch,
        ids=_extended(batch.ids, rows, config.vocabulary_size - 1),
        labels=_extended(batch.labels, rows, -1),
        compose=_extended(batch.compose, rows, False),
        row_offsets=np.concatenate([batch.row_offsets, n_pairs + shares]),
        keys=_extended(batch.keys, pairs, last),
        relative=_extended(batch.relative, pairs, config.relative_max - config.relative_min),
        key_order=key_order,
        next_memory=_extended(batch.next_memory, size_of(len(batch.next_memory)), last),
    )


def _extended(x: Any, size: int, value: Any) -> np.ndarray:
    """Return the array extended to `size` elements; the new ones have this value.

    >>> _extended(np.array([3, 4]), 3, -1)
    array([ 3,  4, -1])
    """
    return np.concatenate([x, np.full(size - len(x), value, x.dtype)])
