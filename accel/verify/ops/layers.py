"""Rows of the table for layers: normalisation, activations, dropout, embedding, and the output layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from hypothesis import strategies as st

from accel.verify import conditions, laws
from accel.verify.op import Case, Example, Op, Outputs, batched_rows, split_by_x
from accel.verify.peaks import with_peak_of_words
from accel.verify.strategies import dropout_seeds, floats, regimes, seeds
from refimpl import layers, randomness


@st.composite
def row_cases(draw: Callable, **shared_shapes: str) -> Case:
    """Draw examples x [n, d], perhaps with a row of equal numbers, that share vectors [d] of the given names."""
    width, regime, seed = draw(st.sampled_from([1, 2, 7, 16, 33])), draw(regimes), draw(seeds)
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3), label="lengths")
    names = enumerate(shared_shapes)
    shared = {name: floats(draw(regimes, label=name), seed + 100 + i, width) for i, name in names}
    examples = [{"x": floats(regime, seed + i, n, width)} for i, n in enumerate(lengths)]
    if draw(st.booleans(), label="a row of equal numbers"):
        examples[-1]["x"][-1] = examples[-1]["x"][-1, 0]
    return Case(shared, examples)


def rows_of_sizes(shared_names: str = "", rows: int = 4, width: int = 3) -> Case:
    """Two examples x [n, width], with `rows` rows in total, that share vectors [width]."""
    shared = {name: floats("unit", 100 + i, width) for i, name in enumerate(shared_names.split())}
    return Case(shared, [{"x": x} for x in np.array_split(floats("unit", 0, rows, width), min(rows, 2))])


def elements_of_sizes(shared_names: str = "", elements: int = 12) -> Case:
    return rows_of_sizes(shared_names, rows=elements, width=1)


def dropout_of_sizes(elements: int = 12) -> Case:
    return Case({"rate": 0.3, "seed": 7}, elements_of_sizes(elements=elements).examples)


@st.composite
def dropout_cases(draw: Callable) -> Case:
    case = draw(row_cases())
    rate = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]), label="rate")
    return Case({"rate": rate, "seed": draw(dropout_seeds, label="dropout seed")}, case.examples)


def ref_dropout(shared: Example, example: Example, start: int) -> Outputs:
    x = example["x"]
    numbers = np.arange(x.size).reshape(x.shape) + start * x.shape[1]
    return (x * randomness.keep_mask(numbers, shared["rate"], shared["seed"]).astype(x.dtype),)


@st.composite
def output_cases(draw: Callable, labelled: bool) -> Case:
    """Draw examples of ids, or of hidden states with labels, that share a table [V, d]."""
    size, width = draw(st.sampled_from([1, 2, 9, 70])), draw(st.sampled_from([1, 4, 11]))
    regime, seed = draw(regimes), draw(seeds)
    shared = {"table": floats(regime, seed, size, width)}
    examples: list[Example] = []
    for number, n in enumerate(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3), label="lengths")):
        ids = np.random.default_rng(seed + number).integers(-1 if labelled else 0, size, n).astype(np.int32)
        examples.append({"h": floats(regime, seed + 9 + number, n, width), "labels": ids} if labelled else {"ids": ids})
    if labelled:
        shared["bias"] = floats(regime, seed + 1, size)
    return Case(shared, examples)


def embedding_of_sizes(rows: int = 4, same: int = 1, width: int = 3) -> Case:
    """Ids for a table of 300 rows: `rows` times the first id, then `same` times the last."""
    ids = np.r_[np.zeros(rows, np.int32), np.full(same, 299, np.int32)]
    return Case({"table": floats("unit", 0, 300, width)}, [{"ids": part} for part in (ids[:2], ids[2:])])


def output_of_sizes(rows: int = 4, words: int = 5, width: int = 3) -> Case:
    """One row without a label, and `rows` rows with labels from the largest one down, in steps of a quarter."""
    labels = np.r_[-1, (words - 1 - np.arange(rows) * max(1, words // 4)) % words].astype(np.int32)
    h = floats("unit", 1, rows + 1, width)
    examples = [{"h": h[part], "labels": labels[part]} for part in (slice(2), slice(2, None))]
    return Case({"table": floats("unit", 0, words, width), "bias": floats("unit", 2, words)}, examples)


def output_without_labels() -> Case:
    case = output_of_sizes()
    return Case(case.shared, [e | {"labels": np.full_like(e["labels"], -1)} for e in case.examples])


LAYERS = (
    Op(
        "layer_norm", "layers", "LAY-1", row_cases(scale="", bias=""),
        lambda s, e, start: (layers.layer_norm(e["x"], s["scale"], s["bias"]),),
        batched_rows("x", "scale", "bias"), split_by_x, diff=("x", "scale", "bias"),
        condition=lambda s, e, start, unit: (conditions.layer_norm(e["x"], s["scale"], s["bias"]),),
        gradient_conditions=lambda a, d_out: conditions.layer_norm_gradients(d_out, a["x"], a["scale"]),
        sized=(partial(rows_of_sizes, "scale bias"),),
        errors=(
            ("scale", lambda a: a | {"scale": np.ones(99)}),
            ("bias:|float32", lambda a: a | {"bias": np.float32(a["bias"])}),
        ),
    ),
    Op(
        "bias_gelu", "layers", "LAY-2", row_cases(bias=""),
        lambda s, e, start: (layers.bias_gelu(e["x"], s["bias"]),),
        batched_rows("x", "bias"), split_by_x, diff=("x", "bias"),
        sized=(partial(rows_of_sizes, "bias"), partial(elements_of_sizes, "bias")),
        condition=lambda s, e, start, unit: (conditions.bias_gelu(e["x"], s["bias"]),),
        gradient_conditions=lambda a, d_out: conditions.bias_gelu_gradients(d_out, a["x"], a["bias"]),
        errors=(("bias", lambda a: a | {"bias": np.ones(99)}),),
    ),
    Op(
        "dropout", "randomness", "LAY-3", dropout_cases(), ref_dropout,
        batched_rows("x", "rate", "seed"), split_by_x, diff=("x",), moves=False,
        laws=(laws.kept_or_dropped,), sized=(dropout_of_sizes,),
        condition=lambda s, e, start, unit: tuple(2 * np.abs(y) for y in ref_dropout(s, e, start)),
        errors=(
            ("rate", lambda a: a | {"rate": 1.0}),
            ("rate", lambda a: a | {"rate": -0.5}),
        ),
    ),
    Op(
        "embedding", "layers", "LAY-4", output_cases(labelled=False),
        lambda s, e, start: (layers.embedding(s["table"], e["ids"]),),
        batched_rows("table", "ids"), split_by_x, diff=("table",), sized=(embedding_of_sizes,),
        condition=lambda s, e, start, unit: (np.zeros((len(e["ids"]), s["table"].shape[1])),),  # nothing is rounded
        errors=(
            ("ids", lambda a: a | {"ids": a["ids"] + np.int32(1000)}),
            ("ids", lambda a: a | {"ids": np.full_like(a["ids"], -1)}),
        ),
    ),
    Op(
        "cross_entropy", "layers", "LAY-5", output_cases(labelled=True),
        lambda s, e, start: (layers.cross_entropy(e["h"], s["table"], s["bias"], e["labels"]),),
        batched_rows("h", "table", "bias", "labels"),
        lambda outputs, case: split_by_x(outputs[:2], case),  # the third has all labelled rows, or none
        diff=("h", "table", "bias"),
        laws=(laws.log_probability,), sized=(output_of_sizes, output_without_labels), peaks=with_peak_of_words,
        condition=lambda s, e, start, unit: (
            conditions.cross_entropy(e["h"], s["table"], s["bias"], e["labels"], unit),
        ),
        errors=(
            ("labels", lambda a: a | {"labels": a["labels"] + np.int32(1000)}),
            ("labels", lambda a: a | {"labels": np.full_like(a["labels"], -2)}),  # -1: no label
            ("bias", lambda a: a | {"bias": np.ones(99)}),
        ),
    ),
)  # fmt: skip
