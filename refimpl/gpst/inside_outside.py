"""GPST's composition model (section 3.2, appendix A.1, A.2): a vector for the inside and the outside of every span."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from refimpl.attention import dot_product_attention
from refimpl.checks import Float, Parameters
from refimpl.gpst.pruned_chart import Chart, Span
from refimpl.layers import layer_norm, linear, mlp, softmax

BySpan = Mapping[Span, Float]
Side = Literal["left", "right"]
Split = tuple[int, int, int]  # a node of a binary tree: first word, last word of its left part, last word


@dataclass(frozen=True, eq=False)
class Inside:
    """The spans of a sentence, seen from inside. Spec: IO-3, IO-6."""

    vectors: dict[Span, Float]  # [d] of every word (i, i) and every cell
    scores: dict[Span, Float]  # [K] of the splits of every cell
    weights: dict[Span, Float]  # [K]; they sum to 1
    heights: dict[Span, float]  # of every word and every cell


def self_attention(
    x: Float, values: Float, parameters: Parameters, name: str, n_heads: int, causal: bool = False,
    turn: Callable[[Float], Float] | None = None,
) -> Float:  # fmt: skip
    r"""Return multi-head attention of rows to one another, with queries and keys from other rows than the values.

    Spec: IO-1.  $\operatorname{ED-1}(x W_q, x W_k, z W_v)\, W_o$, biases where there are some

    Parameters
    ----------
    x, values : [T, d] float
        What queries and keys, and what the values are made of.
    parameters : dict of str to float array
        `{name}.query`, `.key`, `.value`, `.output` [d, d]; and `_bias` [d] of each, or none.
    name : str
    n_heads : int
        Divides d.
    causal : bool
        Row i sees the rows up to i.
    turn : function, or None
        Applied to the queries and to the keys, [T, H, D]: positions.

    Returns
    -------
    [T, d] float, dtype of `x`

    Raises
    ------
    ValueError
        If the heads do not divide d, or shapes or dtypes do not fit.

    Examples
    --------
    Equal scores: every row gets the mean of the values.

    >>> p = {f"a.{name}": np.eye(1) * (name in ("value", "output")) for name in ("query", "key", "value", "output")}
    >>> self_attention(np.ones((2, 1)), np.array([[1.0], [3.0]]), p, "a", 1).tolist()
    [[2.0], [2.0]]
    """
    if n_heads < 1 or x.shape[1] % n_heads:
        raise ValueError(f"n_heads: {n_heads} does not divide {x.shape[1]}")

    def times(matrix: str, rows: Float) -> Float:
        return linear(rows, parameters[f"{name}.{matrix}"], parameters.get(f"{name}.{matrix}_bias"))

    used = ("query", x), ("key", x), ("value", values)
    q, k, v = (times(matrix, rows).reshape(len(rows), n_heads, x.shape[1] // n_heads) for matrix, rows in used)
    q, k = (q, k) if turn is None else (turn(q), turn(k))
    return times("output", dot_product_attention(q, k, v, causal)[0].reshape(x.shape))


def compose(left: Float, right: Float, parameters: Parameters, n_heads: int) -> Float:
    r"""Return the vector of two spans that follow each other.

    Spec: IO-1.  $f_\alpha(l, r) = \operatorname{norm}(x_1 + x_2)$, $x$ the outputs of $N$ layers over $(l, r)$

    Parameters
    ----------
    left, right : [d] float
    parameters : dict of str to float array
        See the page.
    n_heads : int
        Divides d.

    Returns
    -------
    [d] float, dtype of `left`
        Mean 0.

    Examples
    --------
    Without layers, the sum of both, normalised.

    >>> compose(np.array([1e4, 0.0]), np.array([1e4, -4e4]), {}, 1).round(6).tolist()
    [1.0, -1.0]
    """
    return _over_roles(np.array([left, right]), [0, 1], parameters, "compose", n_heads)


def decompose(outside: Float, sibling: Float, side: Side, parameters: Parameters, n_heads: int) -> Float:
    r"""Return the vector of what is outside of a span: its parent's outside, and its sibling.

    Spec: IO-1.  $f_\beta(o_{\text{parent}}, i_{\text{sibling}})$

    Parameters
    ----------
    outside, sibling : [d] float
        Outside vector of the parent, inside vector of the sibling.
    side : "left" or "right"
        Where the sibling stands.
    parameters : dict of str to float array
        See the page.
    n_heads : int
        Divides d.

    Returns
    -------
    [d] float, dtype of `outside`

    Examples
    --------
    >>> decompose(np.array([1e4, 0.0]), np.array([1e4, -4e4]), "left", {}, 1).round(6).tolist()
    [1.0, -1.0]
    """
    return _over_roles(np.array([outside, sibling]), [0, 1 + (side == "right")], parameters, "decompose", n_heads)


def _over_roles(x: Float, roles: list[int], parameters: Parameters, name: str, n_heads: int) -> Float:
    """Return the normalised sum of the outputs of all layers of that name. Queries and keys see the roles."""
    for own in (f"{name}.{k}" for k in range(sum(p.startswith(f"{name}.") and p.endswith("role") for p in parameters))):
        attended = self_attention(x + parameters[f"{own}.role"][roles], x, parameters, f"{own}.attention", n_heads)
        x = _norm(x + attended)
        x = _norm(x + mlp(x, parameters, f"{own}.feed_forward"))
    return _norm(x.sum(axis=0))


def _norm(x: Float) -> Float:
    """Return every row, or one vector, normalised without scale and shift."""
    one = np.ones(x.shape[-1], x.dtype)
    return layer_norm(np.atleast_2d(x), one, 0 * one).reshape(x.shape)


def score(x: Float, y: Float, parameters: Parameters, x_name: str, y_name: str) -> Float:
    r"""Return how well two vectors go together.

    Spec: IO-2.  $\phi(x, y) = \operatorname{MLP}(x)^\top \operatorname{MLP}'(y) / \sqrt s$   (equation 2)

    Parameters
    ----------
    x, y : [d] float
    parameters : dict of str to float array
    x_name, y_name : str
        The two networks: "inside.left" and "inside.right" of two parts of a span; "outside.parent" and "outside.left"
        or "outside.right" of a span's parent and a sibling on that side.

    Returns
    -------
    float of the dtype of `x`

    Examples
    --------
    >>> p = {f"{name}.in": np.eye(1) for name in "ab"} | {f"{name}.in_bias": np.zeros(1) for name in "ab"}
    >>> p |= {f"{name}.out": np.ones((1, 4)) for name in "ab"} | {f"{name}.out_bias": np.zeros(4) for name in "ab"}
    >>> float(score(np.array([50.0]), np.array([30.0]), p, "a", "b"))  # 4 * 50 * 30 / 2
    3000.0
    """
    a, b = mlp(x[np.newaxis], parameters, x_name)[0], mlp(y[np.newaxis], parameters, y_name)[0]
    return np.asarray(a @ b / math.sqrt(len(a)))


def inside_cell(
    parts: Sequence[tuple[Float, Float]], parameters: Parameters, n_heads: int, weights: Float | None = None
) -> tuple[Float, Float, Float]:
    r"""Return the inside vector of a span from the parts of its splits, the scores of the splits, and their weights.

    Spec: IO-3.  $i = \operatorname{norm}(\sum_k w_k f_\alpha(l_k, r_k))$, $w = \operatorname{softmax}_k \phi(l_k, r_k)$

    Parameters
    ----------
    parts : list of K pairs of [d] float
        Left and right part of every split, K >= 1.
    parameters : dict of str to float array
        See the page.
    n_heads : int
    weights : [K] float, or None
        Constants in place of the softmax: the gradient stop.

    Returns
    -------
    vector : [d] float
    scores, weights : [K] float

    Examples
    --------
    See `inside`.
    """
    scores = np.array([score(left, right, parameters, "inside.left", "inside.right") for left, right in parts])
    used = softmax(scores) if weights is None else weights
    composed = np.array([compose(left, right, parameters, n_heads) for left, right in parts])
    return _norm(used @ composed), scores, used


def inside(leaves: Float, chart: Chart, parameters: Parameters, n_heads: int, weights: BySpan | None = None) -> Inside:
    r"""Return the inside vector of every span, the scores and weights of its splits, and its expected height.

    Spec: IO-3, IO-6.  $i_{i,j} = \operatorname{norm}(\sum_{k \in \mathcal K_{i,j}} w^k_{i,j} \bar i^k_{i,j})$,
    $h_{i,j} = \sum_k w^k_{i,j} (\max(h_{i,k}, h_{k+1,j}) + 1)$

    Parameters
    ----------
    leaves : [n, d] float
        Vectors of the words, finite.
    chart : Chart
        Full or pruned, of n words.
    parameters : dict of str to float array
        See the page.
    n_heads : int
        Divides d.
    weights : dict from span to [K] float, or None
        Constants in place of the softmax, of every cell: the gradient stop.

    Returns
    -------
    Inside
        A span depends on its own words only.

    Raises
    ------
    ValueError
        If a leaf is NaN or infinite, there are not n of them, shapes do not fit, or the heads do not divide d.

    Examples
    --------
    Without layers, and all scores equal: norm of the mean of norms of sums.

    >>> from refimpl.gpst.pruned_chart import pruned_chart
    >>> names = [f"inside.{side}.{part}" for side in ("left", "right") for part in ("in", "out")]
    >>> zeros = {name: np.zeros((2, 2)) for name in names} | {f"{name}_bias": np.zeros(2) for name in names}
    >>> leaves = np.array([[1e4, 0.0], [0.0, 3e4], [6e4, 0.0]])
    >>> found = inside(leaves, pruned_chart([0, 1], 3), zeros, 1)
    >>> found.vectors[0, 1].round(4).tolist(), found.vectors[1, 2].round(4).tolist(), found.weights[0, 2].tolist()
    ([-1.0, 1.0], [1.0, -1.0], [0.5, 0.5])
    >>> found.heights[0, 2]
    2.0
    """
    if leaves.ndim != 2 or len(leaves) != chart.n:
        raise ValueError(f"leaves: shape {leaves.shape} is not [{chart.n}, d]")
    if not np.isfinite(leaves).all():
        raise ValueError(f"leaves: NaN or infinity in row {np.argwhere(~np.isfinite(leaves))[0, 0]}")
    vectors = {(i, i): leaf for i, leaf in enumerate(leaves)}
    heights = {(i, i): 0.0 for i in range(chart.n)}
    scores, used = {}, {}
    for (i, j), splits in chart.cells.items():
        parts = [(vectors[i, k], vectors[k + 1, j]) for k in splits]
        constant = None if weights is None else weights[i, j]
        vectors[i, j], scores[i, j], used[i, j] = inside_cell(parts, parameters, n_heads, constant)
        heights[i, j] = float(used[i, j] @ np.array([max(heights[i, k], heights[k + 1, j]) + 1 for k in splits]))
    return Inside(vectors, scores, used, heights)


def outside_cell(
    parents: Sequence[tuple[Float, Float, Side]], parameters: Parameters, n_heads: int
) -> tuple[Float, Float]:
    r"""Return the outside vector of a span from its parents, and their weights.

    Spec: IO-4.  $o = \sum_p \operatorname{softmax}_p(\phi_\beta)\, f_\beta(o_p, i_p)$

    Parameters
    ----------
    parents : list of P (outside vector [d] of the parent, inside vector [d] of the sibling, side of the sibling)
    parameters : dict of str to float array
        See the page.
    n_heads : int

    Returns
    -------
    vector : [d] float
    weights : [P] float

    Examples
    --------
    See `outside`.
    """
    scores = np.array([score(o, i, parameters, "outside.parent", f"outside.{side}") for o, i, side in parents])
    weights = softmax(scores)
    return weights @ np.array([decompose(*parent, parameters, n_heads) for parent in parents]), weights


def outside(inside: Inside, chart: Chart, parameters: Parameters, n_heads: int) -> tuple[BySpan, BySpan]:
    r"""Return the outside vector of every span, and the weights of its parents.

    Spec: IO-4.  $o_{i,j} = \sum_{k \in \mathcal P_{i,j}} \check w^k_{i,j} \bar o^k_{i,j}$; the whole sentence has a
    learned vector

    Parameters
    ----------
    inside : Inside
        Of the same chart.
    chart, parameters, n_heads
        As `inside`.

    Returns
    -------
    vectors : dict from span to [d] float
        A span's does not depend on its own words.
    weights : dict from span to [P] float
        Parents as `chart.cells` has them, the shortest first. None of the whole sentence.

    Examples
    --------
    Without layers: the first of two words sees the root's vector and the second word.

    >>> from refimpl.gpst.pruned_chart import pruned_chart
    >>> names = [f"outside.{who}.{part}" for who in ("parent", "left", "right") for part in ("in", "out")]
    >>> p = {name: np.zeros((2, 2)) for name in names} | {f"{name}_bias": np.zeros(2) for name in names}
    >>> p["outside_root"], words = np.array([1e4, 2e4]), {(0, 0): np.array([7e9, 0.0]), (1, 1): np.array([6e4, 0.0])}
    >>> vectors, weights = outside(Inside(words, {}, {}, {}), pruned_chart([0], 2), p, 1)
    >>> vectors[0, 0].round(6).tolist(), weights
    ([1.0, -1.0], {(0, 0): array([1.]), (1, 1): array([1.])})
    """
    parents: dict[Span, list[tuple[Span, Span, Side]]] = {}
    for (i, j), splits in chart.cells.items():
        for k in splits:
            parents.setdefault((i, k), []).append(((i, j), (k + 1, j), "right"))
            parents.setdefault((k + 1, j), []).append(((i, j), (i, k), "left"))
    vectors, weights = {(0, chart.n - 1): parameters["outside_root"]}, {}
    for span in sorted(parents, key=lambda span: (span[0] - span[1], span)):  # the longest first
        known = [(vectors[parent], inside.vectors[sibling], side) for parent, sibling, side in parents[span]]
        vectors[span], weights[span] = outside_cell(known, parameters, n_heads)
    return vectors, weights


def induced_tree(chart: Chart, scores: BySpan, atoms: Sequence[Span] = ()) -> list[Split]:
    r"""Return the binary tree that splits every span where its score is highest, from the whole sentence down.

    Spec: IO-5.  $\hat k = \min \operatorname{argmax}_{k \in \mathcal K_{i,j}} \bar a^k_{i,j}$

    Parameters
    ----------
    chart : Chart
    scores : dict from span to [K] float
        Of the splits of every cell.
    atoms : list of (i, j)
        Spans that are to be constituents: nothing outside of them is split at a point inside.

    Returns
    -------
    list of n - 1 (i, k, j)
        Span i to j split behind k: every node before its parts, the left part first.

    Raises
    ------
    ValueError
        If a score that is looked at is NaN, or the chart has no way around an atom.

    Examples
    --------
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


def post_order(tree: Sequence[Split]) -> list[Span]:
    r"""Return the 2n - 1 spans of a binary tree over n words, parts before the whole, the left part first.

    Spec: IO-5.

    Raises
    ------
    ValueError
        If the splits are not those of a binary tree over words 0 to n - 1.

    Examples
    --------
    >>> post_order([(0, 0, 2), (1, 1, 2)]), post_order([])
    ([(0, 0), (1, 1), (2, 2), (1, 2), (0, 2)], [(0, 0)])
    """
    n = len(tree) + 1
    spans = {(i, i) for i in range(n)} | {(i, j) for i, _, j in tree}
    parts = [part for i, k, j in tree for part in ((i, k), (k + 1, j)) if i <= k < j]
    if len(spans) != 2 * n - 1 or sorted([*parts, (0, n - 1)]) != sorted(spans):
        raise ValueError(f"tree: {list(tree)} are not the splits of a binary tree over {n} words")
    return sorted(spans, key=lambda span: (span[1], -span[0]))
