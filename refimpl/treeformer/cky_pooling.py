"""Treeformer's chart of phrases, after the CKY algorithm (sections 3.2 and 4), and the tree of its largest weights."""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.checks import Float, Parameters, check_finite, check_heads, check_least, check_shape, check_shapes
from refimpl.layers import softmax
from refimpl.treeformer.released import released_block, released_shapes
from refimpl.trees import Tree

Span = tuple[int, int]
Limit = int | None  # the longest phrase of a chart, in tokens; None: no limit


@dataclass(frozen=True, eq=False)
class Chart:
    """The phrases of a sentence of n tokens, by length, and from left to right. Spec: CKY-3."""

    n: int
    vectors: dict[Span, Float]  # [d] of every phrase (i, j) of at most max_height tokens, both ends included
    weights: dict[Span, Float]  # [j - i] of every phrase of two or more tokens: the weight of each split k = i..j-1


def parameter_shapes(d: int) -> dict[str, tuple[int, ...]]:
    r"""Return the name and the shape of every parameter, for vectors of width d.

    Spec: CKY-1, CKY-2.

    >>> parameter_shapes(3)
    {'w': (3,), 'compose': (6, 3), 'key': (3, 3), 'query': (3, 3)}
    """
    return {"w": (d,), "compose": (2 * d, d), "key": (d, d), "query": (d, d)}


def phrases(n: int, max_height: Limit = None) -> list[Span]:
    r"""Return the phrases of a chart in their order: by length, and from left to right.

    Spec: CKY-3.  $(i, i + h - 1)$ for $h = 1, \dots, \min(n, H)$, $i = 0, \dots, n - h$

    n : int, tokens; max_height : H. Raises ValueError if either is below 1.

    >>> phrases(3, 2)
    [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2)]
    """
    if n < 1:
        raise ValueError("tokens: an empty sentence")
    check_least(1, max_height=max_height)
    return [(i, i + h - 1) for h in range(1, min(n, max_height or n) + 1) for i in range(n - h + 1)]


def n_nodes(n: int, max_height: Limit = None) -> int:
    r"""Return the number of phrases in a chart.

    Spec: CKY-3.  $n H - H (H - 1) / 2$, $H$ for $\min(n, H)$

    >>> n_nodes(4), n_nodes(4, 2), n_nodes(4, 9)
    (10, 7, 10)
    """
    return len(phrases(n, max_height))


def compose(left: Float, right: Float, weight: Float) -> Float:
    r"""Return the vector of two phrases that follow each other.

    Spec: CKY-1.  $c_k = [r_{i,k}; r_{k+1,j}]\, W$   (equation 1)

    left, right : [d] or [K, d] float, of one split or of several; weight : [2d, d] float -> [d] or [K, d] float.
    Raises ValueError if shapes do not fit.

    >>> compose(np.array([1.0]), np.array([2.0]), np.array([[10.0], [100.0]]))
    array([210.])
    """
    check_shape("right", right, *left.shape)
    check_shape("weight", weight, 2 * left.shape[-1], left.shape[-1])
    return np.concatenate([left, right], axis=-1) @ weight


def pool(c: Float, key: Float, query: Float, w: Float) -> tuple[Float, Float]:
    r"""Return the average of composed vectors, weighted by attention to them from one learned vector; and the weights.

    Spec: CKY-2.  $r_{i,j} = \sum_k \operatorname{softmax}_k(c_k K \cdot w Q / \sqrt d)\, c_k$   (equation 2)

    c : [K, d] float, one row a split; key, query : [d, d] float; w : [d] float -> r : [d] float; weights : [K] float.
    Raises ValueError if shapes do not fit.

    Scores ln 3 and 0:

    >>> pool(np.array([[np.log(3.0)], [0.0]]), np.ones((1, 1)), np.ones((1, 1)), np.ones(1))[1].round(12).tolist()
    [0.75, 0.25]
    """
    check_shapes(c=(c, "Kd"), key=(key, "dd"), query=(query, "dd"), w=(w, "d"))
    weights = softmax((c @ key) @ (w @ query) / math.sqrt(c.shape[1]))
    return weights @ c, weights


