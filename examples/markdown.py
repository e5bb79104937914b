"""Tables in Markdown, and what stands in their cells: means with deviations, intervals, verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import fmean, stdev

from accel.evaluation.significance import Interval, Welch, scipy_stats, welch

Z = 1.959964
"""A normal variable lies within this many standard deviations of its mean with a probability of 95 %."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], n_names: int = 1) -> str:
    """Return a table whose first columns are names."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * n_names + "---:|" * (len(head) - n_names)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def spread(values: Sequence[float], digits: int = 2, scale: float = 1.0) -> str:
    """Return mean and sample deviation; for one value only the value; for no values an empty string.

    >>> spread([1000, 2000], 1)
    '1,500.0 ± 707.1'
    """
    deviation = f" ± {scale * stdev(values):,.{digits}f}" if len(values) > 1 else ""
    return f"{scale * fmean(values):,.{digits}f}{deviation}" if values else ""


def with_interval(interval: Interval, digits: int) -> str:
    """Return a difference with its interval.

    >>> with_interval(Interval(0.5, -1, 2), 1)
    '+0.5 (-1.0 to +2.0)'
    """
    return f"{interval.value:+,.{digits}f} ({interval.low:+,.{digits}f} to {interval.high:+,.{digits}f})"


def normal(value: float, error: float) -> Interval:
    """Return the 95 % interval of a value that is normally distributed with this standard error."""
    return Interval(value, value - Z * error, value + Z * error)


def of_seeds(values: Sequence[float]) -> Interval:
    """Return the mean of two or more values with Student's 95 % interval.

    >>> with_interval(of_seeds([1.0, 3.0]), 1)  # the deviation is the square root of 2, the quantile 12.7
    '+2.0 (-10.7 to +14.7)'
    """
    half = float(scipy_stats().t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))
    return Interval(mean := fmean(values), mean - half, mean + half)


def compared(one: Sequence[float], other: Sequence[float]) -> Welch | None:
    """Return Welch's test of the difference of two means; None unless the values of both vary."""
    return welch(one, other) if min(len(set(one)), len(set(other))) > 1 else None


def less(one: Sequence[float], other: Sequence[float]) -> str:
    """Return the difference of two means and, if the values of both vary, Welch's p.

    >>> less([1.0, 2.0, 3.0], [4.0, 6.0, 8.0]), less([1.0], [4.0])
    ('-4.0 (0.055)', '-3.0')
    """
    test = compared(one, other)
    return f"{fmean(one) - fmean(other):+,.1f}{f' ({test.p:.2g})' if test else ''}"


def verdict(low: float, high: float) -> str:
    """Return the verdict on the claim that a difference is above 0, from the ends of its 95 % interval."""
    return "confirmed" if low > 0 else "refuted" if high < 0 else "open"
