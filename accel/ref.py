"""The reference as a backend: `refimpl` lifted over a batch with a Python loop.

Every operation of `accel.cpu` and `accel.cuda` is here under the same name and with the same arguments, so that any
script can run on the oracle. The reference has no gradients: every `_vjp` is a central difference of the float64
forward pass, one pair of calls for every number in the inputs. Use it on a few words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refimpl import attention as ref_attention
from refimpl import layers as ref_layers
from refimpl import segments as ref_segments
from refimpl import stack_compose as ref_stack_compose
from refimpl import trees as ref_trees

Array = NDArray[Any]
Outputs = tuple[Array, ...]

name = "ref"
xp = np


def check_available() -> None:
    """Do nothing: NumPy is always there."""


def _ranges(offsets: Array, name: str = "offsets") -> list[slice]:
    if len(offsets) == 0 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name}: must start at 0 and never decrease")
    return [slice(int(a), int(b)) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def _offsets(lengths: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _joined(rows: Sequence[Array], dtype: Any) -> Array:
    return np.concatenate([np.asarray(row, dtype=dtype) for row in rows]) if rows else np.zeros(0, dtype)


def _of_sequence(b: int, call: Callable[[], Any]) -> Any:
    """Return the call's answer; name the sequence if it is refused."""
    try:
        return call()
    except ValueError as error:
        raise ValueError(f"sequence {b}: {error}") from error


# Structure


