"""GPST's inside and outside passes over a chart (appendix A.1), and the tree that they induce (section 3.2)."""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.checks import Float, Parameters, check_finite, check_shape
from refimpl.gpst.composition import compose, decompose, norm, score
from refimpl.gpst.pruned_chart import Atoms, Chart, Span
from refimpl.layers import softmax

BySpan = dict[Span, Float]
Split = tuple[int, int, int]  # a node of a binary tree: first word, last word of its left part, last word


@dataclass(frozen=True, eq=False)
class Inside:
    """What the inside pass computes for the spans of a sentence. Spec: IO-3, IO-6."""

    vectors: dict[Span, Float]  # [d] of every word (i, i) and every cell
    scores: dict[Span, Float]  # [K] of the splits of every cell
    weights: dict[Span, Float]  # [K]; they sum to 1
    heights: dict[Span, float]  # of every word and every cell


def inside(leaves: Float, chart: Chart, parameters: Parameters, n_heads: int, weights: BySpan | None = None) -> Inside:
    r"""Return the inside vector of every span, the scores and weights of its splits, and its expected height.

    Spec: IO-3, IO-6.
    $i_{i,j} = \operatorname{norm}(\sum_{k \in \mathcal K_{i,j}} \hat w^k_{i,j} f_\alpha(i_{i,k}, i_{k+1,j}))$,
    $h_{i,j} = \sum_{k \in \mathcal K_{i,j}} \hat w^k_{i,j} (\max(h_{i,k}, h_{k+1,j}) + 1)$

    leaves : [n, d] float, vectors of the words; chart : full or pruned, of n words
    parameters : see the page of `composition`; n_heads : int, divides d
    weights : dict from every cell to [K] float, constants in place of the softmax (stop-gradient), or None
    -> Inside
    Raises ValueError if a leaf is not finite, there are not n leaves, shapes do not fit, or the heads do not divide d.

    Without layers and with equal scores, a vector is the norm of the mean, over the splits, of norm(left + right).

    >>> from refimpl.gpst.pruned_chart import pruned_chart
    >>> names = [f"inside.{side}.{end}" for side in ("left", "right") for end in ("in", "out")]
    >>> zeros = {name: np.zeros((2, 2)) for name in names} | {f"{name}_bias": np.zeros(2) for name in names}
    >>> x = inside(np.array([[1e4, 0.0], [0.0, 3e4], [6e4, 0.0]]), pruned_chart([0, 1], 3), zeros, 1)
    >>> x.vectors[0, 1].round(4).tolist(), x.vectors[1, 2].round(4).tolist(), x.weights[0, 2].tolist(), x.heights[0, 2]
    ([-1.0, 1.0], [1.0, -1.0], [0.5, 0.5], 2.0)
    """
    check_shape("leaves", leaves, chart.n, None)
    check_finite("leaves", leaves)
    vectors = {(i, i): leaf for i, leaf in enumerate(leaves)}
    heights = {(i, i): 0.0 for i in range(chart.n)}
    scores, w = {}, {}
    for (i, j), splits in chart.cells.items():
        parts = [(vectors[i, k], vectors[k + 1, j]) for k in splits]
        scores[i, j] = np.array([score(*pair, parameters, "inside.left", "inside.right") for pair in parts])
        w[i, j] = softmax(scores[i, j]) if weights is None else weights[i, j]
        vectors[i, j] = norm(w[i, j] @ np.array([compose(*pair, parameters, n_heads) for pair in parts]))
        heights[i, j] = float(w[i, j] @ np.array([max(heights[i, k], heights[k + 1, j]) + 1 for k in splits]))
    return Inside(vectors, scores, w, heights)


