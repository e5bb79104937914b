"""The encoder-decoder Transformer, with or without the FastTrees gate or Treeformer's chart, and its classifier.

Mirrors `refimpl.transformer` (clauses ED-*) and `refimpl.treeformer.model` (TF-*): the same parameters by the same
names. The tokens of all sequences of a batch lie one after another, so that nothing is padded.
Memory: O(N (d_ff + 10 d) n_layers) floats saved for the backward pass; never queries x keys, never [N, V].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, on_device
from accel.autodiff.layers import (
    DropoutSites,
    cross_entropy,
    dropout,
    embedding,
    layer_norm,
    linear_relu,
    project,
    projections,
    residual_linear,
    residual_sum,
    sinusoids,
    smoothed_cross_entropy,
)
from accel.autodiff.recomputation import recomputed
from accel.autodiff.tape import OnOp, Tape
from accel.autodiff.variables import Variable, constant
from accel.models.encoder_decoder.config import (
    GATES,
    SIZES,
    Config,
    gate_convolutions,
    initialise,
    parameter_shapes,
)
from accel.models.passes import Forward, Pass, differentiated, judged, most_probable, negative_sum, scoring
from accel.models.treeformer import chart

NAME = "encoder_decoder"  # in checkpoints

__all__ = [
    "GATES", "SIZES", "Config", "Past", "chart_weights", "continue_sequences", "encode", "initialise", "loss_and_grad",
    "parameter_shapes", "scores",
]  # fmt: skip


def encode(
    ops: ModuleType, config: Config, parameters: Mapping[str, Array], ids: Array, offsets: Array
) -> tuple[Array, Array]:
    """Return the rows that the decoder attends to [S, d], tokens or chart nodes, and where each source begins [B+1].

    The tokens of source b are `ids[offsets[b] : offsets[b + 1]]`.
    """
    f = _with(scoring(ops, config, parameters))
    memory, bounds = _memory(f, _encode(f, ids, offsets), offsets)
    return memory.value, bounds


def chart_weights(
    ops: ModuleType, config: Config, parameters: Mapping[str, Array], ids: Array, offsets: Array, max_height: int | None
) -> Array:
    """Return the weights of all splits [P] in charts of the sources, with phrases of at most `max_height` tokens."""
    f = _with(scoring(ops, config, parameters))
    encoded = _encode(f, ids, offsets)
    return chart.build(f.tape, f.p, config.chart, config.n_heads, encoded, offsets, max_height)[1]


@dataclass
class Past:
    """The decoder's state for hypotheses of equal length, which grow one token at a time."""

    encoded: Array  # [S, d] the rows that `encode` returns
    source_offsets: Array  # [B+1]
    length: int = 0  # tokens so far
    rows: dict[str, Array] = field(default_factory=dict)  # [R, length, ...]: keys, values, inputs of convolutions
    crossed: dict[str, list[Variable]] = field(default_factory=dict)  # keys and values of the sources

    def extended(self, name: str, new: Array, xp: ModuleType) -> Array:
        """Store a new row for each hypothesis under a name, and return all rows of that name [R, length, ...]."""
        self.rows[name] = xp.concatenate([self.rows[name], new[:, None]], axis=1) if name in self.rows else new[:, None]
        return self.rows[name]


