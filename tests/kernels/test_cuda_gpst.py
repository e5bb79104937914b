"""GPST's kernels around the passes over charts: a step gives the results of separate operations on the CPU."""

from __future__ import annotations

from itertools import permutations
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import KERNELS
from accel.autodiff.arrays import host, offsets_of
from accel.cuda import chart_plan, forms, induced_trees, loss_terms, residual_sums
from accel.cuda.support.transposes import THREADS, TOGETHER, transpose_all
from accel.models.gpst import composition
from accel.models.gpst import model as gpst
from accel.verify.cuda_host import launcher
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gpst_batches import LENGTHS, batch_of, config_of, in_pieces, parameters_of
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

VARIANTS: list[dict[str, Any]] = [
    {"dropout": 0.2, "network_dropout": 0.3}, {"window": 1, "whole_words": True}, {"window": 9, "whole_words": True},
    {"surrogate": False, "dropout": 0.2}, {"gradient_stop": False, "head": "dot"},
    {"height_threshold": 1.5, "height_norm": "excess"}, {"height_threshold": 0.5},
]  # fmt: skip
MANY = [5, 1, 2, 9, 1, 40, 3]  # more words than a warp has lanes, and points than WARPS of induced_trees.py
SHORT = [33] + [2] * 35
BLOCK_THREADS = prod(chart_plan.BLOCK)
assert 2 * max(MANY) < BLOCK_THREADS == prod(induced_trees.BLOCK) < 5 * max(MANY)  # words, and nodes with window 5
assert len(SHORT) * max(SHORT) > chart_plan.NUMBERING  # sentences and steps
assert induced_trees.WARPS < max(MANY) - 1


def step(ops: ModuleType, config: Any, lengths: list[int], contexts: tuple[int, ...]) -> dict[str, np.ndarray]:
    batch = batch_of(lengths, contexts, ops)
    batch = in_pieces(batch, ops) if config.whole_words else batch
    parameters = on_device(ops, parameters_of(config)) if ops is not CPU else parameters_of(config)
    loss, gradients, _ = gpst.loss_and_grad(ops, config, parameters, batch, dropout_seed=4)
    return {"loss": np.array(loss)} | {name: host(x).copy() for name, x in gradients.items()}


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_step_is_that_of_separate_operations(host_backend: ModuleType, changes: dict[str, Any], kernels: str) -> None:
    """Loss and all gradients agree in float64: with noise, masks, and one or several sentences a context."""
    config = config_of(**changes)
    with forms.use(forms.Forms(kernels)):
        results = step(host_backend, config, LENGTHS, (2, 2, 3))
    expected = step(CPU, config, LENGTHS, (2, 2, 3))
    for name, x in expected.items():
        assert abs(results[name] - x).max(initial=0) <= 1e-11 * (1 + abs(x).max(initial=0)), name


def charts_of(ops: ModuleType, lengths: list[int], window: int, tied: bool) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """Return the GPU's plan, the host's charts, offsets and scores; `tied` scores take only a few values."""
    offsets, rng = offsets_of(lengths), np.random.default_rng(2)
    scores = rng.standard_normal(sum(lengths) - len(lengths))
    scores = np.round(scores) if tied else scores
    plan = chart_plan.plan(ops.xp.asarray(scores), ops.xp.asarray(offsets), int(np.diff(offsets).max()), window=window)
    return plan, composition.charts_of(CPU, scores, offsets, window), offsets, scores


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("window", [1, 2, 5, 99])
@pytest.mark.parametrize("lengths", [MANY, SHORT, [1, 1], [2]])
def test_a_plan_is_the_pruned_chart(host_backend: ModuleType, lengths: list[int], window: int, tied: bool) -> None:
    """The plan has every array that a pass over the host's chart reads; the readers of a node may be in any order."""
    plan, charts, offsets, _ = charts_of(host_backend, lengths, window, tied)
    n_words, n_nodes = int(offsets[-1]), plan.n_nodes
    expected = composition.fused_charts.sent(CPU, charts, composition.parents_of(charts, n_words))
    begins, ends = charts.ends(offsets)
    assert n_nodes == expected.n_nodes == n_words + len(charts.spans)
    steps = plan.steps[:, : expected.steps.shape[1]]
    np.testing.assert_array_equal(steps, expected.steps)
    assert (plan.steps[:, steps.shape[1] :] == steps[:, -1:]).all()
    for name, x in (("first_words", begins), ("last_words", ends), ("roots", charts.roots)):
        np.testing.assert_array_equal(host(getattr(plan, name)), x)
    for arrays, target in ((plan.inside, expected.inside), (plan.outside, expected.outside)):
        assert arrays.keys() == target.keys()
        for name in target.keys() - {"uses"}:
            np.testing.assert_array_equal(host(arrays[name]), target[name], err_msg=name)
        for (bounds, rows), (target_bounds, target_rows) in zip(arrays["uses"], target["uses"], strict=True):
            np.testing.assert_array_equal(host(bounds), target_bounds)
            for begin, end in zip(target_bounds[:-1], target_bounds[1:], strict=True):
                assert sorted(host(rows)[begin:end]) == sorted(target_rows[begin:end])


