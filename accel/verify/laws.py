"""Laws that any right implementation obeys, on one example: shared arguments, its own arguments, outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel.verify import conditions
from refimpl.trees import ActionType

Example = dict[str, Any]
Outputs = tuple[np.ndarray, ...]
Split = tuple[int, int, int]


def sets_of(outputs: Outputs) -> list[list[int]]:
    sizes, keys = outputs[0], outputs[1]
    return [part.tolist() for part in np.split(keys, np.cumsum(sizes)[:-1])]


def attends_to_itself(shared: Example, example: Example, outputs: Outputs) -> None:
    """SC-1 L1: every position attends to itself."""
    assert all(i in keys for i, keys in enumerate(sets_of(outputs)))


def attends_to_the_past(shared: Example, example: Example, outputs: Outputs) -> None:
    """SC-1 L2: no position attends to a later one."""
    assert all(max(keys) == i and min(keys) >= 0 for i, keys in enumerate(sets_of(outputs)))


def composition_hides_its_parts(shared: Example, example: Example, outputs: Outputs) -> None:
    """SC-1 L3: no later position attends to the positions that a CNT1 at i composes."""
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
    logp, labels = outputs[0], example["labels"]
    eps = float(np.finfo(logp.dtype).eps)
    condition = conditions.cross_entropy(example["h"], shared["table"], shared["bias"], labels, eps / 2)
    assert (logp <= 1e-6 * np.abs(logp).max(initial=1.0) + eps * condition).all()
    assert (logp[example["labels"] < 0] == 0).all()


def rises_to_one(shared: Example, example: Example, outputs: Outputs) -> None:
    """FT-1 L1, L2: no entry is smaller than the one before, and the last is 1, up to the rounding of a sum."""
    y = outputs[0]
    eps = float(np.finfo(y.dtype).eps)
    assert (y >= 0).all() and (np.diff(y, axis=1) >= -2 * eps).all()
    assert (np.abs(y[:, -1] - 1) <= eps * y.shape[1]).all()


def lets_through_a_part(shared: Example, example: Example, outputs: Outputs) -> None:
    """FT-11 L1: every entry has the sign of the input's entry and is not larger in size."""
    y, x = outputs[0], example["x"]
    slack = 1e-5 * np.abs(x).max(initial=0.0)
    assert (np.abs(y) <= np.abs(x) + slack).all() and (y * x >= -slack * np.abs(x)).all()


def hidden_states_in_range(shared: Example, example: Example, outputs: Outputs) -> None:
    """FT-3 L1: hidden states lie in [-1, 1]."""
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
    eps = float(np.finfo(weights.dtype).eps)
    arguments = example["tokens"], shared["compose"], shared["direction"], shared["max_height"]
    off = eps * conditions.cky_pool(*arguments, eps / 2)[1]
    for h in range(2, min(n, shared["max_height"] or n) + 1):
        rows = weights[start : start + (n - h + 1) * (h - 1)].reshape(n - h + 1, h - 1)
        slack = h * eps + off[start : start + rows.size].reshape(rows.shape).sum(axis=1)
        assert (rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) <= slack).all()
        start += rows.size
    assert start == len(weights)


# Pruned charts. Outputs are spans [c, 2], the number of splits of every cell, the nodes of all left and of all right
# parts (words, then n + the place of the cell), the step of every cell from 1 on, and the root.


def parser_tree(scores: np.ndarray) -> set[Split]:
    """Return (first word, split, last word) of every node: the split has the highest score, of equal ones the last."""
    splits, waiting = set(), [(0, len(scores))]
    while waiting:
        i, j = waiting.pop()
        if i < j:
            k = max(range(i, j), key=lambda k: (scores[k], k))
            splits.add((i, k, j))
            waiting += [(i, k), (k + 1, j)]
    return splits


def tree_height(tree: set[Split]) -> int:
    heights: dict[tuple[int, int], int] = {}
    for i, k, j in sorted(tree, key=lambda split: split[2] - split[0]):
        heights[i, j] = 1 + max(heights.get((i, k), 0), heights.get((k + 1, j), 0))
    return max(heights.values(), default=0)


def nodes_of(example: Example, outputs: Outputs) -> list[tuple[int, int]]:
    return [(i, i) for i in range(len(example["scores"]) + 1)] + [(int(i), int(j)) for i, j in outputs[0]]


def splits_of(example: Example, outputs: Outputs) -> list[Split]:
    """Return (first word, split, last word) of every split; its parts must meet there."""
    nodes, spans = nodes_of(example, outputs), np.repeat(outputs[0], outputs[1], axis=0).tolist()
    splits = []
    for (i, j), left, right in zip(spans, outputs[2], outputs[3], strict=True):
        (a, k), (m, z) = nodes[left], nodes[right]
        assert (a, m, z) == (i, k + 1, j), f"({i}, {j}) is not ({a}, {k}) and ({m}, {z})"
        splits.append((i, k, j))
    return splits


def parts_meet(shared: Example, example: Example, outputs: Outputs) -> None:
    """PC-2: both parts of a split make up the span, splits ascend, and no span or split comes twice."""
    splits, nodes = splits_of(example, outputs), nodes_of(example, outputs)
    assert len(set(splits)) == len(splits) and len(set(nodes)) == len(nodes)
    assert all(a[0::2] != b[0::2] or a < b for a, b in zip(splits[:-1], splits[1:], strict=True))
    assert nodes[outputs[5][0]] == (0, len(example["scores"]))


def parts_come_earlier(shared: Example, example: Example, outputs: Outputs) -> None:
    """PC-3 L1: parts have smaller steps, one of them the step before; the last step has the whole sentence only."""
    steps = np.concatenate([np.zeros(len(example["scores"]) + 1, int), outputs[4]])
    latest = np.maximum(steps[outputs[2]], steps[outputs[3]])
    begins = np.cumsum(outputs[1]) - outputs[1]
    assert len(begins) == 0 or (np.maximum.reduceat(latest, begins) + 1 == outputs[4]).all()
    assert (np.diff(outputs[4]) >= 0).all() and (outputs[4] == outputs[4].max(initial=0)).sum() == (len(begins) > 0)


def windows(shared: Example, example: Example, outputs: Outputs) -> None:
    """PC-2 L1 to L3: W >= n - 1 gives the full chart, W = 1 the parser's tree, which every other chart contains."""
    splits, n, window = set(splits_of(example, outputs)), len(example["scores"]) + 1, shared["window"]
    tree = parser_tree(example["scores"])
    assert tree <= splits
    if window == 1:
        assert tree == splits
    if window >= n - 1:
        assert splits == {(i, k, j) for j in range(n) for i in range(j) for k in range(i, j)}


def chart_sizes(shared: Example, example: Example, outputs: Outputs) -> None:
    """PC-2 L5, PC-3 L3; and a cell of step s has min(s, W) splits."""
    n, steps = len(example["scores"]) + 1, outputs[4]
    assert (outputs[1] == np.minimum(steps, shared["window"])).all()
    assert shared["window"] != 2 or (len(steps) <= 3 * n - 3 and outputs[1].sum() <= 5 * n)
    assert tree_height(parser_tree(example["scores"])) <= steps.max(initial=0) <= n - 1
