"""A distribution over the labelled trees of a sentence, from a score of every label for every span, and its best trees.

The proposals of Transformer Grammars (section 3.1) come from a parser; this is Grove's. Spans (i, j) are words i to j,
both included. Every function takes the scores $s_{i,j,l}$ [n, n, L] float, nats; only i <= j is read, ``-inf`` forbids
a label; it raises ValueError if they are not [n, n, L] floats or hold a NaN or ``+inf``.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from refimpl.checks import Float, check_least, check_shape
from refimpl.randomness import gumbel

LabelledSpan = tuple[int, int, int]  # first word, last word, label
Derivation = tuple[float, tuple[LabelledSpan, ...]]  # the score of a tree, and its constituents in pre-order


def tree_score(scores: Float, tree: Sequence[Sequence[int]]) -> float:
    r"""Return the score of a tree: the sum of the scores of its constituents.

    Spec: SP-1.  $\operatorname{score}(y) = \sum_{(i, j, l) \in y} s_{i,j,l}$

    tree : set of (i, j, label), at most one label per span; the whole sentence has one; no two spans cross.
    Raises ValueError for any other tree.

    >>> tree_score(np.arange(8.0).reshape(2, 2, 2), [(0, 1, 1), (0, 0, 0)])
    3.0
    """
    n, n_labels = _check(scores)
    for i, j, label in tree:
        if not (0 <= i <= j < n and 0 <= label < n_labels):
            raise ValueError(f"tree: ({i}, {j}, {label}) is no label of a span of {n} words")
    spans = [(i, j) for i, j, _ in tree]
    if (0, n - 1) not in spans:
        raise ValueError("tree: the sentence has no label")
    for (i, j), (a, b) in combinations(spans, 2):
        if (i, j) == (a, b):
            raise ValueError(f"tree: two labels for ({i}, {j})")
        if i < a <= j < b or a < i <= b < j:
            raise ValueError(f"tree: ({i}, {j}) and ({a}, {b}) cross")
    return sum((float(scores[i, j, label]) for i, j, label in tree), 0.0)


def span_logz(scores: Float) -> float:
    r"""Return the logarithm of the sum of exp(score) over all trees of a sentence.

    Spec: SP-2.  $\log Z = \log \sum_y \exp \operatorname{score}(y) = C_{0,n-1}$
    Raises ValueError if no tree is possible.

    >>> round(math.exp(span_logz(np.zeros((2, 2, 1)))), 9)
    4.0
    """
    return float(_charts(scores)[0][0, -1])


def marginals(scores: Float) -> Float:
    r"""Return the probability of every label for every span: the gradient of log Z.

    Spec: SP-3.  $\mu_{i,j,l} = \sum_{y \ni (i,j,l)} q(y \mid x) = \partial \log Z / \partial s_{i,j,l}$

    scores -> [n, n, L] float, 0 to 1 up to rounding; 0 where i > j.
    Raises ValueError if no tree is possible.

    >>> marginals(np.zeros((2, 2, 1)))[:, :, 0].round(9).tolist()
    [[0.5, 1.0], [0.0, 0.5]]
    """
    C, B, N, R = _charts(scores)
    n = len(C)
    hat_B, hat_R, mu = np.zeros_like(B), np.zeros_like(R), np.zeros_like(scores)
    for i, j in reversed(_spans(n)):
        # words i to j: the rest of children that begin at m; the first of children that end at m; the last child
        hat_R[i, j] = sum(hat_B[m, j] * _share(N[m, i - 1] + R[i, j], B[m, j]) for m in range(i))
        hat_N = sum(hat_B[i, m] * _share(N[i, j] + R[j + 1, m], B[i, m]) for m in range(j + 1, n))
        hat_N += hat_R[i, j] * _share(N[i, j], R[i, j])
        hat_C = 1.0 if (i, j) == (0, n - 1) else hat_N * _share(C[i, j], N[i, j])
        hat_B[i, j] = hat_C + hat_R[i, j] * _share(B[i, j], R[i, j])
        mu[i, j] = [hat_C * _share(s + B[i, j], C[i, j]) for s in scores[i, j]]
    return mu


def best_trees(scores: Float, count: int) -> list[tuple[float, list[LabelledSpan]]]:
    r"""Return the trees of the highest scores, best first, each once, as (score, tree).

    Spec: SP-4.  The `count` highest $\operatorname{score}(y)$, or all where there are fewer trees

    A tree is its (i, j, label) in pre-order.
    Raises ValueError if no tree is possible or `count` is below 1.
    Cost: $O(n^3\, k \log k)$ sums for k trees, each of which copies trees.

    >>> scores = np.full((2, 2, 1), -1.0)
    >>> scores[0, 0] = 2.0
    >>> best_trees(scores, 2)
    [(1.0, [(0, 1, 0), (0, 0, 0)]), (0.0, [(0, 1, 0), (0, 0, 0), (1, 1, 0)])]
    """
    n, _ = _check(scores)
    check_least(1, count=count)

    def best(derivations: Iterable[Derivation]) -> list[Derivation]:
        return sorted(derivations, key=lambda derivation: -derivation[0])[:count]

    def product(left: list[Derivation], right: list[Derivation]) -> list[Derivation]:
        """Return all sums that can be in the best `count`: (a + 1)(b + 1) sums are at least as good as sum (a, b)."""
        return [(x + y, p + q) for a, (x, p) in enumerate(left) for y, q in right[: count // (a + 1)]]

    C, B, N, R = ({span: list[Derivation]() for span in _spans(n)} for _ in range(4))
    for i, j in _spans(n):
        B[i, j] = [(0.0, ())] if i == j else best(d for k in range(i, j) for d in product(N[i, k], R[k + 1, j]))
        labels = best((float(s), ((i, j, label),)) for label, s in enumerate(scores[i, j]) if s > -np.inf)
        C[i, j] = best(product(labels, B[i, j]))
        R[i, j] = best(C[i, j] + B[i, j])
        N[i, j] = R[i, j] if i == j else C[i, j]
    if not C[0, n - 1]:
        raise ValueError("scores: no tree is possible")
    return [(score, list(tree)) for score, tree in C[0, n - 1]]


def sample_trees(scores: Float, count: int, seed: int) -> list[tuple[float, list[LabelledSpan]]]:
    r"""Return `count` trees, drawn one after the other without replacement, as (log-probability to be drawn, tree).

    Spec: SP-5.  The `count` highest $g_y = \log q(y \mid x) + \mathrm{Gumbel}_y$, highest first, or all where there are
    fewer; $\log \pi_y = \log(1 - \exp(-q(y \mid x) e^{-\kappa}))$ with the next highest $g$ as $\kappa$

    A tree is as in `best_trees`. Raises ValueError as `best_trees`.
    Cost: all trees are listed.

    >>> [(round(math.exp(logp), 3), tree) for logp, tree in sample_trees(np.zeros((1, 1, 2)), 2, seed=0)]
    [(1.0, [(0, 0, 0)]), (1.0, [(0, 0, 1)])]
    """
    trees = best_trees(scores, 2**63 if count > 0 else count)
    logq = np.array([score for score, _ in trees]) - span_logz(scores)
    g = logq + gumbel(np.arange(len(trees)), seed)
    order = np.argsort(-g)
    kappa, sample = g[order[count]] if count < len(trees) else -np.inf, order[:count]
    with np.errstate(over="ignore"):  # a tree that is certain to be drawn
        log_pi = np.log(-np.expm1(-np.exp(logq[sample] - kappa)))
    return [(float(logp), trees[y][1]) for logp, y in zip(log_pi, sample, strict=True)]


def _charts(scores: Float) -> tuple[Float, Float, Float, Float]:
    """Return C, B, N, R of SP-2, each [n, n], ``-inf`` where there is nothing."""
    n, _ = _check(scores)
    C, B, N, R = np.full((4, n, n), -np.inf, scores.dtype)
    for i, j in _spans(n):
        B[i, j] = 0 if i == j else np.logaddexp.reduce([N[i, k] + R[k + 1, j] for k in range(i, j)])
        C[i, j] = np.logaddexp.reduce(scores[i, j]) + B[i, j]
        R[i, j] = np.logaddexp(C[i, j], B[i, j])
        N[i, j] = R[i, j] if i == j else C[i, j]
    if C[0, -1] == -np.inf:
        raise ValueError("scores: no tree is possible")
    return C, B, N, R


def _share(part: float, whole: float) -> float:
    """Return exp(part - whole), a probability; 0 where the part is impossible, even if the whole is."""
    return math.exp(part - whole) if part > -np.inf else 0.0


def _spans(n: int) -> list[tuple[int, int]]:
    return [(i, i + longer) for longer in range(n) for i in range(n - longer)]


def _check(scores: Float) -> tuple[int, int]:
    check_shape("scores", scores, None, None, None)
    n, n_columns, n_labels = scores.shape
    if n == 0 or n != n_columns or n_labels == 0 or scores.dtype.kind != "f":
        raise ValueError(f"scores: shape {scores.shape} of {scores.dtype}, expected floats [n, n, L], n and L above 0")
    for i, j in _spans(n):
        if not (scores[i, j] < np.inf).all():
            raise ValueError(f"scores: NaN or +inf for ({i}, {j})")
    return n, n_labels