@pytest.mark.parametrize("window", [1, 2, 5, 99])
@pytest.mark.parametrize("lengths", [MANY, SHORT, [1, 1], [2]])
def test_a_plan_for_which_the_host_does_not_wait(host_backend: ModuleType, lengths: list[int], window: int) -> None:
    """Such a plan has the same steps and roots, and at least as many places for nodes and pairs."""
    plan, _, offsets, scores = charts_of(host_backend, lengths, window, False)
    args = host_backend.xp.asarray(scores), host_backend.xp.asarray(offsets), max(lengths)
    roomy = chart_plan.plan(*args, window=window, wait=False)
    np.testing.assert_array_equal(host(roomy.steps), plan.steps)
    np.testing.assert_array_equal(host(roomy.roots), host(plan.roots))
    assert roomy.n_nodes == chart_plan.most(len(scores) + len(lengths), max(1, min(window, max(lengths) - 1)))[0]
    assert roomy.n_nodes >= plan.n_nodes
    for exact, other in ((plan.inside, roomy.inside), (plan.outside, roomy.outside)):
        n_pairs = len(exact["left"])
        assert len(other["left"]) >= n_pairs
        np.testing.assert_array_equal(host(other["left"])[:n_pairs], host(exact["left"]))


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_no_chart_has_more_nodes_or_pairs_than_there_is_room_for(window: int) -> None:
    """All orders of merges of up to seven words fit, and some of 20 and 61 words."""
    orders = [np.array(order, float) for n in range(1, 8) for order in permutations(range(n - 1))]
    orders += [x for n in (20, 61) for x in (np.arange(n - 1.0), -np.arange(n - 1.0), abs(np.arange(n - 1.0) - n / 2))]
    for order in orders:
        n = len(order) + 1
        charts = composition.charts_of(CPU, order, np.array([0, n]), window)
        n_nodes, _, n_pairs = chart_plan.most(n, max(1, min(window, n - 1)))
        assert n + len(charts.spans) <= n_nodes and len(charts.left) <= n_pairs


@pytest.mark.parametrize("tied", [False, True])
def test_trees_are_the_induced_ones(host_backend: ModuleType, tied: bool) -> None:
    plan, charts, offsets, _ = charts_of(host_backend, MANY, 3, tied)
    scores = np.random.default_rng(3).standard_normal(len(charts.left))
    scores = np.round(scores) if tied else scores
    contexts, xp = np.array([0, 2, 2, 5, len(MANY)]), host_backend.xp
    args = xp.asarray(scores), plan, xp.asarray(offsets), xp.asarray(contexts), int(offsets[-1])
    trees, expected = induced_trees.induce(*args), composition.induced(charts, scores, offsets)
    np.testing.assert_array_equal(host(trees.nodes), expected.nodes)
    begins, ends, points = composition.splits_of(charts, expected, offsets)
    np.testing.assert_array_equal(host(trees.begins)[points], begins)
    np.testing.assert_array_equal(host(trees.ends)[points], ends)
    above, order = host(trees.above), np.argsort(points)
    for point, cell in zip(points[order], order, strict=True):
        around = [i for i in range(len(begins)) if begins[i] <= begins[cell] and ends[cell] <= ends[i] and i != cell]
        smallest = min(around, key=lambda i: ends[i] - begins[i], default=None)
        assert above[point] == (-1 if smallest is None else points[smallest])


def test_no_race_in_any_order_of_threads(host_backend: ModuleType) -> None:
    config = config_of(dropout=0.2)
    plain = step(host_backend, config, [9, 1, 4], (1,))
    before = launcher.use(launcher.Settings(races=True, order=3))
    try:
        watched = step(host_backend, config, [9, 1, 4], (1,))
    finally:
        launcher.use(before)
    for name, x in plain.items():
        np.testing.assert_allclose(watched[name], x, rtol=1e-9, atol=1e-9, err_msg=name)


