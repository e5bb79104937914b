"""The attention weights of a model on one tree, for looking at them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from accel.data.batches import Batches
from accel.data.treebank import encode_trees
from accel.models import transformer_grammar
from accel.saved import Model
from refimpl.trees import ActionType, Tree

_OPS = ("sparse_attention", "causal_attention")


@dataclass(frozen=True)
class Weights:
    """What the model reads at each position, its type, and [layers, heads, T, T] weights; each row sums to 1."""

    tokens: list[str]
    types: list[ActionType]
    weights: np.ndarray


def attention_weights(ops: ModuleType, model: Model, tree: Tree) -> Weights:
    """Return the weights of every layer and head, the tree read as one segment.

    The model runs with operations that note what they are given: a weight is exp(score - lse). Cost: O(T^2) memory.
    """
    config, vocabulary = model.config, model.vocabulary
    corpus = encode_trees([tree], vocabulary)
    length = 2 * len(corpus.actions) + 2  # more than any model makes of it
    config = replace(config, segment_length=length, memory_length=0)
    [batch] = Batches(corpus, vocabulary, config, 1, ops=ops, prefetch=0)
    noted: list[np.ndarray] = []
    noting = SimpleNamespace(**{name: getattr(ops, name) for name in dir(ops) if not name.startswith("__")})
    for name, dense in zip(_OPS, (_sparse, _causal), strict=True):
        setattr(noting, name, _noting(getattr(ops, name), dense, noted))
    transformer_grammar.token_logps(noting, config, model.parameters, batch)
    ids, compose = _host(batch.ids), _host(batch.compose)
    layers = []
    for _ in range(config.n_layers):
        heads = [noted.pop(0)]
        while sum(map(len, heads)) < config.n_heads:  # some heads follow the attend sets, others do not
            heads.append(noted.pop(0))
        if config.distinct_attention:
            heads = [np.where(compose[:, None], noted.pop(0), heads[0])]
        layers.append(np.concatenate(heads))
    kinds = [ActionType(kind) for kind in vocabulary.type_of[ids].tolist()]
    if config.model == "tg":
        after = [False, *compose[:-1].tolist()]
        kinds = [ActionType.CNT2 if second else kind for kind, second in zip(kinds, after, strict=True)]
    return Weights([vocabulary.symbols[i] for i in ids.tolist()], kinds, np.stack(layers))


def _noting(op: Any, dense: Any, noted: list[np.ndarray]) -> Any:
    def call(*inputs: Any, **options: Any) -> Any:
        outputs = op(*inputs, **options)
        noted.append(dense(*(_host(x) for x in inputs), _host(outputs[1])))
        return outputs

    return call


def _sparse(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    r: np.ndarray,
    content_bias: np.ndarray,
    position_bias: np.ndarray,
    row_offsets: np.ndarray,
    keys: np.ndarray,
    relative: np.ndarray,
    lse: np.ndarray,
) -> np.ndarray:
    """Return [H, T, T] weights from what `sparse_attention` takes and its lse [T, H]."""
    rows = np.repeat(np.arange(len(q)), np.diff(row_offsets))
    scores = ((q[rows] + content_bias) * k[keys] + (q[rows] + position_bias) * r[relative]).sum(-1)
    out = np.zeros((q.shape[1], len(q), len(k)))
    out[:, rows, keys] = np.exp(scores / q.shape[-1] ** 0.5 - lse[rows]).T
    return out


def _causal(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    r: np.ndarray,
    content_bias: np.ndarray,
    position_bias: np.ndarray,
    query_offsets: np.ndarray,
    key_offsets: np.ndarray,
    lse: np.ndarray,
) -> np.ndarray:
    """Return the same from what `causal_attention` takes: one sequence without memory."""
    before = [np.arange(i + 1) for i in range(len(q))]
    row_offsets = np.cumsum([0, *map(len, before)])
    keys = np.concatenate(before)
    relative = np.repeat(np.arange(len(q)), np.diff(row_offsets)) - keys
    return _sparse(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, lse)


def _host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array
