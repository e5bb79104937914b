"""ALBERT, with Treeformer's chart above it or alone: masked tokens, and the classes or scores of sentences and pairs.

Mirrors `refimpl.treeformer.albert` (clauses AL-*) and `refimpl.treeformer.model.summary` (TF-2): the same parameters by
the same names. The tokens of all sequences of a batch lie one after another, so that nothing is padded.
Memory: O(N (d_ff + 10 d) n_layers) floats saved for the backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of, on_device
from accel.autodiff.layers import (
    cross_entropy,
    dropout,
    embedding,
    feed_forward,
    layer_norm,
    linear,
    mlp,
    negative_squares,
    self_attention,
)
from accel.autodiff.recomputation import recomputed
from accel.autodiff.variables import Variable
from accel.models.albert.config import KINDS, SIZES, Config, initialise, parameter_shapes
from accel.models.passes import Forward, Pass, differentiated, judged, most_probable, negative_sum, scoring
from accel.models.treeformer import chart

NAME = "albert"  # in checkpoints

__all__ = ["KINDS", "SIZES", "Config", "class_logits", "initialise", "loss_and_grad", "parameter_shapes", "scores"]

EPSILON = 1e-5
"""The epsilon of the backends' LayerNorm."""


def class_logits(ops: ModuleType, config: Config, parameters: Mapping[str, Array], batch: Any) -> Array:
    """Return the logits of the classes of every sentence or pair [B, n_classes]; a score if there is one class."""
    f = scoring(ops, config, parameters)
    return _logits(f, _pooled(f, batch)).value


@dataclass(frozen=True)
class _Layout:
    """The tokens of a batch, sequence by sequence."""

    ids: Array  # [N]
    steps: Array  # [N] where in its sequence a token stands
    types: Array  # [N] 0, or 1 in the second sentence of a pair
    sequences: Array  # [B+1] where each sequence begins
    sentences: Array  # [S+1] where each sentence begins
    longest: int  # tokens of the longest sequence


def _layout(ops: ModuleType, config: Config, batch: Any) -> _Layout:
    """Return the tokens of a batch that holds all first sentences, then, if they are pairs, all second ones."""
    lengths = np.diff(host(batch.offsets))
    width = len(lengths) // len(batch.labels) if config.n_classes else 1  # texts with masked tokens are no pairs
    of_sentence = lengths.reshape(width, -1).T.ravel()  # sequence by sequence
    begin = host(batch.offsets)[:-1].reshape(width, -1).T.ravel()
    sentences = offsets_of(of_sentence)
    source = np.arange(sentences[-1]) + np.repeat(begin - sentences[:-1], of_sentence)
    sequences = sentences[::width]
    types = np.repeat(np.arange(len(of_sentence)) % width, of_sentence).astype(np.int32)
    steps = np.arange(sentences[-1]) - np.repeat(sequences[:-1], np.diff(sequences))
    arrays = {"ids": host(batch.ids)[source], "steps": steps.astype(np.int32), "types": types}
    arrays |= {"sequences": sequences, "sentences": sentences}
    there = on_device(ops, arrays, attention=[("sequences", "sequences")], groups=["ids", "steps", "types"])
    return _Layout(**there, longest=int(np.diff(sequences).max(initial=0)))


def _encode(f: Pass, layout: _Layout) -> Variable:
    """Return the vector of every token [N, d]: sequence by sequence, the sentences of a pair one after the other."""
    tape, p, config = f.tape, f.p, f.config
    if layout.longest > config.n_positions:
        raise ValueError(f"a sequence of {layout.longest} tokens, more than the model reads, {config.n_positions}")
    x = tape.add(embedding(tape, p["embedding"], layout.ids), embedding(tape, p["position"], layout.steps))
    x = _norm(f, "embedding_norm", tape.add(x, embedding(tape, p["type"], layout.types)))
    x = linear(tape, p, "widen", dropout(tape, x, config.dropout, f.sites), "widen_bias")
    for _ in range(config.n_layers):
        x = recomputed(_layer, f, x, layout.sequences)
    return x


