"""Welch's test, bootstrap intervals and least squares, against certified, counted or hand-derived values."""

from __future__ import annotations

import sys
from itertools import product
from math import inf, nan

import numpy as np
import pytest

from accel.evaluation.significance import (
    RESAMPLES,
    bootstrap,
    bootstrap_interval,
    interval_of_means,
    least_squares,
    welch,
)

LONGLEY = """
60323 83.0 234289 2356 1590 107608 1947
61122 88.5 259426 2325 1456 108632 1948
60171 88.2 258054 3682 1616 109773 1949
61187 89.5 284599 3351 1650 110929 1950
63221 96.2 328975 2099 3099 112075 1951
63639 98.1 346999 1932 3594 113270 1952
64989 99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""
CERTIFIED = [  # NIST, Statistical Reference Datasets, Longley: estimates and standard errors
    (-3482258.63459582, 890420.383607373),
    (15.0618722713733, 84.9149257747669),
    (-0.358191792925910e-01, 0.334910077722432e-01),
    (-2.02022980381683, 0.488399681651699),
    (-1.03322686717359, 0.214274163161675),
    (-0.511041056535807e-01, 0.226073200069370),
    (1829.15146461355, 455.478499142212),
]


def test_welch_by_hand() -> None:
    """Unequal variances: t is 2 - 6 over sqrt(1/3 + 4/3), with degrees of freedom by Satterthwaite."""
    result = welch([1, 2, 3], [4, 6, 8])
    assert result.difference == -4 and result.t == pytest.approx(-4 / (5 / 3) ** 0.5)
    assert result.degrees_of_freedom == pytest.approx((5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2))
    other = welch([4, 6, 8], [1, 2, 3])
    assert (other.difference, other.t, other.p) == (4, -result.t, pytest.approx(result.p))
    assert (other.low, other.high) == (pytest.approx(-result.high), pytest.approx(-result.low))


def test_the_interval_of_welch_by_hand() -> None:
    """Two variances of 2 have 2 degrees of freedom, whose quantile is known: 0.95 sqrt(2 / (4 * 0.975 * 0.025))."""
    result = welch([1, 3], [6, 8])
    assert result.degrees_of_freedom == pytest.approx(2)
    half = 0.95 * (2 / (4 * 0.975 * 0.025)) ** 0.5 * 2**0.5
    assert (result.low, result.high) == (pytest.approx(-5 - half), pytest.approx(-5 + half))


def test_the_interval_of_welch_leaves_0_out_where_p_is_below_0_05() -> None:
    rng = np.random.default_rng(6)
    tests = [welch(rng.normal(0, 1, 4), rng.normal(2, 2, 5)) for _ in range(200)]
    assert 20 < sum(test.p < 0.05 for test in tests) < 180
    assert all((test.p < 0.05) != (test.low <= 0 <= test.high) for test in tests)


def test_welch_holds_its_level() -> None:
    """Of 2,000 pairs of samples with one mean and unlike variances, about one in twenty has p below 0.05."""
    rng = np.random.default_rng(5)
    below = [welch(rng.normal(0, 1, 6), rng.normal(0, 4, 9)).p < 0.05 for _ in range(2000)]
    assert 0.035 < np.mean(below) < 0.065


def test_bootstrap_of_three_values() -> None:
    """All 27 draws of three values are equally likely, so the ends of the interval are known."""
    means = sorted(sum(sample) / 3 for sample in product([0.0, 1.0, 5.0], repeat=3))
    interval = bootstrap_interval([0, 1, 5], level=0.8, seed=3)
    assert interval.value == 2
    assert (interval.low, interval.high) == (pytest.approx(means[2]), pytest.approx(means[-4]))
    assert interval == bootstrap_interval([0, 1, 5], level=0.8, seed=3)
    assert bootstrap_interval(range(50), seed=1) != bootstrap_interval(range(50), seed=2)


def test_bootstrap_near_the_normal_interval() -> None:
    values = np.random.default_rng(1).normal(10, 2, 400)
    half = 1.96 * values.std() / 20
    for method in ("percentile", "BCa"):
        interval = bootstrap_interval(values.tolist(), method=method)
        assert interval.value == pytest.approx(values.mean())
        assert (interval.low, interval.high) == pytest.approx((interval.value - half, interval.value + half), abs=0.05)


def test_means_of_groups() -> None:
    """A group counts once, however many values it has; a constant group does not widen the interval."""
    interval = interval_of_means([[1.0] * 10, [0.0, 1.0]])
    assert interval.value == 0.75 and (interval.low, interval.high) == (0.5, 1.0)
    middle = interval_of_means([[1.0] * 10, [0.0, 1.0]], level=0.4)  # half of all resamples have this mean
    assert (middle.low, middle.high) == (0.75, 0.75)


def test_paired_draws_rows() -> None:
    """The ratio of two proportional columns has an interval of width 0; if columns are drawn apart, it is wide."""
    rows = [1.0, 2.0, 5.0, 9.0], [2.0, 4.0, 10.0, 18.0]
    ratio = dict(statistic=lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis))
    assert bootstrap(rows, **ratio, paired=True) == (0.5, 0.5, 0.5)
    assert bootstrap(rows, **ratio).low < 0.4 < 0.6 < bootstrap(rows, **ratio).high
    assert RESAMPLES == 2000


def test_least_squares_on_certified_results() -> None:
    """Longley's data are known as a hard case: the columns are nearly linearly dependent."""
    rows = np.array([line.split() for line in LONGLEY.split("\n") if line], float)
    X = np.column_stack([np.ones(16), rows[:, 1:]])
    fit = least_squares("1 price gnp jobless army population year".split(), X, rows[:, 0])
    for coefficient, (estimate, error) in zip(fit.coefficients.values(), CERTIFIED, strict=True):
        assert (coefficient.estimate, coefficient.standard_error) == pytest.approx((estimate, error), rel=1e-7)
        assert coefficient.t == pytest.approx(estimate / error, rel=1e-7)
    assert fit.r2 == pytest.approx(0.995479004577296) and fit.rows == 16
    assert fit.adjusted_r2 == pytest.approx(1 - (1 - 0.995479004577296) * 15 / 9)
    assert fit.coefficients["year"].p == pytest.approx(0.003036803, rel=1e-6)