def test_scores_that_are_not_finite(host_backend: ModuleType) -> None:
    scores, offsets = np.array([1.0, np.nan, 2.0, np.inf]), np.array([0, 3, 6])
    with pytest.raises(ValueError, match="scores: NaN or infinity in row 1"):
        chart_plan.plan(*map(host_backend.xp.asarray, (scores, offsets)), 3, window=2)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("n", [1, residual_sums.ROWS + 1, 2 * residual_sums.WARPS * residual_sums.ROWS])
def test_residual_sums_are_those_of_separate_operations(host_backend: ModuleType, n: int, rate: float) -> None:
    """The fused sums with either norm agree with separate operations, with rows in one part and in several."""
    x, y, bias, scale, shift, d_out, d_normal = draw(*[(n, 33)] * 2, *[(33,)] * 3, *[(n, 33)] * 2)
    mask = CPU.dropout(np.ones((n, 33)), rate, 5)[0]
    total = x + mask * (y + bias)
    normal, *_ = outputs = CPU.layer_norm(total, scale, shift)
    d_x, d_scale, d_shift = CPU.layer_norm_vjp(d_normal, outputs, total, scale, shift)
    d_x = d_x + d_out
    expected = [total, normal, d_x, d_x * mask, (d_x * mask).sum(axis=0), d_scale, d_shift]
    results = residual_sums.sum_layer_norm(x, y, bias, scale, shift, rate, 5)
    gradients = residual_sums.sum_layer_norm_vjp(d_out, d_normal, results, scale, rate, 5)
    for one, other in zip([*results[:2], *gradients], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
    parts = host_backend.parser_parts
    rms = parts.rms_norm(x + y, scale)
    d_x, d_scale = parts.rms_norm_vjp(d_normal, rms, x + y, scale)
    results = residual_sums.sum_rms_norm(x, y, scale)
    gradients = residual_sums.sum_rms_norm_vjp(d_out, d_normal, results, scale)
    for one, other in zip([*results[:2], *gradients], [x + y, rms[0], d_x + d_out, d_scale], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_biases_of_three_products(host_backend: ModuleType) -> None:
    *rows, a, b, c = draw(*[(THREADS, 3)] * 3, *[(3,)] * 3)
    expected = [x + bias for x, bias in zip(rows, (a, b, c), strict=True)]
    residual_sums.add_biases(rows, (a, b, c))
    for x, other in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(x, other)


def test_terms_are_weighed(host_backend: ModuleType) -> None:
    of_draw = zip(draw((32 * loss_terms.WARPS + 9,), (0,), (3,)), ((-1, 7), (1, 1), (1, 2)), strict=True)
    terms = [loss_terms.Term(x, *numbers) for x, numbers in of_draw]
    assert len(terms) < loss_terms.MOST
    total, gradients = loss_terms.weigh(terms, 10)
    np.testing.assert_allclose(total, sum(10 * sign / n * x.sum() for x, sign, n, _ in terms), rtol=1e-12)
    for gradient, (x, sign, n, _) in zip(gradients, terms, strict=True):
        np.testing.assert_array_equal(gradient, np.full_like(x, 10 / n * sign))


def test_terms_of_a_padded_batch_are_weighed(host_backend: ModuleType) -> None:
    """The terms' weights follow from the numbers of words (9) and sentences (4), without the padding.

    These give each term's divisor and size; a divisor of 0 counts as 1.
    """
    words, actions, none = draw((40,), (50,), (3,))
    terms = [
        loss_terms.Term(words, -1, (2, -1), (1, 0)), loss_terms.Term(actions, 1, (2, -1), (2, -1)),
        loss_terms.Term(none, 1, (0, 0), (0, 0)),
    ]  # fmt: skip
    total, gradients = loss_terms.weigh(terms, 0, np.array([9, 4]))
    expected = [np.where(np.arange(40) < 9, -9 / 14, 0), np.where(np.arange(50) < 14, 9 / 14, 0), np.zeros(3)]
    np.testing.assert_allclose(total, words @ expected[0] + actions @ expected[1], rtol=1e-12)
    for gradient, expected_gradient in zip(gradients, expected, strict=True):
        np.testing.assert_array_equal(gradient, expected_gradient)


def test_many_matrices_are_transposed(host_backend: ModuleType) -> None:
    arrays = draw(*[(2, 3, 17 + k) for k in range(TOGETHER)], (2, 3, THREADS))
    for x, transpose in zip(arrays, transpose_all(arrays), strict=True):
        np.testing.assert_array_equal(transpose, x.swapaxes(1, 2))
