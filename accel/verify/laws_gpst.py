"""What any right pruned chart obeys: laws on one sentence, as the row in `accel/verify/ops/gpst.py` cuts it out of a
batch.

Outputs are spans [c, 2], the number of splits of every cell, the nodes of all left and of all right parts (words, then
n + the place of the cell), the step of every cell from 1 on, and the root.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Example = dict[str, Any]
Outputs = tuple[np.ndarray, ...]
Split = tuple[int, int, int]


def parser_tree(scores: np.ndarray) -> set[Split]:
    """Return (first word, split, last word) of every node: the highest score splits, the last of equal ones."""
    found, waiting = set(), [(0, len(scores))]
    while waiting:
        i, j = waiting.pop()
        if i < j:
            k = max(range(i, j), key=lambda k: (scores[k], k))
            found.add((i, k, j))
            waiting += [(i, k), (k + 1, j)]
    return found


def tree_height(tree: set[Split]) -> int:
    heights: dict[tuple[int, int], int] = {}
    for i, k, j in sorted(tree, key=lambda split: split[2] - split[0]):
        heights[i, j] = 1 + max(heights.get((i, k), 0), heights.get((k + 1, j), 0))
    return max(heights.values(), default=0)


def nodes_of(example: Example, outputs: Outputs) -> list[tuple[int, int]]:
    return [(i, i) for i in range(len(example["scores"]) + 1)] + [(int(i), int(j)) for i, j in outputs[0]]


def splits_of(example: Example, outputs: Outputs) -> list[Split]:
    """Return (first word, split, last word) of every split; its parts must meet there."""
    nodes, own = nodes_of(example, outputs), np.repeat(outputs[0], outputs[1], axis=0).tolist()
    found = []
    for (i, j), left, right in zip(own, outputs[2], outputs[3], strict=True):
        (a, k), (m, z) = nodes[left], nodes[right]
        assert (a, m, z) == (i, k + 1, j), f"({i}, {j}) is not ({a}, {k}) and ({m}, {z})"
        found.append((i, k, j))
    return found


def parts_meet(shared: Example, example: Example, outputs: Outputs) -> None:
    """PC-2: both parts of a split make up the span, splits ascend, and no span or split comes twice."""
    splits, nodes = splits_of(example, outputs), nodes_of(example, outputs)
    assert len(set(splits)) == len(splits) and len(set(nodes)) == len(nodes)
    assert all(a[0::2] != b[0::2] or a < b for a, b in zip(splits[:-1], splits[1:], strict=True))
    assert nodes[outputs[5][0]] == (0, len(example["scores"]))


def parts_come_earlier(shared: Example, example: Example, outputs: Outputs) -> None:
    """PC-3 L1: parts have smaller steps, one of them the step before; the whole sentence is alone in the last."""
    steps = np.concatenate([np.zeros(len(example["scores"]) + 1, int), outputs[4]])
    latest = np.maximum(steps[outputs[2]], steps[outputs[3]])
    begins = np.cumsum(outputs[1]) - outputs[1]
    assert len(begins) == 0 or (np.maximum.reduceat(latest, begins) + 1 == outputs[4]).all()
    assert (np.diff(outputs[4]) >= 0).all() and (outputs[4] == outputs[4].max(initial=0)).sum() == (len(begins) > 0)


def windows(shared: Example, example: Example, outputs: Outputs) -> None:
    """PC-2 L1 to L3: W >= n - 1 is the full chart, W = 1 the parser's tree, which lies in every other."""
    splits, n, window = set(splits_of(example, outputs)), len(example["scores"]) + 1, shared["window"]
    tree = parser_tree(example["scores"])
    assert tree <= splits
    if window == 1:
        assert tree == splits
    if window >= n - 1:
        assert splits == {(i, k, j) for j in range(n) for i in range(j) for k in range(i, j)}


def sizes(shared: Example, example: Example, outputs: Outputs) -> None:
    """PC-2 L5, PC-3 L3; and a cell of step s has as many splits as s, but no more than W."""
    n, steps = len(example["scores"]) + 1, outputs[4]
    assert (outputs[1] == np.minimum(steps, shared["window"])).all()
    assert shared["window"] != 2 or (len(steps) <= 3 * n - 3 and outputs[1].sum() <= 5 * n)
    assert tree_height(parser_tree(example["scores"])) <= steps.max(initial=0) <= n - 1
