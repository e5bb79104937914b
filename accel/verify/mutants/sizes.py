"""Seeded errors above a size: for every tile of our kernels an error that appears only above the size of the tile.

A few more are typical mistakes: where a second tile begins, something is left out or numbered from 0 again. Tests at
the sizes of tiles must catch all of them; tests on small random cases do not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from accel import cpu
from accel.cpu.causal_attention import GROUPS
from accel.cpu.layers import CHUNK_ELEMENTS
from accel.cpu.support.kernels import CHUNK_ROWS
from accel.cuda.causal_attention import DISTANCE_SHARES
from accel.cuda.support.scatter import CHUNK
from accel.cuda.support.tiles import TILE

Function = Callable[..., Any]
Measure = Callable[[dict[str, Any]], int]


def longest(name: str) -> Measure:
    return lambda a: int(np.diff(a[name]).max(initial=0))


def count(name: str) -> Measure:
    return lambda a: len(a[name]) - 1


def length(name: str, axis: int = 0) -> Measure:
    return lambda a: int(a[name].shape[axis])


ROWS = {"rows": length("x"), "width": length("x", 1)}
GELU = ROWS | {"elements": lambda a: a["x"].size}
PAIRS = {
    "pairs": lambda a: len(a["x"]) // 2,
    "heads": lambda a: a["n_heads"],
    "width": lambda a: a["x"].shape[1] // (3 * a["n_heads"]),
}
SEQUENCES, SENTENCES = {"sequences": count("offsets")}, {"sentences": count("offsets"), "words": longest("offsets")}
TILED = {
    "queries": longest("query_offsets"),
    "keys": longest("key_offsets"),
    "heads": length("q", 1),
    "width": length("q", 2),
}
STEPS = {
    "sequences": count("offsets"), "steps": longest("offsets"), "units": length("c0", 1),
    "masters": lambda a: a["gates"].shape[1] // 2 - 2 * a["c0"].shape[1],
}  # fmt: skip

MEASURES: dict[str, dict[str, Measure]] = {
    "attend_sets": SEQUENCES,
    "best_trees": SENTENCES,
    "bias_erf_gelu": GELU,
    "bias_gelu": GELU,
    "causal_attention": TILED | {"sequences": count("query_offsets")},
    "chart_trees": SENTENCES,
    "cky_pool": SENTENCES | {"width": length("tokens", 1)},
    "cross_entropy": {"rows": lambda a: int((a["labels"] >= 0).sum()), "words": length("table")},
    "cumax": {"rows": length("z"), "width": length("z", 1)},
    "distance_trees": SEQUENCES,
    "dot_product_attention": TILED,
    "double_closing": SEQUENCES,
    "dropout": {"elements": lambda a: a["x"].size},
    "embedding": {"rows": lambda a: int((a["ids"] == 0).sum()), "same": lambda a: int((a["ids"] != 0).sum()),
                  "width": length("table", 1)},
    "layer_norm": ROWS,
    "linear_recurrence": STEPS,
    "locked_dropout": {"width": length("x", 1)},
    "pair_attention": PAIRS,
    "pair_layers": PAIRS | {"width": lambda a: a["x"].shape[1] // a["n_heads"], "hidden": length("inner", 2)},
    "pruned_chart": SENTENCES,
    "recurrence": STEPS,
    "residual_layer_norm": ROWS,
    "residual_norm": ROWS,
    "segments": SEQUENCES,
    "span_logz": SENTENCES | {"labels": length("scores", 1)},
    "sparse_attention": {"queries": length("q"), "keys": length("k"), "edges": longest("row_offsets"),
                         "heads": length("q", 1), "width": length("q", 2)},
    "tree_gate": {"rows": length("x"), "masters": length("a", 1), "units": length("x", 1)},
    "weight_drop": {"elements": lambda a: a["weight"].size},
    "weighted_sum": {"groups": count("offsets"), "size": longest("offsets"), "width": length("vectors", 1)},
}  # fmt: skip
"""The size of every axis, from the arguments of a batch."""


def wrong_above(name: str, axis: str, tile: int) -> Function:
    """Return an operation of `accel.cpu`, or its gradient, with one wrong number if an axis is longer than a tile."""
    right, operation = getattr(cpu, name), name.removesuffix("_vjp")
    signature, measure = inspect.signature(right), MEASURES[operation][axis]

    def mutant(*arguments: Any, **options: Any) -> Any:
        first, *rest = right(*arguments, **options)
        if measure(signature.bind(*arguments, **options).arguments) > tile:
            first = first.copy()
            first.flat[-1] += 1 + abs(first.flat[-1])
        return first, *rest

    return mutant


# Typical mistakes


def numbers_restart_in_every_chunk(x: Any, rate: float, seed: int) -> Any:
    parts = np.array_split(x.ravel(), np.arange(CHUNK_ELEMENTS, x.size, CHUNK_ELEMENTS))
    dropped = [cpu.dropout(part[:, np.newaxis], rate, seed)[0].ravel() for part in parts]
    return (np.concatenate(dropped).reshape(x.shape),)


def last_chunk_of_a_scale_is_lost(d_out: Any, outputs: Any, x: Any, scale: Any, bias: Any) -> Any:
    d_x, d_scale, d_bias = cpu.layer_norm_vjp(d_out, outputs, x, scale, bias)
    if len(x) >= 2 * CHUNK_ROWS:
        d_rest = d_out * (np.arange(len(x)) < len(x) // CHUNK_ROWS * CHUNK_ROWS - CHUNK_ROWS)[:, np.newaxis]
        _, d_scale, _ = cpu.layer_norm_vjp(d_rest.astype(x.dtype), outputs, x, scale, bias)
    return d_x, d_scale, d_bias


def one_chunk_of_a_row(d_out: Any, outputs: Any, table: Any, ids: Any) -> Any:
    """Add only the first 64 gradients of every row of the table."""
    place = np.array([np.sum(ids[:i] == row) for i, row in enumerate(ids)], int)
    return cpu.embedding_vjp(d_out * (place < CHUNK).astype(d_out.dtype)[:, np.newaxis], outputs, table, ids)


def gradient_of_r_without(d_out: Any, lost: Any, outputs: Any, *arguments: Any, **options: Any) -> Any:
    """Return the gradients; that of r is computed without the queries in `lost` [N] bool."""
    gradients = list(cpu.causal_attention_vjp(d_out, outputs, *arguments, **options))
    d_rest = d_out * ~lost[:, np.newaxis, np.newaxis]
    gradients[3] = cpu.causal_attention_vjp(d_rest.astype(d_out.dtype), outputs, *arguments, **options)[3]
    return tuple(gradients)


def ninth_sequence_is_lost(d_out: Any, outputs: Any, *arguments: Any, **options: Any) -> Any:
    query_offsets = arguments[6]
    is_lost = np.arange(len(d_out)) >= query_offsets[min(GROUPS, len(query_offsets) - 1)]
    return gradient_of_r_without(d_out, is_lost, outputs, *arguments, **options)


def ninth_tile_of_queries_is_lost(d_out: Any, outputs: Any, *arguments: Any, **options: Any) -> Any:
    starts, lengths = arguments[6][:-1], np.diff(arguments[6])
    is_lost = np.arange(len(d_out)) - np.repeat(starts, lengths) >= DISTANCE_SHARES * TILE
    return gradient_of_r_without(d_out, is_lost, outputs, *arguments, **options)


def rows_of_dropout_restart_in_every_tile(*arguments: Any, rate: float = 0.0, seed: int = 0) -> Any:
    """Give the queries of a sequence's later tiles the dropout of its first tile."""
    q, k, v, r, u, w, query_offsets, key_offsets = arguments
    out, lse = cpu.causal_attention(*arguments, rate=rate, seed=seed)
    for begin, end, first, last in zip(
        query_offsets[:-1], query_offsets[1:], key_offsets[:-1], key_offsets[1:], strict=True
    ):
        for tile in range(begin + TILE, end, TILE):
            stop = min(tile + TILE, end)
            rows, keys = np.r_[0:begin, tile:stop], np.r_[0:begin, first : last - end + stop]
            offsets = [np.r_[0 : begin + 1, begin + size] for size in (stop - tile, last - end + stop - first)]
            part = cpu.causal_attention(q[rows], k[keys], v[keys], r, u, w, *offsets, rate=rate, seed=seed)
            out[tile:stop] = part[0][begin:]
    return out, lse


