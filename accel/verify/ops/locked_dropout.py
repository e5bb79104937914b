"""Rows of the table for dropout of features at all steps of a sequence, and of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import laws
from accel.verify.op import Case, Example, Op, Outputs, batched_rows, offsets_of, split_by_x
from accel.verify.ops.layers import dropout_cases, dropout_of_sizes
from accel.verify.strategies import floats
from refimpl import randomness


def numbered(case: Case) -> Case:
    """Give every sequence its number in the batch: each sequence draws its own features to drop."""
    return Case(case.shared, [e | {"sequence": b} for b, e in enumerate(case.examples)])


@st.composite
def locked_cases(draw: Callable) -> Case:
    return numbered(draw(dropout_cases()))


def locked_of_sizes(rows: int = 3, width: int = 3) -> Case:
    """Two sequences with `rows` rows in total, the first of one row; with one row, one sequence."""
    examples = [{"x": floats("unit", b, n, width)} for b, n in enumerate((1, rows - 1)) if n]
    return numbered(Case({"rate": 0.3, "seed": 7}, examples))


def batched_locked(case: Case) -> dict[str, Any]:
    parts = [e["x"] for e in case.examples]
    return {"x": np.concatenate(parts), "offsets": offsets_of([len(p) for p in parts]), **case.shared}


def ref_locked_dropout(shared: Example, example: Example, start: int) -> Outputs:
    x = example["x"]
    numbers = example["sequence"] * x.shape[1] + np.arange(x.shape[1])
    return (x * randomness.keep_mask(numbers, shared["rate"], shared["seed"]).astype(x.dtype),)


def of_weights(case: Case) -> Case:
    return Case(case.shared, [{"weight": e["x"]} for e in case.examples])


@st.composite
def weight_cases(draw: Callable) -> Case:
    return of_weights(draw(dropout_cases()))


def weights_of_sizes(elements: int = 12) -> Case:
    return of_weights(dropout_of_sizes(elements))


def ref_weight_drop(shared: Example, example: Example, start: int) -> Outputs:
    weight = example["weight"]
    numbers = np.arange(weight.size).reshape(weight.shape) + start * weight.shape[1]
    return (weight * (randomness.keep_mask(numbers, shared["rate"], shared["seed"]) > 0),)


LOCKED_DROPOUT = (
    Op(
        "locked_dropout", "stack", "FT-9", locked_cases(), ref_locked_dropout, batched_locked, split_by_x,
        diff=("x",), moves=False, laws=(laws.kept_or_dropped,), sized=(locked_of_sizes,),
        condition=lambda s, e, start, unit: tuple(2 * np.abs(y) for y in ref_locked_dropout(s, e, start)),
        errors=(
            ("rate", lambda a: a | {"rate": 1.0}),
            ("offsets", lambda a: a | {"offsets": a["offsets"][::-1].copy()}),
        ),
    ),
    Op(
        "weight_drop", "stack", "FT-9", weight_cases(), ref_weight_drop,
        batched_rows("weight", "rate", "seed"), split_by_x, diff=("weight",), moves=False, sized=(weights_of_sizes,),
        condition=lambda s, e, start, unit: (np.zeros_like(e["weight"]),),  # nothing is rounded
        errors=(("rate", lambda a: a | {"rate": 1.0}),),
    ),
)  # fmt: skip
