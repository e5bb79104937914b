"""The attention weights of a model on one tree, or of a decoder on one source, for pictures.

A hook on the model's ops computes them: a weight is exp(score - lse).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.autodiff.tape import OnOp
from accel.data.batches.trees import Batches
from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.encoder_decoder.model import Past
from accel.models.transformer_grammars import model as transformer_grammar
from accel.trained.kinds import ATTENTION, require
from accel.trained.opening import Model
from refimpl.trees import ActionType, Tree


@dataclass(frozen=True)
class Weights:
    """The token and the type at each position, and weights [layers, heads, T, T]; each row sums to 1."""

    tokens: list[str]
    types: list[ActionType]
    weights: np.ndarray


def attention_weights(ops: ModuleType, model: Model, tree: Tree) -> Weights:
    """Return the weights of every layer and head; the tree is read as one segment.

    Cost: O(T^2) memory.
    """
    require(model, ATTENTION)
    config, vocabulary = model.config, model.vocabulary
    corpus = encode_trees([tree], vocabulary)
    length = 2 * len(corpus.actions) + 2  # at least the positions of any model
    config = replace(config, segment_length=length, memory_length=0)
    [batch] = Batches(corpus, vocabulary, config, 1, ops=ops, prefetch=0)
    op_weights: list[Any] = []
    on_op = _noting({"sparse_attention": _sparse, "causal_attention": _causal}, op_weights)
    transformer_grammar.final_states(ops, config, model.parameters, batch, on_op=on_op)
    ids, compose = host(batch.ids), host(batch.compose)
    layers = []
    for _ in range(config.n_layers):
        heads = [op_weights.pop(0)]
        while sum(map(len, heads)) < config.n_heads:  # some heads follow the attend sets, others do not
            heads.append(op_weights.pop(0))
        if config.distinct_attention:
            heads = [np.where(compose[:, None], op_weights.pop(0), heads[0])]
        layers.append(np.concatenate(heads))
    types = [ActionType(number) for number in vocabulary.type_of[ids].tolist()]
    if config.model == "tg":
        after_compose = [False, *compose[:-1].tolist()]
        types = [ActionType.CNT2 if second else first for first, second in zip(types, after_compose, strict=True)]
    return Weights([vocabulary.symbols[i] for i in ids.tolist()], types, np.stack(layers))


def cross_attention(ops: ModuleType, model: Model, source: Sequence[int], target: Sequence[int]) -> np.ndarray:
    """Return the decoder's attention to every output of the encoder [M]; the weights sum to 1.

    They are the mean of all layers, heads and output positions (the end symbol's too) when the model writes the target.
    Source and target come without their end symbols.
    """
    config, xp = model.config, ops.xp
    op_weights: list[Any] = []
    ids = xp.asarray(np.array([*source, END_ID], np.int32))
    past = Past(*encoder_decoder.encode(ops, config, model.parameters, ids, xp.asarray(np.array([0, len(ids)]))))
    on_op = _noting({"dot_product_attention": _dot_product}, op_weights)
    parent, offsets = xp.asarray(np.array([0])), xp.asarray(np.array([0, 1]))
    for token in (START_ID, *target):
        newest = xp.asarray(np.array([token], np.int32))
        encoder_decoder.continue_sequences(ops, config, model.parameters, past, parent, newest, offsets, on_op)
    mean: np.ndarray = np.mean([weights for weights, causal in op_weights if not causal], axis=0)
    return mean


def _noting(weights_of: Mapping[str, Callable[..., Any]], op_weights: list[Any]) -> OnOp:
    """Return a hook that appends to `op_weights` what `weights_of[op]` returns for an op's inputs, lse and options."""

    def on_op(name: str, inputs: Sequence[Any], options: Mapping[str, Any], outputs: tuple[Array, ...]) -> None:
        if name in weights_of:
            op_weights.append(weights_of[name](*map(host, inputs), host(outputs[1]), **options))

    return on_op


def _dot_product(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    query_offsets: np.ndarray,
    key_offsets: np.ndarray,
    lse: np.ndarray,
    causal: bool,
    **options: Any,
) -> tuple[np.ndarray, bool]:
    """Return the mean weights of the heads [S] from the inputs of `dot_product_attention`, and whether it is causal."""
    return np.exp((q * k).sum(axis=-1) / q.shape[-1] ** 0.5 - lse).mean(axis=1), causal


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
    **options: Any,
) -> np.ndarray:
    """Return the weights [H, T, T] from the inputs of `sparse_attention` and its lse [T, H]."""
    rows = np.repeat(np.arange(len(q)), np.diff(row_offsets))
    scores = ((q[rows] + content_bias) * k[keys] + (q[rows] + position_bias) * r[relative]).sum(-1)
    weights = np.zeros((q.shape[1], len(q), len(k)))
    weights[:, rows, keys] = np.exp(scores / q.shape[-1] ** 0.5 - lse[rows]).T
    return weights


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
    **options: Any,
) -> np.ndarray:
    """Return the weights [H, T, T] from the inputs of `causal_attention`: one sequence without memory."""
    before = [np.arange(i + 1) for i in range(len(q))]
    row_offsets = offsets_of(map(len, before))
    keys = np.concatenate(before)
    relative = np.repeat(np.arange(len(q)), np.diff(row_offsets)) - keys
    return _sparse(q, k, v, r, content_bias, position_bias, row_offsets, keys, relative, lse)