def second_tile_in_both_directions(x: Any, scale: Any, bias: Any) -> Any:
    y, *others = cpu.layer_norm(x, scale, bias)
    y[64:, 8:] = 0
    return y, *others


def words_of_the_first_tile(h: Any, table: Any, bias: Any, labels: Any) -> Any:
    """Take the logits of labels in later tiles from the first one."""
    near = np.where(labels >= 8, labels % 8, labels).astype(labels.dtype)
    return cpu.cross_entropy(h, table, bias, near)


def ids_of_eight_bits(table: Any, ids: Any) -> Any:
    return (table[ids.astype(np.int8)],)


def gradient_without_labels(d_out: Any, outputs: Any, h: Any, table: Any, bias: Any, labels: Any) -> Any:
    """Leave numbers in the gradients if there are no labels."""
    gradients = cpu.cross_entropy_vjp(d_out, outputs, h, table, bias, labels)
    return tuple(g + g.dtype.type(1e-3) for g in gradients) if (labels < 0).all() else gradients


def output_without_keys(*arguments: Any, **options: Any) -> Any:
    """Leave numbers in the output if no query has a key."""
    out, lse = cpu.sparse_attention(*arguments, **options)
    return out if len(arguments[-1]) else out + 1, lse


def dropout_of_32_bits(name: str) -> Function:
    """Return an attention that numbers a row modulo 2^32: after so many rows it begins with the first row again."""

    def mutant(q: Any, k: Any, *others: Any, **options: Any) -> Any:
        *middle, query_offsets, key_offsets = others
        out, lse = getattr(cpu, name)(q, k, *others, **options)
        first = 2**32 // (2**20 * q.shape[1])
        if len(q) > first:  # in the last sequence
            offsets = np.maximum(query_offsets - first, 0)
            out[first:] = getattr(cpu, name)(q[first:], k, *middle, offsets, key_offsets, **options)[0]
        return out, lse

    return mutant


