"""A distribution over the labelled trees of a sentence, from a score of every label for every span, and its best trees.

The proposals of Transformer Grammars (section 3.1) come from a parser; this is the one of Grove. Spans (i, j) are words
i to j, both included. A label may be a chain of constituents over the same words ("S+VP"): none of that matters here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from refimpl.checks import Float

LabelledSpan = tuple[int, int, int]  # first word, last word, label
Derivation = tuple[float, tuple[LabelledSpan, ...]]  # a score, and the constituents that it is of


def tree_score(scores: Float, tree: Iterable[Sequence[int]]) -> float:
    r"""Return the score of a tree: the sum of the scores of its constituents.

    Spec: SP-1.  $\operatorname{score}(y) = \sum_{(i, j, l) \in y} s_{i,j,l}$

    Parameters
    ----------
    scores : [n, n, L] float
        $s_{i,j,l}$; only i <= j is read. ``-inf`` forbids a label.
    tree : set of (i, j, label)
        At most one label a span; the sentence has one; no two spans cross.

    Raises
    ------
    ValueError
        If the scores are not [n, n, L] or hold a NaN or ``+inf``, or the tree is none.

    Examples
    --------
    >>> tree_score(np.arange(8.0).reshape(2, 2, 2), [(0, 1, 1), (0, 0, 0)])
    3.0
    """
    n, n_labels = _check(scores)
    spans: list[tuple[int, int]] = []
    total = 0.0
    for i, j, label in tree:
        if not (0 <= i <= j < n and 0 <= label < n_labels):
            raise ValueError(f"tree: ({i}, {j}, {label}) is no label of a span of {n} words")
        spans.append((i, j))
        total += float(scores[i, j, label])
    if (0, n - 1) not in spans:
        raise ValueError("tree: the sentence has no label")
    for (i, j), (a, b) in combinations(spans, 2):
        if (i, j) == (a, b):
            raise ValueError(f"tree: two labels for ({i}, {j})")
        if i < a <= j < b or a < i <= b < j:
            raise ValueError(f"tree: ({i}, {j}) and ({a}, {b}) cross")
    return total


def inside(scores: Float) -> float:
    r"""Return the logarithm of the sum of exp(score) over all trees of a sentence.

    Spec: SP-2.  $\log Z = \log \sum_y \exp \operatorname{score}(y) = C_{0,n-1}$; so $\log q(y \mid x)$ is a tree's
    score less this

    Parameters
    ----------
    scores : [n, n, L] float
        As in `tree_score`.

    Raises
    ------
    ValueError
        If the scores are not [n, n, L] or hold a NaN or ``+inf``, or no tree is possible.

    Examples
    --------
    Two words, one label: each word may have it or be bare.

    >>> round(math.exp(inside(np.zeros((2, 2, 1)))), 9)
    4.0
    """
    return float(_charts(scores)[0][0, -1])


def marginals(scores: Float) -> Float:
    r"""Return the probability of every label for every span: the gradient of log Z.

    Spec: SP-3.  $\mu_{i,j,l} = \sum_{y \ni (i,j,l)} q(y \mid x) = \partial \log Z / \partial s_{i,j,l}$

    Parameters
    ----------
    scores : [n, n, L] float
        As in `tree_score`.

    Returns
    -------
    [n, n, L] float, dtype of `scores`
        0 to 1 up to rounding; 0 where i > j. Those of the whole sentence sum to 1.

    Raises
    ------
    ValueError
        As `inside`.

    Examples
    --------
    >>> marginals(np.zeros((2, 2, 1)))[:, :, 0].round(9).tolist()
    [[0.5, 1.0], [0.0, 0.5]]
    """
    C, B, N, R = _charts(scores)
    n = len(C)
    of_B, of_R, mu = np.zeros_like(B), np.zeros_like(R), np.zeros_like(scores)  # probabilities that B, R are used
    for i, j in reversed(_spans(n)):
        of_N = 1.0 if (i, j) == (0, n - 1) else 0.0
        for m in range(j + 1, n):  # words i to j as the first child of what ends at m
            of_N += of_B[i, m] * _share(N[i, j] + R[j + 1, m], B[i, m])
        for m in range(i):  # as the rest behind the first child of what begins at m
            of_R[i, j] += of_B[m, j] * _share(N[m, i - 1] + R[i, j], B[m, j])
        of_N += of_R[i, j] * _share(N[i, j], R[i, j])
        of_C = of_N if (i, j) == (0, n - 1) else of_N * _share(C[i, j], N[i, j])
        below = B[i, j] if i < j else 0.0
        of_B[i, j] = of_C + of_R[i, j] * _share(below, R[i, j]) if i < j else 0.0
        mu[i, j] = [of_C * _share(s + below, C[i, j]) for s in scores[i, j]]
    return mu


def best_trees(scores: Float, count: int) -> list[tuple[float, list[LabelledSpan]]]:
    r"""Return the trees of the highest scores, best first, each once.

    Spec: SP-4.  The `count` highest $\operatorname{score}(y)$, or all where there are fewer trees

    Parameters
    ----------
    scores : [n, n, L] float
        As in `tree_score`.
    count : int
        At least 1.

    Returns
    -------
    list of (score, tree)
        A tree is its (i, j, label) in pre-order. Trees that ``-inf`` forbids are none.

    Raises
    ------
    ValueError
        As `inside`, and if `count` is below 1.

    Cost: $O(n^3\, k \log k)$ for k trees.

    Examples
    --------
    >>> scores = np.full((2, 2, 1), -1.0)
    >>> scores[0, 0] = 2.0
    >>> best_trees(scores, 2)
    [(1.0, [(0, 1, 0), (0, 0, 0)]), (0.0, [(0, 1, 0), (0, 0, 0), (1, 1, 0)])]
    """
    n, _ = _check(scores)
    if count < 1:
        raise ValueError(f"count: {count} is below 1")

    def best(derivations: Iterable[Derivation]) -> list[Derivation]:
        return sorted(derivations, key=lambda derivation: -derivation[0])[:count]

    def joined(left: list[Derivation], right: list[Derivation]) -> list[Derivation]:
        """Return all sums that can be among the best `count`: (a + 1)(b + 1) are at least as good as place (a, b)."""
        return [(x + y, p + q) for a, (x, p) in enumerate(left) for y, q in right[: count // (a + 1)]]

    row: dict[tuple[int, int], list[Derivation]] = {}
    node: dict[tuple[int, int], list[Derivation]] = {}
    rest: dict[tuple[int, int], list[Derivation]] = {}
    bare: list[Derivation] = [(0.0, ())]
    for i, j in _spans(n):
        row[i, j] = best(way for k in range(i, j) for way in joined(node[i, k], rest[k + 1, j]))
        labels = best((float(s), ((i, j, label),)) for label, s in enumerate(scores[i, j]) if s > -np.inf)
        constituents = best(joined(labels, row[i, j] if i < j else bare))
        node[i, j] = best(constituents + (bare if i == j else []))
        rest[i, j] = best(node[i, j] + row[i, j])
    if not constituents:
        raise ValueError("scores: no tree is possible")
    return [(score, list(tree)) for score, tree in constituents]


def _check(scores: Float) -> tuple[int, int]:
    if scores.ndim != 3 or scores.shape[0] != scores.shape[1] or scores.shape[2] < 1:
        raise ValueError(f"scores: shape {scores.shape} is not [n, n, L]")
    if scores.dtype.kind != "f":
        raise ValueError(f"scores: {scores.dtype} is no float")
    if len(scores) == 0:
        raise ValueError("scores: an empty sentence")
    for i, j in _spans(len(scores)):
        if not (scores[i, j] < np.inf).all():
            raise ValueError(f"scores: NaN or +inf for ({i}, {j})")
    return len(scores), scores.shape[2]


def _spans(n: int) -> list[tuple[int, int]]:
    return [(i, i + longer) for longer in range(n) for i in range(n - longer)]


def _charts(scores: Float) -> tuple[Float, Float, Float, Float]:
    r"""Return $C$, $B$, $N$, $R$, each [n, n], ``-inf`` where there is nothing. Spec: SP-2."""
    n, _ = _check(scores)
    C, B, N, R = np.full((4, n, n), -np.inf, scores.dtype)
    for i, j in _spans(n):
        if i == j:
            C[i, i] = np.logaddexp.reduce(scores[i, i])
            N[i, i] = np.logaddexp(0, C[i, i])
            R[i, i] = N[i, i]
        else:
            B[i, j] = np.logaddexp.reduce([N[i, k] + R[k + 1, j] for k in range(i, j)])
            C[i, j] = np.logaddexp.reduce(scores[i, j]) + B[i, j]
            N[i, j] = C[i, j]
            R[i, j] = np.logaddexp(N[i, j], B[i, j])
    if C[0, -1] == -np.inf:
        raise ValueError("scores: no tree is possible")
    return C, B, N, R


def _share(part: float, whole: float) -> float:
    """Return exp(part - whole), a probability; 0 for what is impossible, even where the whole is."""
    return math.exp(part - whole) if part > -np.inf else 0.0
