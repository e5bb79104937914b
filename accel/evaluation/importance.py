"""Estimates of the probability of a sentence from drawn trees, and of a perplexity, with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def sentence_estimate(
    tree_logps: Sequence[float], draw_logps: Sequence[float], *, with_replacement: bool
) -> tuple[float, float]:
    r"""Return the logarithm of an unbiased estimate of p(x), and its standard error divided by the estimate.

    Spec: IS-1, IS-2.  $\frac{1}{J} \sum_i p(x, y_i) / q(y_i)$, or $\sum_{y \in S} p(x, y) / \pi_y$ without replacement

    tree_logps : [J] float, $\log p(x, y)$ of every draw, equal trees as often as they were drawn, nats.
    draw_logps : [J] float, $\log q(y)$ of a single draw; without replacement $\log \pi_y$, where $\pi_y$ is the
        probability that y is among the drawn trees, and 0 for trees that are summed in any case.
    Raises ValueError if there is no draw, the lengths differ, a number is NaN or above 0 by more than 1e-6 (rounding),
        or a draw has probability 0.

    >>> [round(x, 12) for x in sentence_estimate([math.log(0.2), math.log(0.1)], [0.0, 0.0], with_replacement=False)]
    [-1.203972804326, 0.0]
    """
    p, q = np.array(tree_logps, float), np.array(draw_logps, float)
    if len(p) != len(q) or not len(p):
        raise ValueError(f"tree_logps, draw_logps: {len(p)} and {len(q)} numbers; use equally many, one or more")
    if not ((p <= 1e-6).all() and (q <= 1e-6).all() and (q > -np.inf).all()):
        raise ValueError("tree_logps, draw_logps: not log-probabilities of trees that can be drawn")
    if p.max() == -np.inf:
        return -math.inf, math.inf
    total = float(np.logaddexp.reduce(p - q))
    shares = np.exp(p - q - total)  # of the sum
    if not with_replacement:
        return total, math.sqrt((shares**2 * -np.expm1(np.minimum(q, 0.0))).sum())
    n = len(p)
    error = math.sqrt(n) * float(shares.std(ddof=1)) if n > 1 else math.inf
    return total - math.log(n), error


def perplexity_estimate(estimates: Sequence[tuple[float, float]], n_words: int) -> tuple[float, float]:
    r"""Return the perplexity per word from the estimates of all sentences, and its standard error.

    Spec: IS-3.  $\exp(-\frac{1}{N_w} \sum_x \log \hat p(x))$, $\frac{\mathrm{PPL}}{N_w} \sqrt{\sum_x \epsilon_x^2}$

    Raises ValueError for no sentence or no word.

    >>> perplexity_estimate([(math.log(0.25), 0.0)], 2)
    (2.0, 0.0)
    """
    if n_words < 1 or not estimates:
        raise ValueError(f"n_words, estimates: {n_words} words in {len(estimates)} sentences")
    logps, errors = zip(*estimates, strict=True)
    with np.errstate(over="ignore"):  # beyond the largest float the perplexity is inf
        total = float(np.exp(np.float64(-math.fsum(logps) / n_words)))
    error = math.hypot(*errors) / n_words
    return total, total * error if error else 0.0
