"""Kernels whose compared numbers are right, but that break the contract of a backend in another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accel import cpu


def gradient_scales_what_it_receives(d_out: Any, outputs: Any, x: Any, scale: Any, bias: Any) -> Any:
    gradients = cpu.layer_norm_vjp(d_out, outputs, x, scale, bias)
    d_out *= scale
    return gradients


def gradient_writes_over_an_output(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    gradients = cpu.layer_norm_vjp(d_out, outputs, *arguments)
    outputs[0][:] = 0
    return gradients


def gradient_in_float64(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    return tuple(gradient.astype(np.float64) for gradient in cpu.layer_norm_vjp(d_out, outputs, *arguments))


def gradient_is_a_view(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    return (d_out[:],)


def gradient_overflows(d_out: Any, outputs: Any, h: Any, table: Any, bias: Any, labels: Any) -> Any:
    d_h, *others = cpu.cross_entropy_vjp(d_out, outputs, h, table, bias, labels)
    with np.errstate(over="ignore", invalid="ignore"):
        return d_h + 0 * np.exp(h @ table.T + bias).sum(), *others


def turned_around_in_float32(distances: Any, offsets: Any, *, split: str = "biased") -> Any:
    spans, span_offsets = cpu.distance_trees(distances, offsets, split=split)
    return spans[::-1].copy() if distances.dtype == np.float32 else spans, span_offsets


def narrow_offsets(types: Any, offsets: Any) -> Any:
    row_offsets, *others = cpu.attend_sets(types, offsets)
    return row_offsets.astype(np.int16), *others


def one_infinity_in_float64(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    """Return zeros; an infinity once made every tolerance infinite."""
    gradients = tuple(np.zeros_like(x) for x in arguments)
    if d_out.dtype == np.float64 and gradients[0].size:
        gradients[0].flat[0] = np.inf
    return gradients


_BUFFERS: dict[Any, Any] = {}


def spans_in_one_buffer(distances: Any, offsets: Any, *, split: str = "biased") -> Any:
    """Return the same array at every call of the same shape, as a captured graph does."""
    spans, span_offsets = cpu.distance_trees(distances, offsets, split=split)
    buffer = _BUFFERS.setdefault((spans.shape, spans.dtype), spans)
    buffer[...] = spans
    return buffer, span_offsets


def dropout_of_nothing_is_the_argument(x: Any, rate: float, seed: int) -> Any:
    return (x,) if rate == 0 else cpu.dropout(x, rate, seed)


def rows_in_two_buffers(table: Any, ids: Any) -> Any:
    """Return two arrays of a shape in turn: the next call leaves an output as it is, the one after it does not."""
    y = cpu.embedding(table, ids)[0]
    ring = _BUFFERS.setdefault((y.shape, y.dtype), [y.copy(), y.copy()])
    ring.reverse()
    ring[0][...] = y
    return (ring[0],)


_MASKS: dict[Any, Any] = {}


def dropout_forgets_a_new_rate(x: Any, rate: float, seed: int) -> Any:
    """Use the numbers of the call before this one, if it had the same shape, seed and type."""
    (mask,) = cpu.dropout(np.ones_like(x), rate, seed)
    if (x.shape, seed, x.dtype) not in _MASKS:
        _MASKS.clear()
    return ((x * _MASKS.setdefault((x.shape, seed, x.dtype), mask)).astype(x.dtype),)


def unbiased_unless_told(distances: Any, offsets: Any, *, split: str = "unbiased") -> Any:
    return cpu.distance_trees(distances, offsets, split=split)


def unsigned_spans(distances: Any, offsets: Any, *, split: str = "biased") -> Any:
    spans, span_offsets = cpu.distance_trees(distances, offsets, split=split)
    return spans.astype(np.uint64), span_offsets


def gradient_is_read_only(d_out: Any, outputs: Any, *arguments: Any) -> Any:
    gradients = cpu.layer_norm_vjp(d_out, outputs, *arguments)
    gradients[1].flags.writeable = False
    return gradients


def gradient_of_one_number(d_out: Any, outputs: Any, z: Any) -> Any:
    """Return all zeros, as of rows of one element, in the memory of one number."""
    (d_z,) = cpu.cumax_vjp(d_out, outputs, z)
    zero = np.zeros(1, d_z.dtype)
    return (d_z if d_z.any() else np.lib.stride_tricks.as_strided(zero, d_z.shape, (0, 0)),)


def seeds_are_used_up(*arguments: Any) -> Any:
    outputs = cpu.pair_layers(*arguments)
    arguments[-1][:] = [5] * len(arguments[-1])
    return outputs


CONTRACT: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("layer_norm_vjp", gradient_scales_what_it_receives),
    ("layer_norm_vjp", gradient_writes_over_an_output),
    ("layer_norm_vjp", gradient_in_float64),
    ("dropout_vjp", gradient_is_a_view),
    ("cross_entropy_vjp", gradient_overflows),
    ("distance_trees", turned_around_in_float32),
    ("attend_sets", narrow_offsets),
    ("bias_gelu_vjp", one_infinity_in_float64),
    ("distance_trees", spans_in_one_buffer),
    ("dropout", dropout_of_nothing_is_the_argument),
    ("embedding", rows_in_two_buffers),
    ("dropout", dropout_forgets_a_new_rate),
    ("distance_trees", unbiased_unless_told),
    ("distance_trees", unsigned_spans),
    ("layer_norm_vjp", gradient_is_read_only),
    ("cumax_vjp", gradient_of_one_number),
    ("pair_layers", seeds_are_used_up),
)
