"""GPST's pruned chart (appendix A.1): which spans of a sentence are encoded, from which splits, in which steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refimpl.checks import Float, check_finite, check_least, check_shape

Span = tuple[int, int]
Atoms = Sequence[Span]  # spans that are to be one constituent each: words i to j, the pieces of a word


@dataclass(frozen=True)
class Chart:
    """The spans of two words or more of a sentence of n words that are encoded. Spec: PC-2, PC-3."""

    n: int
    cells: dict[Span, list[int]]  # the splits of every span (i, j), ascending; shorter spans first, then from the left
    steps: list[list[Span]]  # cells that can be encoded at the same time: they need earlier steps only


def merge_order(scores: Sequence[float] | Float, atoms: Atoms = ()) -> list[int]:
    r"""Return the split points in the order in which their two sides are merged.

    Spec: PC-1.  $\mathcal M$: ascending $v_k$, equal ones from left to right; points inside of atoms before all others

    scores : [n - 1] float, $v_k$ of the point between words k and k + 1
    atoms : list of (i, j), no two of them with a common word
    -> list of n - 1 int, a permutation of 0..n-2
    Raises ValueError if a score is NaN or infinite, the scores have more than one axis, an atom is no span of
    the sentence, or atoms share a word.

    >>> merge_order([0.5, 2.0, 0.5, 1.0]), merge_order([0.5, 2.0, 0.5, 1.0], atoms=[(1, 2)])
    ([0, 2, 3, 1], [1, 0, 2, 3])
    """
    v = np.asarray(scores)
    check_shape("scores", v, None)
    check_finite("scores", v)
    if not all(0 <= i <= j <= len(v) for i, j in atoms):
        raise ValueError(f"atoms: one of {list(atoms)} is no span of {len(v) + 1} words")
    if len({word for i, j in atoms for word in range(i, j + 1)}) < sum(j - i + 1 for i, j in atoms):
        raise ValueError(f"atoms: two of {list(atoms)} share a word")
    inner = {k for i, j in atoms for k in range(i, j)}
    return sorted(range(len(v)), key=lambda k: (k not in inner, v[k]))


def pruned_chart(merge_order: Sequence[int], n: int, window: int = 2) -> Chart:
    r"""Return the spans that are encoded, their splits, and the steps in which they are encoded.

    Spec: PC-2.  Steps 0 to 3 of appendix A.1; the rows of the table count from 0, so that $m$ is row W

    merge_order : list of n - 1 int, a permutation of the split points 0..n-2, lowest merge first
    n : int, words of the sentence, at least 1
    window : int, W, the largest number of splits of a span; 1: the tree of the order; n - 1: the full chart
    -> Chart, without cells of one word
    Raises ValueError if there is no word, the order is no permutation, or W < 1.
    Cost: O(n^3).

    The tree of this order is ((0 1) (2 3)): the sentence is split at its root, 1, or at that of its right half, 2.

    >>> pruned_chart([0, 2, 1], 4).cells
    {(0, 1): [0], (1, 2): [1], (2, 3): [2], (0, 2): [0, 1], (0, 3): [1, 2]}
    >>> pruned_chart([0, 2, 1], 4).steps
    [[(0, 1), (1, 2), (2, 3)], [(0, 2)], [(0, 3)]]
    """
    if n < 1:
        raise ValueError("n: an empty sentence")
    if sorted(merge_order) != list(range(n - 1)):
        raise ValueError(f"merge_order: no permutation of the {n - 1} split points of {n} words")
    check_least(1, window=window)
    table = [[(i, i + h) for i in range(n - h)] for h in range(n)]  # row h: all spans of h + 1 units; units are words
    splits = {(i, j): list(range(i, j)) for row in table[1 : window + 1] for i, j in row}
    for point in merge_order[: max(n - 1 - window, 0)]:  # 0. merge batches, of one point each, while cells are blank
        a = [j for _, j in table[0]].index(point)  # 1. merge unit a, which ends at the point, and unit a + 1
        for h in range(len(table) - 1):  # 2. remove spans that end at the point or start after it, cells a - h, a + 1
            b = max(a - h, 0)  # and reorganise: the cells around both units, b to a of row h + 1, drop by one row
            table[h] = table[h][:b] + table[h + 1][b : a + 1] + table[h][a + 2 :]
        table.pop()
        for b, span in enumerate(table[window]):  # 3. encode the cells that are new in row W
            splits.setdefault(span, [j for _, j in table[0][b : b + window]])
    return in_steps(splits, n)


def in_steps(splits: dict[Span, list[int]], n: int) -> Chart:
    r"""Return the chart of those cells only that the whole sentence needs, each in the earliest step.

    Spec: PC-3.  $\operatorname{step}(i, j) = 1 + \max_k \max(\operatorname{step}(i, k), \operatorname{step}(k + 1, j))$

    splits : dict from span to its split points; n : int, words -> Chart

    >>> in_steps({(0, 1): [0], (1, 2): [1], (0, 2): [0]}, 3)
    Chart(n=3, cells={(1, 2): [1], (0, 2): [0]}, steps=[[(1, 2)], [(0, 2)]])
    """
    spans = {(0, n - 1)}
    for i, j in sorted(splits, key=lambda span: span[0] - span[1]):  # the longest first
        if (i, j) in spans:
            spans.update(part for k in splits[i, j] for part in ((i, k), (k + 1, j)))
    cells = {span: splits[span] for span in sorted(spans & splits.keys(), key=lambda span: (span[1] - span[0], span))}
    step = {(i, i): 0 for i in range(n)}
    for i, j in cells:
        step[i, j] = 1 + max(max(step[i, k], step[k + 1, j]) for k in cells[i, j])
    return Chart(n, cells, [[span for span in cells if step[span] == s] for s in range(1, step[0, n - 1] + 1)])
