"""Rows of the table for attention with relative positions: over listed keys, and over everything before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import conditions, laws
from accel.verify.op import (
    Attend,
    Case,
    Example,
    Op,
    Outputs,
    dropping_and_not,
    joined,
    offsets_of,
    pieces,
    row_too_many,
)
from accel.verify.peaks import with_peak_of_keys
from accel.verify.strategies import dropout_seeds, floats, position_types, regimes, seeds
from refimpl import attention, randomness
from refimpl.transformer_grammars import stack_compose

RELATIVE = 33
"""The number of vectors of relative positions at given sizes."""


def position_arrays(regime: str, seed: int, n_relative: int, heads: int, width: int) -> Example:
    return {
        "r": floats(regime, seed, n_relative, heads, width),
        "content_bias": floats(regime, seed + 1, heads, width),
        "position_bias": floats(regime, seed + 2, heads, width),
    }


@st.composite
def attention_shared(draw: Callable, n_relative: int) -> tuple[Example, str, int]:
    heads, width = draw(st.integers(1, 3), label="heads"), draw(st.sampled_from([1, 2, 5, 8]), label="d_head")
    regime, seed = draw(regimes, label="regime"), draw(seeds, label="seed")
    rate = draw(st.sampled_from([0.0, 0.0, 0.4]), label="rate")
    drop = {"rate": rate, "seed": draw(dropout_seeds, label="dropout seed")}
    return position_arrays(regime, seed, n_relative, heads, width) | drop, regime, seed


@st.composite
def sparse_cases(draw: Callable) -> Case:
    shared, regime, seed = draw(attention_shared(9))
    heads, width = shared["content_bias"].shape
    examples = []
    for number, types in enumerate(draw(st.lists(position_types(5), min_size=1, max_size=3))):
        n, extra = len(types), draw(st.integers(0, 2), label="memory rows")
        sets = [[j + extra for j in keys] for keys in stack_compose.attend_sets(types)]
        if draw(st.booleans(), label="masked"):
            sets[draw(st.integers(0, n - 1), label="row without keys")] = []
        rows = np.random.default_rng(seed + number)
        q, k, v = (floats(regime, seed + 3 + 5 * number + i, n + extra, heads, width) for i in range(3))
        sets = [rows.permutation(s).tolist() for s in sets]
        relative = [[int(x) for x in rows.integers(0, 9, len(s))] for s in sets]
        examples.append({"q": q[extra:], "k": k, "v": v, "keys": sets, "relative": relative})
    return Case(shared, examples)


def sparse_of_sizes(
    rate: float, queries: int = 4, keys: int = 5, edges: int = 3, heads: int = 1, width: int = 3
) -> Case:
    """The first query sees no key; every other query sees `edges` keys, the first and a late one among them.

    They are listed in ascending and in descending order in turn.
    """
    keys = max(keys, edges)
    sets = [[0, *sorted(keys - 1 - (i + j) % (keys - 1) for j in range(edges - 1))] for i in range(queries - 1)]
    sets = [[], *(s[:: (-1) ** i] for i, s in enumerate(sets))]
    q, k, v = (floats("unit", 3 + i, n, heads, width) for i, n in enumerate((queries, keys, keys)))
    relative = [[(13 * i + j) % RELATIVE for j in range(len(s))] for i, s in enumerate(sets)]
    example = {"q": q, "k": k, "v": v, "keys": sets, "relative": relative}
    return Case(position_arrays("unit", 0, RELATIVE, heads, width) | {"rate": rate, "seed": 7}, [example])


def sparse_without_keys() -> Case:
    case = sparse_of_sizes(0.0)
    return Case(case.shared, [e | {name: [[] for _ in e["q"]] for name in ("keys", "relative")} for e in case.examples])


def ref_sparse(shared: Example, example: Example, start: int, attend: Attend = attention.sparse_attention) -> Outputs:
    heads = shared["content_bias"].shape[0]
    sizes = [len(s) for s in example["keys"]]
    numbers = np.arange(sum(sizes) * heads).reshape(-1, heads) + start * heads
    keep = pieces(randomness.keep_mask(numbers, shared["rate"], shared["seed"]).astype(example["q"].dtype), sizes)
    return attend(
        example["q"], example["k"], example["v"], shared["r"], shared["content_bias"], shared["position_bias"],
        example["keys"], example["relative"], keep,
    )  # fmt: skip


def batched_sparse(case: Case) -> dict[str, Any]:
    examples, shared = case.examples, case.shared
    first_key = offsets_of([len(e["k"]) for e in examples])
    arguments = {name: np.concatenate([e[name] for e in examples]) for name in ("q", "k", "v")}
    arguments |= {name: shared[name] for name in ("r", "content_bias", "position_bias")}
    if "keys" in examples[0]:
        arguments["row_offsets"] = offsets_of([len(s) for e in examples for s in e["keys"]])
        keys = [[j + first for s in e["keys"] for j in s] for e, first in zip(examples, first_key, strict=False)]
        arguments["keys"] = joined(keys, np.int32)
        arguments["relative"] = joined([[p for s in e["relative"] for p in s] for e in examples], np.int32)
    else:
        arguments["query_offsets"] = offsets_of([len(e["q"]) for e in examples])
        arguments["key_offsets"] = first_key
    return arguments | {name: shared[name] for name in ("rate", "seed")}


def split_by_queries(outputs: Outputs, case: Case) -> list[Outputs]:
    lengths = [len(e["q"]) for e in case.examples]
    return list(zip(*(pieces(x, lengths) for x in outputs), strict=True))


@st.composite
def causal_cases(draw: Callable) -> Case:
    lengths = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=3), label="lengths")
    if draw(st.integers(0, 9), label="long") == 9:
        lengths.append((70, 21))
    shared, regime, seed = draw(attention_shared(max(n + m for n, m in lengths)))
    return Case(shared, causal_examples(lengths, regime, seed, *shared["content_bias"].shape))


def causal_examples(lengths: list[tuple[int, int]], regime: str, seed: int, heads: int, width: int) -> list[Example]:
    """Return one sequence for each pair in `lengths`: the number of queries, and of rows of memory before them."""
    examples = []
    for number, (n, memory) in enumerate(lengths):
        q, k, v = (floats(regime, seed + 3 + 5 * number + i, n + memory, heads, width) for i in range(3))
        examples.append({"q": q[memory:], "k": k, "v": v})
    return examples


def causal_of_sizes(
    rate: float, queries: int = 3, keys: int = 1, sequences: int = 2, heads: int = 1, width: int = 3
) -> Case:
    """Sequences of one query, and a last one that is longer."""
    lengths = [(1, 1)] * (sequences - 1) + [(queries, max(0, keys - queries))]
    shared = position_arrays("unit", 0, max(sum(pair) for pair in lengths), heads, width)
    return Case(shared | {"rate": rate, "seed": 7}, causal_examples(lengths, "unit", 0, heads, width))


def causal_halves_of_sizes(keys: int = 4) -> Case:
    """The first half of the keys is the memory; the second half belongs to the queries."""
    return causal_of_sizes(0.3, queries=(keys + 1) // 2, keys=keys)


def causal_with_large_numbers() -> Case:
    """The numbers of the last query's dropout, $(2^{20} n + j) H + h$, are above $2^{32}$."""
    return causal_of_sizes(0.3, queries=17, sequences=1, heads=256, width=1)


