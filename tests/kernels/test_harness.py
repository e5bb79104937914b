"""The harness itself: for every seeded error a test of its row in the table must fail."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel import cpu
from accel.verify import test_gradients as test_grads
from accel.verify import test_values as test_ops
from accel.verify.gradients import check_gradients
from accel.verify.mutants import contract, gpst, span_parser, treeformer
from accel.verify.mutants.contract import CONTRACT
from accel.verify.mutants.table import MUTANTS
from accel.verify.op import Case, Op, example_case
from accel.verify.ops.table import OPS
from accel.verify.values import check_other_options, check_values
from tests.fixtures.conformance import first_failure

ROWS = {op.name: op for op in OPS}
Function = Callable[..., Any]


@pytest.mark.parametrize(("name", "mutant"), (*MUTANTS, *CONTRACT), ids=lambda x: getattr(x, "__name__", x))
def test_every_mutant_is_caught(name: str, mutant: Function) -> None:
    assert fails_in_its_row(name, mutant)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("cky_pool", treeformer.plain),
        ("cky_pool_vjp", treeformer.plain_gradient),
        ("pruned_chart", gpst.plain),
        ("span_logz", span_parser.plain),
        ("span_logz_vjp", span_parser.plain_gradient),
        ("best_trees", span_parser.plain_trees),
    ],
    ids=["cky_pool", "cky_pool_vjp", "pruned_chart", "span_logz", "span_logz_vjp", "best_trees"],
)
def test_the_code_that_mutants_change_is_right(name: str, plain: Function) -> None:
    assert not fails_in_its_row(name, plain)


def backend_with(name: str, function: Function) -> Any:
    """Return the CPU backend with this function in the place of its own."""
    backend = SimpleNamespace(**{k: v for k, v in vars(cpu).items() if not k.startswith("_")})
    setattr(backend, name, function)
    backend.__name__ = "mutant"
    return backend


def fails_in_its_row(name: str, function: Function) -> bool:
    backend = backend_with(name, function)
    body = test_grads.test_gradients if name.endswith("_vjp") else test_ops.test_ops
    return first_failure(body, backend, ROWS[name.removesuffix("_vjp")]) is not None


NOT_COMPARED = {
    "layer_norm": (1, 2), "cross_entropy": (1, 2), "residual_layer_norm": (1, 2), "cky_pool": (2, 3),
    "pair_attention": (1,), "pair_layers": (1,), "residual_norm": (1,),
}  # fmt: skip
"""Outputs that a backend may choose freely, because only its own gradient reads them."""


@pytest.mark.parametrize("row", OPS, ids=lambda row: row.name)
def test_a_row_too_many_is_seen(row: Op) -> None:
    """Every output that is compared is refused with its last row repeated."""
    case, right = example_case(row), getattr(cpu, row.name)

    def longer(number: int) -> ModuleType:
        def function(*arguments: Any, **options: Any) -> Any:
            outputs = list(right(*arguments, **options))
            outputs[number] = np.append(outputs[number], outputs[number][-1:], axis=0)
            return tuple(outputs)

        return backend_with(row.name, function)

    check_values(cpu, row, case)
    for number in range(len(right(**row.batched(case)))):
        if number not in NOT_COMPARED.get(row.name, ()):
            with pytest.raises((AssertionError, ValueError)):
                check_values(longer(number), row, case)


def test_the_neighbour_test_can_fail() -> None:
    """A kernel fails if its output changes when another example is filled with NaN."""

    def leaky(x: Any, bias: Any) -> Any:
        return ((cpu.bias_gelu(x, bias)[0] + (0 if np.isfinite(x).all() else 1)).astype(x.dtype),)

    backend = SimpleNamespace(xp=np, bias_gelu=leaky, __name__="leaky")
    assert first_failure(test_ops.test_neighbours, backend, ROWS["bias_gelu"], filling=np.nan)

    def leaky_in_float32(x: Any, bias: Any) -> Any:
        return leaky(x, bias) if x.dtype == np.float32 else cpu.bias_gelu(x, bias)

    backend.bias_gelu = leaky_in_float32
    assert first_failure(test_ops.test_neighbours, backend, ROWS["bias_gelu"], filling=np.nan)


def test_a_gradient_of_the_last_call_is_seen() -> None:
    """A gradient that uses the outputs of the last call, and not those it is given, fails.

    In a model with two layers all but the last layer's gradient would be wrong.
    """
    last = {}

    def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
        last["outputs"] = cpu.layer_norm(x, scale, bias)
        return last["outputs"]

    def layer_norm_vjp(d_out: Any, outputs: Any, *arguments: Any) -> Any:
        return cpu.layer_norm_vjp(d_out, last["outputs"], *arguments)

    backend = backend_with("layer_norm", layer_norm)
    assert first_failure(test_grads.test_gradients, backend, ROWS["layer_norm"]) is None
    backend.layer_norm_vjp = layer_norm_vjp
    assert first_failure(test_grads.test_gradients, backend, ROWS["layer_norm"]) is not None


def test_a_wrong_gradient_is_named() -> None:
    """The slope along one argument alone shows which of several gradients is wrong."""
    for factors, ending in (((1, 1, 2), ""), ((3, 1, 2), "; wrong, too: bias")):

        def layer_norm_vjp(*arguments: Any, factors: Any = factors) -> Any:
            return tuple(n * x for n, x in zip(factors, cpu.layer_norm_vjp(*arguments), strict=True))

        backend, row = backend_with("layer_norm_vjp", layer_norm_vjp), ROWS["layer_norm"]
        with pytest.raises(AssertionError) as caught:
            check_gradients(backend, row, example_case(row), 0)
        name = "x" if ending else "bias"
        assert f"along one direction: gradient of {name}: got" in str(caught.value)
        assert str(caught.value).endswith(f" off{ending}")


def test_the_message_says_what_is_wrong_with_a_tree_or_chart() -> None:
    def backwards(scores: Any, offsets: Any, count: int) -> Any:
        tree_offsets, tree_scores, span_offsets, spans, labels = cpu.best_trees(scores, offsets, count)
        order = [i for a, b in zip(span_offsets[:-1], span_offsets[1:], strict=True) for i in reversed(range(a, b))]
        return tree_offsets, tree_scores, span_offsets, spans[order], labels[order]

    def first_sentence(scores: Any, offsets: Any, *, window: int) -> Any:
        spans, owner, split_offsets, left, right, *others = cpu.pruned_chart(scores, offsets, window=window)
        return spans, owner, split_offsets, left, np.zeros_like(right), *others

    scores = np.zeros((3, 3, 1))
    trees, charts = (
        Case({"count": 2}, [{"scores": scores}]),
        Case({"window": 2}, [{"scores": np.zeros(1)}, {"scores": np.zeros(1)}]),
    )
    for name, function, case, message in (
        ("best_trees", backwards, trees, "of a tree are not in pre-order: [2, 2, 0] stands in the place of [0, 2, 0]"),
        ("pruned_chart", first_sentence, charts, "output 4: [1]: got node 0, which sentence 1 does not have, wanted"),
    ):
        with pytest.raises(AssertionError) as caught:
            check_values(backend_with(name, function), ROWS[name], case)
        assert message in str(caught.value)


def test_a_gradient_with_the_mask_of_the_last_call_is_seen() -> None:
    """The mask follows from seed and rate alone: only a call on another batch in between shows it."""
    last = {}

    def dropout(x: Any, rate: float, seed: int) -> Any:
        (last["mask"],) = cpu.dropout(np.ones_like(x), rate, seed)
        return cpu.dropout(x, rate, seed)

    def dropout_vjp(d_out: Any, outputs: Any, x: Any, rate: float, seed: int) -> Any:
        return ((d_out.T * last["mask"].mean(axis=1)[0]).T,) if last["mask"].shape != d_out.shape else (
            d_out * last["mask"],)  # fmt: skip

    backend = backend_with("dropout", dropout)
    backend.dropout_vjp = dropout_vjp
    assert first_failure(test_grads.test_gradients, backend, ROWS["dropout"]) is not None


def test_sums_in_another_order_at_every_call_are_right() -> None:
    """A kernel that adds up with atomics gives other bits at every call; beside NaN it must only agree."""
    draw = np.random.default_rng(0)

    def weighted_sum(scores: Any, vectors: Any, offsets: Any) -> Any:
        _, weights = cpu.weighted_sum(scores, vectors, offsets)
        out = np.zeros((len(offsets) - 1, vectors.shape[1]), vectors.dtype)
        for group, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
            for row in draw.permutation(np.arange(begin, end)):
                out[group] += weights[row] * vectors[row]
        return out, weights

    def leaky(scores: Any, vectors: Any, offsets: Any) -> Any:
        out, weights = weighted_sum(scores, vectors, offsets)
        return out + vectors[:1].sum(), weights

    backend, row = backend_with("weighted_sum", weighted_sum), ROWS["weighted_sum"]
    for body, options in ((test_ops.test_ops, {}), (test_ops.test_neighbours, {"filling": np.nan})):
        assert first_failure(body, backend, row, **options) is None
    backend.weighted_sum = leaky
    assert first_failure(test_ops.test_neighbours, backend, row, filling=np.nan) is not None


def test_more_for_the_gradient_need_not_have_the_rows_of_the_examples() -> None:
    def bias_gelu(x: Any, bias: Any) -> Any:
        return *cpu.bias_gelu(x, bias)[:1], np.ascontiguousarray((x + bias).T), np.array(0.5, x.dtype)

    backend = backend_with("bias_gelu", bias_gelu)
    for body, options in ((test_ops.test_ops, {}), (test_ops.test_neighbours, {"filling": np.nan})):
        assert first_failure(body, backend, ROWS["bias_gelu"], **options) is None


def test_a_message_says_in_what_the_input_differs_from_the_one_that_is_shown() -> None:
    x = np.ones((3, 4))
    case = Case({"rate": 0.0, "seed": 5}, [{"x": x}])
    forgets = backend_with("dropout", contract.dropout_forgets_a_new_rate)
    with pytest.raises(AssertionError, match=r"\(at rate 0\.5, after the call at rate 0\.0\)$"):
        check_other_options(forgets, ROWS["dropout"], case)
    case = Case({"split": "biased"}, [{"distances": np.array([1.0, 3.0, 2.0, 2.5])}])
    with pytest.raises(AssertionError, match=r"\(without split\)$"):
        check_other_options(backend_with("distance_trees", contract.unbiased_unless_told), ROWS["distance_trees"], case)
