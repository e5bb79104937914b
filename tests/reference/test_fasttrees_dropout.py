"""FastTrees' dropout of weights, locked dropout, and the penalty on changes over time."""

from __future__ import annotations

import numpy as np
import pytest

from refimpl.fasttrees import stack
from refimpl.randomness import dropout


def test_weight_drop_keeps_the_size_of_survivors() -> None:
    """FT-9 L1: the mask of dropout without its factor; evaluation uses the mean over masks."""
    weight, rate = np.random.default_rng(9).standard_normal((40, 50)), 0.45
    dropped = stack.weight_drop(weight, rate, 7)
    assert ((dropped == weight) | (dropped == 0)).all()
    np.testing.assert_allclose(dropped, dropout(weight, rate, 7) * (1 - rate), rtol=1e-12)
    mean = np.mean([stack.weight_drop(weight, rate, seed) for seed in range(400)], axis=0)
    ratio = (mean / weight).mean()
    assert ratio == pytest.approx(1 - rate, abs=0.005)
    np.testing.assert_allclose(stack.weight_drop(weight, rate, None), (1 - rate) * weight, rtol=1e-12)


def test_locked_dropout_is_the_same_at_every_step() -> None:
    """FT-9 L2."""
    x = np.ones((5, 4000))
    dropped = stack.locked_dropout(x, 0.3, 2)
    assert (dropped == dropped[0]).all() and set(np.unique(dropped)) == {0.0, 1 / 0.7}
    assert dropped.mean() == pytest.approx(1, abs=0.03)
    assert (stack.locked_dropout(x, 0.3, 3) != dropped).any()


def test_a_single_step_does_not_change() -> None:
    """FT-10."""
    assert stack.temporal_activation_regularisation(np.ones((1, 3)), 1.0) == 0.0
