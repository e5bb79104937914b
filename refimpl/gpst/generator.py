"""GPST (sections 3.1 and 3.2, appendix A.1): parser, generative model, their losses, and one action after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from refimpl import layers
from refimpl.checks import Float, Int, Parameters
from refimpl.fasttrees.cells import sigmoid
from refimpl.gpst import inside_outside
from refimpl.gpst.inside_outside import BySpan, Inside, Split, induced_tree, inside_cell, post_order
from refimpl.gpst.pruned_chart import Chart, merge_order, pruned_chart
from refimpl.layers import embedding, layer_norm, linear, log_softmax, mlp
from refimpl.randomness import gumbel

COMP, GEN = 0, 1


@dataclass(frozen=True)
class Config:
    r"""Return the choices that the parameters do not show.

    Spec: GPST-1.

    Parameters
    ----------
    n_heads, compose_heads, parser_heads : int
        Attention heads of the generative model, the composition model and the parser; a head of the parser has an even
        width.
    window : int
        W of the pruned chart.
    surrogate : bool
        False: the generative model reads one learned vector in place of every node's (ablation).
    head : "mlp" or "dot"
        What stands between an outside vector and the words that it is compared with.
    height_threshold : float
        H: lower trees are not punished.
    height_norm : "paper" or "excess"
        Heights are divided by n, or by n - H where n > H.

    Raises
    ------
    ValueError
        If a choice is unknown.

    Examples
    --------
    >>> Config(12, 8, 8).window
    2
    """

    n_heads: int
    compose_heads: int
    parser_heads: int
    window: int = 2
    surrogate: bool = True
    head: Literal["mlp", "dot"] = "mlp"
    height_threshold: float = 15.0
    height_norm: Literal["paper", "excess"] = "paper"

    def __post_init__(self) -> None:
        if self.head not in ("mlp", "dot") or self.height_norm not in ("paper", "excess"):
            raise ValueError(f"head, height_norm: {self.head!r}, {self.height_norm!r} are not known")


@dataclass(frozen=True)
class Losses:
    """The four losses of a context, nats, and the trees that were induced. Spec: GPST-5."""

    ae: float
    height: float
    parser: float
    ar: float
    trees: list[list[Split]]


def split_scores(config: Config, parameters: Parameters, ids: Int) -> Float:
    r"""Return the parser's score of every point between two words.

    Spec: GPST-2.  $v_k = \operatorname{MLP}([h_k; h_{k+1}])$, $h$ the output of a bidirectional encoder

    Parameters
    ----------
    config : Config
    parameters : dict of str to float array
        `parser.*`, see the page.
    ids : [n] int
        The words, n >= 1.

    Returns
    -------
    [n - 1] float, dtype of the parameters
        The sentence is split at its highest score, each half at its own, and so on.

    Examples
    --------
    No layers; rows of (1, 1) and (1, -1), and the network passes the second feature of the left word.

    >>> p = {"parser.embedding": np.array([[9.0, 9.0], [9.0, -9.0]]), "parser.norm": np.ones(2)}
    >>> p |= {"parser.split.in": np.eye(4)[:, 1:2], "parser.split.in_bias": np.full(1, 100.0)}
    >>> p |= {"parser.split.out": np.ones((1, 1)), "parser.split.out_bias": np.full(1, -100.0)}
    >>> split_scores(Config(1, 1, 1), p, np.array([0, 1, 0])).round(4).tolist()
    [1.0, -1.0]
    """
    p, x = parameters, embedding(parameters["parser.embedding"], ids)
    for own in _layers(p, "parser", "down"):
        h = rms_norm(x, p[f"{own}.attention_norm"])
        x = x + inside_outside.self_attention(h, h, p, f"{own}.attention", config.parser_heads, turn=rotate)
        h = rms_norm(x, p[f"{own}.feed_forward_norm"])
        gate = linear(h, p[f"{own}.gate"])
        x = x + linear(gate * sigmoid(gate) * linear(h, p[f"{own}.up"]), p[f"{own}.down"])
    x = rms_norm(x, p["parser.norm"])
    return np.asarray(mlp(np.concatenate([x[:-1], x[1:]], axis=1), p, "parser.split")[:, 0])


def rms_norm(x: Float, scale: Float) -> Float:
    r"""Return every row divided by the root of its mean square, then scaled.

    Spec: GPST-2.  $\gamma x / \sqrt{\operatorname{mean}(x^2) + 10^{-5}}$

    Examples
    --------
    >>> rms_norm(np.array([[1e5, -7e5]]), np.array([5.0, 10.0])).round(6)  # the root is 5e5
    array([[  1., -14.]])
    """
    return np.asarray(scale * x / np.sqrt((x * x).mean(axis=1, keepdims=True) + layers.EPSILON))


def rotate(x: Float) -> Float:
    r"""Return queries or keys turned by their positions: products then depend on distances only.

    Spec: GPST-2.  Features 2m and 2m + 1 as a complex number, times $e^{i t \omega_m}$, $\omega_m = 10^{-8m/D}$

    Parameters
    ----------
    x : [T, H, D] float
        D even; row t stands at position t.

    Returns
    -------
    [T, H, D] float, dtype of `x`

    Examples
    --------
    >>> rotate(np.array([[[1.0, 0.0]], [[1.0, 0.0]]])).round(4).tolist()  # by 0 and by 1 radian
    [[[1.0, 0.0]], [[0.5403, 0.8415]]]
    """
    angle = np.arange(len(x))[:, np.newaxis, np.newaxis] * 1e4 ** (-np.arange(0, x.shape[2], 2) / x.shape[2])
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)  # [T, H, D / 2]
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


def encode(config: Config, parameters: Parameters, ids: Int, noise: Float | None = None) -> tuple[Float, Chart, Inside]:
    r"""Return the parser's scores of a sentence, the chart of their order, and the inside pass over it.

    Spec: GPST-3.  The E-step, but for the tree: `refimpl.gpst.inside_outside.induced_tree` of chart and scores

    Parameters
    ----------
    config : Config
    parameters : dict of str to float array
        See the page.
    ids : [n] int
        The words, n >= 1.
    noise : [n - 1] float, or None
        Added to the scores before they are put in order.

    Returns
    -------
    scores : [n - 1] float
        Without noise.
    chart : Chart
    inside : Inside

    Raises
    ------
    ValueError
        If the sentence is empty, an id is out of range, or shapes do not fit.

    Examples
    --------
    See `losses`.
    """
    scores = split_scores(config, parameters, ids)
    order = merge_order(scores if noise is None else scores + noise)
    chart = pruned_chart(order, len(ids), config.window)
    return scores, chart, _inside(config, parameters, ids, chart)


def action_logps(
    config: Config, parameters: Parameters, sentences: Sequence[Int], trees: Sequence[Sequence[Split]],
    vectors: Sequence[BySpan],
) -> Float:  # fmt: skip
    r"""Return the log-probability of every action of a context, given those before.

    Spec: GPST-4.  $\log p(y_t = \text{COMP})$, or $\log p(y_t = \text{GEN}) + \log p(x \mid \text{GEN})$

    Parameters
    ----------
    config : Config
    parameters : dict of str to float array
        See the page.
    sentences : list of S [n] int
        At least one; n >= 1.
    trees : list of S lists of n - 1 (i, k, j)
    vectors : list of S dict from span to [d] float
        Of the nodes of the trees at least: the surrogates.

    Returns
    -------
    [2 N - S] float
        N words in all. The sum is $\log p(x, y)$, nats; an action does not depend on later ones.

    Raises
    ------
    ValueError
        If a tree is not one over its sentence, there are more words than positions, or shapes do not fit.

    Examples
    --------
    See `losses`.
    """
    rows, positions, labels = _inputs(config, parameters, sentences, trees, vectors)
    h, type_logps = _types(config, parameters, rows[:-1], positions[:-1])
    generating = np.flatnonzero(labels >= 0)
    logps: Float = type_logps[np.arange(len(labels)), np.where(labels >= 0, GEN, COMP)]
    logps[generating] += _words(config, parameters, h[generating])[np.arange(len(generating)), labels[generating]]
    return logps


def losses(
    config: Config, parameters: Parameters, sentences: Sequence[Int], seed: int | None = None,
    weights: Sequence[BySpan] | None = None,
) -> Losses:  # fmt: skip
    r"""Return the losses of a context: auto-encoding, height, parser, and auto-regression.

    Spec: GPST-5.  $L = L_{ae} + L_h + L_p + L_{ar}$

    Parameters
    ----------
    config : Config
    parameters : dict of str to float array
        See the page.
    sentences : list of [n] int
        At least one; n >= 1.
    seed : int, or None
        Of the Gumbel noise on the parser's scores; None: no noise.
    weights : list of dict from span to [K] float, or None
        Constants in place of the inside weights, of every cell of every sentence, for $L_{ar}$ only: the gradient stop.

    Returns
    -------
    Losses

    Raises
    ------
    ValueError
        If there is no sentence, one is empty, an id is out of range, or there are more words than positions.

    Examples
    --------
    All parameters 0: words have probability 1/3, actions 1/2; two words, three actions.

    >>> names = {"embedding": (3, 2), "position": (3, 2), "bos": (2,), "down": (2, 1), "down_bias": (1,), "up": (1, 2)}
    >>> names |= {f"{name}_norm.{part}": (2,) for name in ("action", "token") for part in ("scale", "bias")}
    >>> names |= {"parser.embedding": (3, 2), "parser.norm": (2,), "up_bias": (2,), "composition.outside_root": (1,)}
    >>> for name, a, b, c in (
    ...     ("action", 2, 2, 2), ("word", 2, 8, 2), ("reconstruct", 1, 4, 2), ("parser.split", 4, 8, 1),
    ...     *((f"composition.{score}", 1, 1, 1) for score in (
    ...         "inside.left", "inside.right", "outside.parent", "outside.left", "outside.right")),
    ... ):
    ...     names |= {f"{name}.in": (a, b), f"{name}.in_bias": (b,), f"{name}.out": (b, c), f"{name}.out_bias": (c,)}
    >>> zeros = {name: np.zeros(shape) for name, shape in names.items()}
    >>> found = losses(Config(1, 1, 1), zeros, [np.array([2, 0])])
    >>> round(np.exp(found.ae)), round(np.exp(found.ar * 3)), found.parser, found.trees  # 2 * 3 * 2 * 3 * 2
    (3, 72, 0.0, [[(0, 0, 1)]])
    >>> [round(float(np.exp(x)), 12) for x in step_logps(Config(1, 1, 1), zeros, [2, 0, -1])[:2]]
    [0.5, 0.5]
    """
    p, n_words, n_sentences = parameters, sum(map(len, sentences)), len(sentences)
    if n_sentences == 0:
        raise ValueError("sentences: none")
    table = p["embedding"] if config.head == "mlp" else linear(p["embedding"], p["down"], p["down_bias"])
    ae, height, parser, bias = 0.0, 0.0, 0.0, np.zeros(len(table), table.dtype)
    trees, surrogates, first = [], [], 0
    for number, ids in enumerate(sentences):
        n = len(ids)
        noise = None if seed is None else gumbel(np.arange(first, first + n - 1), seed)
        scores, chart, found = encode(config, p, ids, noise)
        trees.append(induced_tree(chart, found.scores))
        vectors, _ = inside_outside.outside(found, chart, _composition(p), config.compose_heads)
        o = np.array([vectors[i, i] for i in range(n)])
        logps = layers.cross_entropy(mlp(o, p, "reconstruct") if config.head == "mlp" else o, table, bias, ids)
        ae -= float(logps.sum())
        parser -= sum(float(log_softmax(scores[i:j])[k - i]) for i, k, j in trees[-1])
        excess = max(found.heights[0, n - 1] - config.height_threshold, 0.0)
        height += excess / (n if config.height_norm == "paper" else max(n - config.height_threshold, 1.0))
        surrogates.append((found if weights is None else _inside(config, p, ids, chart, weights[number])).vectors)
        first += n
    ar = -float(action_logps(config, p, sentences, trees, surrogates).sum()) / (2 * n_words - n_sentences)
    return Losses(ae / n_words, height / n_sentences, parser / max(n_words - n_sentences, 1), ar, trees)


def step_logps(
    config: Config, parameters: Parameters, actions: Sequence[int], context: Sequence[Int] = ()
) -> tuple[float, float, Float]:
    r"""Return the log-probabilities of the next action, from those so far: what `refimpl.word_level_search` calls a
    model.

    Spec: GPST-6.

    Parameters
    ----------
    config : Config
    parameters : dict of str to float array
        See the page.
    actions : list of int
        Of this sentence: a word for GEN, -1 for COMP. COMP composes the two topmost sub-trees as an inside cell of one
        split.
    context : list of [n] int
        Whole sentences before it, each with its induced tree and surrogates.

    Returns
    -------
    comp, gen : float
        $\log p(\text{COMP})$ and $\log p(\text{GEN})$, nats; also where COMP is impossible.
    words : [V] float
        $\log p(x \mid \text{GEN})$.

    Raises
    ------
    ValueError
        If COMP finds fewer than two sub-trees, an id is out of range, or there are more words than positions.

    Examples
    --------
    See `losses`.
    """
    p, stack = parameters, list[Float]()
    encoded = [encode(config, p, ids)[1:] for ids in context]
    trees, vectors = [induced_tree(chart, found.scores) for chart, found in encoded], [x.vectors for _, x in encoded]
    before, positions, labels = _inputs(config, p, context, trees, vectors)
    rows = list(before)
    for action in actions:
        if action < 0 and len(stack) < 2:
            raise ValueError(f"actions: COMP of {len(stack)} sub-trees in {list(actions)}")
        if action < 0:
            parts = [(stack.pop(-2), stack.pop())]
            stack.append(inside_cell(parts, _composition(p), config.compose_heads)[0])
            rows.append(_node(config, p, stack[-1]))
        else:
            rows.append(embedding(p["embedding"], np.array([action]))[0])
            stack.append(linear(rows[-1][np.newaxis], p["down"], p["down_bias"])[0])
    since = positions[-1] + np.cumsum(np.array(actions, int) >= 0)
    h, logps = _types(config, p, np.array(rows), np.concatenate([positions, since]))
    generating = np.flatnonzero(np.array([*labels, *actions, 0]) >= 0)
    return float(logps[-1, COMP]), float(logps[-1, GEN]), _words(config, p, h[generating])[-1]


def _layers(parameters: Parameters, name: str, part: str) -> list[str]:
    """Return the names of the layers, `name.0` and so on, that have the part."""
    return [f"{name}.{k}" for k in range(sum(p.startswith(f"{name}.") and p.endswith(f".{part}") for p in parameters))]


def _composition(parameters: Parameters) -> Parameters:
    """Return the parameters of the composition model, without their prefix."""
    return {name[12:]: p for name, p in parameters.items() if name.startswith("composition.")}


def _inside(config: Config, p: Parameters, ids: Int, chart: Chart, weights: BySpan | None = None) -> Inside:
    """Return the inside pass over words as the composition model sees them."""
    leaves = linear(embedding(p["embedding"], ids), p["down"], p["down_bias"])
    return inside_outside.inside(leaves, chart, _composition(p), config.compose_heads, weights)


def _node(config: Config, p: Parameters, vector: Float) -> Float:
    """Return the row of a node of two words or more: GPST-4."""
    return linear(vector[np.newaxis], p["up"], p["up_bias"])[0] if config.surrogate else p["placeholder"]


def _inputs(
    config: Config, p: Parameters, sentences: Sequence[Int], trees: Sequence[Sequence[Split]], vectors: Sequence[BySpan]
) -> tuple[Float, Int, Int]:
    """Return rows and positions of the start symbol and all nodes in post-order, and each node's word or -1: GPST-4."""
    rows, positions, labels, first = [p["bos"]], [0], [], 1
    for ids, tree, own in zip(sentences, trees, vectors, strict=True):
        if len(tree) != len(ids) - 1:
            raise ValueError(f"trees: {len(tree)} splits for {len(ids)} words")
        for i, j in post_order(tree):
            labels.append(int(ids[j]) if i == j else -1)
            rows.append(_node(config, p, own[i, j]) if i < j else embedding(p["embedding"], ids[j : j + 1])[0])
            positions.append(first + j)
        first += len(ids)
    return np.array(rows), np.array(positions), np.array(labels, int)


