"""Sequences of queries and keys cut into tiles of 32, for attention that never stores its scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check, known

TILE = 32  # as in tiles.cu
WINDOW = 63  # rows along the diagonals of a tile, as in causal_attention.cu
BLOCK = (32, 4)  # its threads, 4 warps


@dataclass(frozen=True)
class Tiles:
    """Sequences cut into tiles; where those of every sequence begin, [B+1] int64."""

    n_sequences: int
    n_query_tiles: int
    n_key_tiles: int
    longest: int  # keys of a sequence
    query_tiles: Array
    key_tiles: Array


def tiles_of(
    q: Array, k: Array, query_offsets: Array, key_offsets: Array, *, causal: bool
) -> tuple[Tiles, tuple[Array, Array]]:
    """Return the tiles, and both offsets for a kernel.

    Raises ValueError if offsets do not fit, or causal queries have too few keys.
    """
    queries = check.sequence_offsets("query_offsets", query_offsets, len(q))
    keys = check.sequence_offsets("key_offsets", key_offsets, len(k))
    check.shape("key_offsets", key_offsets, len(queries))
    short = np.diff(keys) < np.diff(queries)
    if causal and short.any():
        raise ValueError(f"key_offsets: sequence {int(np.argmax(short))} has fewer keys than queries")
    tiles = known.once(tiles_between, (query_offsets, key_offsets), (queries, keys))
    if tiles.longest >= 2**20:
        raise ValueError(f"key_offsets: a sequence has {tiles.longest} keys, more than 2^20 - 1")
    xp = device.xp()
    return tiles, (xp.ascontiguousarray(query_offsets), xp.ascontiguousarray(key_offsets))


def tiles_between(query_offsets: np.ndarray, key_offsets: np.ndarray) -> Tiles:
    """Return the tiles of sequences with these offsets, all on the host."""
    n, s = np.diff(query_offsets), np.diff(key_offsets)
    tiles = [np.concatenate([[0], np.cumsum(-(-lengths // TILE))]).astype(np.int64) for lengths in (n, s)]
    return Tiles(len(n), int(tiles[0][-1]), int(tiles[1][-1]), int(s.max(initial=0)), *tiles)


def chunks(q: Array) -> int:
    """Return how many numbers of a row of a head one lane holds."""
    return -(-q.shape[2] // 32)


def shared_bytes(rows: int, q: Array) -> int:
    """Return the bytes of that many rows of a head, without bank conflicts, and a tile of weights."""
    return int((rows * (q.shape[2] | 1) + TILE * (TILE + 1)) * q.dtype.itemsize)


def check_width(rows: int, q: Array) -> None:
    """Raise ValueError if a GPU's block has no room for that many rows of a head: the most of a gradient's kernels.

    It is called before the forward pass, whose kernel may need less.
    """
    needed, limit = shared_bytes(rows, q), device.shared_limit()
    if needed > limit:
        widest = (limit // q.dtype.itemsize - TILE * (TILE + 1)) // rows
        advice = f"use heads of at most {widest - 1 + widest % 2}" + (" or float32" if q.dtype.itemsize > 4 else "")
        raise ValueError(
            f"q: the gradient for heads of {q.shape[2]} in {q.dtype} needs {needed} bytes of shared memory a block, "
            f"but this GPU has {limit}: {advice}"
        )
