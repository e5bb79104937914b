"""Sentences from trees, perplexity, and ensembles of models (Transformer Grammars, sections 3.1, 3.3 and 3.7).

Everything is in nats; log-zero, ``-inf``, raises no warning. Every function raises ValueError for a NaN or ``+inf``.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from refimpl.checks import Float
from refimpl.trees import ActionType, Tree, action_type, actions, words


def unique_trees(trees: Iterable[Tree]) -> list[Tree]:
    """Return the different trees among the proposals, in the order in which they first come. Spec: MARG-1.

    >>> bird = Tree("NP", ("bird",))
    >>> unique_trees([bird, Tree("VP", ("bird",)), bird])
    [Tree('(NP bird)'), Tree('(VP bird)')]
    """
    return list(dict.fromkeys(trees))


def sentence_logp(tree_logps: Sequence[float] | Float) -> float:
    r"""Return a lower bound on the log-probability of a sentence, from its proposal trees.

    Spec: MARG-1.  $\log p(x) \ge \log \sum_{y \in \mathcal Y'_x} p(x, y)$   (section 3.1)

    tree_logps : [J] float, $\log p(x, y)$ of the J *different* proposals, see `unique_trees`.

    >>> round(math.exp(sentence_logp([math.log(0.125), math.log(0.25), -math.inf])), 12)
    0.375
    """
    return float(np.logaddexp.reduce(_logps(tree_logps, "tree_logps")))


def perplexity(sentence_logps: Sequence[float] | Float, n_words: int) -> float:
    r"""Return the perplexity per word of a corpus; an upper bound if the log-probabilities are lower bounds.

    Spec: MARG-2.  $\mathrm{PPL} = \exp(-\frac{1}{N_w} \sum_x \log p(x))$   (section 3.1)

    sentence_logps : [S] float, $\log p(x)$ of every sentence.
    n_words : words of the corpus: not word pieces, not actions; an end-of-sentence symbol does not count.
    Raises ValueError if there is no sentence or no word.

    >>> round(perplexity([math.log(1 / 8), math.log(1 / 4)], n_words=5), 12)
    2.0
    """
    if n_words < 1 or len(sentence_logps) == 0:
        raise ValueError(f"n_words, sentence_logps: {n_words} words in {len(sentence_logps)} sentences")
    total = math.fsum(_logps(sentence_logps, "sentence_logps"))
    with np.errstate(over="ignore"):  # beyond the largest float the perplexity is inf
        return float(np.exp(np.float64(-total / n_words)))


def mixture_logp(logps: ArrayLike) -> Float:
    r"""Return the log-probabilities of a uniform mixture of experts.

    Spec: MARG-3.  $p(a) = \frac{1}{K} \sum_k p_k(a)$   (section 3.7)

    logps : [K, ...] float, $\log p_k$ of every model -> [...] float. Raises ValueError if there is no model.

    >>> np.exp(mixture_logp(np.log([[0.5, 0.5], [0.25, 0.75]]))).round(12)
    array([0.375, 0.625])
    """
    array = _logps(logps, "logps", axes=1)
    return np.asarray(np.logaddexp.reduce(array, axis=0) - math.log(len(array)))


def product_logp(logps: ArrayLike) -> Float:
    r"""Return the log-probabilities of a uniform product of experts.

    Spec: MARG-4.  $p(a) \propto \bigl(\prod_k p_k(a)\bigr)^{1/K}$   (section 3.7)

    logps : [K, ..., V] float, $\log p_k$ of *all* V events -> [..., V] float, normalised over the last axis
    Raises ValueError if there is no model or no axis of events, or no event is possible for all models.

    >>> np.exp(product_logp(np.log([[0.5, 0.5], [0.1, 0.9]]))).round(12)
    array([0.25, 0.75])
    """
    mean = _logps(logps, "logps", axes=2).mean(axis=0)
    total = np.logaddexp.reduce(mean, axis=-1, keepdims=True)
    if np.isneginf(total).any():
        raise ValueError("the product of experts is empty: no event is possible for all models")
    return np.asarray(mean - total)


def word_prefix_logps(proposal_trees: Sequence[Tree], action_logps: Sequence[Sequence[float]]) -> list[float]:
    r"""Return lower bounds on the log-probabilities of a sentence's first 1, 2, ... words, from its proposal trees.

    Spec: MARG-5.  $\log p(x_{\le t}) \ge \log \sum_{\pi \in \Pi_t} p(\pi)$, $\Pi_t$ prefixes that end in word t

    proposal_trees : J trees over the same n words.
    action_logps : J lists of float, every action of every tree, given those before it -> [n] float
    Raises ValueError if there is no tree, or the trees are over different words.
    """
    if len({tuple(words(tree)) for tree in proposal_trees}) != 1:
        raise ValueError("proposal_trees must be one or more, over the same words")
    prefixes: list[dict[tuple[str, ...], float]] = [{} for _ in words(proposal_trees[0])]  # a set for every t
    for tree, logps in zip(proposal_trees, action_logps, strict=True):
        sequence, logp, t = actions(tree), 0.0, 0
        for i, (action, action_logp) in enumerate(zip(sequence, _logps(logps, "action_logps"), strict=True)):
            logp += float(action_logp)
            if action_type(action) == ActionType.T:
                prefixes[t][tuple(sequence[: i + 1])] = logp
                t += 1
    return [sentence_logp(list(logps.values())) for logps in prefixes]


def document_logps(model: Callable[[Sequence[Tree], Tree], float], proposals: Sequence[Sequence[Tree]]) -> list[float]:
    r"""Return the log-probability of every sentence of a document, each given the likeliest trees of those before.

    Spec: MARG-6.  $\log \sum_y p(x_i, y \mid \hat y_{<i})$,  $\hat y_i = \arg\max_y p(x_i, y \mid \hat y_{<i})$

    model : function of the earlier trees and a tree, $\log p(x_i, y \mid \hat y_{<i})$.
    proposals : one or more different trees of every sentence -> [n] float, an approximation, not a bound
    Raises ValueError if a sentence has no proposals.

    >>> flat, deep = Tree("S", ("it",)), Tree("S", (Tree("NP", ("it",)),))
    >>> model = lambda before, tree: math.log(0.25 if tree == flat or deep in before else 0.5)
    >>> [round(math.exp(logp), 12) for logp in document_logps(model, [[flat, deep], [flat, deep]])]
    [0.75, 0.5]
    """
    before, sentence_logps = tuple[Tree, ...](), list[float]()
    for number, trees in enumerate(proposals, 1):
        if not trees:
            raise ValueError(f"sentence {number}: no proposals")
        logps = [model(before, tree) for tree in trees]
        sentence_logps.append(sentence_logp(logps))
        before = (*before, trees[int(np.argmax(logps))])  # of equally likely trees the first
    return sentence_logps


def _logps(logps: ArrayLike, name: str, axes: int = 0) -> Float:
    """Return `logps` as an array; refuse values that are no log-probabilities; `axes` is the least number of axes."""
    array: Float = np.asarray(logps)
    if not (array < np.inf).all():
        raise ValueError(f"{name} holds a NaN or +inf")
    if array.ndim < axes or (axes and len(array) == 0):
        raise ValueError(f"{name} of shape {array.shape} needs {axes} or more axes, and one or more models")
    return array