def continue_sequences(
    ops: ModuleType, config: Config, parameters: Mapping[str, Array], past: Past, parents: Array, ids: Array,
    offsets: Array, on_op: OnOp | None = None,
) -> Array:  # fmt: skip
    """Return the log-probabilities of the next token [R, V] of R hypotheses, each one token longer than before.

    Hypothesis i continues hypothesis `parents[i]` of the last call with token `ids[i]`. The hypotheses of source b
    begin at `offsets[b]` [B+1]. The first call does not read `parents`. `on_op` is called with every op.
    """
    f, xp = _with(scoring(ops, config, parameters, on_op), past), ops.xp
    past.rows = {name: rows[parents] for name, rows in past.rows.items()}
    h = _layers(f, "decoder", ids, offsets, constant(past.encoded), past.source_offsets)
    past.length += 1
    logits = xp.matmul(h.value, parameters["embedding"].T) + _output_bias(f).value
    logits -= logits.max(axis=1, keepdims=True)
    return logits - xp.log(xp.exp(logits).sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class _Layers:
    """State that all layers of one forward pass share."""

    tape: Tape
    config: Config
    p: Mapping[str, Variable]
    sites: DropoutSites
    past: Past | None = None


def _with(f: Pass, past: Past | None = None) -> _Layers:
    return _Layers(f.tape, f.config, f.p, f.sites, past)


def _last_layer(f: _Layers, batch: Any) -> tuple[Variable, Variable, Variable]:
    """Return a row for every label, and the table and bias of the output layer."""
    if f.config.n_classes:
        return _summary(f, _encode(f, batch.ids, batch.offsets), batch.offsets), f.p["classes"], f.p["classes_bias"]
    memory, bounds = _memory(f, _encode(f, batch.source_ids, batch.source_offsets), batch.source_offsets)
    h = _layers(f, "decoder", batch.ids, batch.target_offsets, memory, bounds)
    return h, f.p["embedding"], _output_bias(f)


def _output_bias(f: _Layers) -> Variable:
    """Return the bias of the output layer, or zeros."""
    table = f.p["embedding"].value
    return f.p["output_bias"] if f.config.output_bias else constant(f.tape.xp.zeros(len(table), table.dtype))


def _summary(f: _Layers, encoded: Variable, offsets: Array) -> Variable:
    """Return the vector that classifies every sequence [B, d]: the last row, or the first row plus the chart's top."""
    if f.config.chart == "none":
        return f.tape.take(encoded, offsets[1:] - 1)
    top = chart.top_row_means(f.tape, _nodes(f, encoded, offsets), offsets, f.config.max_height or None)
    return f.tape.add(f.tape.take(encoded, offsets[:-1]), top)


def _memory(f: _Layers, encoded: Variable, offsets: Array) -> tuple[Variable, Array]:
    """Return the rows that the decoder attends to, and where those of each source begin."""
    config = f.config
    if config.chart == "none":
        return encoded, offsets
    starts = {"nodes": chart.node_offsets(np, host(offsets), config.max_height or None)}
    return _nodes(f, encoded, offsets), on_device(f.tape.ops, starts)["nodes"]


def _nodes(f: _Layers, encoded: Variable, offsets: Array) -> Variable:
    """Return the vectors of all nodes of the charts."""
    config, dropped = f.config, (f.config.attention_dropout, f.sites)
    height = config.max_height or None
    return chart.build(f.tape, f.p, config.chart, config.n_heads, encoded, offsets, height, *dropped)[0]


def _encode(f: _Layers, ids: Array, offsets: Array) -> Variable:
    return _layers(f, "encoder", ids, offsets, None, None)


def _layers(
    f: _Layers, side: str, ids: Array, offsets: Array, encoded: Variable | None, source_offsets: Array | None
) -> Variable:
    """Return the normalised output of the last layer of one side."""
    tape, xp, config = f.tape, f.tape.xp, f.config
    table = f.p["source_embedding" if side == "encoder" and config.source_vocabulary_size else "embedding"]
    x = tape.scale(embedding(tape, table, ids), config.d_model**0.5)
    if f.past is None:
        longest = int(np.diff(host(offsets)).max(initial=0))
        positions = sinusoids(tape.ops, longest, config.d_model, x.value.dtype)[_steps(xp, offsets, len(ids))]
    else:
        positions = xp.repeat(sinusoids(tape.ops, 1, config.d_model, x.value.dtype, f.past.length), len(ids), axis=0)
    x = dropout(tape, tape.add(x, constant(positions)), config.dropout, f.sites)
    for k in range(config.layers(side)):
        x = recomputed(_layer, f, f"{side}.{k}.", x, offsets, encoded, source_offsets)
    return layer_norm(tape, f.p, f"{side}.norm", x) if config.norm == "pre" else x


def _steps(xp: ModuleType, offsets: Array, n: int) -> Array:
    """Return where in its sequence every one of the n rows stands."""
    rows = xp.arange(n)
    return rows - offsets[xp.searchsorted(offsets, rows, side="right") - 1]


def _layer(
    f: _Layers, name: str, x: Variable, offsets: Array, encoded: Variable | None, source_offsets: Array | None
) -> Variable:
    tape, p, config = f.tape, f.p, f.config

    def norm(part: str, rows: Variable, place: str) -> Variable:
        return layer_norm(tape, p, f"{name}{part}_norm", rows) if config.norm == place else rows

    normal = norm("attention", x, "pre")
    attended = _attend(f, name + "attention", normal, normal, offsets, offsets, causal=encoded is not None)
    if config.gate != "none":
        attended = _gate(f, name + "gate.", attended, offsets)
    x = norm("attention", residual_sum(tape, x, attended, config.dropout, f.sites), "post")
    if encoded is not None:
        normal = norm("cross_attention", x, "pre")
        attended = _attend(f, name + "cross_attention", normal, encoded, offsets, source_offsets, causal=False)
        x = norm("cross_attention", residual_sum(tape, x, attended, config.dropout, f.sites), "post")
    network = name + "feed_forward"
    inner, outer = ((p[f"{network}.{side}"], p[f"{network}.{side}_bias"]) for side in ("in", "out"))
    hidden = linear_relu(tape, norm("feed_forward", x, "pre"), *inner, config.relu_dropout, f.sites)
    return norm("feed_forward", residual_linear(tape, x, hidden, *outer, config.dropout, f.sites), "post")


def _attend(
    f: _Layers, name: str, x: Variable, keys: Variable, offsets: Array, key_offsets: Array, causal: bool
) -> Variable:
    """Return the attention of x [N, d] to keys [S, d], and to the keys of the past if there is one."""
    tape, xp, config, past = f.tape, f.tape.xp, f.config, f.past

    def heads(**rows: Variable) -> list[Variable]:
        split = config.n_heads, config.d_model // config.n_heads
        return [tape.reshape(y, -1, *split) for y in projections(tape, f.p, name, rows)]

    if past is None:
        q, k, v = heads(query=x, key=keys, value=keys)
    elif causal:
        q, *new = heads(query=x, key=keys, value=keys)
        past_rows = [
            past.extended(f"{name}.{matrix}", rows.value, xp)
            for matrix, rows in zip(("key", "value"), new, strict=True)
        ]
        k, v = (constant(rows.reshape(-1, *rows.shape[2:])) for rows in past_rows)
        offsets = xp.arange(len(x.value) + 1)
        key_offsets = offsets * past_rows[0].shape[1]
    else:
        (q,) = heads(query=x)
        if name not in past.crossed:
            past.crossed[name] = heads(key=keys, value=keys)
        k, v = past.crossed[name]
    draw = f.sites.draw(config.attention_dropout)
    out = tape.op("dot_product_attention", q, k, v, offsets, key_offsets, causal=causal, **draw)
    return tape.linear(tape.reshape(out, -1, config.d_model), f.p[name + ".output"], f.p.get(name + ".output_bias"))


def _gate(f: _Layers, name: str, x: Variable, offsets: Array) -> Variable:
    """Return the rows scaled by the tree-structured gate."""
    tape, p, names = f.tape, f.p, gate_convolutions(f.config)
    windows = _windows(f, name, x, offsets) if names else x
    local = [_convolved(f, f"{name}{part}conv", windows) for part in names] or [x]
    local *= 3 // len(local)  # what each of the three functions reads
    return tape.op("tree_gate", *(project(tape, p, name + k, rows) for k, rows in zip("abf", local, strict=True)), x)


def _convolved(f: _Layers, name: str, windows: Variable) -> Variable:
    taps = f.tape.transpose(f.p[name + ".weight"], 0, 2, 1)  # [out, taps, in], the last tap for the row itself
    taps = f.tape.reshape(taps, len(taps.value), -1)
    return f.tape.relu(f.tape.project(windows, taps, f.p[name + ".bias"]))


def _windows(f: _Layers, name: str, x: Variable, offsets: Array) -> Variable:
    """Return for every row the inputs of the convolution [N, taps * d], oldest first; 0 before the start."""
    tape, xp, (n, d), taps = f.tape, f.tape.xp, x.value.shape, f.config.kernel_size
    if f.past is not None:
        inputs = f.past.extended(name, x.value, xp)[:, -taps:]
        padding = xp.zeros((n, taps - inputs.shape[1], d), inputs.dtype)
        return constant(xp.concatenate([padding, inputs], axis=1).reshape(n, taps * d))
    back = xp.arange(taps - 1, -1, -1)
    rows = xp.where(_steps(xp, offsets, n)[:, None] < back, 0, 1 + xp.arange(n)[:, None] - back)
    source = tape.concatenate([constant(xp.zeros((1, d), x.value.dtype)), x])
    return tape.reshape(tape.op("embedding", source, rows.ravel().astype(xp.int32)), n, taps * d)


def _learn(f: Pass, batch: Any, memory: list[Array] | None) -> Forward:
    """Return the cross-entropy of the labels, which are smoothed where dropout is on.

    A batch is a `PairBatch`, that of a classifier a `SentenceBatch`.
    """
    h, table, bias = _last_layer(_with(f), batch)
    smoothing = 0.0 if f.sites.seed is None else f.config.label_smoothing
    return negative_sum(f, smoothed_cross_entropy(f.tape, h, table, bias, batch.labels, smoothing))


def _judge(f: Pass, batch: Any) -> tuple[Array, Array]:
    """Return the log-probability of every label, and whether it is the most probable one."""
    h, table, bias = _last_layer(_with(f), batch)
    logp = cross_entropy(f.tape, h, table, bias, batch.labels).value
    return logp, most_probable(f.tape.xp, h.value, table.value, bias.value) == batch.labels


loss_and_grad = differentiated(_learn)
scores = judged(_judge)