def double_closing(types: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.trees.double_closing` on types: (types [N], source [N], offsets [B+1])."""
    written = {ref_trees.ActionType.ONT: "(X", ref_trees.ActionType.T: "x", ref_trees.ActionType.CNT1: "X)"}
    doubled, sources, lengths = [], [], []
    for b, part in enumerate(_ranges(offsets)):
        sequence = types[part].tolist()
        for i, kind in enumerate(sequence):
            if kind not in written:
                raise ValueError(f"sequence {b}: position {i}: type {kind} is not ONT, T or CNT1")
        kinds = ref_trees.double_closing([written[kind] for kind in sequence])[1]
        first = [kind != ref_trees.ActionType.CNT2 for kind in kinds]
        doubled.append(np.array(kinds, dtype=np.int8))
        sources.append(part.start + np.cumsum(first) - 1)
        lengths.append(len(kinds))
    return _joined(doubled, np.int8), _joined(sources, np.int32), _offsets(lengths)


def attend_sets(types: Array, offsets: Array) -> Outputs:
    """Mirror of `refimpl.stack_compose.attend_sets`: (row_offsets [N+1], keys [E], relative [E], depths [N])."""
    sizes, keys, relative, depths = [], [], [], []
    for b, part in enumerate(_ranges(offsets)):
        kinds = types[part].tolist()
        sets = _of_sequence(b, lambda kinds=kinds: ref_stack_compose.attend_sets(kinds))
        depth = ref_stack_compose.depths(kinds)
        sizes += [len(allowed) for allowed in sets]
        keys += [j for allowed in sets for j in allowed]
        relative += [depth[i] - depth[j] for i, allowed in enumerate(sets) for j in allowed]
        depths += depth
    return _offsets(sizes), np.array(keys, np.int32), np.array(relative, np.int32), np.array(depths, np.int32)


def segments(
    types: Array,
    offsets: Array,
    segment_length: int,
    memory_length: int,
    memory: str = "stack",
    positions: str = "depth",
) -> Outputs:
    """Mirror of `refimpl.segments.segments`: (row_offsets, columns, relative, segment_offsets, memory_columns)."""
    ref_segments.segments([0], segment_length, memory_length, memory=memory, positions=positions)  # type: ignore[arg-type]
    sizes, columns, relative, counts, moves = [], [], [], [], []
    for b, part in enumerate(_ranges(offsets)):
        kinds = types[part].tolist()
        parts = _of_sequence(
            b,
            lambda kinds=kinds: ref_segments.segments(
                kinds, segment_length, memory_length, memory=memory, positions=positions
            ),
        )
        for s, segment in enumerate(parts):
            for x in range(min(segment_length, len(kinds) - s * segment_length)):
                seen = np.flatnonzero(segment.mask[x])
                sizes.append(len(seen))
                columns.append(seen)
                relative.append(segment.relative[x, seen])
            both = np.concatenate([segment.memory_to_memory, segment.seq_to_memory], axis=1)
            moves.append(np.where(both.any(axis=1), both.argmax(axis=1), -1))
        counts.append(len(parts))
    moved = np.array(moves, np.int32).reshape(sum(counts), memory_length)
    return _offsets(sizes), _joined(columns, np.int32), _joined(relative, np.int32), _offsets(counts), moved


# Floats


def sparse_attention(
    q: Array,
    k: Array,
    v: Array,
    r: Array,
    content_bias: Array,
    position_bias: Array,
    row_offsets: Array,
    keys: Array,
    relative: Array,
    *,
    rate: float = 0.0,
    seed: int = 0,
) -> Outputs:
    """Mirror of `refimpl.attention.sparse_attention`: (out [N, H, D], lse [N, H])."""
    rows = _ranges(row_offsets, "row_offsets")
    kept = ref_layers.keep_mask(len(keys) * q.shape[1], rate, seed).astype(q.dtype).reshape(len(keys), q.shape[1])
    return ref_attention.sparse_attention(
        q, k, v, r, content_bias, position_bias,
        [keys[row].tolist() for row in rows],
        [relative[row].tolist() for row in rows],
        [kept[row] for row in rows],
    )  # fmt: skip


def causal_attention(
    q: Array,
    k: Array,
    v: Array,
    r: Array,
    content_bias: Array,
    position_bias: Array,
    query_offsets: Array,
    key_offsets: Array,
    *,
    rate: float = 0.0,
    seed: int = 0,
) -> Outputs:
    """Mirror of `refimpl.attention.causal_attention`, sequence by sequence: (out [N, H, D], lse [N, H])."""
    out, lse = np.empty_like(q), np.empty(q.shape[:2], q.dtype)
    heads = q.shape[1]
    for queries, kept in zip(_ranges(query_offsets, "query_offsets"), _ranges(key_offsets, "key_offsets"), strict=True):
        s = kept.stop - kept.start
        row, column, head = np.ogrid[queries.start : queries.stop, 0:s, 0:heads]
        keep = ref_layers.keep_mask((row * 2**20 + column) * heads + head, rate, seed).astype(q.dtype)
        out[queries], lse[queries] = ref_attention.causal_attention(
            q[queries], k[kept], v[kept], r, content_bias, position_bias, keep
        )
    return out, lse


def layer_norm(x: Array, scale: Array, bias: Array) -> Outputs:
    """Mirror of `refimpl.layers.layer_norm`: (y [N, d],)."""
    return (ref_layers.layer_norm(x, scale, bias),)


def bias_gelu(x: Array, bias: Array) -> Outputs:
    """Mirror of `refimpl.layers.bias_gelu`: (y [N, f],)."""
    return (ref_layers.bias_gelu(x, bias),)


def dropout(x: Array, rate: float, seed: int) -> Outputs:
    """Mirror of `refimpl.layers.dropout`: (y [N, d],)."""
    return (ref_layers.dropout(x, rate, seed),)


def embedding(table: Array, ids: Array) -> Outputs:
    """Mirror of `refimpl.layers.embedding`: (y [N, d],)."""
    return (ref_layers.embedding(table, ids),)


def cross_entropy(h: Array, table: Array, bias: Array, labels: Array) -> Outputs:
    """Mirror of `refimpl.layers.cross_entropy`: (logp [N],)."""
    return (ref_layers.cross_entropy(h, table, bias, labels),)


def adam(
    parameters: Array,
    gradients: Array,
    first: Array,
    second: Array,
    *,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    scale: float,
) -> None:
    """Update in place (Kingma and Ba 2015, Algorithm 1): the gradient is multiplied by `scale` first."""
    gradient = gradients * scale
    first[:] = beta1 * first + (1 - beta1) * gradient
    second[:] = beta2 * second + (1 - beta2) * gradient**2
    mean, square = first / (1 - beta1**step), second / (1 - beta2**step)
    parameters -= (rate * mean / (np.sqrt(square) + epsilon)).astype(parameters.dtype)


# Gradients


def _central_difference(f: Callable[..., Outputs], n_differentiable: int, step: float = 1e-5) -> Callable[..., Outputs]:
    """Return f_vjp: the derivative of <d_out, f(inputs)[0]> for every number in the first n inputs."""

    def f_vjp(d_out: Array, outputs: Outputs, *inputs: Any, **options: Any) -> Outputs:
        wide = [np.array(x, np.float64) if i < n_differentiable else x for i, x in enumerate(inputs)]
        gradients = []
        for x, original in zip(wide[:n_differentiable], inputs, strict=False):
            gradient = np.empty(x.shape)
            for index in np.ndindex(x.shape):
                value, ends = x[index], []
                for x[index] in (value + step, value - step):
                    ends.append(np.sum(f(*wide, **options)[0] * d_out))
                x[index] = value
                gradient[index] = (ends[0] - ends[1]) / (2 * step)
            gradients.append(gradient.astype(original.dtype))
        return tuple(gradients)

    return f_vjp


sparse_attention_vjp = _central_difference(sparse_attention, 6)
causal_attention_vjp = _central_difference(causal_attention, 6)
layer_norm_vjp = _central_difference(layer_norm, 3)
bias_gelu_vjp = _central_difference(bias_gelu, 2)
dropout_vjp = _central_difference(dropout, 1)
embedding_vjp = _central_difference(embedding, 1)
cross_entropy_vjp = _central_difference(cross_entropy, 3)
