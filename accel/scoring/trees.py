"""Log-probabilities of trees, under one model or an ensemble of several.

Event `a` of a tree is its action number `a`. (A Transformer Grammar reads every closing non-terminal twice, but
predicts it once.) For a model of words the events are the words and, last, the end of the sequence. The models of an
ensemble must have the same vocabulary and the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.data.batches.assemble import sequence_lengths
from accel.data.batches.prefixes import read_prefixes
from accel.data.batches.trees import Batches
from accel.data.corpora.treebank import Corpus
from accel.data.vocabularies.vocabulary import END_ID
from accel.models.transformer_grammars import model as transformer_grammar
from accel.trained.ensembles import check_ensemble, of_words
from accel.trained.opening import Model
from refimpl.transformer_grammars.marginal import mixture_logp
from refimpl.trees import ActionType

_ACTIONS = 32  # actions of a short tree; batches that fit into the CPU's cache are the fastest


def tree_logps(ops: ModuleType, models: Sequence[Model], corpus: Corpus, **options: Any) -> Iterator[float]:
    """Yield log p of every tree, nats, in the order of the corpus; the options are those of `event_logps`."""
    for events in event_logps(ops, models, corpus, **options):
        yield float(events.sum())


def event_logps(
    ops: ModuleType,
    models: Sequence[Model],
    corpus: Corpus,
    *,
    ensemble: str = "mixture",
    batch_size: int = 64,
    groups: Sequence[int] | None = None,
) -> Iterator[np.ndarray]:
    """Yield log p of every event of every tree ([events] float64, nats), in the order of the corpus.

    Parameters
    ----------
    models : one or more
    ensemble : "mixture" or "product"
        How several models are combined: by the mean of their probabilities of an event, or by the geometric mean,
        normalised over the vocabulary (clauses MARG-3 and MARG-4).
    batch_size : int
        How many trees are read side by side. With groups, a batch has 32 * batch_size actions.
    groups : sequence of int or None
        How many consecutive trees belong to the same sentence: their common prefixes are read once.

    Raises
    ------
    ValueError
        If models have different vocabularies or events, or a log-probability is not a number.
    """
    check_ensemble(models, ensemble)
    if ensemble == "mixture" or len(models) == 1:
        streams = [_read(ops, model, corpus, batch_size, groups) for model in models]
        events: Iterator[np.ndarray] = (
            mixture_logp(np.array(logps, np.float64)) for logps in zip(*streams, strict=True)
        )
    else:
        events = _product(ops, models, corpus, batch_size, groups)
    for number, logps in enumerate(events, 1):
        if np.isnan(logps).any():
            raise ValueError(f"tree {number}: log p of event {int(np.isnan(logps).argmax()) + 1} is not a number")
        yield logps


def events_of(model: Model, corpus: Corpus, tree: int) -> np.ndarray:
    """Return the ids of a tree's events."""
    actions = corpus[tree]
    if not of_words(model):
        return actions
    return np.append(actions[model.vocabulary.type_of[actions] == ActionType.T], np.int32(END_ID))


def _product(
    ops: ModuleType, models: Sequence[Model], corpus: Corpus, batch_size: int, groups: Sequence[int] | None
) -> Iterator[np.ndarray]:
    """Yield log p of the events under the normalised geometric mean of the models.

    The mean of their logits is one inner product: concatenated final states times concatenated embeddings. The
    normaliser of each model is the same for all actions and cancels. So the op `cross_entropy` normalises the product,
    and no [events, V] array is kept.
    """
    xp, share = ops.xp, 1.0 / len(models)
    table = xp.concatenate([model.parameters["embedding"] for model in models], axis=1)
    bias = sum(model.parameters["output_bias"] for model in models) * share
    streams = [_read(ops, model, corpus, batch_size, groups, _STATES) for model in models]
    rows = zip(*streams, strict=True)
    number = 0
    while chunk := list(islice(rows, batch_size)):
        states = xp.concatenate([xp.concatenate(model_states, axis=1) for model_states in chunk])
        labels = [events_of(models[0], corpus, number + i) for i in range(len(chunk))]
        logps = host(ops.cross_entropy(states * share, table, bias, xp.asarray(np.concatenate(labels)))[0])
        yield from np.split(logps.astype(np.float64), np.cumsum([len(x) for x in labels])[:-1])
        number += len(chunk)


class _Functions(NamedTuple):
    """The functions that read a batch of trees and a batch of prefixes."""

    of_batch: Callable[..., tuple[Array, list[Array]]]
    of_prefixes: Callable[..., Array]


_LOGPS = _Functions(transformer_grammar.token_logps, transformer_grammar.prefix_logps)
_STATES = _Functions(transformer_grammar.final_states, transformer_grammar.prefix_states)


def _read(
    ops: ModuleType,
    model: Model,
    corpus: Corpus,
    batch_size: int,
    groups: Sequence[int] | None,
    functions: _Functions = _LOGPS,
) -> Iterator[Array]:
    """Yield log p of every event of every tree, or the states, in the order of the corpus."""
    if groups is None or of_words(model) or max(groups, default=1) == 1:
        return _by_tree(ops, model, corpus, batch_size, functions)
    return _by_prefix(ops, model, corpus, _ACTIONS * batch_size, groups, functions)


def _by_prefix(
    ops: ModuleType, model: Model, corpus: Corpus, n_actions: int, groups: Sequence[int], functions: _Functions
) -> Iterator[Array]:
    """Yield the same results as `_by_tree`; the trees of a group share the rows of their common prefixes."""
    events_of_tree: dict[int, Array] = {}
    next_tree = 0
    for prefixes in read_prefixes(corpus, model.vocabulary, model.config, ops, groups, n_actions=n_actions):
        out = functions.of_prefixes(ops, model.config, model.parameters, prefixes)
        out, xp = (out, ops.xp) if out.ndim > 1 else (host(out), np)
        events = out[xp.asarray(prefixes.action_of)]
        events_of_tree |= zip(prefixes.trees.tolist(), xp.split(events, prefixes.offsets[1:-1].tolist()), strict=True)
        while next_tree in events_of_tree:
            yield events_of_tree.pop(next_tree)
            next_tree += 1


def _by_tree(ops: ModuleType, model: Model, corpus: Corpus, batch_size: int, functions: _Functions) -> Iterator[Array]:
    """Yield the results of every event of every tree, in the order of the corpus."""
    length = model.config.segment_length
    n_segments = -(-sequence_lengths(corpus, model.config.model) // length)
    segments_of: dict[int, list[Array]] = {}
    events_of_tree: dict[int, Array] = {}
    next_tree, memory = 0, None
    with Batches(corpus, model.vocabulary, model.config, batch_size, ops=ops) as batches:
        for batch in batches:
            out, memory = functions.of_batch(ops, model.config, model.parameters, batch, memory)
            out, xp = (out, ops.xp) if out.ndim > 1 else (host(out), np)  # final states stay on the device
            labels, offsets = host(batch.labels), host(batch.query_offsets)
            for row, (tree, segment) in enumerate(zip(batch.trees.tolist(), batch.segment.tolist(), strict=True)):
                tokens = slice(offsets[row], offsets[row + 1])
                segments_of.setdefault(tree, []).append(out[tokens][xp.asarray(labels[tokens] >= 0)])
                if segment + 1 == n_segments[tree]:
                    events_of_tree[tree] = xp.concatenate(segments_of.pop(tree))
            while next_tree in events_of_tree:
                yield events_of_tree.pop(next_tree)
                next_tree += 1
