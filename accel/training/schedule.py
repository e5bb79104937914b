"""The learning rate of every step, and what follows from validations: when it falls, and when averaging begins.

The decisions depend only on the list of validation results, so that a resumed run makes the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, inf, pi


def learning_rate(
    step: int, *, steps: int, warmup: int, initial: float, maximum: float, final: float, linear: bool = False
) -> float:
    """Return the rate of update `step` in 0..steps-1.

    Linear from `initial` at step 0 to `maximum` at step `warmup`, then half a cosine, or a line, down to `final`, which
    the last step has, unless it is step `warmup`.

    Examples
    --------
    >>> [learning_rate(i, steps=5, warmup=2, initial=0.0, maximum=1.0, final=0.5) for i in range(5)]
    [0.0, 0.5, 1.0, 0.75, 0.5]
    >>> [learning_rate(i, steps=5, warmup=0, initial=0.0, maximum=1.0, final=0.0, linear=True) for i in range(5)]
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """
    if not 0 <= step < steps:
        raise ValueError(f"step: {step} is not one of 0..{steps - 1}")
    if not 0 <= warmup < steps:
        raise ValueError(f"warmup: {warmup} steps do not fit into {steps}")
    if step < warmup:
        return initial + (maximum - initial) * step / warmup
    if step == warmup:
        return maximum
    progress = (step - warmup) / (steps - 1 - warmup)
    return final + (maximum - final) * (1.0 - progress if linear else 0.5 * (1.0 + cos(pi * progress)))


def noam(step: int, *, warmup: int, maximum: float) -> float:
    """Return the rate of update `step`: linear up to `maximum` at the `warmup`-th, then falling as 1 / sqrt(step + 1).

    Examples
    --------
    >>> [noam(i, warmup=2, maximum=1.0) for i in (0, 1, 7)]
    [0.5, 1.0, 0.5]
    """
    count = step + 1
    return maximum * min(count / warmup, (warmup / count) ** 0.5) if warmup else maximum * count**-0.5


def plateau(results: Sequence[float], *, factor: float, patience: int, highest: bool, least: float = 0.0) -> float:
    """Return the factor of the learning rate after these validations.

    Each time that more than `patience` results in a row are not better than the best before, the rate is multiplied by
    `factor`, but never falls below `least`, and counting starts again.

    Examples
    --------
    >>> plateau([0.5, 0.6, 0.6, 0.6], factor=0.5, patience=1, highest=True)
    0.5
    >>> plateau([0.5, 0.5, 0.5], factor=0.2, patience=0, highest=True, least=0.125)
    0.125
    """
    rate, best, n_waits = 1.0, -inf if highest else inf, 0
    for result in results:
        if result > best if highest else result < best:
            best, n_waits = result, 0
        else:
            n_waits += 1
        if n_waits > patience:
            rate, n_waits = max(rate * factor, least), 0
    return rate


def has_ended(results: Sequence[float], *, after: int, highest: bool) -> bool:
    """Return whether training ends early: none of the last `after` results is better than the best before; 0: never.

    Examples
    --------
    >>> [has_ended([0.5, 0.6, 0.6, 0.5][:n], after=2, highest=True) for n in (1, 2, 3, 4)]
    [False, False, False, True]
    """
    best = max if highest else min
    return 0 < after < len(results) and results.index(best(results)) < len(results) - after


def restarts(results: Sequence[float], *, nonmonotone: int, at: int) -> bool:
    """Return whether NT-ASGD begins a new average after the last result: this is number `at`, and it averages already.

    Examples
    --------
    >>> [restarts([4.0, 3.0, 3.5, 3.2, 3.1][:n], nonmonotone=1, at=5) for n in (4, 5)]
    [False, True]
    >>> restarts([5.0, 4.0, 3.0, 2.0], nonmonotone=1, at=4)
    False
    """
    return len(results) == at and any(stalled(results[:n], nonmonotone) for n in range(1, at))


def ends_after_restart(results: Sequence[float], *, nonmonotone: int, at: int) -> bool:
    """Return whether the losses of the average that began after result number `at` stall, too; with `at` 0 never.

    Examples
    --------
    >>> results = [4.0, 3.0, 3.5, 3.2, 3.0, 2.9, 3.1, 3.0]
    >>> [n for n in range(1, 9) if ends_after_restart(results[:n], nonmonotone=1, at=5)]
    [8]
    """
    has_restarted = 0 < at < len(results) and restarts(results[:at], nonmonotone=nonmonotone, at=at)
    return has_restarted and stalled(results[at:], nonmonotone)


def stalled(results: Sequence[float], nonmonotone: int) -> bool:
    """Return whether NT-ASGD begins to average: the last loss is worse than the best of all early ones.

    Early are all results before the last one, without the `nonmonotone` results just before it (Merity, Keskar and
    Socher 2018, Algorithm 1, as their code has it).

    Examples
    --------
    >>> [stalled([4.0, 3.0, 3.5][:n], 1) for n in (1, 2, 3)]
    [False, False, False]
    >>> stalled([4.0, 3.0, 3.5, 3.2], 1)
    True
    """
    earlier = results[:-1]
    return len(earlier) > nonmonotone and results[-1] > min(earlier[: len(earlier) - nonmonotone])
