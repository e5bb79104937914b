"""Rows of the table for FastTrees: gates, recurrences after the product of inputs and weights, and trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import gate_conditions, laws
from accel.verify.compare import assert_offsets
from accel.verify.op import Case, Example, Op, Outputs, Spoiler, batched_rows, offsets_of, pieces, split_by_x
from accel.verify.ops.layers import rows_of_sizes
from accel.verify.peaks import with_peak_of_gates, with_peak_of_logits, with_peak_of_masters
from accel.verify.strategies import floats, ones_and_zeros, regimes, seeds
from refimpl import layers, trees
from refimpl.fasttrees import cells, cumax, distance_trees, transformer_gate

numbers_of_rows = st.lists(st.integers(1, 5), min_size=1, max_size=3)
lengths_of_sequences = st.lists(st.one_of(st.integers(1, 2), st.integers(1, 6)), min_size=1, max_size=4)
chunks = st.sampled_from([(1, 1), (1, 4), (3, 1), (2, 2), (3, 2), (2, 5)])  # n, C: one chunk, chunks of one unit


# Gates


@st.composite
def cumax_cases(draw: Callable) -> Case:
    width, regime, seed = draw(st.sampled_from([1, 2, 7, 16, 33])), draw(regimes), draw(seeds)
    return Case({}, [{"z": floats(regime, seed + i, n, width)} for i, n in enumerate(draw(numbers_of_rows))])


@st.composite
def tree_gate_cases(draw: Callable) -> Case:
    (n, chunk), regime, seed = draw(chunks, label="n, C"), draw(regimes), draw(seeds)
    examples = []
    for number, length in enumerate(draw(numbers_of_rows)):
        widths = {"a": n, "b": n, "f": n * chunk, "x": n * chunk}
        seeded_widths = enumerate(widths.items(), seed + 4 * number)
        examples.append({name: floats(regime, i, length, width) for i, (name, width) in seeded_widths})
    return Case({}, examples)


def logits_of_sizes(rows: int = 4, width: int = 3) -> Case:
    return Case({}, [{"z": example["x"]} for example in rows_of_sizes(rows=rows, width=width).examples])


def tree_gates_of_sizes(rows: int = 4, masters: int = 0, units: int = 0) -> Case:
    """One master gate for all units or, if `masters` is given, one for each unit; `units` becomes a multiple of it."""
    n = masters or 1
    n_units = -(-(units or masters or 2) // n) * n
    widths = {"a": n, "b": n, "f": n_units, "x": n_units}
    arrays = {name: floats("unit", i, rows, width) for i, (name, width) in enumerate(widths.items())}
    parts = [slice(1), slice(1, None)] if rows > 1 else [slice(1)]
    return Case({}, [{name: x[part] for name, x in arrays.items()} for part in parts])


def ref_tree_gate(shared: Example, example: Example, start: int) -> Outputs:
    rows = zip(*(example[name] for name in "abfx"), strict=True)
    return (np.array([transformer_gate.tree_gate(a, b, f, x) for a, b, f, x in rows], example["x"].dtype),)


def gradient_conditions_of_gates(a: Example, d_out: np.ndarray) -> Outputs:
    rows = zip(d_out, *(a[name] for name in "abfx"), strict=True)
    return tuple(
        np.array(column) for column in zip(*(gate_conditions.tree_gate_gradients(*x) for x in rows), strict=True)
    )


# Recurrences


@st.composite
def recurrence_cases(draw: Callable, kinds: tuple[str, ...]) -> Case:
    kind, regime, seed = draw(st.sampled_from(kinds), label="kind"), draw(regimes, label="regime"), draw(seeds)
    n, chunk = draw(chunks, label="n, C")
    n_units, n_master = n * chunk, 0 if kind == "lstm" else 2 * n
    n_rows = n_master + 4 * n_units if kind in ("lstm", "on_lstm") else 4 * n_units
    shared: Example = {}
    if kind != "faster_fasttrees":
        scaled = floats("unit", seed, n_rows, n_units) / np.sqrt(n_units)
        shared = {"weight": np.float64(np.float32(scaled)), "bias": floats("unit", seed + 1, n_rows), "kind": kind}
    carried = draw(st.sampled_from(["zeros", "unit"]), label="state")
    examples = []
    for number, length in enumerate(draw(lengths_of_sequences, label="lengths"), seed + 2):
        state = floats(carried, number, 2, n_units)
        gates = floats(regime, number, length, n_master + 4 * n_units)
        example = {"gates": gates, "h0": np.float64(np.float32(np.tanh(state[0]))), "c0": state[1]}
        examples.append(example if shared else {"gates": gates, "c0": state[1]})
    return Case(shared, examples)


def steps_of_sizes(
    kind: str, sequences: int = 2, steps: int = 2, masters: int | None = 0, units: int = 0
) -> Case:  # fmt: skip
    """A sequence of `steps` steps, then sequences of two, the last of one; masters as in `tree_gates_of_sizes`."""
    n = masters or 1
    n_units = -(-(units or masters or 2) // n) * n
    n_master = 0 if kind == "lstm" else 2 * n
    n_rows = 4 * n_units + (n_master if kind == "on_lstm" else 0)
    weight = np.float64(np.float32(floats("unit", 0, n_rows, n_units) / np.sqrt(n_units)))
    shared: Example = {"weight": weight, "bias": floats("unit", 1, n_rows), "kind": kind}
    examples = []
    for number, length in enumerate([steps, *[2] * (sequences - 2), 1][:sequences], 2):
        states = floats("unit", number, 2, n_units)
        gates = floats("unit", 1000 + number, length, n_master + 4 * n_units)
        examples.append({"gates": gates, "h0": np.float64(np.float32(np.tanh(states[0]))), "c0": states[1]})
    if kind == "faster_fasttrees":
        return Case({}, [{name: e[name] for name in ("gates", "c0")} for e in examples])
    return Case(shared, examples)


def batched_steps(case: Case) -> dict[str, Any]:
    examples, shared = case.examples, case.shared
    arguments = {"gates": np.concatenate([e["gates"] for e in examples])}
    arguments |= {name: shared[name] for name in ("weight", "bias") if name in shared}
    arguments |= {name: np.stack([e[name] for e in examples]) for name in ("h0", "c0") if name in examples[0]}
    arguments["offsets"] = offsets_of([len(e["gates"]) for e in examples])
    return arguments | {name: shared[name] for name in ("kind",) if name in shared}


def ref_steps(shared: Example, example: Example, start: int) -> Outputs:
    """Return h, c, activations and distances of a cell that takes the gates as inputs, with an identity weight."""
    gates, c = example["gates"], example["c0"]
    h, kind = example.get("h0", c), shared.get("kind", "faster_fasttrees")
    n_rows = gates.shape[1]
    parameters = {"ih.weight": np.eye(n_rows, dtype=gates.dtype), "ih.bias": np.zeros(n_rows, gates.dtype)}
    parameters |= {f"hh.{name}": shared[name] for name in ("weight", "bias") if name in shared}
    rows = []
    for x in gates:
        logits = x.copy()
        if "hh.weight" in parameters:
            logits[-len(parameters["hh.bias"]) :] += parameters["hh.weight"] @ h + parameters["hh.bias"]
        h, c, distance = cells.CELLS[kind](parameters, x, h, c)
        rows.append((h, c, *gates_of(logits, len(h), distance)))
    return tuple(np.array(column, gates.dtype) for column in zip(*rows, strict=True))


def condition_of_steps(shared: Example, example: Example, start: int, unit: float) -> Outputs:
    gates, c = example["gates"], example["c0"]
    nothing = np.zeros((0, len(c)))
    weight, bias = shared.get("weight", nothing), shared.get("bias", nothing[:, 0])
    n = (gates.shape[1] - 4 * len(c)) // 2
    return gate_conditions.steps(gates, c, example.get("h0", c), weight, bias, n, unit)


def gates_of(logits: np.ndarray, n_units: int, distance: float | None) -> tuple[np.ndarray, list[float]]:
    """Return the activations of a step, and its distances, which are means of gates."""
    masters, (out, cell, i, f) = logits[: -4 * n_units], np.split(logits[-4 * n_units :], 4)
    units = [cells.sigmoid(out), np.tanh(cell), cells.sigmoid(i), cells.sigmoid(f)]
    if distance is None:
        return np.concatenate(units), []
    inputs, forgets = np.split(masters, 2)
    open_input = 1 - np.cumsum(layers.softmax(inputs))
    return np.concatenate([layers.softmax(inputs), layers.softmax(forgets), *units]), [distance, open_input.mean()]


def cut_offsets(arguments: dict[str, Any]) -> dict[str, Any]:
    """Give all rows to the first sequence, so that the others are empty."""
    offsets = arguments["offsets"].copy()
    offsets[1:-1] = offsets[-1]
    return arguments | {"offsets": offsets}


def replaced(name: str, change: Callable[[Any], Any]) -> Spoiler:
    return lambda arguments: arguments | {name: change(arguments[name])}


def with_nan(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[1, ..., -1:] = np.nan
    return x


def with_infinity(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(with_nan(x)), np.inf, x)


SEQUENCES = (
    ("sequence 1|empty", cut_offsets),
    ("offsets", replaced("offsets", lambda x: x[::-1].copy())),
)
STEPS = (
    *SEQUENCES,
    ("gates|NaN|row 1", replaced("gates", with_nan)),
    ("gates|columns", replaced("gates", lambda x: x[:, :-1].copy())),
    ("c0:|float32", replaced("c0", np.float32)),
)


# Trees


@st.composite
def distance_cases(draw: Callable) -> Case:
    regime, seed = draw(regimes), draw(seeds)
    lengths = draw(lengths_of_sequences, label="lengths")
    lengths += draw(st.sampled_from([[], [5], [8], [60]]), label="longer")
    examples = [{"distances": floats(regime, seed + i, n)} for i, n in enumerate(lengths)]
    return Case({"split": draw(st.sampled_from(["biased", "unbiased"]), label="split")}, examples)


def distances_of_sizes(split: str, tied: bool, sequences: int = 2, words: int = 4) -> Case:
    lengths = [*(1 + i % 3 for i in range(sequences - 1)), words]
    distances = [ones_and_zeros(i, n) if tied else floats("unit", i, n) for i, n in enumerate(lengths)]
    return Case({"split": split}, [{"distances": x} for x in distances])


def ref_distance_trees(shared: Example, example: Example, start: int) -> Outputs:
    distances = example["distances"]
    tree = distance_trees.distance_trees([f"w{t}" for t in range(len(distances))], distances, shared["split"])
    return (np.array([(i, j) for _, i, j in trees.spans(tree) if i < j], int).reshape(-1, 2),)


def batched_distances(case: Case) -> dict[str, Any]:
    parts = [e["distances"] for e in case.examples]
    return {"distances": np.concatenate(parts), "offsets": offsets_of([len(p) for p in parts]), **case.shared}


def split_spans(outputs: Outputs, case: Case) -> list[Outputs]:
    spans, offsets = outputs
    assert_offsets(offsets, len(case.examples), len(spans), "FT-8 distance_trees, output 1")
    return [(part,) for part in pieces(spans, np.diff(offsets).tolist())]


SPLITS = (("biased", False), ("biased", True), ("unbiased", False), ("unbiased", True))

FASTTREES = (
    Op(
        "cumax", "cumax", "FT-1", cumax_cases(),
        lambda s, e, start: (np.array([cumax.cumax(row) for row in e["z"]]),),
        batched_rows("z"), split_by_x, diff=("z",), finite=True, saturated=True,
        laws=(laws.rises_to_one,), sized=(logits_of_sizes,), peaks=with_peak_of_logits,
        condition=lambda s, e, start, unit: (np.array([gate_conditions.cumax(z, 0.0, unit) for z in e["z"]]),),
        gradient_conditions=lambda a, d_out: (
            np.array([gate_conditions.cumax_gradient(*row) for row in zip(a["z"], d_out, strict=True)]),
        ),
        errors=(
            ("z|NaN|row 1", replaced("z", with_nan)),
            ("z|infinity|row 1", replaced("z", with_infinity)),
            ("z", replaced("z", lambda x: x[:, :0])),
        ),
    ),
    Op(
        "tree_gate", "transformer_gate", "FT-11", tree_gate_cases(), ref_tree_gate,
        batched_rows("a", "b", "f", "x"), split_by_x, diff=("a", "b", "f", "x"), finite=True, saturated=True,
        laws=(laws.lets_through_a_part,), sized=(tree_gates_of_sizes,), peaks=with_peak_of_gates,
        condition=lambda s, e, start, unit: (
            np.array([gate_conditions.tree_gate(*row, unit) for row in zip(*(e[x] for x in "abfx"), strict=True)]),
        ),
        gradient_conditions=gradient_conditions_of_gates,
        errors=(
            ("a|NaN|row 1", replaced("a", with_nan)),
            ("b|NaN|row 1", replaced("b", with_nan)),
            ("f|NaN|row 1", replaced("f", with_nan)),
            ("f:|float32", replaced("f", np.float32)),
            ("a", lambda a: a | {name: np.repeat(a["x"], 2, axis=1) for name in "ab"}),
        ),
    ),
    Op(
        "recurrence", "cells", "FT-3", recurrence_cases(("lstm", "on_lstm", "fasttrees")), ref_steps,
        batched_steps, split_by_x, diff=("gates", "weight", "bias"), options=("kind",),
        finite=True, saturated=True, condition=condition_of_steps, peaks=with_peak_of_masters,
        laws=(laws.hidden_states_in_range, laws.distances_in_range),
        sized=(
            partial(steps_of_sizes, "lstm", masters=None), partial(steps_of_sizes, "on_lstm"),
            partial(steps_of_sizes, "fasttrees"),
        ),
        errors=(
            *STEPS,
            ("c0", replaced("c0", lambda x: x[:-1])),
            ("weight", lambda a: a | {name: a[name][:-1] for name in ("weight", "bias")}),
            ("NaN", replaced("weight", with_nan)),
            ("kind|gru", lambda a: a | {"kind": "gru"}),
        ),
    ),
    Op(
        "linear_recurrence", "cells", "FT-6", recurrence_cases(("faster_fasttrees",)), ref_steps,
        batched_steps, split_by_x, diff=("gates",), finite=True, saturated=True, condition=condition_of_steps,
        laws=(laws.hidden_states_in_range, laws.distances_in_range),
        sized=(partial(steps_of_sizes, "faster_fasttrees"),), peaks=with_peak_of_masters,
        errors=(*STEPS, ("offsets", replaced("c0", lambda x: x[:-1]))),
    ),
    Op(
        "distance_trees", "distance_trees", "FT-8", distance_cases(), ref_distance_trees,
        batched_distances, split_spans, options=("split",), exact=True, finite=True,
        laws=(laws.binary_and_nested,), sized=tuple(partial(distances_of_sizes, *x) for x in SPLITS),
        errors=(
            *SEQUENCES,
            ("distances|NaN", replaced("distances", lambda x: x * np.nan)),
            ("split|balanced", lambda a: a | {"split": "balanced"}),
        ),
    ),
)  # fmt: skip
