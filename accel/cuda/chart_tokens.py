"""The tokens of Treeformer's charts on the GPU: the first nodes forward, the last ones backward; a warp a token.

With a `Query`, the same launches also compute the direction of the scores, and the gradients of w, query and key. They
are then cooperative: a vector is multiplied by two matrices in turn, and all blocks wait for each other in between.
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
    """The factors of the direction key (w query) / sqrt(d); w [d], query and key [d, d].

    `room` [2, d] is for w query and the direction.
    """

    w: Array
    query: Array
    key: Array
    room: Array


def begin(
    tokens: Array, sentences: Array, nodes: Array, rows: Array, first: Array, n_read: int, query: Query | None
) -> None:
    """Write the nodes of one token, and the first `n_read` of them to rows, too; with a query also the direction."""
    n, d = tokens.shape
    args: tuple[Any, ...] = tokens, sentences, nodes, rows, first, len(sentences), n, n_read, d
    if query is not None:
        args += query.w, query.query, query.key, *query.room, d**-0.5
    _launch("begin", args, n, query, tokens.dtype)


def end(
    d_nodes: Array, through: list[Array], sentences: Array, d_tokens: Array, query: Query | None,
    d_direction: Array | None = None, gradients: tuple[Array, ...] = (),
) -> None:  # fmt: skip
    """Write the gradient of tokens; with a query also, from that of the direction, the gradients of w, query and key.

    through: two arrays [., d], the gradients that reach left and right parts through their parents. gradients: arrays
    for those of w, query and key.
    """
    n, d = d_tokens.shape
    args: tuple[Any, ...] = d_nodes, *through, sentences, d_tokens, len(sentences), n, len(through[0]), d
    if query is not None:
        d_q = device.xp().empty(d, d_tokens.dtype)
        args += d_direction, query.w, query.query, query.key, query.room[0], d_q, *gradients, d**-0.5
    _launch("end", args, n, query, d_tokens.dtype)


def _launch(name: str, args: tuple[Any, ...], n: int, query: Query | None, dtype: Any) -> None:
    if query is None:
        device.launch("chart_tokens", f"{name}_charts", (-(-n // WARPS),), (32, WARPS), args, dtype)
        return
    args = *args, word()
    grid = (device.multiprocessors(),)
    device.launch("chart_tokens", f"{name}_queried_charts", grid, (32, WARPS), args, dtype, cooperative=True)