def ref_causal(shared: Example, example: Example, start: int, attend: Attend = attention.causal_attention) -> Outputs:
    (n, heads, _), s = example["q"].shape, len(example["k"])
    row, column, head = np.ogrid[start : start + n, 0:s, 0:heads]
    keep = randomness.keep_mask((row * 2**20 + column) * heads + head, shared["rate"], shared["seed"])
    return attend(
        example["q"], example["k"], example["v"], shared["r"], shared["content_bias"], shared["position_bias"],
        keep.astype(example["q"].dtype),
    )  # fmt: skip


ATTENTION_DIFF = ("q", "k", "v", "r", "content_bias", "position_bias")
MIXED = ("k:|float32", lambda a: a | {"k": a["k"].astype(np.float32)})

ATTENTION = (
    Op(
        "sparse_attention", "attention", "ATT-1", sparse_cases(), ref_sparse, batched_sparse, split_by_queries,
        diff=ATTENTION_DIFF, options=("rate", "seed"), moves=False,
        condition=lambda s, e, start, unit: ref_sparse(s, e, start, partial(conditions.sparse_attention, unit=unit)),
        laws=(laws.weighted_mean_of_values,), peaks=with_peak_of_keys,
        sized=(*dropping_and_not(sparse_of_sizes), sparse_without_keys),
        errors=(
            MIXED,
            ("keys", lambda a: a | {"keys": a["keys"] + np.int32(10_000)}),
            ("relative", lambda a: a | {"relative": a["relative"] - np.int32(100)}),
            ("row_offsets", lambda a: a | {"row_offsets": a["row_offsets"][::-1].copy()}),
            ("rate", lambda a: a | {"rate": 1.0}),
        ),
    ),
    Op(
        "causal_attention", "attention", "ATT-2", causal_cases(), ref_causal, batched_sparse, split_by_queries,
        diff=ATTENTION_DIFF, options=("rate", "seed"), moves=False,
        condition=lambda s, e, start, unit: ref_causal(s, e, start, partial(conditions.causal_attention, unit=unit)),
        laws=(laws.weighted_mean_of_values,),
        peaks=with_peak_of_keys,
        sized=(*dropping_and_not(causal_of_sizes), causal_halves_of_sizes, causal_with_large_numbers),
        errors=(
            MIXED,
            ("r", lambda a: a | {"r": a["r"][:0]}),
            ("query_offsets", lambda a: a | {"query_offsets": a["query_offsets"][::-1].copy()}),
            ("query_offsets", row_too_many("q")),
            ("rate", lambda a: a | {"rate": -0.1}),
        ),
    ),
)  # fmt: skip
