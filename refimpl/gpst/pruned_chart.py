"""GPST's pruned chart (appendix A.1): which spans of a sentence are encoded, from which splits, in which steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refimpl.checks import Float

Span = tuple[int, int]


@dataclass(frozen=True)
class Chart:
    """The spans of two words or more of a sentence of n words that are encoded. Spec: PC-2, PC-3."""

    n: int
    cells: dict[Span, list[int]]  # the splits of every span (i, j), ascending; shorter spans first, then from the left
    steps: list[list[Span]]  # cells that can be encoded at the same time: they need earlier steps only


def merge_order(scores: Sequence[float] | Float, atoms: Sequence[Span] = ()) -> list[int]:
    r"""Return the split points in the order in which their two sides are merged.

    Spec: PC-1.  Ascending $v_k$, equal ones from left to right; points inside of atoms before all others

    Parameters
    ----------
    scores : [n - 1] float
        $v_k$ of the point between words k and k + 1, finite.
    atoms : list of (i, j)
        Words i to j, both included, that are to be one constituent: the pieces of a word.

    Returns
    -------
    list of n - 1 int
        A permutation of 0..n-2.

    Raises
    ------
    ValueError
        If a score is NaN or infinite, or the scores have more than one axis.

    Examples
    --------
    >>> merge_order([0.5, 2.0, 0.5, 1.0]), merge_order([0.5, 2.0, 0.5, 1.0], atoms=[(1, 2)])
    ([0, 2, 3, 1], [1, 0, 2, 3])
    """
    v = np.asarray(scores)
    if v.ndim != 1 or not np.isfinite(v).all():
        raise ValueError(f"scores: {scores} are not [n - 1] finite numbers")
    inner = {k for i, j in atoms for k in range(i, j)}
    return sorted(range(len(v)), key=lambda k: (k not in inner, v[k]))


def pruned_chart(merge_order: Sequence[int], n: int, window: int = 2) -> Chart:
    r"""Return the spans that are encoded, their splits, and the steps in which they are.

    Spec: PC-2, PC-3.  $\mathcal K_{i,j}$: the last W points of i..j-1 in merge order; the cells are what is
    reached so from the whole sentence

    Parameters
    ----------
    merge_order : list of n - 1 int
        A permutation of the split points 0..n-2, lowest merge first.
    n : int
        Words of the sentence, n >= 1.
    window : int
        W, the largest number of splits of a span. 1: the tree that the order builds; n - 1: the full chart.

    Returns
    -------
    Chart
        No cell for one word.

    Raises
    ------
    ValueError
        If there is no word, the order is no permutation, or W < 1.

    Examples
    --------
    The tree of this order is ((0 1) (2 3)): the sentence is split at its root, 1, or where the right half is, 2.

    >>> pruned_chart([0, 2, 1], 4).cells
    {(0, 1): [0], (1, 2): [1], (2, 3): [2], (0, 2): [0, 1], (0, 3): [1, 2]}
    >>> pruned_chart([0, 2, 1], 4).steps
    [[(0, 1), (1, 2), (2, 3)], [(0, 2)], [(0, 3)]]
    """
    if n < 1:
        raise ValueError("n: an empty sentence")
    if sorted(merge_order) != list(range(n - 1)):
        raise ValueError(f"merge_order: no permutation of the {n - 1} split points of {n} words")
    if window < 1:
        raise ValueError(f"window: {window} is below 1")
    rank = {point: t for t, point in enumerate(merge_order)}
    cells: dict[Span, list[int]] = {}
    agenda = [(0, n - 1)]
    while agenda:
        i, j = agenda.pop()
        if i < j and (i, j) not in cells:
            cells[i, j] = sorted(sorted(range(i, j), key=lambda k: rank[k])[-window:])
            agenda += [part for k in cells[i, j] for part in ((i, k), (k + 1, j))]
    cells = {span: cells[span] for span in sorted(cells, key=lambda span: (span[1] - span[0], span))}
    step: dict[Span, int] = {}  # of a word: 0
    for (i, j), splits in cells.items():
        step[i, j] = 1 + max(step.get(part, 0) for k in splits for part in ((i, k), (k + 1, j)))
    steps = [[span for span in cells if step[span] == s] for s in range(1, max(step.values(), default=0) + 1)]
    return Chart(n, cells, steps)
