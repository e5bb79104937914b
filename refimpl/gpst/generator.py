"""GPST's generative model (section 3.1): the actions of whole trees at once, and one action after another."""

from collections.abc import Sequence

import numpy as np

from refimpl.checks import Float, Int, Parameters, check_least, check_shape, check_shapes, part
from refimpl.gpst.composition import compose, layers_of, norm
from refimpl.gpst.inside_outside import BySpan, Split, induced_tree, post_order
from refimpl.gpst.parser import Config, encode, leaves
from refimpl.layers import embedding, gelu, linear, log_softmax, mlp, named_norm
from refimpl.transformer import block

COMP, GEN = 0, 1


def action_logps(
    config: Config, parameters: Parameters, sentences: list[Int], trees: list[list[Split]], vectors: list[BySpan]
) -> Float:
    r"""Return the log-probability of every action of a context, given the actions before it.

    Spec: GPST-4.  $\log p(y_t = \text{COMP})$, or $\log p(y_t = \text{GEN}) + \log p(x \mid \text{GEN})$

    sentences : list of S [n] int, at least one; n >= 1, N words in all; trees : list of S lists of n - 1 (i, k, j)
    vectors : list of S dict from span to [d] float: the surrogates, at least of the nodes of the trees
    -> [2 N - S] float, nats; an action does not depend on later ones; the sum is $\log p(x, y)$ for surrogates of W = 1
        (GPST-5, L4)
    Raises ValueError if there is no sentence, a tree is not one over its sentence, a node of two words or more has no
    surrogate, an id is out of range, there are too many words, or shapes do not fit.
    """
    check_least(1, sentences=len(sentences))
    rows, actions = _nodes(config, parameters, sentences, trees, vectors)
    type_logps, word_logps = _predictions(config, parameters, rows[:-1], actions)
    is_gen = np.array(actions) >= 0
    logps: Float = type_logps[np.arange(len(actions)), np.where(is_gen, GEN, COMP)]
    logps[is_gen] += word_logps[np.arange(len(word_logps)), np.array(actions)[is_gen]]
    return logps


def step_logps(
    config: Config, parameters: Parameters, actions: list[int], context: Sequence[Int] = ()
) -> tuple[float, float, Float]:
    r"""Return the log-probabilities of the next action, given those so far: a model for `refimpl.word_level_search`.

    Spec: GPST-6.

    actions : list of int, of this sentence: a word for GEN, -1 for COMP, which composes the two topmost sub-trees
    context : list of [n] int, whole sentences before it; each is read with its induced tree and surrogates
    -> float $\log p(\text{COMP})$, float $\log p(\text{GEN})$, [V] float $\log p(x \mid \text{GEN})$, nats; the first
        two are not masked where COMP is impossible
    Raises ValueError if COMP finds fewer than two sub-trees, an action is below -1, an id is out of range,
    there are too many words, or shapes do not fit.
    """
    p, stack = parameters, list[Float]()
    encoded = [encode(config, p, ids)[1:] for ids in context]
    trees = [induced_tree(chart, inside.scores) for chart, inside in encoded]
    rows, before = _nodes(config, p, list(context), trees, [inside.vectors for _, inside in encoded])
    for action in actions:
        if action >= 0:
            stack.append(leaves(p, np.array([action]))[0])
            rows.append(p["embedding"][action])
        elif action < -1 or len(stack) < 2:
            raise ValueError(f"actions: {action} with {len(stack)} sub-trees: -1, COMP, needs two; words are 0 or more")
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(norm(compose(left, right, part(p, "composition"), config.compose_heads)))
            rows.append(_row(config, p, stack[-1]))
    type_logps, word_logps = _predictions(config, p, rows, [*before, *actions, 0])
    return float(type_logps[-1, COMP]), float(type_logps[-1, GEN]), word_logps[-1]


def _row(config: Config, p: Parameters, vector: Float) -> Float:
    """Return the row of a node of two words or more: GPST-4."""
    check_shape("placeholder", p.get("placeholder", p["bos"]), len(p["bos"]))
    return linear(vector[np.newaxis], p["up"], p["up_bias"])[0] if config.surrogate else p["placeholder"]


def _nodes(
    config: Config, p: Parameters, sentences: list[Int], trees: list[list[Split]], vectors: list[BySpan]
) -> tuple[list[Float], list[int]]:
    """Return the rows of the start symbol and of all nodes in post-order, and the actions, a word or -1: GPST-4."""
    rows, actions = [p["bos"]], list[int]()
    for ids, tree, surrogates in zip(sentences, trees, vectors, strict=True):
        if len(tree) != len(ids) - 1:
            raise ValueError(f"trees: {len(tree)} splits for {len(ids)} words")
        for i, j in post_order(tree):
            if i < j and (i, j) not in surrogates:
                raise ValueError(f"vectors: no surrogate of span {i}..{j}")
            actions.append(int(ids[j]) if i == j else -1)
            rows.append(embedding(p["embedding"], ids[j : j + 1])[0] if i == j else _row(config, p, surrogates[i, j]))
    return rows, actions


def _predictions(config: Config, p: Parameters, rows: list[Float], actions: list[int]) -> tuple[Float, Float]:
    """Return log-probabilities of COMP and GEN at every step, and of all words at every step of GEN: GPST-4."""
    is_gen = np.array(actions) >= 0
    w = np.cumsum([0, *is_gen[:-1]])
    if w[-1] >= len(p["position"]):
        raise ValueError(f"context: {w[-1]} words, but the model has {len(p['position'])} positions: use fewer words")
    check_shapes(bos=(p["bos"], "D"), embedding=(p["embedding"], "VD"), position=(p["position"], "PD"))
    h = _layers(p, "type", np.array(rows) + p["position"][w], config.n_heads)
    g = named_norm(_layers(p, "token", h[is_gen], config.n_heads), p, "token_norm")
    type_logits = mlp(named_norm(h, p, "action_norm"), p, "action")
    return log_softmax(type_logits), log_softmax(mlp(g, p, "word") @ p["embedding"].T)


def _layers(parameters: Parameters, name: str, x: Float, n_heads: int) -> Float:
    """Return the output of causal layers in which the normalisation comes first: GPST-4."""
    for p in layers_of(parameters, name):
        x = block(p, x, n_heads, causal=True, activation=gelu)
    return x
