"""What any right implementation obeys: laws on one example (shared arguments, own arguments, outputs)."""

from __future__ import annotations

from typing import Any

import numpy as np

from refimpl.trees import ActionType

Example = dict[str, Any]
Outputs = tuple[np.ndarray, ...]


def sets_of(outputs: Outputs) -> list[list[int]]:
    sizes, keys = outputs[0], outputs[1]
    return [part.tolist() for part in np.split(keys, np.cumsum(sizes)[:-1])]


def attends_to_itself(shared: Example, example: Example, outputs: Outputs) -> None:
    """SC-1 L1."""
    assert all(i in allowed for i, allowed in enumerate(sets_of(outputs)))


def attends_to_the_past(shared: Example, example: Example, outputs: Outputs) -> None:
    """SC-1 L2."""
    assert all(max(allowed) == i and min(allowed) >= 0 for i, allowed in enumerate(sets_of(outputs)))


def composition_hides_its_parts(shared: Example, example: Example, outputs: Outputs) -> None:
    """SC-1 L3: what a CNT1 at i composes is attended to by nobody after i."""
    sets = sets_of(outputs)
    for i, kind in enumerate(example["types"]):
        if kind == ActionType.CNT1:
            parts = set(sets[i]) - {i}
            assert all(parts.isdisjoint(later) for later in sets[i + 1 :])


def columns_inside(shared: Example, example: Example, outputs: Outputs) -> None:
    """SEG-1 L1: columns lie in 0..M+L-1, ascending in every row, and every row of the segment attends to itself."""
    memory, length = shared["memory_length"], shared["segment_length"]
    for i, columns in enumerate(sets_of(outputs)):
        assert columns == sorted(set(columns)) and 0 <= columns[0] and columns[-1] == memory + i % length


def weighted_mean_of_values(shared: Example, example: Example, outputs: Outputs) -> None:
    """ATT-1 L1: without dropout no output leaves the range of the values."""
    if not shared["rate"]:
        low, high = example["v"].min(initial=0.0), example["v"].max(initial=0.0)
        slack = 1e-5 * max(abs(low), abs(high), 1e-30)
        assert (outputs[0] >= low - slack).all() and (outputs[0] <= high + slack).all()


def kept_or_dropped(shared: Example, example: Example, outputs: Outputs) -> None:
    """LAY-3 L1: every element is 0 or enlarged by 1/(1-rate)."""
    y, x = outputs[0], example["x"]
    enlarged = np.isclose(y, x / (1 - shared["rate"]), rtol=1e-5, atol=0)
    assert (enlarged | (y == 0)).all()


def log_probability(shared: Example, example: Example, outputs: Outputs) -> None:
    """LAY-5 L1: no log-probability is positive, and rows without a label have 0."""
    logp = outputs[0]
    assert (logp <= 1e-6 * np.abs(logp).max(initial=1.0)).all()
    assert (logp[example["labels"] < 0] == 0).all()
