"""GPST's top-down parser: a score for every point between two words, and the loss that trains it on the induced trees.

Mirrors `refimpl.gpst.parser.split_scores` (clause GPST-2) and the loss of GPST-5 with the parameters `parser.*`: a
bidirectional encoder with rotary positions, root-mean-square norms and gated layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of, on_device
from accel.autodiff.layers import DropoutSites, embedding, mlp, self_attention
from accel.autodiff.recomputation import recomputed
from accel.autodiff.seeds import mix_all
from accel.autodiff.sublayers import recorded_with_norm
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.models.gpst.config import Config
from accel.models.passes import Pass

Parameters = Mapping[str, Variable]
EPSILON = 1e-5


def split_scores(
    tape: Tape, config: Config, p: Parameters, ids: Array, offsets: Array, sites: DropoutSites
) -> Variable:
    """Return the score of every point between two words of a sentence [N - B]; offsets [B+1] int64 of the words."""
    x = embedding(tape, p["parser.embedding"], ids)
    bounds, angles, neighbours = _places(tape, config, offsets, len(ids), x.value.dtype)
    for k in range(config.parser_layers):
        x = recomputed(_layer, Pass(tape, config, p, sites), f"parser.{k}", x, bounds, angles)
    x = _rms_norm(tape, x, p["parser.norm"])
    pairs = neighbours(x)
    return tape.reshape(mlp(tape, p, "parser.split", pairs, config.dropout, sites), len(pairs.value))


def _places(
    tape: Tape, config: Config, offsets: Array, n_words: int, dtype: Any
) -> tuple[Array, tuple[Array, Array], Callable[[Variable], Variable]]:
    """Return the offsets, the angles, and a function that puts the rows of adjacent words side by side."""
    parts = getattr(tape.ops, "parser_parts", None)
    if parts is None:
        bounds = host(offsets)
        first = np.delete(np.arange(bounds[-1]), bounds[1:] - 1)  # all words but the last ones
        take, beside = tape.take, partial(tape.concatenate, axis=1)
        return bounds, _angles(config, bounds, dtype), lambda x: beside([take(x, first), take(x, first + 1)])
    bounds = tape.xp.asarray(offsets)

    def neighbours(x: Variable) -> Variable:
        n = len(x.value)
        value = parts.neighbours(x.value, bounds)
        return tape.record(value, [x], lambda d_out: x.accumulate(parts.neighbours_vjp(d_out, bounds, n)))

    angles = parts.angles(bounds, n_words, config.d_parser // config.parser_heads, dtype)
    return bounds, angles, neighbours


def _layer(f: Pass, layer: str, x: Variable, bounds: Array, angles: tuple[Array, Array]) -> Variable:
    tape, p = f.tape, f.p
    h, turn = _rms_norm(tape, x, p[f"{layer}.attention_norm"]), partial(_turn_both, tape, *angles)
    attended = self_attention(tape, p, f"{layer}.attention", h, h, f.config.parser_heads, bounds, {}, turn=turn)
    x, h = _residual_and_norm(tape, x, attended, p[f"{layer}.feed_forward_norm"])
    gated = _gated(tape, *tape.linear_all(h, [p[f"{layer}.gate"], p[f"{layer}.up"]]))
    return tape.add(x, tape.linear(gated, p[f"{layer}.down"]))


def loss(tape: Tape, scores: Variable, begin: np.ndarray, end: np.ndarray, splits: np.ndarray) -> Variable:
    """Return -log p of the split among the points begin..end-1, for the cells of all trees [cells].

    The log of a softmax's denominator is computed as the mean of score - log weight, weighted by the softmax's weights:
    scores of any size do not overflow.
    """
    ops, xp, values = tape.ops, tape.xp, scores.value
    bounds = offsets_of(end - begin)
    cells = np.repeat(np.arange(len(begin)), end - begin)
    points = np.arange(bounds[-1]) - (bounds[:-1] - begin)[cells]
    arrays = {name: x.astype(np.int32) for name, x in (("points", points), ("splits", splits), ("cells", cells))}
    arrays = on_device(ops, arrays | {"groups": bounds}, groups=["points", "splits"])
    points, splits, cells, groups = arrays.values()
    point_scores = values[points]
    weights = ops.weighted_sum(point_scores, point_scores[:, None], groups)[1]
    logs = point_scores - xp.log(xp.maximum(weights, xp.finfo(values.dtype).tiny))
    value = ops.weighted_sum(point_scores, logs[:, None], groups)[0][:, 0] - values[splits]

    def backward(d_out: Array) -> None:
        table = values[:, None]
        spread = weights * d_out[cells]
        gradients = ops.embedding_vjp(spread[:, None], (), table, points)[0]
        scores.accumulate((gradients - ops.embedding_vjp(d_out[:, None], (), table, splits)[0])[:, 0])

    return tape.record(value, [scores], backward)


def gumbel(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return standard Gumbel noise for the elements of these numbers, float64.

    Mirrors `refimpl.randomness.gumbel`.
    """
    u = ((mix_all(seed, numbers) >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52
    return -np.log(-np.log(u))


def _angles(config: Config, offsets: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return cosine and sine [N, 1, D / 2] of the angles that rotate every word's features."""
    d = config.d_parser // config.parser_heads
    step = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    angle = (step[:, None] * 1e4 ** (-np.arange(0, d, 2) / d))[:, None]
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def _turn(tape: Tape, cosine: Array, sine: Array, x: Variable) -> Variable:
    """Return x [N, H, D] with its features 2m and 2m + 1 rotated in their plane."""
    parts = getattr(tape.ops, "parser_parts", None)
    if parts is not None:
        output = parts.rotate(x.value, cosine, sine, False)
        return tape.record(output, [x], lambda d_out: x.accumulate(parts.rotate(d_out, cosine, sine, True)))

    def rotated(values: Array, sine: Array) -> Array:
        even, odd, out = values[..., ::2], values[..., 1::2], tape.xp.empty_like(values)
        out[..., ::2] = even * cosine - odd * sine
        out[..., 1::2] = even * sine + odd * cosine
        return out

    return tape.record(rotated(x.value, sine), [x], lambda d_out: x.accumulate(rotated(d_out, -sine)))


def _turn_both(tape: Tape, cosine: Array, sine: Array, q: Variable, k: Variable) -> Sequence[Variable]:
    """Return q and k as `_turn` does."""
    parts = getattr(tape.ops, "parser_parts", None)
    if parts is None:
        return _turn(tape, cosine, sine, q), _turn(tape, cosine, sine, k)

    def backward(gradients: dict[int, Array]) -> None:
        # in place: only attention has made these gradients; they lie in one array with the gradient of the values, so
        # that products can take all three as a batch
        d_q, d_k = parts.rotate_both(gradients[0], gradients[1], cosine, sine, True, in_place=True)
        k.accumulate(d_k)
        q.accumulate(d_q)

    outputs = parts.rotate_both(q.value, k.value, cosine, sine, False)
    return tape.record_several(outputs, [q, k], backward)


def _rms_norm(tape: Tape, x: Variable, scale: Variable) -> Variable:
    """Return every row divided by the root of its mean square, then scaled."""
    parts = getattr(tape.ops, "parser_parts", None)
    if parts is not None:
        outputs = parts.rms_norm(x.value, scale.value)

        def split(d_out: Array) -> None:
            if x.gradient is None:
                d_x, d_scale = parts.rms_norm_vjp(d_out, outputs, x.value, scale.value)
            else:
                sum_outputs, sums = (x.value, *outputs), tape.ops.residual_sums
                d_x, d_scale = sums.sum_rms_norm_vjp(x.gradient, d_out, sum_outputs, scale.value)
                x.gradient = None
            scale.accumulate(d_scale)
            x.accumulate(d_x)

        return tape.record(outputs[0], [x, scale], split)
    xp = tape.xp
    factor = 1 / xp.sqrt((x.value * x.value).mean(axis=1, keepdims=True) + EPSILON)

    def backward(d_out: Array) -> None:
        normal, gradients = x.value * factor, d_out * scale.value
        scale.accumulate((d_out * normal).sum(axis=0))
        x.accumulate(factor * (gradients - normal * (gradients * normal).mean(axis=1, keepdims=True)))

    return tape.record(x.value * factor * scale.value, [x, scale], backward)


def _residual_and_norm(tape: Tape, x: Variable, y: Variable, scale: Variable) -> tuple[Variable, Variable]:
    """Return x + y, and `_rms_norm` of it."""
    parts = getattr(tape.ops, "residual_sums", None)
    if parts is None:
        total = tape.add(x, y)
        return total, _rms_norm(tape, total, scale)
    outputs = parts.sum_rms_norm(x.value, y.value, scale.value)

    def backward(d_out: Array, d_normal: Array) -> None:
        d_x, d_scale = parts.sum_rms_norm_vjp(d_out, d_normal, outputs, scale.value)
        scale.accumulate(d_scale)
        y.accumulate(d_x, owned=False)
        x.accumulate(d_x, owned=False)

    return recorded_with_norm(tape, outputs[0], outputs[1], [x, y, scale], backward)


def _gated(tape: Tape, z: Variable, y: Variable) -> Variable:
    """Return y z sigmoid(z)."""
    parts = getattr(tape.ops, "parser_parts", None)
    if parts is None:
        return tape.multiply(_silu(tape, z), y)

    def backward(d_out: Array) -> None:
        d_z, d_y = parts.gated_vjp(d_out, z.value, y.value)
        z.accumulate(d_z)
        y.accumulate(d_y)

    return tape.record(parts.gated(z.value, y.value), [z, y], backward)


def _silu(tape: Tape, x: Variable) -> Variable:
    """Return x sigmoid(x)."""
    gate = 0.5 + 0.5 * tape.xp.tanh(0.5 * x.value)
    return tape.record(x.value * gate, [x], lambda d_out: x.accumulate(d_out * gate * (1 + x.value * (1 - gate))))