def _types(config: Config, p: Parameters, rows: Float, positions: Int) -> tuple[Float, Float]:
    """Return the type layers' [T, D] output and the log-probabilities [T, 2] of COMP and GEN: GPST-4."""
    if positions.max() >= len(p["position"]):
        raise ValueError(f"context: {positions.max()} words, but the model has {len(p['position'])} positions with 0")
    h = _blocks(p, "type", rows + p["position"][positions], config.n_heads)
    return h, log_softmax(mlp(layer_norm(h, p["action_norm.scale"], p["action_norm.bias"]), p, "action"))


def _words(config: Config, p: Parameters, h: Float) -> Float:
    """Return the log-probabilities [m, V] of the word of every GEN: GPST-4."""
    g = layer_norm(_blocks(p, "token", h, config.n_heads), p["token_norm.scale"], p["token_norm.bias"])
    return log_softmax(mlp(g, p, "word") @ p["embedding"].T)


def _blocks(p: Parameters, name: str, x: Float, n_heads: int) -> Float:
    """Return the output of causal layers in which the normalisation comes first: GPST-4."""
    for own in _layers(p, name, "feed_forward.in"):
        h = layer_norm(x, p[f"{own}.attention_norm.scale"], p[f"{own}.attention_norm.bias"])
        x = x + inside_outside.self_attention(h, h, p, f"{own}.attention", n_heads, causal=True)
        h = layer_norm(x, p[f"{own}.feed_forward_norm.scale"], p[f"{own}.feed_forward_norm.bias"])
        x = x + layers.feed_forward(h, *(p[f"{own}.feed_forward.{n}"] for n in ("in", "in_bias", "out", "out_bias")))
    return x
