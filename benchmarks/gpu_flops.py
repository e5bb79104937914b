"""The operations of products on a GPU: of cuBLAS, and inside of our own kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from accel.autodiff.arrays import host
from accel.cuda.support.cublaslt import Type


def of_product(problem: Any, add: bool) -> tuple[int, int]:
    """Return the bytes and the operations of a product of cuBLAS."""
    result = problem.batch * problem.out.rows * problem.out.columns
    depth = problem.a.rows if problem.a.transposed else problem.a.columns
    of_factors = sum(x.rows * x.columns * (problem.batch if x.stride else 1) for x in (problem.a, problem.b))
    size = 4 if problem.out.type == Type.FLOAT32 else 8
    return size * (of_factors + result * (1 + add)), 2 * result * depth


def _of_pair_layers(args: Sequence[Any]) -> int:
    """Return the operations of the products in a kernel over pairs; layer 0 has none for queries, keys and values."""
    begin, end, _, _, layers, _, heads, width, f = map(int, args[-11:-2])
    return _of_layers(end - begin, layers, heads * width, f)


def _of_layers(rows: int, layers: int, d: int, f: int) -> int:
    return 2 * rows * ((4 * layers - 3) * d * d + 2 * layers * d * f)


def _of_nodes(args: Sequence[Any], of_scores: int, of_maps: int) -> int:
    """Return the operations of the products in a kernel over nodes; `of_scores` and `of_maps` are places in `args`."""
    (begin, end, _, d), s = map(int, args[-6:-2]), int(args[of_scores])
    return _of_maps(end - begin, int(args[of_maps]), int(args[of_maps + 1]), d, s)


def _of_maps(nodes: int, first: int, maps: int, d: int, s: int) -> int:
    return 2 * nodes * (3 * first * d * d + maps * d * (d + s))


def _of_pass(args: Sequence[Any], of_scores: int, of_maps: tuple[int, int], passes: int) -> int:
    """Return the operations of the products inside of a whole pass over charts, whose steps the device knows."""
    (n_words, n_nodes), *pairs = host(args[0]).reshape(3, -1)[:, [1, -1]].tolist()
    is_down, s = int(args[2]), int(args[of_scores])
    layers, _, heads, width, f = map(int, args[-8:-3])
    d = heads * width
    first, others = n_nodes if is_down else n_words, n_nodes - n_words
    maps = [_of_maps(n, 1, int(args[place]), d, s) for n, place in zip((first, others), of_maps, strict=True)]
    return passes * (sum(maps) + _of_layers(2 * pairs[0 if is_down else 1][1], layers, d, f))


OF_KERNELS: dict[str, Callable[[Sequence[Any]], int]] = {
    "pair_layers_forward": _of_pair_layers,
    "pair_layers_backward": _of_pair_layers,
    "chart_nodes_forward": lambda args: _of_nodes(args, 11, 21),
    "chart_nodes_backward": lambda args: _of_nodes(args, 19, 26),
    "chart_pass_forward": lambda args: _of_pass(args, 21, (5, 28), 1),
    "chart_pass_backward": lambda args: _of_pass(args, 34, (15, 38), int(args[10])),
}
"""Kernels with products inside, and how many operations they are, from the arguments of a launch."""


def of_launch(kernel: str, args: Sequence[Any]) -> int:
    """Return the operations of the products inside of a kernel, of all its passes; `args` are those of a launch."""
    return OF_KERNELS[kernel](args[4]) * prod(args[2][1:]) if kernel in OF_KERNELS else 0
