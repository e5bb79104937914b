"""Estimates from drawn trees are unbiased, and so are their variances; they are never below the bound."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.evaluation.importance import perplexity_estimate, sentence_estimate
from refimpl.randomness import gumbel
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp

Q = np.array([0.5, 0.3, 0.15, 0.05])
P = np.array([0.02, 0.04, 0.003, 0.01])


def test_draws_with_replacement() -> None:
    """IS-1 L1 and L2, by enumeration of all sequences of three draws; and L3."""
    mean = square = variance = 0.0
    for draws in product(range(len(Q)), repeat=3):
        places = list(draws)
        logp, error = sentence_estimate(np.log(P[places]), np.log(Q[places]), with_replacement=True)
        chance, estimate = math.prod(Q[places]), math.exp(logp)
        mean += chance * estimate
        square += chance * estimate**2
        variance += chance * (error * estimate) ** 2
    assert mean == pytest.approx(P.sum()) and variance == pytest.approx(square - mean**2)
    logp, error = sentence_estimate(np.log(0.1 * Q), np.log(Q), with_replacement=True)
    assert (math.exp(logp), error) == pytest.approx((0.1, 0.0), abs=1e-12)


def test_draws_without_replacement() -> None:
    """IS-2 L1 and L2, within five standard errors, for trees drawn by SP-5."""
    n_draws, estimates, variances = 20_000, [], []
    for seed in range(n_draws):
        g = np.log(Q) + gumbel(np.arange(len(Q)), seed)
        first, second, third = np.argsort(-g)[:3]
        sample = [first, second]
        log_pi = np.log(-np.expm1(-Q[sample] * math.exp(-g[third])))
        logp, error = sentence_estimate(np.log(P[sample]), log_pi, with_replacement=False)
        estimates.append(math.exp(logp))
        variances.append((error * estimates[-1]) ** 2)
    spread = np.std(estimates)
    assert abs(np.mean(estimates) - P.sum()) <= 5 * spread / math.sqrt(n_draws)
    squares = (np.array(estimates) - P.sum()) ** 2
    assert abs(np.mean(squares - variances)) <= 5 * np.std(squares - variances) / math.sqrt(n_draws)


def test_draws_beside_certain_trees() -> None:
    """IS-2 L1 and L2 if the most or the least probable tree is always in the sum; L3 for every draw."""
    n_draws = 20_000
    for certain in (0, 3):
        estimates, variances = [], []
        for seed in range(n_draws):
            g = np.log(Q) + gumbel(np.arange(len(Q)), seed)
            first, second, third = np.argsort(-g)[:3]
            others = [tree for tree in (first, second) if tree != certain]
            log_pi = np.log(-np.expm1(-Q[others] * math.exp(-g[third])))
            logps = np.log(P[[certain, *others]])
            logp, error = sentence_estimate(logps, [0.0, *log_pi], with_replacement=False)
            assert logp >= sentence_logp(logps) - 1e-9
            estimates.append(math.exp(logp))
            variances.append((error * estimates[-1]) ** 2)
        assert abs(np.mean(estimates) - P.sum()) <= 5 * np.std(estimates) / math.sqrt(n_draws)
        squares = (np.array(estimates) - P.sum()) ** 2
        assert abs(np.mean(squares - variances)) <= 5 * np.std(squares - variances) / math.sqrt(n_draws)


logps = st.lists(st.tuples(st.floats(-800, 0), st.floats(-30, 0)), min_size=1, max_size=6)


@given(draws=logps)
def test_never_below_the_bound(draws: list[tuple[float, float]]) -> None:
    """IS-2 L3."""
    p, pi = zip(*draws, strict=True)
    assert sentence_estimate(p, pi, with_replacement=False)[0] >= sentence_logp(p) - 1e-9
    logp, error = sentence_estimate(p, [0.0] * len(p), with_replacement=False)
    assert logp == pytest.approx(sentence_logp(p), abs=1e-9) and error == 0


def test_perplexity() -> None:
    """IS-3 L1; the error of a sentence gives the error of the perplexity, to first order."""
    sentences = [-20.0, -31.0, -7.5]
    assert perplexity_estimate([(logp, 0.0) for logp in sentences], 11) == (perplexity(sentences, 11), 0.0)
    value, error = perplexity_estimate([(-20.0, 1e-4), (-31.0, 0.0), (-7.5, 0.0)], 11)
    other_value = perplexity([-20.0 - 1e-4, -31.0, -7.5], 11)
    assert other_value - value == pytest.approx(error, rel=1e-3)
    beyond = -8000.0  # the perplexity is beyond the largest float
    assert perplexity_estimate([(beyond, 0.0)], 10) == (math.inf, 0.0)
    assert perplexity_estimate([(beyond, 0.5)], 10) == (math.inf, math.inf)


@pytest.mark.parametrize(
    ("p", "q"),
    [([], []), ([-1.0], [-1.0, -1.0]), ([1.0], [-1.0]), ([-1.0], [1.0]), ([-1.0], [-math.inf]), ([math.nan], [-1.0])],
)
def test_errors(p: list[float], q: list[float]) -> None:
    with pytest.raises(ValueError, match="tree_logps, draw_logps"):
        sentence_estimate(p, q, with_replacement=True)
