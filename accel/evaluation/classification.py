"""The metrics of GLUE: accuracy, F1 and Matthews' correlation for classes, Pearson's and Spearman's for scores."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np


def accuracy(labels: Sequence[int], answers: Sequence[int]) -> float:
    r"""Return the share of right answers.

    Spec: CLASS-1.  $\frac{1}{n} \sum_i [a_i = y_i]$

    Raises ValueError for no example, or numbers of labels and answers that differ.

    >>> accuracy([0, 1, 2, 2], [0, 1, 2, 1])
    0.75
    """
    y, a = _paired(labels, answers)
    return float((y == a).mean())


def f1(labels: Sequence[int], answers: Sequence[int]) -> float:
    r"""Return the harmonic mean of precision and recall of class 1; 0 where no label and no answer is 1.

    Spec: CLASS-2.  $2\,tp / (2\,tp + fp + fn)$

    Raises ValueError as `accuracy` does, and for a class other than 0 and 1.

    >>> f1([1, 1, 1, 0], [1, 1, 0, 1])
    0.6666666666666666
    """
    tp, fp, fn, _ = _counts(labels, answers)
    return 2 * tp / (2 * tp + fp + fn) if tp else 0.0


def matthews(labels: Sequence[int], answers: Sequence[int]) -> float:
    r"""Return the correlation of two lists of 0 and 1, from -1 to 1; 0 where one of them is constant.

    Spec: CLASS-3.  $(tp\,tn - fp\,fn) / \sqrt{(tp + fp)(tp + fn)(tn + fp)(tn + fn)}$

    Raises ValueError as `f1` does.

    >>> matthews([1, 1, 0, 0], [1, 1, 0, 0]), matthews([1, 1, 0, 0], [1, 0, 1, 0]), matthews([1, 0], [1, 1])
    (1.0, 0.0, 0.0)
    """
    tp, fp, fn, tn = _counts(labels, answers)
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / sqrt(product) if product else 0.0


def pearson(scores: Sequence[float], answers: Sequence[float]) -> float:
    r"""Return the linear correlation of two lists of numbers, from -1 to 1; 0 where one of them is constant.

    Spec: CLASS-4.  $\sum_i (x_i - \bar x)(a_i - \bar a) / \sqrt{\sum_i (x_i - \bar x)^2 \sum_i (a_i - \bar a)^2}$

    Raises ValueError as `accuracy` does, and for a number that is not finite.

    >>> pearson([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]), pearson([0.0, 1.0], [2.0, 2.0])
    (1.0, 0.0)
    """
    x, a = _numbers(scores, answers)
    if x.min() == x.max() or a.min() == a.max():
        return 0.0
    x, a = ((values - values.mean()) / np.abs(values - values.mean()).max() for values in (x, a))
    return float(np.clip((x * a).sum() / sqrt((x * x).sum() * (a * a).sum()), -1.0, 1.0))


def spearman(scores: Sequence[float], answers: Sequence[float]) -> float:
    """Return Pearson's correlation of the ranks of two lists of numbers; equal numbers share their mean rank.

    Spec: CLASS-5.

    Raises ValueError as `pearson` does.

    >>> spearman([0.0, 1.0, 2.0, 2.0], [1.0, 10.0, 100.0, 100.0])
    1.0
    """
    x, a = _numbers(scores, answers)
    return pearson(ranks(x), ranks(a))


def ranks(values: Sequence[float] | np.ndarray) -> list[float]:
    """Return the place of every number in rising order, from 1; equal numbers have the mean of their places.

    Spec: CLASS-5.

    >>> ranks([0.5, -1.0, 0.5])
    [2.5, 1.0, 2.5]
    """
    _, number, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return [float(rank) for rank in (last - (count - 1) / 2)[number]]


def _paired(labels: Sequence[float], answers: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return both lists as arrays; raise ValueError if they are empty or of different lengths."""
    if len(labels) != len(answers) or not len(labels):
        raise ValueError(f"labels, answers: {len(labels)} and {len(answers)} of them; use equally many, one or more")
    return np.asarray(labels), np.asarray(answers)


def _numbers(scores: Sequence[float], answers: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return both lists as float64 arrays; raise ValueError as `_paired` does, and for a number that is not finite."""
    x, a = (values.astype(float) for values in _paired(scores, answers))
    if not (np.isfinite(x).all() and np.isfinite(a).all()):
        raise ValueError("scores, answers: a number is not finite")
    return x, a


def _counts(labels: Sequence[int], answers: Sequence[int]) -> tuple[int, int, int, int]:
    """Return the numbers of true and false positives, and of false and true negatives; class 1 is positive."""
    y, a = _paired(labels, answers)
    if not (np.isin(y, (0, 1)).all() and np.isin(a, (0, 1)).all()):
        raise ValueError("labels, answers: two classes are needed, 0 and 1")
    tp, fp, fn, tn = ((a == answer) & (y == label) for answer, label in ((1, 1), (1, 0), (0, 1), (0, 0)))
    return int(tp.sum()), int(fp.sum()), int(fn.sum()), int(tn.sum())
