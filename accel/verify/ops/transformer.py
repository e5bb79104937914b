"""The row of scaled dot-product attention in the table of operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import conditions, laws
from accel.verify.op import Attend, Case, Example, Op, Outputs, dropping_and_not, offsets_of, row_too_many, split_by_x
from accel.verify.peaks import with_peak_of_keys
from accel.verify.strategies import dropout_seeds, floats, regimes, seeds
from refimpl import attention, randomness


@st.composite
def dot_product_cases(draw: Callable) -> Case:
    heads, width = draw(st.integers(1, 3), label="heads"), draw(st.sampled_from([1, 2, 5, 8, 16]), label="d_head")
    regime, seed, causal = draw(regimes, label="regime"), draw(seeds, label="seed"), draw(st.booleans(), label="causal")
    lengths = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=3), label="lengths")
    if draw(st.integers(0, 9), label="long") == 9:
        lengths.append((70, 21))
    examples = []
    for number, (n, other) in enumerate(lengths):
        rows = {"q": n, "k": n + other if causal else other, "v": n + other if causal else other}
        draws = enumerate(rows.items())
        examples.append({name: floats(regime, seed + 3 * number + i, s, heads, width) for i, (name, s) in draws})
    # dropout may leave a huge case only weights below e^-87, which are 0 in float32 kernels
    rate = 0.0 if regime == "huge" else draw(st.sampled_from([0.0, 0.0, 0.4]), label="rate")
    return Case({"causal": causal, "rate": rate, "seed": draw(dropout_seeds, label="dropout seed")}, examples)


def dot_product_of_sizes(
    causal: bool, rate: float, queries: int = 0, keys: int = 0, heads: int = 1, width: int = 3
) -> Case:
    """A sequence of one query, and a longer one."""
    queries = queries or (min(keys or 6, 6) if causal else 6)
    n_keys = keys or (queries + 1 if causal else 5)
    sizes = (1, 2), (queries, max(n_keys, queries) if causal else n_keys)
    examples = [
        {name: floats("unit", 3 * number + i, n if name == "q" else s, heads, width) for i, name in enumerate("qkv")}
        for number, (n, s) in enumerate(sizes)
    ]
    return Case({"causal": causal, "rate": rate, "seed": 7}, examples)


def dot_product_with_large_numbers() -> Case:
    """The numbers of the last queries' dropout, as in `causal_with_large_numbers`, are above $2^{32}$."""
    return dot_product_of_sizes(False, 0.3, queries=64, keys=2, heads=64, width=1)


def dot_product_of_squares(causal: bool, rate: float, keys: int = 6) -> Case:
    return dot_product_of_sizes(causal, rate, queries=keys, keys=keys)


def ref_dot_product(
    shared: Example, example: Example, start: int, attend: Attend = attention.dot_product_attention
) -> Outputs:
    (n, heads, _), s = example["q"].shape, len(example["k"])
    row, column, head = np.ogrid[start : start + n, 0:s, 0:heads]
    keep = randomness.keep_mask((row * 2**20 + column) * heads + head, shared["rate"], shared["seed"])
    return attend(example["q"], example["k"], example["v"], shared["causal"], keep.astype(example["q"].dtype))


def batched_dot_product(case: Case) -> dict[str, Any]:
    arguments = {name: np.concatenate([e[name] for e in case.examples]) for name in ("q", "k", "v")}
    arguments["query_offsets"] = offsets_of([len(e["q"]) for e in case.examples])
    arguments["key_offsets"] = offsets_of([len(e["k"]) for e in case.examples])
    return arguments | {name: case.shared[name] for name in ("causal", "rate", "seed")}


def without_last_key(arguments: dict[str, Any]) -> dict[str, Any]:
    """Give the first sequence one key less than queries."""
    n = int(arguments["query_offsets"][1]) - 1
    offsets = np.minimum(arguments["query_offsets"], n)
    k, v = (np.zeros((n, *arguments["q"].shape[1:])) for _ in range(2))
    return arguments | {"k": k, "v": v, "key_offsets": offsets, "causal": True}


TRANSFORMER = (
    Op(
        "dot_product_attention", "attention", "ED-1", dot_product_cases(), ref_dot_product,
        batched_dot_product, split_by_x, diff=("q", "k", "v"), options=("causal", "rate", "seed"), moves=False,
        condition=lambda s, e, start, unit: ref_dot_product(
            s, e, start, partial(conditions.dot_product_attention, unit=unit)
        ),
        laws=(laws.weighted_mean_of_values,),
        peaks=with_peak_of_keys,
        sized=(
            *(y for f in (dot_product_of_sizes, dot_product_of_squares) for x in (True, False)
              for y in dropping_and_not(partial(f, x))),
            dot_product_with_large_numbers,
        ),
        errors=(
            ("k:|float32", lambda a: a | {"k": a["k"].astype(np.float32)}),
            ("sequence 0|keys", without_last_key),
            ("query_offsets", lambda a: a | {"query_offsets": a["query_offsets"][::-1].copy()}),
            ("key_offsets", lambda a: a | {"key_offsets": a["key_offsets"] + 1}),
            ("query_offsets", row_too_many("q")),
            ("key_offsets", row_too_many("k", "v")),
            ("rate", lambda a: a | {"rate": 1.0}),
        ),
    ),
)  # fmt: skip
