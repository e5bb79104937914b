"""The row of the table for all layers of GPST's composition model over pairs of rows, after the first products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify.op import Case, Example, Op, Outputs, batched_rows, dropping_and_not, pieces
from accel.verify.ops.gpst_layers import normalised, ref_pair_attention, ref_residual_norm
from accel.verify.strategies import dropout_seeds, floats, regimes, seeds
from refimpl import layers, randomness
from refimpl.gpst import composition


def stack_of_layers(seed: int, layers: int, roles: int, heads: int, width: int, f: int) -> Example:
    """Return weights and biases that keep the size of vectors."""
    d = heads * width
    shapes = {"product": (d, 3 * d), "output": (d, d), "inner": (d, f), "outer": (f, d)}
    weights = {
        name: np.float64(np.float32(floats("unit", seed + i, layers, *shape) / np.sqrt(shape[0])))
        for i, (name, shape) in enumerate(shapes.items())
    }
    biases = {"bias": (roles, 3 * d), "output_bias": (d,), "inner_bias": (f,), "outer_bias": (d,)}
    return weights | {
        name: floats("unit", seed + 9 + i, layers, *shape) for i, (name, shape) in enumerate(biases.items())
    }


@st.composite
def layers_cases(draw: Callable) -> Case:
    """Draw vectors that are not nearly constant: a norm is too strongly curved there for a central difference."""
    heads, width = draw(st.sampled_from([(1, 1), (1, 5), (2, 4), (3, 3)]), label="H, D")
    regime, seed, n_roles = draw(regimes), draw(seeds), draw(st.integers(1, 3), label="roles")
    layers, f = draw(st.integers(1, 2), label="layers"), draw(st.sampled_from([1, 5, 9]), label="f")
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2), label="pairs")
    d = heads * width
    examples = [
        {
            "x": floats("huge" if regime == "huge" else "unit", seed + b, 2 * n, d),
            "first": floats(regime, seed + 30 + b, 2 * n, 3 * d),
            "roles": np.random.default_rng(seed + b).integers(n_roles, size=2 * n),
        }
        for b, n in enumerate(lengths)
    ]
    of_layers = draw(st.lists(dropout_seeds, min_size=4 * layers, max_size=4 * layers), label="dropout seeds")
    drop = {"rate": draw(st.sampled_from([0.0, 0.3, 0.8])), "seeds": of_layers}
    return Case(stack_of_layers(seed + 60, layers, n_roles, heads, width, f) | {"n_heads": heads} | drop, examples)


def layers_of_sizes(rate: float, pairs: int = 3, heads: int = 1, width: int = 6, hidden: int = 4) -> Case:
    d = heads * width
    x, first = floats("unit", 0, 2 * pairs, d), floats("unit", 1, 2 * pairs, 3 * d)
    rows = np.split(np.arange(2 * pairs), [2]) if pairs > 1 else [np.arange(2)]
    shared = stack_of_layers(2, 2, 2, heads, width, hidden) | {"n_heads": heads, "rate": rate, "seeds": list(range(8))}
    return Case(shared, [{"x": x[part], "first": first[part], "roles": part % 3 // 2} for part in rows])


def ref_pair_layers(shared: Example, example: Example, start: int) -> Outputs:
    """The layers of `compose` and `decompose` after the first products; `start` is the number of the first row."""
    x, rows, d = example["x"], example["first"], example["x"].shape[1]
    for k in range(len(shared["bias"])):
        of_layer = {name: value[k] for name, value in shared.items() if isinstance(value, np.ndarray)}
        seeds = shared["seeds"][4 * k : 4 * k + 4]
        drop = [{"rate": shared["rate"], "seed": seed} for seed in seeds]
        rows = x @ of_layer["product"] if k else rows
        pairs = {"bias": of_layer["bias"], "n_heads": shared["n_heads"]} | drop[0]
        (attended,) = ref_pair_attention(pairs, {"x": rows, "roles": example["roles"]}, start)
        terms = {"x": x, "y": attended @ of_layer["output"]}
        (x,) = ref_residual_norm({"bias": of_layer["output_bias"]} | drop[1], terms, start)
        hidden = layers.bias_erf_gelu(x @ of_layer["inner"], of_layer["inner_bias"])
        numbers = start * hidden.shape[1] + np.arange(hidden.size).reshape(hidden.shape)
        hidden = hidden * randomness.keep_mask(numbers, shared["rate"], seeds[2]).astype(x.dtype)
        (x,) = ref_residual_norm(
            {"bias": of_layer["outer_bias"]} | drop[3], {"x": x, "y": hidden @ of_layer["outer"]}, start
        )
    return (composition.residual_norm(x[::2], x[1::2]).reshape(-1, d),)


def batched_layers(case: Case) -> dict[str, Any]:
    names = (
        "x", "first", "bias", "product", "output", "output_bias", "inner", "inner_bias", "outer", "outer_bias", "roles",
        "n_heads", "rate", "seeds",
    )  # fmt: skip
    arguments = batched_rows(*names)(case)
    return arguments | {"roles": arguments["roles"].astype(np.int32)}


def split_pairs(outputs: Outputs, case: Case) -> list[Outputs]:
    return [(x,) for x in pieces(outputs[0], [len(e["x"]) // 2 for e in case.examples])]


PAIR_LAYERS = (
    Op(
        "pair_layers", "composition", "IO-1", layers_cases(), ref_pair_layers, batched_layers, split_pairs,
        diff=("x", "first", "bias", "product", "output", "output_bias", "inner", "inner_bias", "outer", "outer_bias"),
        laws=(normalised,), moves=False, sized=dropping_and_not(layers_of_sizes),
        errors=(
            ("x", lambda a: a | {name: a[name][:-1] for name in ("x", "first", "roles")}),
            ("first", lambda a: a | {"first": a["first"][:, :-3]}),
            ("bias:|float32", lambda a: a | {"bias": np.float32(a["bias"])}),
            ("output", lambda a: a | {"output": a["output"][:, :, :-1]}),
            ("outer", lambda a: a | {"outer": a["outer"][:, :, :-1]}),
            ("inner_bias", lambda a: a | {"inner_bias": a["inner_bias"][:-1]}),
            ("roles", lambda a: a | {"roles": a["roles"] + np.int32(3)}),
            ("roles", lambda a: a | {"roles": a["roles"][1:]}),
            ("n_heads", lambda a: a | {"n_heads": 5}),
            ("rate", lambda a: a | {"rate": 1.0}),
            ("seeds", lambda a: a | {"seeds": a["seeds"][1:]}),
        ),
    ),
)  # fmt: skip
