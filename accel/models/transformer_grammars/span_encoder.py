"""The vectors of the pieces of a sentence for the span parser, by a Transformer or by LSTMs in both directions."""

from __future__ import annotations

from typing import Any

from accel.autodiff.arrays import Array
from accel.autodiff.layers import dropout, embedding, feed_forward, layer_norm, linear, self_attention
from accel.autodiff.recomputation import recomputed
from accel.autodiff.variables import Variable
from accel.data.vocabularies.affixes import AFFIXES, BUCKETS
from accel.models.passes import Pass
from accel.models.shapes import Shapes, linear_shapes, norm_shapes

ENCODERS = ("transformer", "lstm")
_MATRICES = ("query", "key", "value", "output")
_WAYS = ("forward", "backward")


def encoder_shapes(config: Any, n_symbols: int) -> Shapes:
    """Return the name and the shape of every parameter."""
    d, half = config.d_model, config.d_model // 2
    shapes: Shapes = {"embedding": (n_symbols, d)}
    if config.encoder == "transformer":
        shapes |= {"word": (config.max_words + 2, d)}
    shapes |= {"place": (config.max_places, d)}
    if config.d_affix:
        shapes |= {"affix": (BUCKETS, config.d_affix)} | linear_shapes("affixes", AFFIXES * config.d_affix, d)
    for name in (f"layer.{k}" for k in range(config.n_layers)):
        if config.encoder == "lstm":
            for way in _WAYS:
                shapes |= {f"{name}.{way}.ih.weight": (4 * half, d), f"{name}.{way}.hh.weight": (4 * half, half)}
                shapes |= {f"{name}.{way}.bias": (4 * half,)}
            continue
        shapes |= norm_shapes(f"{name}.attention_norm", d)
        for matrix in _MATRICES:
            shapes |= linear_shapes(f"{name}.attention.{matrix}", d, d)
        shapes |= norm_shapes(f"{name}.feed_forward_norm", d)
        shapes |= linear_shapes(f"{name}.feed_forward.in", d, config.d_ff)
        shapes |= linear_shapes(f"{name}.feed_forward.out", config.d_ff, d)
    return shapes


def encoded(f: Pass, batch: Any) -> Variable:
    """Return the vector of every piece of a batch [P, d_model], which depends on its whole sentence.

    With LSTMs the first half depends on the pieces up to this one, the second half on those from this one on.
    """
    tape, config, p = f.tape, f.config, f.p
    places = tape.xp.minimum(batch.places, config.max_places - 1)
    x = embedding(tape, p["embedding"], batch.ids)
    if config.encoder == "transformer":
        x = tape.add(x, embedding(tape, p["word"], batch.words))
    x = tape.add(x, embedding(tape, p["place"], places))
    if config.d_affix:
        affixes = tape.reshape(embedding(tape, p["affix"], batch.affixes.reshape(-1)), len(batch.ids), -1)
        x = tape.add(x, linear(tape, p, "affixes", affixes, "affixes_bias"))
    x = dropout(tape, x, config.dropout, f.sites)
    for k in range(config.n_layers):
        if config.encoder == "lstm":
            x = recomputed(_both_ways, f, f"layer.{k}", x, batch.bounds, batch.reverse)
            x = dropout(tape, x, config.dropout, f.sites)
        else:
            x = recomputed(_layer, f, f"layer.{k}", x, batch.bounds)
    return x


def _both_ways(f: Pass, name: str, x: Variable, bounds: Array, reverse: Array) -> Variable:
    """Return the hidden states of an LSTM that reads forward, and of one that reads backward, side by side."""
    tape, p = f.tape, f.p
    halves = []
    for way in _WAYS:
        y = x if way == "forward" else tape.take(x, reverse)
        gates = tape.project(y, p[f"{name}.{way}.ih.weight"])
        zeros = tape.xp.zeros((len(bounds) - 1, f.config.d_model // 2), x.value.dtype)
        weight, bias = p[f"{name}.{way}.hh.weight"], p[f"{name}.{way}.bias"]
        h, _ = tape.op_and_outputs("recurrence", gates, weight, bias, zeros, zeros, bounds, kind="lstm")
        halves.append(h if way == "forward" else tape.take(h, reverse))
    return tape.concatenate(halves, axis=1)


def _layer(f: Pass, name: str, x: Variable, bounds: Array) -> Variable:
    tape, p, sites, rate = f.tape, f.p, f.sites, f.config.dropout
    h, draw = layer_norm(tape, p, f"{name}.attention_norm", x), sites.draw(rate)
    attended = self_attention(tape, p, f"{name}.attention", h, h, f.config.n_heads, bounds, draw)
    x = tape.add(x, dropout(tape, attended, rate, sites))
    h = layer_norm(tape, p, f"{name}.feed_forward_norm", x)
    return tape.add(x, dropout(tape, feed_forward(tape, p, f"{name}.feed_forward", h, rate, sites), rate, sites))
