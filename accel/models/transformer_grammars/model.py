"""Transformer Grammars and two Transformer-XL models, for ragged batches.

Mirrors `refimpl.transformer_grammars.model` (clauses TG-*): the same parameters by the same names, the same variants.
The positions of all sequences of a batch lie one after another, so that nothing is padded. Linear maps are matrix
products, everything else is one op of the backend. Memory: O(N (d_ff + d) n_layers) floats saved for the backward pass,
O(edges) for attention; never [N, N], never [N, V].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.autodiff.layers import (
    DropoutSites,
    cross_entropy,
    dropout,
    embedding,
    feed_forward_hidden,
    projections,
    residual_layer_norm,
    sinusoids,
)
from accel.autodiff.recomputation import recomputed
from accel.autodiff.tape import OnOp, Tape
from accel.autodiff.variables import Variable, constant
from accel.data.batches.assemble import Batch
from accel.data.batches.prefixes import Prefixes
from accel.models.passes import Pass, differentiated, negative_sum, scored, scoring
from accel.models.transformer_grammars.config import Config, initialise, parameter_shapes

NAME = "transformer_grammar"  # in checkpoints

__all__ = ["Config", "final_states", "initialise", "loss_and_grad", "parameter_shapes", "prefix_logps"]
__all__ += ["prefix_states", "token_logps"]


def final_states(
    ops: ModuleType,
    config: Config,
    parameters: Mapping[str, Array],
    batch: Batch,
    memory: list[Array] | None = None,
    on_op: OnOp | None = None,
) -> tuple[Array, list[Array]]:
    """Return the states that the output layer reads at every position [N, d], and the next batch's memory.

    `on_op` is called with every op, attention among them.
    """
    if not len(batch.ids):
        empty = ops.xp.zeros((0, config.d_model), parameters["embedding"].dtype)
        return empty, _no_memory(ops, config, parameters)
    states, memory = _states(scoring(ops, config, parameters, on_op), batch, memory)
    return states.value, memory


def prefix_logps(ops: ModuleType, config: Config, parameters: Mapping[str, Array], prefixes: Prefixes) -> Array:
    """Return the log-probability [A] of every action after the prefix that it continues."""
    f = scoring(ops, config, parameters)
    states = constant(prefix_states(ops, config, parameters, prefixes))
    return cross_entropy(f.tape, states, f.p["embedding"], f.p["output_bias"], prefixes.labels).value


def prefix_states(ops: ModuleType, config: Config, parameters: Mapping[str, Array], prefixes: Prefixes) -> Array:
    """Return for every action the state that the output layer reads [A, d], that of the prefix it continues."""
    f = scoring(ops, config, parameters)
    tape, p = f.tape, f.p
    distances = constant(sinusoids(ops, prefixes.n_distances, config.d_model, p["embedding"].value.dtype))
    f = _Layers(
        tape,
        config,
        p,
        f.sites,
        restricted=("sparse_attention", _relative(ops, config, p, distances), prefixes.restricted),
        unrestricted=("sparse_attention", distances, prefixes.unrestricted),
        compose=prefixes.compose[:, None],
    )
    h = embedding(tape, p["embedding"], prefixes.ids)
    for layer in range(config.n_layers):
        h = _layer(f, layer, h, h)
    states: Array = h.value[prefixes.parents]
    return states


def _no_memory(ops: ModuleType, config: Config, parameters: Mapping[str, Array]) -> list[Array]:
    return [ops.xp.zeros((0, config.d_model), parameters["embedding"].dtype) for _ in range(config.n_layers)]


Heads = tuple[str, Variable, Any]  # an op of attention, its table of relative positions, its attend sets
RelativeTerms = dict[tuple[str, str], tuple[Array, Array]]  # see `_relative_terms`


@dataclass(frozen=True)
class _Layers:
    """State that all layers of one forward pass share."""

    tape: Tape
    config: Config
    p: Mapping[str, Variable]
    sites: DropoutSites
    restricted: Heads  # those that follow the STACK/COMPOSE rules
    unrestricted: Heads
    compose: Array  # [N, 1] whether a row is a COMPOSE row
    key_order: Array | None = None
    batch_keys: Array | None = None  # where the positions of the batch are among the keys
    relative_terms: RelativeTerms = field(default_factory=dict)


def _forward(f: Pass, batch: Batch, memory: list[Array] | None) -> tuple[Variable, list[Array]]:
    """Return the log-probability of every label and the next memory."""
    h, next_memory = _states(f, batch, memory)
    return cross_entropy(f.tape, h, f.p["embedding"], f.p["output_bias"], batch.labels), next_memory


def _states(f: Pass, batch: Batch, memory: list[Array] | None) -> tuple[Variable, list[Array]]:
    """Return the states that the output layer reads, and the next memory.

    `memory` holds, for each layer, the [rows, d] that the previous batch of the same rows returned.
    """
    tape, config, p, sites = f.tape, f.config, f.p, f.sites
    rows = batch.n_memory
    if rows and (memory is None or len(memory) != config.n_layers or any(len(x) != rows for x in memory)):
        raise ValueError(f"memory: the batch continues sequences and needs {rows} rows a layer")
    layers = _prepare(f, batch)
    next_memory, nothing = [], tape.xp.empty((0, config.d_model), p["embedding"].value.dtype)
    h = embedding(tape, p["embedding"], batch.ids)
    h = dropout(tape, h, config.embedding_dropout, sites)
    h = dropout(tape, h, config.core_dropout, sites)
    layers = replace(layers, relative_terms=_relative_terms(layers))
    for layer in range(config.n_layers):
        keys = h if batch.key_order is None else _with_memory(layers, memory[layer], h)
        next_memory.append(keys.value[batch.next_memory] if len(batch.next_memory) else nothing)
        h = recomputed(_layer, layers, layer, h, keys)
    return dropout(tape, h, config.output_dropout, sites), next_memory


def _prepare(f: Pass, batch: Batch) -> _Layers:
    """Return the state of the layers, with their tables of positions and their index arrays."""
    tape, config, p, xp = f.tape, f.config, f.p, f.tape.xp
    n_distances = int(np.diff(host(batch.key_offsets)).max()) if config.reads_distances else 0
    distances = constant(sinusoids(tape.ops, n_distances, config.d_model, p["embedding"].value.dtype))
    sets = (batch.row_offsets, batch.keys, batch.relative)
    batch_keys = None
    if batch.key_order is not None:
        place = xp.empty_like(batch.key_order)
        place[batch.key_order] = xp.arange(len(place))
        batch_keys = place[len(place) - len(batch.ids) :]
    return _Layers(
        tape,
        config,
        p,
        f.sites,
        restricted=("sparse_attention", _relative(tape.ops, config, p, distances), sets),
        unrestricted=("causal_attention", distances, (batch.query_offsets, batch.key_offsets)),
        compose=batch.compose[:, None],
        key_order=batch.key_order,
        batch_keys=batch_keys,
    )


def _relative(ops: ModuleType, config: Config, p: Mapping[str, Variable], distances: Variable) -> Variable:
    """Return the sinusoids of the relative positions of the STACK/COMPOSE rules."""
    if config.model != "tg" or config.positions != "depth":
        return distances
    count = config.relative_max - config.relative_min + 1
    return constant(sinusoids(ops, count, config.d_model, p["embedding"].value.dtype, config.relative_min))


def _relative_terms(f: _Layers) -> RelativeTerms:
    """Return the terms that all layers compute from their tables of relative positions, by prefix and kind of heads.

    They are the table [P, d] after the dropout of that layer, and its product with the matrix `{prefix}.relative`. A
    backend with `dropout_all` computes them for several layers at once. For other backends nothing is returned, nor
    where layers keep nothing for the backward pass.
    """
    tape = f.tape
    if tape.recompute or not hasattr(tape.ops, "dropout_all"):
        return {}
    site = f.sites.count
    uses: defaultdict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for layer in range(f.config.n_layers):
        for name in f.config.attentions:
            for kind in f.config.kinds_of_heads(layer):
                uses[name, kind].append((f"layers.{layer}.{name}", f.sites.at(site, f.config.core_dropout)))
                site += 2  # the table, then the weights of attention
        site += 3  # the other draws of `_layer`
    terms: RelativeTerms = {}
    for (_, kind), layers in uses.items():
        prefixes, draws = zip(*layers, strict=True)
        table, rate, seeds = getattr(f, kind)[1].value, draws[0]["rate"], [draw["seed"] for draw in draws]
        tables = list(tape.ops.dropout_all(table, rate, seeds)) if rate else [table] * len(seeds)
        products = tape.matmul_all(tables, [f.p[f"{prefix}.relative"].value for prefix in prefixes])
        for prefix, *pair in zip(prefixes, tables, products, strict=True):
            terms[prefix, kind] = tuple(pair)
    return terms


def _relative_rows(f: _Layers, prefix: str, kind: str) -> Variable:
    """Return the projected relative positions that heads of this kind look up [P, d]."""
    weight, rate = f.p[prefix + ".relative"], f.config.core_dropout
    if (prefix, kind) not in f.relative_terms:
        return f.tape.linear(dropout(f.tape, getattr(f, kind)[1], rate, f.sites), weight)
    f.sites.draw(rate)  # counts the draw that `_relative_terms` has made
    table, rows = f.relative_terms[prefix, kind]
    return f.tape.linear(constant(table), weight, value=rows)


def _with_memory(f: _Layers, memory: Array, h: Variable) -> Variable:
    """Return the rows that can be attended to, sequence by sequence: memory, whose gradient stops here, then h."""
    rows = f.tape.xp.concatenate([memory, h.value])[f.key_order]
    return f.tape.record(rows, [h], lambda d_out: h.accumulate(d_out[f.batch_keys]))


def _layer(f: _Layers, layer: int, h: Variable, keys: Variable) -> Variable:
    """Return the output of one layer [N, d]; h attends to keys, the inputs of the layer that it may see."""
    tape, p, rate, name = f.tape, f.p, f.config.core_dropout, f"layers.{layer}."
    h = residual_layer_norm(tape, p, name + "attention_norm", h, *_attention(f, layer, h, keys), rate, f.sites)
    network = name + "feed_forward"
    output = tape.linear(feed_forward_hidden(tape, p, network, h, rate, f.sites), p[network + ".out"])
    return residual_layer_norm(tape, p, network + "_norm", h, output, p[network + ".out_bias"], rate, f.sites)


def _attention(f: _Layers, layer: int, h: Variable, keys: Variable) -> tuple[Variable, Variable]:
    """Return the attention of one layer [N, d], and a bias [d] that is still to be added."""
    kinds, prefix = f.config.kinds_of_heads(layer), f"layers.{layer}.attention"
    bias = f.p[prefix + ".output_bias"]
    if not f.config.distinct_attention:
        return _attend(f, prefix, h, keys, kinds, None), bias
    attended = _attend(f, prefix, h, keys, kinds, bias)
    prefix = f"layers.{layer}.compose_attention"
    composed = _attend(f, prefix, h, keys, kinds, f.p[prefix + ".output_bias"])
    return f.tape.select(f.compose, composed, attended), constant(f.tape.xp.zeros_like(bias.value))


def _attend(
    f: _Layers, prefix: str, h: Variable, keys: Variable, kinds: Mapping[str, range], bias: Variable | None
) -> Variable:
    """Return the attention of h to keys.

    Restricted heads see the attend sets, the other heads all positions up to that of the row.
    """
    tape, p, n_heads = f.tape, f.p, f.config.n_heads

    def split(rows: Variable) -> Variable:
        return tape.reshape(rows, -1, n_heads, f.config.d_head)

    q, k, v = map(split, projections(tape, p, prefix, {"query": h, "key": keys, "value": keys}))
    outputs = []
    for kind, heads in kinds.items():
        op, _, structure = getattr(f, kind)
        r = split(_relative_rows(f, prefix, kind))
        inputs = [q, k, v, r, p[prefix + ".content_bias"], p[prefix + ".position_bias"]]
        if len(heads) < n_heads:
            inputs = [tape.part(y, heads.start, heads.stop, axis=-2) for y in inputs]
        outputs.append(tape.op(op, *inputs, *structure, **f.sites.draw(f.config.core_dropout)))
    out = outputs[0] if len(outputs) == 1 else tape.concatenate(outputs, axis=1)
    return tape.linear(tape.reshape(out, -1, f.config.d_model), p[prefix + ".output"], bias)


def _token_logps(f: Pass, batch: Batch, memory: list[Array] | None) -> tuple[Array, list[Array]]:
    logps, next_memory = _forward(f, batch, memory)
    return logps.value, next_memory


loss_and_grad = differentiated(lambda f, *batch: negative_sum(f, *_forward(f, *batch)), _no_memory)
token_logps = scored(_token_logps, _no_memory)
