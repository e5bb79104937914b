"""Rows of the table for layers of GPST's composition model: GELU, weighted sums, attention of pairs, residual norms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import conditions
from accel.verify.op import (
    Attend,
    Case,
    Example,
    Op,
    Outputs,
    batched_rows,
    dropping_and_not,
    offsets_of,
    pieces,
    split_by_x,
)
from accel.verify.ops.layers import elements_of_sizes, rows_of_sizes
from accel.verify.peaks import with_peak_of_group
from accel.verify.strategies import dropout_seeds, floats, regimes, seeds
from refimpl import attention, layers, randomness
from refimpl.gpst import composition


@st.composite
def bias_cases(draw: Callable) -> Case:
    width, regime, seed = draw(st.sampled_from([1, 2, 7, 16, 33])), draw(regimes), draw(seeds)
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3), label="lengths")
    examples = [{"x": floats(regime, seed + i, n, width)} for i, n in enumerate(lengths)]
    return Case({"bias": floats(regime, seed + 100, width)}, examples)


@st.composite
def group_cases(draw: Callable) -> Case:
    """Draw groups of rows; some are empty, and some examples have only empty groups."""
    width, regime, seed = draw(st.sampled_from([1, 2, 7, 33, 130]), label="d"), draw(regimes), draw(seeds)
    sizes = st.lists(st.integers(0, 5), min_size=1, max_size=4)
    groups = draw(st.lists(sizes, min_size=1, max_size=3), label="sizes")
    shift = draw(st.sampled_from([0.0, 0.0, 300.0, -300.0]), label="shift")  # where an exponential is 0 or overflows
    if draw(st.integers(0, 9), label="long") == 9:
        groups.append([40, 1])
    examples = [
        {"scores": np.float64(np.float32(shift + floats(regime, seed + b, sum(rows)))),
         "vectors": floats(regime, seed + 9 + b, sum(rows), width), "sizes": rows}
        for b, rows in enumerate(groups)
    ]  # fmt: skip
    return Case({}, examples)


@st.composite
def pair_cases(draw: Callable) -> Case:
    heads, width = draw(st.sampled_from([(1, 1), (1, 33), (2, 3), (3, 8), (2, 16)]), label="H, D")
    regime, seed, n_roles = draw(regimes), draw(seeds), draw(st.integers(1, 3), label="roles")
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3), label="pairs")
    size = 3 * heads * width
    examples = [
        {
            "x": floats(regime, seed + b, 2 * n, size),
            "roles": np.random.default_rng(seed + b).integers(n_roles, size=2 * n),
        }
        for b, n in enumerate(lengths)
    ]
    drop = {"rate": draw(st.sampled_from([0.0, 0.3, 0.8])), "seed": draw(dropout_seeds, label="dropout seed")}
    return Case({"bias": floats(regime, seed + 50, n_roles, size), "n_heads": heads} | drop, examples)


@st.composite
def residual_cases(draw: Callable) -> Case:
    """Draw rows whose sum is not all zeros: a norm is too strongly curved there for a central difference."""
    # no width of 2: a norm of two numbers is 1 and -1
    width, regime, seed = draw(st.sampled_from([1, 3, 7, 33]), label="d"), draw(regimes), draw(seeds)
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3), label="lengths")
    other = "unit" if regime == "zeros" else regime
    examples = [
        {"x": floats(regime, seed + b, n, width), "y": floats(other, seed + 70 + b, n, width)}
        for b, n in enumerate(lengths)
    ]
    drop = {"rate": draw(st.sampled_from([0.0, 0.3, 0.8])), "seed": draw(dropout_seeds, label="dropout seed")}
    shared = {"bias": floats(regime, seed + 50, width)} | drop
    return Case(shared, examples)


def groups_of_sizes(groups: int = 4, size: int = 3, width: int = 3) -> Case:
    """Groups of no row and of one row in turn, and a last group of `size` rows."""
    sizes = [*(i % 2 for i in range(groups - 1)), size]
    return Case({}, [
        {"scores": floats("unit", b, sum(rows)), "vectors": floats("unit", 9 + b, sum(rows), width), "sizes": rows}
        for b, rows in enumerate((sizes[:1], sizes[1:]) if groups > 1 else (sizes,))
    ])  # fmt: skip


def pairs_of_sizes(rate: float, pairs: int = 3, heads: int = 1, width: int = 3) -> Case:
    x = floats("unit", 0, 2 * pairs, 3 * heads * width)
    rows = np.split(np.arange(2 * pairs), [2]) if pairs > 1 else [np.arange(2)]
    shared = {"bias": floats("unit", 1, 2, x.shape[1]), "n_heads": heads, "rate": rate, "seed": 7}
    return Case(shared, [{"x": x[part], "roles": part % 3 // 2} for part in rows])


def residuals_of_sizes(rate: float, rows: int = 4, width: int = 3) -> Case:
    x, y = (rows_of_sizes(rows=rows, width=width).examples for _ in range(2))
    shared = {"bias": floats("unit", 1, width), "rate": rate, "seed": 7}
    return Case(shared, [{"x": a["x"], "y": 2 * b["x"][::-1]} for a, b in zip(x, y, strict=True)])


def ref_pair_attention(
    shared: Example, example: Example, start: int, attend: Attend = attention.dot_product_attention
) -> Outputs:
    """`start` is the number of the example's first row."""
    heads, x = shared["n_heads"], example["x"] + shared["bias"][example["roles"]]
    out = []
    for first in range(0, len(x), 2):
        q, k, v = x[first : first + 2].reshape(2, 3, heads, -1).swapaxes(0, 1)
        i, j, h = np.ogrid[start + first : start + first + 2, :2, :heads]
        keep = randomness.keep_mask((2 * i + j) * heads + h, shared["rate"], shared["seed"]).astype(x.dtype)
        out.append(attend(q, k, v, False, keep)[0].reshape(2, -1))
    return (np.concatenate(out),)


