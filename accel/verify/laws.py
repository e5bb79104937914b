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


def rises_to_one(shared: Example, example: Example, outputs: Outputs) -> None:
    """FT-1 L1, L2: no entry is smaller than the one before, and the last is 1, up to the rounding of a sum."""
    y = outputs[0]
    eps = float(np.finfo(y.dtype).eps)
    assert (y >= 0).all() and (np.diff(y, axis=1) >= -2 * eps).all()
    assert (np.abs(y[:, -1] - 1) <= eps * y.shape[1]).all()


def lets_through_a_part(shared: Example, example: Example, outputs: Outputs) -> None:
    """FT-11 L1: every entry has the sign of the input's and is not larger."""
    y, x = outputs[0], example["x"]
    slack = 1e-5 * np.abs(x).max(initial=0.0)
    assert (np.abs(y) <= np.abs(x) + slack).all() and (y * x >= -slack * np.abs(x)).all()


def hidden_states_in_range(shared: Example, example: Example, outputs: Outputs) -> None:
    """FT-3 L1."""
    assert (np.abs(outputs[0]) <= 1 + 1e-6).all()


def distances_in_range(shared: Example, example: Example, outputs: Outputs) -> None:
    """FT-3 L2: distances lie in [0, 1 - 1/n], for the last chunk's master gates are always 1 and 0."""
    n = (example["gates"].shape[1] - 4 * outputs[0].shape[1]) // 2
    assert outputs[3].shape[1] == (2 if n else 0)
    assert (outputs[3] >= -1e-6).all() and (outputs[3] <= 1 - 1 / max(n, 1) + 1e-6).all()


def binary_and_nested(shared: Example, example: Example, outputs: Outputs) -> None:
    """FT-8 L1, CKY-4 L1: n - 1 spans in pre-order, the sentence first, any two of them nested or apart."""
    spans = [tuple(map(int, span)) for span in outputs[0]]
    n = example["n"] if "n" in example else len(example["distances"])
    assert len(spans) == len(set(spans)) == n - 1 and (n == 1 or spans[0] == (0, n - 1))
    assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
    for i, j in spans:
        assert all(n < i or m > j or (i <= m and n <= j) or (m <= i and j <= n) for m, n in spans)


def whole_chart(shared: Example, example: Example, outputs: Outputs) -> None:
    """CKY-3 L1, L2: n H - H (H - 1) / 2 nodes, of which the first n are the tokens."""
    tokens, height = example["tokens"], shared["max_height"]
    n_rows = len(tokens) if height is None else min(len(tokens), height)
    assert len(outputs[0]) == len(tokens) * n_rows - n_rows * (n_rows - 1) // 2
    assert (outputs[0][: len(tokens)] == tokens).all()


def weights_of_splits(shared: Example, example: Example, outputs: Outputs) -> None:
    """CKY-2 L1: the weights of the h - 1 splits of a phrase of h tokens are not negative, and sum to 1."""
    weights, n, start = outputs[1], len(example["tokens"]), 0
    for h in range(2, min(n, shared["max_height"] or n) + 1):
        rows = weights[start : start + (n - h + 1) * (h - 1)].reshape(n - h + 1, h - 1)
        assert (rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) <= h * float(np.finfo(weights.dtype).eps)).all()
        start += rows.size
    assert start == len(weights)
