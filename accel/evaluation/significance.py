"""Tests of significance: the sign test and Holm's procedure; with scipy Welch's t-test, bootstrap, least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

RESAMPLES = 2000
_DRAWN_AT_ONCE = 10_000_000  # the most numbers that a bootstrap holds in memory
_ROUNDING = 1e-24  # a smaller part of a sum of squares is rounding


class Welch(NamedTuple):
    """A two-sided test of two means: their difference, t, its degrees of freedom, p, and the 95 % interval.

    The interval is that of the difference; it does not contain 0 if p is below 0.05.
    """

    difference: float
    t: float
    degrees_of_freedom: float
    p: float
    low: float
    high: float


class SignTest(NamedTuple):
    """A two-sided exact sign test: how many differences are above and below 0, and p."""

    positive: int
    negative: int
    p: float


class Interval(NamedTuple):
    """A measured value and the ends of its interval."""

    value: float
    low: float
    high: float


class Coefficient(NamedTuple):
    """A coefficient of a regression: its estimate, its standard error, and t and p of a two-sided test that it is 0."""

    estimate: float
    standard_error: float
    t: float
    p: float


class Regression(NamedTuple):
    """A regression: the coefficient of every variable, R2, adjusted R2 and the number of rows."""

    coefficients: dict[str, Coefficient]
    r2: float
    adjusted_r2: float
    rows: int


def welch(a: Sequence[float], b: Sequence[float]) -> Welch:
    """Return Welch's two-sided test of two means, for samples of unequal variances; the difference is a - b.

    Raises
    ------
    ValueError
        If a sample has fewer than two values, a value that is not finite, or no two values that differ.

    Examples
    --------
    >>> test = welch([1.0, 2.0, 3.0], [4.0, 6.0, 8.0])
    >>> test.difference, round(test.t, 4), round(test.degrees_of_freedom, 4), round(test.p, 4)
    (-4.0, -3.0984, 2.9412, 0.0548)
    >>> round(test.low, 4), round(test.high, 4)
    (-8.1554, 0.1554)
    """
    one, other = (_checked(name, values, least=2) for name, values in (("a", a), ("b", b)))
    for name, values in (("a", one), ("b", other)):
        if np.ptp(values) == 0:
            raise ValueError(f"{name}: all {len(values)} values are {values[0]:g}: the test needs two that differ")
    test = scipy_stats().ttest_ind(one, other, equal_var=False)
    ends = test.confidence_interval(0.95)
    values = (one.mean() - other.mean(), test.statistic, test.df, test.pvalue, ends.low, ends.high)
    return Welch(*map(float, values))


def sign_test(differences: Sequence[float]) -> SignTest:
    r"""Return the two-sided exact test that a paired difference is as often above 0 as below; zeros do not count.

    Spec: ERR-3. For differences of -1, 0 and 1 it is McNemar's exact test. If all differences are 0, p is 1.

    Raises
    ------
    ValueError
        If the list of differences is empty, or one of them is not finite.

    Examples
    --------
    >>> sign_test([1, 1, 1, 0, 1, 1])
    SignTest(positive=5, negative=0, p=0.0625)
    """
    values = _checked("differences", differences, least=1)
    positive, negative = int((values > 0).sum()), int((values < 0).sum())
    n = positive + negative
    tail = sum(comb(n, k) for k in range(min(positive, negative) + 1))
    return SignTest(positive, negative, min(1.0, 2 * tail / 2**n))


def holm(p: Sequence[float]) -> list[float]:
    """Return the p of several tests, adjusted by Holm's procedure: the least times their number, and so on.

    Spec: ERR-3. If no test has an effect, the chance that any adjusted p is below a level is at most that level.

    Raises
    ------
    ValueError
        If there is no p, or one is not in 0..1.

    Examples
    --------
    >>> holm([0.5, 0.125, 0.25])
    [0.5, 0.375, 0.5]
    """
    values = _checked("p", p, least=1)
    if values.min() < 0 or values.max() > 1:
        raise ValueError(f"p: {values.min():g} to {values.max():g}, but must be between 0 and 1")
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted.tolist()  # type: ignore[no-any-return]


def bootstrap_interval(
    values: Sequence[float], level: float = 0.95, seed: int = 0, *, method: str = "percentile"
) -> Interval:
    """Return the mean with its bootstrap interval, "percentile" or "BCa"; for equal values it is a point.

    Raises
    ------
    ValueError
        As `bootstrap`; also if all values are equal and the method is "BCa", which is not defined for them.

    Examples
    --------
    >>> bootstrap_interval([1.0, 1.0, 1.0])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    return bootstrap([values], _mean, level=level, seed=seed, method=method)


def interval_of_means(groups: Sequence[Sequence[float]], level: float = 0.95, seed: int = 0) -> Interval:
    """Return the mean of the means of several groups; each group is resampled by itself."""
    return bootstrap(groups, lambda *samples, axis: sum(group.mean(axis=axis) for group in samples) / len(samples),
                     level=level, seed=seed)  # fmt: skip