def ref_residual_norm(shared: Example, example: Example, start: int) -> Outputs:
    x, y = example["x"], example["y"] + shared["bias"]
    numbers = start * x.shape[1] + np.arange(x.size).reshape(x.shape)
    keep = randomness.keep_mask(numbers, shared["rate"], shared["seed"]).astype(x.dtype)
    return (composition.residual_norm(x, keep * y),)


def sums_before_the_norm(x: np.ndarray, a: Example, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x + keep (y + bias), its error in roundings, and keep."""
    numbers = start * x.shape[1] + np.arange(x.size).reshape(x.shape)
    keep, y = randomness.keep_mask(numbers, a["rate"], a["seed"]), a["y"] + a["bias"]
    return x + keep * y, 3 * np.abs(keep * y) + np.abs(x + keep * y), keep


def residual_norm_condition(shared: Example, example: Example, start: int, unit: float) -> Outputs:
    x, off, _ = sums_before_the_norm(example["x"], shared | example, start)
    return (conditions.layer_norm(x, np.ones(x.shape[1]), np.zeros(x.shape[1]), off),)


def residual_norm_gradient_conditions(a: Example, d_out: np.ndarray) -> Outputs:
    """Return the conditions of the gradients of x, y (0 where y is dropped), and bias (a sum of those of y)."""
    x, off, keep = sums_before_the_norm(a["x"], a, 0)
    one = np.ones(x.shape[1])
    d_x, _, _ = conditions.layer_norm_gradients(d_out, x, one, off)
    return d_x, 2 * keep * d_x, (len(x) + 2) * (keep * d_x).sum(axis=0)


def batched_pairs(case: Case) -> dict[str, Any]:
    arguments = batched_rows("x", "bias", "roles", "n_heads", "rate", "seed")(case)
    return arguments | {"roles": arguments["roles"].astype(np.int32)}


def ref_weighted_sum(shared: Example, example: Example, start: int) -> Outputs:
    scores, vectors = (pieces(example[name], example["sizes"]) for name in ("scores", "vectors"))
    weights = [layers.softmax(group) if len(group) else group for group in scores]
    return np.array([w @ v for w, v in zip(weights, vectors, strict=True)]), np.concatenate(weights)


def batched_groups(case: Case) -> dict[str, Any]:
    arguments = {name: np.concatenate([e[name] for e in case.examples]) for name in ("scores", "vectors")}
    return arguments | {"offsets": offsets_of([size for e in case.examples for size in e["sizes"]])}


def split_groups(outputs: Outputs, case: Case) -> list[Outputs]:
    sums = pieces(outputs[0], [len(e["sizes"]) for e in case.examples])
    return list(zip(sums, pieces(outputs[1], [sum(e["sizes"]) for e in case.examples]), strict=True))


def near_the_other_formula(shared: Example, example: Example, outputs: Outputs) -> None:
    """LAY-9 L2: the values differ by at most 0.0005 from those of the tanh formula, LAY-2."""
    z = example["x"] + shared["bias"]
    assert (np.abs(outputs[0] - layers.gelu(z)) <= 0.0005 + 1e-6 * np.abs(z)).all()


def weights_of_groups(shared: Example, example: Example, outputs: Outputs) -> None:
    """IO-3 L1, and no sum leaves the range of its vectors."""
    groups = zip(*(pieces(x, example["sizes"]) for x in (outputs[1], example["vectors"])), outputs[0], strict=True)
    for weights, vectors, total in groups:
        assert (weights >= 0).all() and abs(weights.sum() - len(weights[:1])) <= 1e-5
        low, high = vectors.min(axis=0, initial=0.0), vectors.max(axis=0, initial=0.0)
        slack = 1e-5 * np.maximum(np.abs(low), np.abs(high))
        assert (total >= low - slack).all() and (total <= high + slack).all()


def within_both_values(shared: Example, example: Example, outputs: Outputs) -> None:
    """Without dropout, every output lies between the values of the pair's two rows."""
    d = outputs[0].shape[1]
    values = (example["x"] + shared["bias"][example["roles"]])[:, 2 * d :].reshape(-1, 2, 1, d)
    if not shared["rate"]:
        low, high, slack = values.min(axis=1), values.max(axis=1), 1e-5 * np.abs(values).max(initial=1.0)
        means = outputs[0].reshape(-1, 2, d)
        assert (low - slack <= means).all() and (means <= high + slack).all()


def normalised(shared: Example, example: Example, outputs: Outputs) -> None:
    """IO-1 L1: the mean is 0, and the mean square at most 1."""
    assert np.abs(outputs[0].mean(axis=1)).max() <= 1e-5 and (outputs[0] ** 2).mean(axis=1).max() <= 1 + 1e-5


GPST_LAYERS = (
    Op(
        "bias_erf_gelu", "layers", "LAY-9", bias_cases(),
        lambda s, e, start: (layers.bias_erf_gelu(e["x"], s["bias"]),),
        batched_rows("x", "bias"), split_by_x, diff=("x", "bias"), laws=(near_the_other_formula,),
        sized=(partial(rows_of_sizes, "bias"), partial(elements_of_sizes, "bias")),
        condition=lambda s, e, start, unit: (conditions.bias_erf_gelu(e["x"], s["bias"]),),
        errors=(
            ("bias", lambda a: a | {"bias": np.ones(99)}),
            ("bias:|float32", lambda a: a | {"bias": np.float32(a["bias"])}),
        ),
    ),
    Op(
        "weighted_sum", "inside_outside", "IO-3", group_cases(), ref_weighted_sum,
        batched_groups, split_groups, diff=("scores", "vectors"), laws=(weights_of_groups,),
        sized=(groups_of_sizes,), peaks=with_peak_of_group,
        condition=lambda s, e, start, unit: conditions.weighted_sum(e["scores"], e["vectors"], e["sizes"], unit),
        errors=(
            ("vectors", lambda a: a | {"scores": np.ones(999)}),
            ("vectors:|float32", lambda a: a | {"vectors": np.float32(a["vectors"])}),
            ("offsets", lambda a: a | {"offsets": a["offsets"] + 1}),
            ("offsets", lambda a: a | {"offsets": np.array([0, 1, 0, len(a["scores"])], np.int64)}),
        ),
    ),
    Op(
        "pair_attention", "composition", "IO-1", pair_cases(), ref_pair_attention,
        batched_pairs, split_by_x, diff=("x", "bias"), laws=(within_both_values,), moves=False,
        sized=dropping_and_not(pairs_of_sizes),
        condition=lambda s, e, start, unit: ref_pair_attention(
            s, e, start, partial(conditions.dot_product_attention, unit=unit)
        ),
        errors=(
            ("x", lambda a: a | {"x": a["x"][:-1], "roles": a["roles"][:-1]}),
            ("bias:|float32", lambda a: a | {"bias": np.float32(a["bias"])}),
            ("bias", lambda a: a | {"bias": a["bias"][:, :-1]}),
            ("roles", lambda a: a | {"roles": a["roles"] + np.int32(3)}),
            ("roles", lambda a: a | {"roles": a["roles"][1:]}),
            ("n_heads", lambda a: a | {"n_heads": 5}),
            ("rate", lambda a: a | {"rate": 1.0}),
        ),
    ),
    Op(
        "residual_norm", "composition", "IO-1", residual_cases(), ref_residual_norm,
        batched_rows("x", "y", "bias", "rate", "seed"), split_by_x, diff=("x", "y", "bias"), laws=(normalised,),
        moves=False, condition=residual_norm_condition, gradient_conditions=residual_norm_gradient_conditions,
        sized=dropping_and_not(residuals_of_sizes),
        errors=(
            ("y", lambda a: a | {"y": a["y"][:-1]}),
            ("y:|float32", lambda a: a | {"y": np.float32(a["y"])}),
            ("bias", lambda a: a | {"bias": np.ones(99)}),
            ("rate", lambda a: a | {"rate": 1.0}),
        ),
    ),
)  # fmt: skip