def outside(inside: Inside, chart: Chart, parameters: Parameters, n_heads: int) -> tuple[BySpan, BySpan]:
    r"""Return the outside vector of every span, and the weights of its parents.

    Spec: IO-4.  $o_{i,j} = \sum_{\mathcal P_{i,j}} \check w f_\beta(o_{\text{parent}}, i_{\text{sibling}})$; the whole
    sentence has a learned vector

    inside : of the same chart; chart, parameters, n_heads : as `inside`
    -> dict from span to [d] float; dict from span, except the sentence, to [P] float, the shortest parent first
    Raises ValueError if shapes do not fit, or the heads do not divide d; NaN is refused by `inside`, not here.

    Without layers: the first of two words sees the root's vector and the second word.

    >>> from refimpl.gpst.pruned_chart import pruned_chart
    >>> names = [f"outside.{network}.{end}" for network in ("parent", "left", "right") for end in ("in", "out")]
    >>> p = {name: np.zeros((2, 2)) for name in names} | {f"{name}_bias": np.zeros(2) for name in names}
    >>> p["outside_root"], words = np.array([1e4, 2e4]), {(0, 0): np.array([7e9, 0.0]), (1, 1): np.array([6e4, 0.0])}
    >>> vectors, weights = outside(Inside(words, {}, {}, {}), pruned_chart([0], 2), p, 1)
    >>> vectors[0, 0].round(6).tolist(), weights
    ([1.0, -1.0], {(0, 0): array([1.]), (1, 1): array([1.])})
    """
    parents: dict[Span, list[tuple[Span, Span, str]]] = {}
    for (i, j), splits in chart.cells.items():
        for k in splits:
            parents.setdefault((i, k), []).append(((i, j), (k + 1, j), "right"))
            parents.setdefault((k + 1, j), []).append(((i, j), (i, k), "left"))
    vectors, weights = {(0, chart.n - 1): parameters["outside_root"]}, {}
    for span in sorted(parents, key=lambda span: (span[0] - span[1], span)):  # the longest first
        around = [(vectors[parent], inside.vectors[sibling], side) for parent, sibling, side in parents[span]]
        scores = [score(o, i, parameters, "outside.parent", f"outside.{side}") for o, i, side in around]
        weights[span] = softmax(np.array(scores))
        vectors[span] = weights[span] @ np.array([decompose(*parent, parameters, n_heads) for parent in around])
    return vectors, weights


def induced_tree(chart: Chart, scores: BySpan, atoms: Atoms = ()) -> list[Split]:
    r"""Return the binary tree that splits every span where its score is highest, from the whole sentence down.

    Spec: IO-5.  $\hat k = \min \operatorname{argmax}_{k \in \mathcal K_{i,j}} \bar a^k_{i,j}$

    scores : dict from every cell to [K] float, of its splits
    atoms : list of (i, j), spans that become constituents: only spans within an atom are split at its inner points
    -> list of n - 1 (i, k, j), span i to j split after k: every node before its parts, the left part first
    Raises ValueError if a score that is read is NaN, or all splits that the chart has for a span lie inside of atoms.

    >>> from refimpl.gpst.pruned_chart import pruned_chart
    >>> scores = {(0, 1): np.zeros(1), (1, 2): np.zeros(1), (0, 2): np.array([1.0, 2.0])}
    >>> induced_tree(pruned_chart([0, 1], 3), scores), induced_tree(pruned_chart([0, 1], 3), scores, [(1, 2)])
    ([(0, 1, 2), (0, 0, 1)], [(0, 0, 2), (1, 1, 2)])
    """
    tree, agenda = [], [(0, chart.n - 1)]
    while agenda:
        i, j = agenda.pop()
        if i < j:
            inner = {k for a, b in atoms if not a <= i < j <= b for k in range(a, b)}
            value = {k: a for k, a in zip(chart.cells[i, j], scores[i, j].tolist(), strict=True) if k not in inner}
            if not value or any(map(math.isnan, value.values())):
                raise ValueError(f"span {i}..{j}: NaN among its scores {value}, or only splits inside of atoms")
            best = max(value, key=value.__getitem__)
            tree.append((i, best, j))
            agenda += [(best + 1, j), (i, best)]
    return tree


def post_order(tree: list[Split]) -> list[Span]:
    r"""Return the 2n - 1 spans of a binary tree over n words, parts before the whole, the left part first.

    Spec: IO-5.

    tree : list of n - 1 (i, k, j), in any order -> list of (i, j)
    Raises ValueError if the splits are not those of a binary tree over words 0 to n - 1.

    >>> post_order([(0, 0, 2), (1, 1, 2)]), post_order([])
    ([(0, 0), (1, 1), (2, 2), (1, 2), (0, 2)], [(0, 0)])
    """
    n = len(tree) + 1
    spans = {(i, i) for i in range(n)} | {(i, j) for i, _, j in tree}
    parts = [part for i, k, j in tree for part in ((i, k), (k + 1, j)) if i <= k < j]
    if len(spans) != 2 * n - 1 or sorted([*parts, (0, n - 1)]) != sorted(spans):
        raise ValueError(f"tree: {list(tree)} are not the splits of a binary tree over {n} words")
    return sorted(spans, key=lambda span: (span[1], -span[0]))