def test_indicators_are_means() -> None:
    """As in the paper's regressions, every case has an indicator, whose coefficient is the mean of the case."""
    rng = np.random.default_rng(2)
    case, y = rng.integers(3, size=300), rng.normal(size=300)
    fit = least_squares(["high", "medium", "low"], np.eye(3)[case], y)
    for k, coefficient in enumerate(fit.coefficients.values()):
        assert coefficient.estimate == pytest.approx(y[case == k].mean())
    within = sum(np.square(y[case == k] - y[case == k].mean()).sum() for k in range(3))
    assert fit.r2 == pytest.approx(1 - within / np.square(y - y.mean()).sum())
    reference = np.column_stack([np.ones(300), case == 1, case == 2])
    same = least_squares(["1", "medium", "low"], reference, y)
    assert (same.r2, same.adjusted_r2) == pytest.approx((fit.r2, fit.adjusted_r2))


def test_without_a_constant_r2_is_about_zero() -> None:
    fit = least_squares(["x"], [[1.0], [2.0], [3.0]], [2.0, 4.0, 7.0])
    slope = (2 + 8 + 21) / 14
    rest = (2 - slope) ** 2 + (4 - 2 * slope) ** 2 + (7 - 3 * slope) ** 2
    assert fit.r2 == pytest.approx(1 - rest / 69) and fit.adjusted_r2 == pytest.approx(1 - rest / 69 * 3 / 2)
    fit = least_squares(["x"], [[1.0], [2.0]], [1.0, 3.0])  # the slope is 7/5; the fit of a constant 1 is 0.6 x
    assert fit.r2 == pytest.approx(1 - 0.2 / 10) and fit.adjusted_r2 == pytest.approx(1 - 0.2 / 10 * 2 / 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: welch([1.0], [1.0, 2.0]), r"a: values of shape \[1\]: at least 2"),
        (lambda: welch([1.0, 2.0], [3.0, nan]), "b: value 2 is nan"),
        (lambda: welch([1.0, 2.0], [3.0, 3.0]), "b: all 2 values are 3: the test needs"),
        (lambda: bootstrap_interval([]), "sample 1: values of shape"),
        (lambda: bootstrap_interval([1.0, inf]), "sample 1: value 2 is inf"),
        (lambda: bootstrap_interval([1.0, 2.0], level=95), "level 95: must be between 0 and 1"),
        (lambda: bootstrap_interval([1.0, 2.0], method="basic"), 'must be "percentile" or "BCa"'),
        (lambda: bootstrap_interval([1.0, 1.0], method="BCa"), "all values are equal: BCa"),
        (lambda: interval_of_means([]), "no samples"),
        (lambda: bootstrap([[1, 2], [1, 2, 3]], np.mean, paired=True), "paired samples of 2, 3 values"),
        (lambda: least_squares(["a"], [[1, 2], [2, 3]], [1, 2]), r"X of shape \[2, 2\]"),
        (lambda: least_squares(["a", "a"], np.eye(3)[:, :2], [1, 2, 3]), "names: a a: a name stands twice"),
        (lambda: least_squares(["a", "b"], np.eye(2), [1, 2]), "2 rows are too few for 2 coefficients"),
        (lambda: least_squares(["a", "b"], [[1, 2], [2, 4], [3, 6]], [1, 2, 4]), "b: 0, or a combination"),
        (lambda: least_squares(["a"], [[0], [0], [0]], [1, 2, 4]), "a: 0, or a combination"),
        (lambda: least_squares(["a"], [[1], [nan], [0]], [1, 2, 4]), "a: value 2 is nan"),
        (lambda: least_squares(["a"], [[1], [2], [3]], [4, 4, 4]), "y: all 3 values are 4: there is nothing"),
        (lambda: least_squares(["a"], [[1], [2], [3]], [2, 4, 6]), "y is a combination of the variables"),
    ],
)
def test_mistakes(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ModuleNotFoundError, match=r"grove-lm\[analysis\]"):
        welch([1, 2], [2, 4])
