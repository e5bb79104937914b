"""Sequences of queries and keys cut into tiles of 32, for attention that never stores its scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from accel.cuda import device, forms
from accel.cuda.device import Array
from accel.cuda.support import check, known

TILE = 32  # as in tiles.cu
WINDOW = 63  # rows along the diagonals of a tile, as in causal_attention.cu
BLOCK = (32, 4)  # threads for a tile, 4 warps
MOST_KEYS = 2**20  # a sequence has fewer


@dataclass(frozen=True)
class Tiles:
    """Sequences cut into tiles of queries and of keys: where the tiles of every sequence begin, [B+1] int64.

    With graphs `n_query_tiles` and `n_key_tiles` may be larger: the most that B sequences of any lengths can have.
    """

    n_sequences: int
    query_tiles: Array
    key_tiles: Array
    n_query_tiles: int = 0
    n_key_tiles: int = 0


def tiles_of(
    q: Array, k: Array, query_offsets: Array, key_offsets: Array, *, causal: bool, n_distances: int | None = None
) -> tuple[Tiles, tuple[Array, Array]]:
    """Return the tiles, and both offsets for a kernel.

    Raises ValueError if offsets do not fit, causal queries have too few keys, or a sequence has more keys than
    `n_distances` or than 2^20 - 1. The numbers of tiles may be too large (see `Tiles`) only without `n_distances`.
    """
    both = query_offsets, key_offsets
    copies = known.copies(*both)
    check.rises("query_offsets", query_offsets, copies[0], len(q))
    check.rises("key_offsets", key_offsets, copies[1], len(k))
    check.shape("key_offsets", key_offsets, len(query_offsets))
    known.number(partial(_check_keys, causal=causal, n_distances=n_distances), both, copies)
    tiles, xp = known.once(tiles_between, both, copies), device.xp()
    if forms.current().graphs and n_distances is None:
        counts = tuple(tiles.n_sequences + len(x) // TILE if tiles.n_sequences else 0 for x in (q, k))
    else:
        counts = known.number(_count, both, copies)
    tiles = replace(tiles, n_query_tiles=counts[0], n_key_tiles=counts[1])
    return tiles, (xp.ascontiguousarray(query_offsets), xp.ascontiguousarray(key_offsets))


def _check_keys(query_offsets: np.ndarray, key_offsets: np.ndarray, causal: bool, n_distances: int | None) -> None:
    n_keys = np.diff(key_offsets)
    short, longest = n_keys < np.diff(query_offsets), int(n_keys.max(initial=0))
    if causal and short.any():
        raise ValueError(f"key_offsets: sequence {int(np.argmax(short))} has fewer keys than queries")
    if longest >= MOST_KEYS:
        raise ValueError(f"key_offsets: a sequence has {longest} keys, more than 2^20 - 1")
    if n_distances is not None and longest > n_distances:
        raise ValueError(f"r: {n_distances} rows are fewer than the {longest} keys of a sequence")


def tiles_between(query_offsets: np.ndarray, key_offsets: np.ndarray) -> Tiles:
    """Return where the tiles of sequences with these offsets begin, all on the host, without the numbers of tiles."""
    return Tiles(len(query_offsets) - 1, *map(_starts, (query_offsets, key_offsets)))


def _starts(offsets: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(-(-np.diff(offsets) // TILE))]).astype(np.int64)


def _count(*offsets: np.ndarray) -> tuple[int, ...]:
    return tuple(int(_starts(x)[-1]) for x in offsets)


def chunks(q: Array) -> int:
    """Return how many numbers of a row of a head one lane holds."""
    return -(-q.shape[2] // 32)


def shared_bytes(rows: int, q: Array) -> int:
    """Return the bytes of shared memory for that many rows of a head, without bank conflicts, and a tile of weights."""
    return int((rows * (q.shape[2] | 1) + TILE * (TILE + 1)) * q.dtype.itemsize)


def check_width(rows: int, q: Array) -> None:
    """Raise ValueError if a block of this GPU has no room for that many rows of a head.

    `rows` is the most that a kernel of the gradient needs. This is called before the forward pass, which may need less.
    """
    n_bytes, limit = shared_bytes(rows, q), device.shared_limit()
    if n_bytes > limit:
        widest = (limit // q.dtype.itemsize - TILE * (TILE + 1)) // rows
        advice = f"use heads of at most {widest - 1 + widest % 2}" + (" or float32" if q.dtype.itemsize > 4 else "")
        raise ValueError(
            f"q: the gradient for heads of {q.shape[2]} in {q.dtype} needs {n_bytes} bytes of shared memory a block, "
            f"but this GPU has {limit}: {advice}"
        )
