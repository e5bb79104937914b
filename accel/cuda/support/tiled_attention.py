"""Tiles of neighbouring queries, and the union of the keys that they list: found once a batch, on the device.

The sizes of all arrays depend only on those of the batch, and the host reads none of their numbers: a graph finds the
unions again in each replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import STATIC_SHARED_LIMIT, Array
from accel.cuda.support.tiles import chunks

QUERIES = 16  # of a tile, a warp for each


@dataclass(frozen=True)
class Unions:
    """The keys of each tile, in rising order, and the place of every edge's key among the keys of its tile.

    The keys of a tile begin where its edges begin: a tile has at most as many keys as edges.
    """

    keys: Array  # [E] int32
    places: Array  # [E] int32
    sizes: Array  # [tiles] int32 numbers of keys


def unions_of(row_offsets: Array, keys: Array) -> Unions:
    """Return the unions of keys [E] int32, listed by queries with these offsets [N + 1] int64; all on the device."""
    n, xp = len(row_offsets) - 1, device.xp()
    tiles = -(-n // QUERIES)
    unions = Unions(xp.empty_like(keys), xp.empty_like(keys), xp.empty(tiles, np.int32))
    args = row_offsets, keys, unions.keys, unions.places, unions.sizes, n
    device.launch("support/unions", "tile_unions", (tiles,), (32, QUERIES), args, np.float32)
    return unions


def launch(
    which: str, before: tuple[Any, ...], edges: tuple[Array, ...], unions: Unions, after: tuple[Any, ...],
    q: Array, r: Array,
) -> None:  # fmt: skip
    """Run a pass of tiled_attention.cu; edges: row_offsets, keys and relative of `sparse_attention`."""
    (n, heads, width), limit = q.shape, min(STATIC_SHARED_LIMIT, device.shared_limit())
    room = limit // (2 * width * q.itemsize)
    device.launch(
        "support/tiled_attention", f"tiled_{which}", (-(-n // QUERIES), heads), (32, QUERIES),
        (*before, *edges, unions.keys, unions.places, unions.sizes, *after, room),
        q.dtype, chunks=chunks(q), shared=2 * room * width * q.itemsize,
    )  # fmt: skip
