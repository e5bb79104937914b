"""Span parsing at sizes beyond the table's: more words than a warp has lanes, more labels, lists in several parts.

These tests put NumPy in the place of CuPy, and compare with the CPU's kernels, which use another algorithm.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from accel import cpu
from accel.verify.op import offsets_of
from tests.fixtures.stand_in_gpu import host_backend

__all__ = ["host_backend"]

best_trees = import_module("accel.cuda.best_trees")  # the package has the function under this name


def sentences(lengths: list[int], n_labels: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    scores = draw.standard_normal((sum(n * (n + 1) // 2 for n in lengths), n_labels))
    scores[draw.random(scores.shape) < 0.1] = -np.inf
    roots = np.cumsum([n * (n + 1) // 2 for n in lengths]) - 1
    scores[roots, 0] = 0.0
    return scores, offsets_of(lengths)


@pytest.mark.parametrize(("lengths", "n_labels"), [([3, 45, 1, 38], 2), ([2, 9, 9], 70)])
def test_more_than_a_warp(host_backend: ModuleType, lengths: list[int], n_labels: int) -> None:
    arguments = sentences(lengths, n_labels)
    outputs = host_backend.span_logz(*arguments)
    np.testing.assert_allclose(outputs[0], cpu.span_logz(*arguments)[0], rtol=1e-12)
    gradients = np.arange(1.0, len(lengths) + 1)
    for fast, other in zip(
        host_backend.span_logz_vjp(gradients, outputs, *arguments),
        cpu.span_logz_vjp(gradients, outputs, *arguments),
        strict=True,
    ):
        np.testing.assert_allclose(fast, other, rtol=1e-9, atol=1e-13)
    for fast, other in zip(host_backend.best_trees(*arguments, 20), cpu.best_trees(*arguments, 20), strict=True):
        np.testing.assert_array_equal(fast, other)


@pytest.mark.parametrize("tied", [False, True])
def test_lists_in_parts(host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch, tied: bool) -> None:
    """Lists computed in parts equal whole ones; with equal scores both backends choose the same trees."""
    scores, offsets = sentences([4, 1, 6, 2, 5, 1], 2)
    scores = np.where(np.isfinite(scores), 0.0, scores) if tied else np.round(8 * scores) / 8
    whole = host_backend.best_trees(scores, offsets, 50)
    for memory in (1, 20_000):
        monkeypatch.setattr(best_trees, "MEMORY", memory)
        for part, full in zip(host_backend.best_trees(scores, offsets, 50), whole, strict=True):
            np.testing.assert_array_equal(part, full)
    for fast, other in zip(whole, cpu.best_trees(scores, offsets, 50), strict=True):
        np.testing.assert_array_equal(fast, other)


@pytest.mark.parametrize("count", [1, 9, 10**9])
def test_room_for_all(count: int) -> None:
    """There is room for all trees of a span, but for at most `count` of them."""
    numbers = [best_trees.most_trees(n, 1, count) for n in (1, 2, 3, 4)]
    assert numbers == [min(count, number) for number in (2, 4, 24, 176)]
    assert best_trees.most_trees(3, 2, 10**9) == 270