def bootstrap(
    samples: Sequence[Sequence[float]],
    statistic: Callable[..., Any],
    *,
    paired: bool = False,
    level: float = 0.95,
    seed: int = 0,
    method: str = "percentile",
) -> Interval:
    """Return a statistic of samples with its interval over RESAMPLES draws from them, with replacement.

    Parameters
    ----------
    statistic : function
        Takes as many arrays as there are samples, and the `axis` along which it reduces them.
    paired : bool
        Whether the samples are columns of one table, whose rows are drawn.
    method : "percentile" or "BCa"

    Raises
    ------
    ValueError
        If a sample has fewer than two values or a value that is not finite; if the interval is not defined.
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level}: must be between 0 and 1")
    if method not in ("percentile", "BCa"):
        raise ValueError(f'method must be "percentile" or "BCa", not {method!r}')
    if not samples:
        raise ValueError("no samples")
    checked = [_checked(f"sample {n}", values, least=2) for n, values in enumerate(samples, 1)]
    if paired and len({len(values) for values in checked}) > 1:
        raise ValueError(f"paired samples of {', '.join(str(len(values)) for values in checked)} values")
    if method == "BCa" and all(np.ptp(values) == 0 for values in checked):
        raise ValueError("all values are equal: BCa has no interval for them")
    ends = scipy_stats().bootstrap(
        checked, statistic, paired=paired, vectorized=True, n_resamples=RESAMPLES, method=method,
        batch=max(1, _DRAWN_AT_ONCE // sum(map(len, checked))), confidence_level=level,
        random_state=np.random.Generator(np.random.Philox(seed)),
    ).confidence_interval  # fmt: skip
    interval = Interval(float(statistic(*checked, axis=-1)), float(ends.low), float(ends.high))
    if not np.isfinite(interval).all():
        raise ValueError(
            f"the statistic has no interval: {interval.value:g} from {interval.low:g} to {interval.high:g}"
        )
    return interval


def least_squares(names: Sequence[str], X: Any, y: Any) -> Regression:
    """Return the ordinary least-squares regression of y on the columns of X; no intercept is added.

    R2 compares the residuals with the spread of y about its mean if a combination of columns is constant (as the sum of
    indicators of all cases is), and about 0 otherwise.

    Parameters
    ----------
    names : sequence of str
        Of the k columns.
    X : [n, k] float
    y : [n] float

    Raises
    ------
    ValueError
        If shapes or names do not fit, a number is not finite, there are no more rows than columns, a column is a
        combination of those before it, y is constant, or y has no residual.

    Examples
    --------
    >>> regression = least_squares(["rare", "frequent"], [[1, 0], [1, 0], [0, 1], [0, 1]], [1.0, 3.0, 4.0, 6.0])
    >>> round(regression.coefficients["rare"].estimate, 4), round(regression.r2, 4), round(regression.adjusted_r2, 4)
    (2.0, 0.6923, 0.5385)
    """
    X, y = np.asarray(X, float), _checked("y", y, least=2)
    _check_design(names, X, y)
    n, k = X.shape
    q, r = np.linalg.qr(X)
    estimates = np.linalg.solve(r, q.T @ y)
    residual = float(np.square(y - X @ estimates).sum())
    has_constant = bool(np.allclose(q @ q.sum(axis=0), 1, rtol=0, atol=1e-8))
    total = float(np.square(y - y.mean() if has_constant else y).sum())
    if residual <= _ROUNDING * total:
        raise ValueError("y is a combination of the variables: the test needs residuals")
    errors = np.sqrt(np.square(np.linalg.inv(r)).sum(axis=1) * residual / (n - k))
    t = estimates / errors
    p = 2 * scipy_stats().t.sf(np.abs(t), n - k)
    columns = (column.tolist() for column in (estimates, errors, t, p))
    coefficients = [Coefficient(*row) for row in zip(*columns, strict=True)]
    adjusted = 1 - residual / total * (n - has_constant) / (n - k)
    return Regression(dict(zip(names, coefficients, strict=True)), 1 - residual / total, adjusted, n)


def _check_design(names: Sequence[str], X: np.ndarray, y: np.ndarray) -> None:
    if X.ndim != 2 or X.shape != (len(y), len(names)):
        raise ValueError(f"X of shape {list(X.shape)}: {len(y)} values of y and {len(names)} names need another shape")
    if len(set(names)) < len(names):
        raise ValueError(f"names: {' '.join(names)}: a name stands twice: give every column its own")
    if len(y) <= len(names):
        raise ValueError(f"{len(y)} rows are too few for {len(names)} coefficients")
    for k, name in enumerate(names):
        _checked(name, X[:, k], least=2)
        if np.linalg.matrix_rank(X[:, : k + 1]) <= k:
            raise ValueError(f"{name}: 0, or a combination of the variables before it: leave it out")
    if np.ptp(y) == 0:
        raise ValueError(f"y: all {len(y)} values are {y[0]:g}: there is nothing to explain")


def _checked(name: str, values: Any, *, least: int) -> np.ndarray:
    sample = np.asarray(values, float)
    if sample.ndim != 1 or len(sample) < least:
        raise ValueError(f"{name}: values of shape {list(sample.shape)}: at least {least} in a row are needed")
    if not np.isfinite(sample).all():
        raise ValueError(f"{name}: value {1 + int(np.isfinite(sample).argmin())} is {sample[~np.isfinite(sample)][0]}")
    return sample


def _mean(values: np.ndarray, axis: int) -> Any:
    return values.mean(axis=axis)


def scipy_stats() -> ModuleType:
    """Return scipy.stats; raises ModuleNotFoundError, which says what to install, where it is missing."""
    try:
        from scipy import stats
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("tests of significance need scipy: pip install 'grove-lm[analysis]'") from error
    return stats  # type: ignore[no-any-return]