def later_of_equal(name: str) -> Function:
    """Return an operation that takes, of equal numbers of one sequence or node, first that of a later tile of 16."""
    step = -1e-9 if name == "pruned_chart" else 1e-9  # ascending order, or the largest number

    def mutant(x: Any, offsets: Any, **options: Any) -> Any:
        lengths = np.diff(offsets)
        sizes = {
            "distance_trees": lengths,
            "pruned_chart": lengths - 1,
            "chart_trees": [size for n in lengths for size in range(1, n) for _ in range(n - size)],
        }[name]
        tiles = np.concatenate([x[:0], *(np.arange(size) // 16 for size in sizes)])
        return getattr(cpu, name)(x + step * tiles.astype(x.dtype), offsets, **options)

    return mutant


def fixed_above(name: str, words: int, **fixed: Any) -> Function:
    """Return an operation that forgets the values of these arguments if a sequence has more words."""
    right = getattr(cpu, name)

    def mutant(*arguments: Any, **options: Any) -> Any:
        bound = inspect.signature(right).bind(*arguments, **options)
        if np.diff(bound.arguments["offsets"]).max(initial=0) > words:
            bound.arguments |= fixed
        return right(*bound.args, **bound.kwargs)

    return mutant


AS_THEY_HAPPEN: tuple[tuple[str, Function], ...] = (
    ("dropout", numbers_restart_in_every_chunk),
    ("layer_norm_vjp", last_chunk_of_a_scale_is_lost),
    ("embedding_vjp", one_chunk_of_a_row),
    ("causal_attention", rows_of_dropout_restart_in_every_tile),
    ("causal_attention_vjp", ninth_sequence_is_lost),
    ("causal_attention_vjp", ninth_tile_of_queries_is_lost),
    ("layer_norm", second_tile_in_both_directions),
    ("cross_entropy", words_of_the_first_tile),
    ("embedding", ids_of_eight_bits),
    ("cross_entropy_vjp", gradient_without_labels),
    ("sparse_attention", output_without_keys),
    ("causal_attention", dropout_of_32_bits("causal_attention")),
    ("dot_product_attention", dropout_of_32_bits("dot_product_attention")),
    ("distance_trees", later_of_equal("distance_trees")),
    ("pruned_chart", later_of_equal("pruned_chart")),
    ("chart_trees", later_of_equal("chart_trees")),
    ("distance_trees", fixed_above("distance_trees", 16, split="biased")),
    ("cky_pool", fixed_above("cky_pool", 16, max_height=None)),
    ("segments", fixed_above("segments", 16, memory="stack", positions="depth")),
    ("segments", fixed_above("segments", 16, positions="depth")),
    ("pruned_chart", fixed_above("pruned_chart", 16, window=2)),
    ("best_trees", fixed_above("best_trees", 16, count=5)),
)
