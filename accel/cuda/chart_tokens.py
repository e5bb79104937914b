"""The tokens of Treeformer's charts on the GPU: where charts begin, and where their slopes end; a warp a token.

Where the scores have a query, the same launches compute its direction and the slopes along what it is made of. They are
cooperative: a vector times a matrix twice, and all blocks wait for each other in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support.persistent import word

WARPS = 16  # of a block, as in chart_tokens.cu
LOADS = 8  # of a lane, in flight


@dataclass(frozen=True)
class Query:
    """What makes the direction of the scores: w [d], query and key [d, d]; and room for w query and for it, [2, d]."""

    w: Array
    query: Array
    key: Array
    room: Array


def begin(
    tokens: Array, sentences: Array, nodes: Array, rows: Array, first: Array, n_read: int, query: Query | None
) -> None:
    """Write the nodes of one token, the first `n_read` of which go to rows, too; and the direction of a query."""
    n, d = tokens.shape
    args: tuple[Any, ...] = tokens, sentences, nodes, rows, first, len(sentences), n, n_read, d
    if query is not None:
        args += query.w, query.query, query.key, *query.room, d**-0.5
    _launch("begin", args, n, query, tokens.dtype)


def end(
    d_nodes: Array, through: list[Array], sentences: Array, d_tokens: Array, query: Query | None,
    d_direction: Array | None = None, slopes: tuple[Array, ...] = (),
) -> None:  # fmt: skip
    """Write the gradient of tokens; and, with that of a query's direction, `slopes` along w, query and key.

    through: two arrays [., d], what goes through the parents of tokens.
    """
    n, d = d_tokens.shape
    args: tuple[Any, ...] = d_nodes, *through, sentences, d_tokens, len(sentences), n, len(through[0]), d
    if query is not None:
        d_q = device.xp().empty(d, d_tokens.dtype)
        args += d_direction, query.w, query.query, query.key, query.room[0], d_q, *slopes, d**-0.5
    _launch("end", args, n, query, d_tokens.dtype)


def _launch(name: str, args: tuple[Any, ...], n: int, query: Query | None, dtype: Any) -> None:
    if query is None:
        device.launch("chart_tokens", f"{name}_charts", (-(-n // WARPS),), (32, WARPS), args, dtype)
        return
    args = *args, word()
    grid = (device.multiprocessors(),)
    device.launch("chart_tokens", f"{name}_queried_charts", grid, (32, WARPS), args, dtype, cooperative=True)