def _layer(f: Pass, x: Variable, sequences: Array) -> Variable:
    tape, p, config = f.tape, f.p, f.config
    network, draw = feed_forward if config.activation == "gelu_new" else mlp, f.sites.draw(config.attention_dropout)
    attended = self_attention(tape, p, "layer.attention", x, x, config.n_heads, sequences, draw)
    x = _norm(f, "layer.attention_norm", tape.add(x, dropout(tape, attended, config.dropout, f.sites)))
    output = network(tape, p, "layer.feed_forward", x, 0.0, f.sites)
    return _norm(f, "layer.feed_forward_norm", tape.add(x, output))


def _norm(f: Pass, name: str, x: Variable) -> Variable:
    """Return the LayerNorm with the model's epsilon, by law L3 of LAY-1."""
    return layer_norm(f.tape, f.p, name, f.tape.scale(x, (EPSILON / f.config.norm_epsilon) ** 0.5))


def _pooled(f: Pass, batch: Any) -> Variable:
    """Return the vector that classifies every sequence [B, d]."""
    tape, p, config, layout = f.tape, f.p, f.config, _layout(f.tape.ops, f.config, batch)
    encoded = _encode(f, layout)
    summary = tape.take(encoded, layout.sequences[:-1])
    if config.chart != "none":
        width = 1 if config.across else (len(layout.sentences) - 1) // (len(layout.sequences) - 1)
        bounds, height = layout.sequences if config.across else layout.sentences, config.max_height or None
        dropped = (config.attention_dropout, f.sites)
        nodes, _ = chart.build(tape, p, config.chart, config.n_heads, encoded, bounds, height, *dropped)
        summary = tape.add(summary, chart.top_row_means(tape, nodes, bounds, height, width))
    hidden = linear(tape, p, "pooler", summary, "pooler_bias")
    value = tape.xp.tanh(hidden.value)
    pooled = tape.record(value, [hidden], lambda d_out: hidden.accumulate(d_out * (1 - value * value)))
    return dropout(tape, pooled, config.class_dropout, f.sites)


def _logits(f: Pass, pooled: Variable) -> Variable:
    return f.tape.project(pooled, f.p["classes"], f.p["classes_bias"])


def _masked_rows(f: Pass, batch: Any) -> tuple[Variable, Array]:
    """Return a row for every masked token, which the output layer multiplies by the table, and the tokens' numbers."""
    tape, p, xp = f.tape, f.p, f.tape.xp
    rows = xp.flatnonzero(batch.labels >= 0)
    h = tape.take(_encode(f, _layout(tape.ops, f.config, batch)), rows)
    op = "bias_gelu" if f.config.activation == "gelu_new" else "bias_erf_gelu"
    hidden = tape.op(op, tape.linear(h, p["narrow"]), p["narrow_bias"])
    return _norm(f, "narrow_norm", hidden), rows


def _gains(f: Pass, batch: Any) -> Variable:
    """Return the log-probability of every label, a class or a masked token; for a score, the negative squared error."""
    if not f.config.n_classes:
        h, rows = _masked_rows(f, batch)
        return cross_entropy(f.tape, h, f.p["embedding"], f.p["output_bias"], batch.labels[rows])
    pooled = _pooled(f, batch)
    if f.config.n_classes == 1:
        return negative_squares(f.tape, _logits(f, pooled), batch.labels)
    return cross_entropy(f.tape, pooled, f.p["classes"], f.p["classes_bias"], batch.labels)


def _learn(f: Pass, batch: Any, memory: list[Array] | None) -> Forward:
    return negative_sum(f, _gains(f, batch))


def _judge(f: Pass, batch: Any) -> tuple[Array, Array]:
    """Return the terms of the loss, and whether each label is the most probable one; always False for scores."""
    xp = f.tape.xp
    if f.config.n_classes == 1:
        return _gains(f, batch).value, xp.zeros(len(batch.labels), bool)
    if f.config.n_classes:
        h, labels, table, bias = _pooled(f, batch), batch.labels, f.p["classes"], f.p["classes_bias"]
    else:
        h, rows = _masked_rows(f, batch)
        labels, table, bias = batch.labels[rows], f.p["embedding"], f.p["output_bias"]
    logp = cross_entropy(f.tape, h, table, bias, labels).value
    return logp, most_probable(xp, h.value, table.value, bias.value) == labels


loss_and_grad = differentiated(_learn)
scores = judged(_judge)
