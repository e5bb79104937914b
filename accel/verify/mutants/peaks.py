"""Seeded errors of softmaxes: they subtract the largest score of one tile only, and overflow if another has a larger.

Where that happens, the right output of `accel.cpu` becomes NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from accel import cpu
from refimpl.transformer_grammars.span_parser import _charts

Function = Callable[..., Any]
Softmaxes = Iterator[tuple[int, np.ndarray]]  # the row of the first output that each changes, and its scores [n]


def of_logits(z: Any, outputs: Any) -> Softmaxes:
    yield from enumerate(z)


def of_groups(scores: Any, vectors: Any, offsets: Any, outputs: Any) -> Softmaxes:
    yield from enumerate(np.split(scores, offsets[1:-1]))


def of_words(h: Any, table: Any, bias: Any, labels: Any, outputs: Any) -> Softmaxes:
    yield from enumerate(h @ table.T + bias)


def of_keys(q: Any, k: Any, v: Any, *others: Any, outputs: Any, causal: bool = True, **options: Any) -> Softmaxes:
    """Of all three attentions: with lists of keys, with distances, and with neither."""
    r, u, w, *rest = others if len(others) > 2 else (np.zeros((len(k), *k.shape[1:]), k.dtype), 0, 0, *others)
    for i, keys, distances in _listed(*rest) if len(rest) == 3 else _before(*rest, causal):
        scores = np.einsum("hd,jhd->hj", q[i] + u, k[keys]) + np.einsum("hd,jhd->hj", q[i] + w, r[distances])
        yield from ((i, row) for row in scores / np.sqrt(q.shape[2]))


def _listed(row_offsets: Any, keys: Any, relative: Any) -> Iterator[tuple[int, Any, Any]]:
    for i, (begin, end) in enumerate(pairwise(row_offsets)):
        yield i, keys[begin:end], relative[begin:end]


def _before(query_offsets: Any, key_offsets: Any, causal: bool) -> Iterator[tuple[int, Any, Any]]:
    for (begin, end), (first, last) in zip(pairwise(query_offsets), pairwise(key_offsets), strict=True):
        for i in range(begin, end):
            stop = last - (end - 1 - i) if causal else last
            yield i, np.arange(first, stop), np.arange(stop - first)[::-1]


def of_spans(scores: Any, offsets: Any, outputs: Any) -> Softmaxes:
    """Of the splits of every whole sentence."""
    first = 0
    for b, n in enumerate(np.diff(offsets)):
        square = np.full((n, n, scores.shape[1]), -np.inf)
        for longer in range(n):
            for i in range(n - longer):
                square[i, i + longer], first = scores[first], first + 1
        _, _, N, R = _charts(square)
        yield b, N[0, :-1] + R[1:, -1]


def of_gates(a: Any, b: Any, f: Any, x: Any, outputs: Any) -> Softmaxes:
    yield from (*enumerate(a), *enumerate(b))


def of_masters(gates: Any, *others: Any, outputs: Any, kind: str = "") -> Softmaxes:
    n = 0 if kind == "lstm" else gates.shape[1] // 2 - 2 * outputs[0].shape[1]
    yield from (*enumerate(gates[:, :n]), *enumerate(gates[:, n : 2 * n]))


def of_phrases(tokens: Any, compose: Any, direction: Any, offsets: Any, outputs: Any, max_height: Any) -> Softmaxes:
    """Of every whole sentence, if its chart is whole."""
    first = 0
    for n in np.diff(offsets) if max_height is None else ():
        starts = first + np.cumsum([0, *range(n, 0, -1)])  # of the phrases of each length
        k = np.arange(n - 1)
        left, right = outputs[0][starts[k]], outputs[0][starts[n - 2 - k] + k + 1]
        yield starts[n - 1], np.concatenate([left, right], axis=1) @ compose @ direction
        first = starts[n]


SOFTMAXES: dict[str, tuple[str, Callable[..., Softmaxes]]] = {
    "causal_attention": ("keys", of_keys),
    "cky_pool": ("words", of_phrases),
    "cross_entropy": ("words", of_words),
    "cumax": ("width", of_logits),
    "dot_product_attention": ("keys", of_keys),
    "linear_recurrence": ("masters", of_masters),
    "recurrence": ("masters", of_masters),
    "span_logz": ("words", of_spans),
    "sparse_attention": ("edges", of_keys),
    "tree_gate": ("masters", of_gates),
    "weighted_sum": ("size", of_groups),
}
"""Every operation with a softmax over an axis of any size: the axis, and the scores in some of its softmaxes."""


def largest_of_one_tile(name: str, tile: int, last: bool) -> Function:
    """Return an operation whose softmax subtracts the largest score of the first or of the last tile."""
    right, (_, softmaxes) = getattr(cpu, name), SOFTMAXES[name]

    def mutant(*arguments: Any, **options: Any) -> Any:
        outputs = right(*arguments, **options)
        first = outputs[0].copy()
        limit = np.log(np.finfo(first.dtype).max)
        names = {key: x for key, x in options.items() if key not in ("rate", "seed")}
        for row, scores in softmaxes(*arguments, outputs=outputs, **names):
            near = scores[(len(scores) - 1) // tile * tile :] if last else scores[:tile]
            if len(scores) and scores.max() - near.max() > limit:
                first[row] = np.nan
        return first, *outputs[1:]

    return mutant
