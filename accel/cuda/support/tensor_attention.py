"""Attention over listed keys on tensor cores: how much shared memory a block needs, and the launch.

A block multiplies a tile of queries with all relative positions, and with the union of the tile's keys, KEYS at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accel.cuda import device, forms
from accel.cuda.device import Array
from accel.cuda.support.factors import DROPPED
from accel.cuda.support.tiled_attention import QUERIES, Unions
from accel.cuda.support.tiles import chunks

KEYS = 128  # of a union at once, as in tensor_attention.cu
COLUMNS = 8  # of a product of tensor cores
DEPTH = 16  # the most numbers that such a product sums
BACKWARD = 3  # rows of each query in shared memory, and as many rows of KEYS scores; in the forward pass 2


def shared_bytes(rows: int, width: int, n_positions: int) -> int:
    """Return the bytes of shared memory of a block.

    Each query has `rows` rows of the width, as many rows of KEYS scores, a row of n_positions scores, and a number.
    """
    of_rows = -(-width // DEPTH) * DEPTH + COLUMNS
    table = -(-n_positions // COLUMNS) * COLUMNS + COLUMNS
    numbers = QUERIES * (rows * (of_rows + KEYS + COLUMNS) + table + 1)
    return numbers * np.dtype(np.float32).itemsize


def fits(q: Array, r: Array) -> bool:
    """Return whether the factors of products are to be rounded, and a block has room for both passes."""
    rounds = forms.current().precision in DROPPED and q.dtype == np.float32
    return rounds and shared_bytes(BACKWARD, q.shape[2], len(r)) <= device.shared_limit()


def launch(
    which: str, before: tuple[Any, ...], edges: tuple[Array, ...], unions: Unions, after: tuple[Any, ...],
    q: Array, r: Array,
) -> None:  # fmt: skip
    """Run a pass of tensor_attention.cu; edges: row_offsets, keys and relative of `sparse_attention`."""
    (n, heads, width), (row_offsets, _, relative) = q.shape, edges
    rows = BACKWARD if which == "backward" else BACKWARD - 1
    lists = row_offsets, relative, unions.keys, unions.places, unions.sizes
    device.launch(
        "support/tensor_attention", f"tensor_{which}", (-(-n // QUERIES), heads), (32, QUERIES),
        (*before, *lists, *after, len(r), DROPPED[forms.current().precision]),
        q.dtype, chunks=chunks(q), shared=shared_bytes(rows, width, len(r)),
    )  # fmt: skip