def cky_pool(
    tokens: Float, parameters: Parameters, max_height: Limit = None, variant: str = "paper", n_heads: int = 1
) -> Chart:
    r"""Return the vector of every phrase, and the weights of its splits.

    Spec: CKY-3, CKY-5.  Algorithm 1, with k from i to j - 1, filled by the length of phrases.

    tokens : [n, d] float, n >= 1; parameters : as `parameter_shapes` or `released_shapes` say.
    max_height : H; variant : "paper" or "released"; n_heads : int, of the released block.
    Raises ValueError if there is no token, one is not finite, or an argument does not fit. Cost: O(n H^2 d^2).

    A composition that adds both parts, and equal weights: all phrases are the sums of their tokens.

    >>> parameters = {name: np.ones(shape) for name, shape in parameter_shapes(1).items()} | {"w": np.zeros(1)}
    >>> chart = cky_pool(np.array([[1.0], [2.0], [4.0]]), parameters)
    >>> {span: float(r[0]) for span, r in chart.vectors.items()}
    {(0, 0): 1.0, (1, 1): 2.0, (2, 2): 4.0, (0, 1): 3.0, (1, 2): 6.0, (0, 2): 7.0}
    """
    _check(tokens, parameters, variant, n_heads)
    n, p = len(tokens), parameters
    r = {(i, i): tokens[i] for i in range(n)}
    weights: dict[Span, Float] = {}
    for i, j in phrases(n, max_height)[n:]:
        left, right = np.array([r[i, k] for k in range(i, j)]), np.array([r[k + 1, j] for k in range(i, j)])  # [K, d]
        if variant == "paper":
            r[i, j], weights[i, j] = pool(compose(left, right, p["compose"]), p["key"], p["query"], p["w"])
        else:
            r[i, j], weights[i, j] = released_block(left, right, p, n_heads)
    return Chart(n, r, weights)


def chart_trees(chart: Chart, words: list[str] | None = None) -> Tree:
    r"""Return the binary tree that splits every phrase where its weight is largest, from the whole sentence down.

    Spec: CKY-4.  $k = \min \operatorname{argmax}_k p^{i,j}_k$: $[\text{tree}_{i,k}\ \text{tree}_{k+1,j}]$

    chart : only its weights are read; words : n str, or None: the numbers of the words, from 0.
    -> Tree; all labels "X", every node has two children (one word: one child).
    Raises ValueError if the chart ends below the whole sentence, weights are not finite or
    not one per split, there are not n words, or a word is not allowed in a `Tree`.

    >>> weights = {(0, 1): np.array([1.0]), (1, 2): np.array([1.0]), (0, 2): np.array([0.25, 0.75])}
    >>> str(chart_trees(Chart(3, {}, weights), ["old", "men", "sing"]))
    '(X (X old men) sing)'
    """
    n, weights = chart.n, chart.weights
    leaves = [str(i) for i in range(n)] if words is None else words
    if len(leaves) != n:
        raise ValueError(f"words: {len(leaves)} for a chart of {n} tokens")
    if n > 1 and (0, n - 1) not in weights:
        height = max((j - i + 1 for i, j in weights), default=1)
        raise ValueError(f"{n} tokens, but the chart ends at height {height}: no root")
    for (i, j), row in weights.items():
        check_shape(f"weights: {(i, j)}", row, j - i)
        check_finite("weights", row)

    def node(i: int, j: int) -> Tree | str:
        if i == j:
            return leaves[i]
        check_shape(f"weights: {(i, j)}", weights.get((i, j), np.zeros(0)), j - i)
        k = i + int(np.argmax(weights[i, j]))
        return Tree("X", (node(i, k), node(k + 1, j)))

    root = node(0, n - 1)
    return root if isinstance(root, Tree) else Tree("X", (root,))


def _check(tokens: Float, parameters: Parameters, variant: str, n_heads: int) -> None:
    if tokens.ndim != 2 or tokens.shape[1] == 0:
        raise ValueError(f"tokens: shape {tokens.shape} is not [n, d]")
    check_finite("tokens", tokens)
    if variant not in ("paper", "released"):
        raise ValueError(f"variant: {variant!r} is not paper or released")
    shapes, d = {name: p.shape for name, p in parameters.items()}, tokens.shape[1]
    check_heads(n_heads if variant == "released" else 1, d)
    needs = parameter_shapes(d) if variant == "paper" else released_shapes(d, shapes.get("feed_forward.in", (0,))[-1])
    if shapes != needs or {p.dtype for p in parameters.values()} != {tokens.dtype}:
        raise ValueError(f"parameters: {shapes} are not {needs} of {tokens.dtype}")
