"""Sentences from trees, perplexity, and ensembles of models (Transformer Grammars, sections 3.1 and 3.7).

Everything is a natural logarithm; log-zero is ``-inf`` and goes through every function without a NaN or a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refimpl.trees import ActionType, Tree, action_type, actions, words

Float = NDArray[np.floating[Any]]


def unique_trees(trees: Iterable[Tree]) -> list[Tree]:
    r"""Return the different trees among the proposals, in the order in which they first come.

    Spec: MARG-1.  $\mathcal Y'_x$ is a set: a tree that was sampled twice is still one event   (section 3.1)

    Examples
    --------
    >>> bird = Tree("NP", ("bird",))
    >>> unique_trees([bird, Tree("VP", ("bird",)), bird])
    [Tree('(NP bird)'), Tree('(VP bird)')]
    """
    return list(dict.fromkeys(trees))


def sentence_logp(tree_logps: Sequence[float] | Float) -> float:
    r"""Return a lower bound on the log-probability of a sentence, from its proposal trees.

    Spec: MARG-1.  $\log p(x) \ge \log \sum_{y \in \mathcal Y'_x} p(x, y)$   (section 3.1)

    Parameters
    ----------
    tree_logps : [J] float
        $\log p(x, y)$ of the J *different* proposals (see `unique_trees`), nats; ``-inf`` allowed.

    Returns
    -------
    float
        Nats; never below any of `tree_logps`, exact when they are all the trees of the sentence; ``-inf`` for none.

    Raises
    ------
    ValueError
        If an entry is NaN or ``+inf``.

    Examples
    --------
    >>> round(math.exp(sentence_logp([math.log(0.125), math.log(0.25), -math.inf])), 12)
    0.375
    >>> sentence_logp([])
    -inf
    """
    return float(np.logaddexp.reduce(_logps(tree_logps, "tree_logps")))


def word_prefix_logps(proposal_trees: Sequence[Tree], action_logps: Sequence[Sequence[float]]) -> list[float]:
    r"""Return lower bounds on the log-probabilities of a sentence's first 1, 2, ... words, from its proposal trees.

    Spec: MARG-5.  $\log p(x_{\le t}) \ge \log \sum_{\pi \in \Pi_t} p(\pi)$, $\Pi_t$ prefixes that end in word t

    Parameters
    ----------
    proposal_trees : J trees over the same n words
    action_logps : J lists of float
        The log-probability of every action of every tree, given those before it, nats; ``-inf`` allowed.

    Returns
    -------
    [n] float
        Nats; a prefix of actions that several trees have counts once.

    Raises
    ------
    ValueError
        If there is no tree, the trees are over different words, or an entry is NaN or ``+inf``.

    Examples
    --------
    >>> trees = [Tree("S", ("it", Tree("VP", ("rains",)))), Tree("S", (Tree("NP", ("it",)), "rains"))]
    >>> half, sure = math.log(0.5), 0.0
    >>> bounds = word_prefix_logps(trees, [[sure, half, sure, half, sure, sure], [sure, half, half, half, sure, sure]])
    >>> [round(math.exp(logp), 12) for logp in bounds]
    [0.75, 0.375]
    """
    if len({tuple(words(tree)) for tree in proposal_trees}) != 1:
        raise ValueError("proposal_trees must be one or more, over the same words")
    reached: list[dict[tuple[str, ...], float]] = [{} for _ in words(proposal_trees[0])]
    for tree, logps in zip(proposal_trees, action_logps, strict=True):
        prefix: tuple[str, ...] = ()
        total, n_spoken = 0.0, 0
        for action, logp in zip(actions(tree), _logps(logps, "action_logps"), strict=True):
            prefix, total = (*prefix, action), total + float(logp)
            if action_type(action) == ActionType.T:
                reached[n_spoken][prefix] = total
                n_spoken += 1
    return [sentence_logp(list(prefixes.values())) for prefixes in reached]


def document_logps(model: Callable[[Sequence[Tree], Tree], float], proposals: Sequence[Sequence[Tree]]) -> list[float]:
    r"""Return the log-probability of every sentence of a document, each behind the likeliest trees of those before.

    Spec: MARG-6.  $\log \sum_y p(x_i, y \mid \hat y_{<i})$,  $\hat y_i = \arg\max_y p(x_i, y \mid \hat y_{<i})$

    Parameters
    ----------
    model : function
        Of the trees before and a tree: $\log p(x_i, y \mid \hat y_{<i})$, nats; ``-inf`` allowed.
    proposals : one or more different trees of every sentence

    Returns
    -------
    [n] float
        Nats; an approximation, not a bound. Of equally likely trees the first goes on.

    Raises
    ------
    ValueError
        If a sentence has no proposals, or the model gives a NaN or ``+inf``.

    Examples
    --------
    >>> flat, deep = Tree("S", ("it",)), Tree("S", (Tree("NP", ("it",)),))
    >>> model = lambda before, tree: math.log(0.25 if tree == flat or deep in before else 0.5)
    >>> [round(math.exp(logp), 12) for logp in document_logps(model, [[flat, deep], [flat, deep]])]
    [0.75, 0.5]
    """
    before: tuple[Tree, ...] = ()
    found = []
    for number, trees in enumerate(proposals, 1):
        if not trees:
            raise ValueError(f"sentence {number}: no proposals")
        logps = [model(before, tree) for tree in trees]
        found.append(sentence_logp(logps))
        before = (*before, trees[int(np.argmax(logps))])
    return found


def perplexity(sentence_logps: Sequence[float] | Float, n_words: int) -> float:
    r"""Return the perplexity per word of a corpus.

    Spec: MARG-2.  $\mathrm{PPL} = \exp(-\frac{1}{N_w} \sum_x \log p(x))$   (section 3.1)

    Parameters
    ----------
    sentence_logps : [S] float
        $\log p(x)$ of every sentence, nats. With the lower bounds of `sentence_logp` the result is an upper bound.
    n_words : int
        Words of the corpus: not word pieces, not actions; an end-of-sentence symbol does not count.

    Returns
    -------
    float
        At least 1 if no log-probability is positive; ``inf`` if a sentence has probability 0.

    Raises
    ------
    ValueError
        If there is no sentence, `n_words` is not positive, or an entry is NaN or ``+inf``.

    Examples
    --------
    >>> round(perplexity([math.log(1 / 8), math.log(1 / 4)], n_words=5), 12)
    2.0
    """
    if n_words < 1:
        raise ValueError(f"n_words must be positive, not {n_words}")
    if len(sentence_logps) == 0:
        raise ValueError("sentence_logps is empty")
    total = math.fsum(_logps(sentence_logps, "sentence_logps"))
    with np.errstate(over="ignore"):  # beyond the largest float the perplexity is inf
        return float(np.exp(np.float64(-total / n_words)))


def mixture_logp(logps: ArrayLike) -> Float:
    r"""Return the log-probabilities of a uniform mixture of experts.

    Spec: MARG-3.  $p(a) = \frac{1}{K} \sum_k p_k(a)$   (section 3.7)

    Parameters
    ----------
    logps : [K, ...] float
        $\log p_k$, nats: one row for each of the K models; ``-inf`` allowed.

    Returns
    -------
    [...] float, dtype of `logps`
        Normalised if every model is; between the lowest and the highest model everywhere.

    Raises
    ------
    ValueError
        If there is no model, or an entry is NaN or ``+inf``.

    Examples
    --------
    >>> np.exp(mixture_logp(np.log([[0.5, 0.5], [0.25, 0.75]]))).round(12)
    array([0.375, 0.625])
    """
    array = _models(logps)
    return np.asarray(np.logaddexp.reduce(array, axis=0) - math.log(len(array)), dtype=array.dtype)


def product_logp(logps: ArrayLike) -> Float:
    r"""Return the log-probabilities of a uniform product of experts.

    Spec: MARG-4.  $p(a) \propto \bigl(\prod_k p_k(a)\bigr)^{1/K}$   (section 3.7)

    Parameters
    ----------
    logps : [K, ..., V] float
        $\log p_k$ of *all* V events, nats; ``-inf`` allowed.

    Returns
    -------
    [..., V] float, dtype of `logps`
        Normalised over the last axis, whether the models are or not.

    Raises
    ------
    ValueError
        If there is no model or no axis of events, an entry is NaN or ``+inf``, or no event is possible for all models.

    Examples
    --------
    >>> np.exp(product_logp(np.log([[0.5, 0.5], [0.1, 0.9]]))).round(12)
    array([0.25, 0.75])
    """
    array = _models(logps)
    if array.ndim < 2:
        raise ValueError(f"logps must be [K, ..., V], not of shape {array.shape}")
    mean = array.mean(axis=0)
    total = np.logaddexp.reduce(mean, axis=-1, keepdims=True)
    if np.isneginf(total).any():
        raise ValueError("the product of experts is empty: no event is possible for all models")
    return np.asarray(mean - total)


def _models(logps: ArrayLike) -> Float:
    array = _logps(logps, "logps")
    if array.ndim == 0 or len(array) == 0:
        raise ValueError("logps must hold at least one model")
    return array


def _logps(logps: ArrayLike, name: str) -> Float:
    """Return `logps` as an array of floats, or refuse what is no log-probability."""
    array = np.asarray(logps)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if np.isnan(array).any() or np.isposinf(array).any():
        raise ValueError(f"{name} holds a NaN or +inf")
    return array
