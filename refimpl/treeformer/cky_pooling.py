"""Treeformer's chart of phrases, after the CKY algorithm (sections 3.2 and 4), and the tree of its largest weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from refimpl.checks import Float, Parameters
from refimpl.layers import layer_norm, linear, softmax
from refimpl.trees import Tree

Variant = Literal["paper", "released"]
Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Chart:
    """The phrases of a sentence of n tokens, row by row, in a row from left to right. Spec: CKY-3."""

    n: int
    vectors: dict[Span, Float]  # [d] of every phrase (i, j) of at most max_height tokens, both ends included
    weights: dict[Span, Float]  # [j - i] of every phrase of two or more: how much of it each split k = i..j-1 is


def parameter_shapes(d: int, variant: Variant = "paper", d_feed_forward: int = 0) -> dict[str, tuple[int, ...]]:
    r"""Return the name and the shape of every parameter.

    Spec: CKY-1, CKY-2, CKY-5.

    Parameters
    ----------
    d : int
        Width of the vectors.
    variant : "paper" or "released"
    d_feed_forward : int
        Width of the released block's feed-forward network.

    Raises
    ------
    ValueError
        If the variant is unknown.

    Examples
    --------
    >>> parameter_shapes(3)
    {'w': (3,), 'compose': (6, 3), 'key': (3, 3), 'query': (3, 3)}
    >>> sum(math.prod(shape) for shape in parameter_shapes(512, "released", 1024).values())
    2629120
    """
    shapes: dict[str, tuple[int, ...]] = {"w": (d,), "compose": (2 * d, d)}
    if variant == "paper":
        return shapes | {"key": (d, d), "query": (d, d)}
    if variant != "released":
        raise ValueError(f"variant: {variant!r} is not paper or released")
    shapes |= {f"attention.{name}": (d, d) for name in ("query", "key", "value", "output")}
    shapes |= {"feed_forward.in": (d, d_feed_forward), "feed_forward.out": (d_feed_forward, d)}
    shapes |= {f"{name}_bias": shape[-1:] for name, shape in shapes.items() if name != "w"}
    return shapes | {f"norm_{k}.{part}": (d,) for k in (1, 2, 3) for part in ("scale", "bias")}


def phrases(n: int, max_height: int | None = None) -> list[Span]:
    r"""Return the phrases of a chart in their order: by length, and from left to right.

    Spec: CKY-3.  $(i, i + h - 1)$ for $h = 1, \dots, \min(n, \text{max\_height})$, $i = 0, \dots, n - h$

    Raises
    ------
    ValueError
        If there is no token, or `max_height` is below 1.

    Examples
    --------
    >>> phrases(3, 2)
    [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2)]
    """
    if n < 1:
        raise ValueError("tokens: an empty sentence")
    if max_height is not None and max_height < 1:
        raise ValueError(f"max_height: {max_height} is below 1")
    return [(i, i + h - 1) for h in range(1, min(n, max_height or n) + 1) for i in range(n - h + 1)]


def n_nodes(n: int, max_height: int | None = None) -> int:
    r"""Return the number of phrases in a chart.

    Spec: CKY-3.  $n H - H (H - 1) / 2$ with $H = \min(n, \text{max\_height})$

    Examples
    --------
    >>> n_nodes(4), n_nodes(4, 2), n_nodes(4, 9)
    (10, 7, 10)
    """
    return len(phrases(n, max_height))


def compose(left: Float, right: Float, weight: Float) -> Float:
    r"""Return the vector of two phrases that follow each other.

    Spec: CKY-1.  $c_k = [r_{i,k}; r_{k+1,j}]\, W$   (Treeformer, equation 1)

    Parameters
    ----------
    left, right : [d] or [K, d] float
        Of one split, or of several.
    weight : [2d, d] float
        Rows of the left phrase first.

    Returns
    -------
    [d] or [K, d] float, dtype of `left`
        Linear: the sum of what each phrase gives alone.

    Examples
    --------
    >>> compose(np.array([1.0]), np.array([2.0]), np.array([[10.0], [100.0]]))
    array([210.])
    """
    return np.concatenate([left, right], axis=-1) @ weight


def pool(c: Float, key: Float, query: Float, w: Float) -> tuple[Float, Float]:
    r"""Return the average of composed vectors, weighted by attention to them from one learned vector; and the weights.

    Spec: CKY-2.  $r_{i,j} = \sum_k \operatorname{softmax}_k(c_k K \cdot w Q / \sqrt d)\, c_k$   (equation 2)

    Parameters
    ----------
    c : [K, d] float
        One row a split, K >= 1.
    key, query : [d, d] float
    w : [d] float

    Returns
    -------
    r : [d] float, dtype of `c`
    weights : [K] float
        They sum to 1.

    Examples
    --------
    Scores ln 3 and 0:

    >>> one = np.ones((1, 1))
    >>> r, weights = pool(np.array([[np.log(3.0)], [0.0]]), one, one, np.ones(1))
    >>> weights.round(12).tolist(), bool(r[0] == 0.75 * np.log(3.0))
    ([0.75, 0.25], True)
    """
    scores = (c @ key) @ (w @ query) / math.sqrt(c.shape[1])
    weights = softmax(scores)
    return weights @ c, weights


def released_block(left: Float, right: Float, parameters: Parameters, n_heads: int) -> tuple[Float, Float]:
    r"""Return what the authors' code makes of all splits of a phrase, and the weights of its pooling.

    Spec: CKY-5.  $c = v + u + [v; u] W + b$ with $v, u = \operatorname{LN}_1$ of the children,
    $x = \operatorname{LN}_3(w + \operatorname{heads}(w, \operatorname{LN}_2 c))$, $r = x + \operatorname{FFN}(x)$

    Parameters
    ----------
    left, right : [K, d] float
        The two phrases of every split.
    parameters : dict of str to float array
        As `parameter_shapes` says.
    n_heads : int
        Divides d.

    Returns
    -------
    r : [d] float, dtype of `left`
    weights : [K] float
        Mean over the heads; they sum to 1.

    Raises
    ------
    ValueError
        If the heads do not divide d.

    Examples
    --------
    Without weights, the bias of the last matrix is added to the LayerNorm of w.

    >>> p = {name: np.zeros(shape) for name, shape in parameter_shapes(2, "released", 1).items()}
    >>> p |= {"norm_3.bias": np.array([1.0, 2.0]), "feed_forward.out_bias": np.array([10.0, 10.0])}
    >>> released_block(np.ones((2, 2)), np.ones((2, 2)), p, n_heads=1)
    (array([11., 12.]), array([0.5, 0.5]))
    """
    d, w = left.shape[1], parameters["w"]
    if n_heads < 1 or d % n_heads:
        raise ValueError(f"n_heads: {n_heads} does not divide {d}")

    def norm(k: int, x: Float) -> Float:
        return layer_norm(x, parameters[f"norm_{k}.scale"], parameters[f"norm_{k}.bias"])

    def times(name: str, x: Float) -> Float:
        return linear(x, parameters[name], parameters[f"{name}_bias"])

    v, u = norm(1, left), norm(1, right)
    c = norm(2, v + u + times("compose", np.concatenate([v, u], axis=1)))  # [K, d]
    used = ("query", w[np.newaxis]), ("key", c), ("value", c)
    q, k, values = (np.split(times(f"attention.{name}", x), n_heads, axis=1) for name, x in used)  # lists of heads
    weights = [softmax(k[head] @ q[head][0] / math.sqrt(d // n_heads)) for head in range(n_heads)]
    pooled = np.concatenate([weights[head] @ values[head] for head in range(n_heads)])
    x = norm(3, w + times("attention.output", pooled[np.newaxis]))
    hidden = np.maximum(times("feed_forward.in", x), 0)
    return (x + times("feed_forward.out", hidden))[0], np.mean(weights, axis=0)


def chart(
    tokens: Float, parameters: Parameters, max_height: int | None = None, variant: Variant = "paper", n_heads: int = 1
) -> Chart:
    r"""Return the vector of every phrase, and the weights of its splits.

    Spec: CKY-3, CKY-5.  Algorithm 1, with k from i to j - 1, filled by the length of phrases. As printed it calls
    itself for both parts of every split and remembers nothing, so that n tokens take 3^(n-1) calls.

    Parameters
    ----------
    tokens : [n, d] float
        Phrases of one token; n >= 1, finite.
    parameters : dict of str to float array
        As `parameter_shapes` says.
    max_height : int or None
        H, the longest phrase in tokens; None: no limit.
    variant : "paper" or "released"
    n_heads : int
        Of the released block only.

    Returns
    -------
    Chart
        A phrase depends on its own tokens only; a lower chart is the beginning of a higher one.
        Cost: O(n H^2 d^2).

    Raises
    ------
    ValueError
        If there is no token, one is NaN or infinite, `max_height` is below 1, the variant is unknown, or parameters do
        not fit.

    Examples
    --------
    Three tokens of width 1, the sum of both parts, equal weights: all phrases are the sums of their tokens.

    >>> parameters = {name: np.ones(shape) for name, shape in parameter_shapes(1).items()} | {"w": np.zeros(1)}
    >>> found = chart(np.array([[1.0], [2.0], [4.0]]), parameters)
    >>> {span: float(r[0]) for span, r in found.vectors.items()}
    {(0, 0): 1.0, (1, 1): 2.0, (2, 2): 4.0, (0, 1): 3.0, (1, 2): 6.0, (0, 2): 7.0}
    >>> found.weights[0, 2].tolist()
    [0.5, 0.5]
    """
    _check(tokens, parameters, variant)
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


def parse(chart: Chart, words: Sequence[str] | None = None) -> Tree:
    r"""Return the binary tree that splits every phrase where its weight is largest, from the whole sentence down.

    Spec: CKY-4.  $k = i + \min \operatorname{argmax} \text{weights}_{i,j}$:
    $[\text{tree}_{i,k}\ \text{tree}_{k+1,j}]$

    Parameters
    ----------
    chart : Chart
        Only the weights are read; finite.
    words : list of n str, or None
        None: the numbers of the words, from 0.

    Returns
    -------
    Tree
        All labels "X"; every node has two children (one word: one child).

    Raises
    ------
    ValueError
        If the chart ends below the whole sentence, a weight is NaN or infinite, or there are not n words.

    Examples
    --------
    >>> weights = {(0, 1): np.array([1.0]), (1, 2): np.array([1.0]), (0, 2): np.array([0.25, 0.75])}
    >>> str(parse(Chart(3, {}, weights), ["old", "men", "sing"]))
    '(X (X old men) sing)'
    """
    n, weights = chart.n, chart.weights
    names = [str(i) for i in range(n)] if words is None else words
    if len(names) != n:
        raise ValueError(f"words: {len(names)} for a chart of {n} tokens")
    if n > 1 and (0, n - 1) not in weights:
        height = max((j - i + 1 for i, j in weights), default=1)
        raise ValueError(f"{n} tokens, but the chart ends at height {height}: no root")
    if not all(np.isfinite(own).all() for own in weights.values()):
        raise ValueError("weights: NaN or infinity")

    def node(i: int, j: int) -> Tree | str:
        if i == j:
            return names[i]
        k = i + int(np.argmax(weights[i, j]))
        return Tree("X", (node(i, k), node(k + 1, j)))

    root = node(0, n - 1)
    return root if isinstance(root, Tree) else Tree("X", (root,))


def _check(tokens: Float, parameters: Parameters, variant: Variant) -> None:
    """Refuse tokens that are not finite, and parameters that are not what `parameter_shapes` gives."""
    if tokens.ndim != 2 or tokens.shape[1] == 0:
        raise ValueError(f"tokens: shape {tokens.shape} is not [n, d]")
    if not np.isfinite(tokens).all():
        raise ValueError(f"tokens: NaN or infinity in row {np.argwhere(~np.isfinite(tokens))[0, 0]}")
    found = {name: p.shape for name, p in parameters.items()}
    expected = parameter_shapes(tokens.shape[1], variant, *found.get("feed_forward.in", ())[1:])
    if found != expected or {p.dtype for p in parameters.values()} != {tokens.dtype}:
        raise ValueError(f"parameters: {found} are not {expected} of {tokens.dtype}")
