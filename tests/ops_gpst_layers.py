"""The rows of the layers of GPST's composition model: the exact GELU, and weighted sums of groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from refimpl import layers
from tests.op import Case, Example, Op, Outputs, batched_rows, offsets_of, pieces, split_by_x
from tests.strategies import floats, regimes, seeds


@st.composite
def bias_cases(draw: Callable) -> Case:
    width, regime, seed = draw(st.sampled_from([1, 2, 7, 16, 33])), draw(regimes), draw(seeds)
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3), label="lengths")
    examples = [{"x": floats(regime, seed + i, n, width)} for i, n in enumerate(lengths)]
    return Case({"bias": floats(regime, seed + 100, width)}, examples)


@st.composite
def group_cases(draw: Callable) -> Case:
    """Draw groups of rows; some are empty, and some examples have nothing else."""
    width, regime, seed = draw(st.sampled_from([1, 2, 7, 33, 130]), label="d"), draw(regimes), draw(seeds)
    sizes = st.lists(st.integers(0, 5), min_size=1, max_size=4)
    groups = draw(st.lists(sizes, min_size=1, max_size=3), label="sizes")
    if draw(st.integers(0, 9), label="long") == 9:
        groups.append([40, 1])
    examples = [
        {"scores": floats(regime, seed + b, sum(own)), "vectors": floats(regime, seed + 9 + b, sum(own), width),
         "sizes": own}
        for b, own in enumerate(groups)
    ]  # fmt: skip
    return Case({}, examples)


def ref_weighted_sum(shared: Example, example: Example, start: int) -> Outputs:
    scores, vectors = (pieces(example[name], example["sizes"]) for name in ("scores", "vectors"))
    weights = [layers.softmax(own) if len(own) else own for own in scores]
    return np.array([w @ v for w, v in zip(weights, vectors, strict=True)]), np.concatenate(weights)


def batched_groups(case: Case) -> dict[str, Any]:
    arguments = {name: np.concatenate([e[name] for e in case.examples]) for name in ("scores", "vectors")}
    return arguments | {"offsets": offsets_of([size for e in case.examples for size in e["sizes"]])}


def split_groups(outputs: Outputs, case: Case) -> list[Outputs]:
    mixed = pieces(outputs[0], [len(e["sizes"]) for e in case.examples])
    return list(zip(mixed, pieces(outputs[1], [sum(e["sizes"]) for e in case.examples]), strict=True))


def near_the_other_formula(shared: Example, example: Example, outputs: Outputs) -> None:
    """LAY-9 L2."""
    z = example["x"] + shared["bias"]
    assert (np.abs(outputs[0] - layers.gelu(z)) <= 0.0005 + 1e-6 * np.abs(z)).all()


def weights_of_groups(shared: Example, example: Example, outputs: Outputs) -> None:
    """IO-3 L1, and no sum leaves the range of its vectors."""
    groups = zip(*(pieces(x, example["sizes"]) for x in (outputs[1], example["vectors"])), outputs[0], strict=True)
    for weights, vectors, mixed in groups:
        assert (weights >= 0).all() and abs(weights.sum() - len(weights[:1])) <= 1e-5
        low, high = vectors.min(axis=0, initial=0.0), vectors.max(axis=0, initial=0.0)
        slack = 1e-5 * np.maximum(np.abs(low), np.abs(high))
        assert (mixed >= low - slack).all() and (mixed <= high + slack).all()


GPST_LAYERS = (
    Op(
        "bias_erf_gelu", "layers", "LAY-9", bias_cases(),
        lambda s, e, start: (layers.erf_gelu(e["x"] + s["bias"]),),
        batched_rows("x", "bias"), split_by_x, diff=("x", "bias"), laws=(near_the_other_formula,),
        errors=(
            ("bias", lambda a: a | {"bias": np.ones(99)}),
            ("bias:|float32", lambda a: a | {"bias": np.float32(a["bias"])}),
        ),
    ),
    Op(
        "weighted_sum", "inside_outside", "IO-3", group_cases(), ref_weighted_sum,
        batched_groups, split_groups, diff=("scores", "vectors"), laws=(weights_of_groups,),
        errors=(
            ("vectors", lambda a: a | {"scores": np.ones(999)}),
            ("vectors:|float32", lambda a: a | {"vectors": np.float32(a["vectors"])}),
            ("offsets", lambda a: a | {"offsets": a["offsets"] + 1}),
            ("offsets", lambda a: a | {"offsets": np.array([0, 1, 0, len(a["scores"])], np.int64)}),
        ),
    ),
)  # fmt: skip
