"""Seeded errors of the FastTrees ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accel import cpu


def sums_before_itself(z: Any) -> Any:
    (y,) = cpu.cumax(z)
    return (np.concatenate([np.zeros_like(y[:, :1]), y[:, :-1]], axis=1),)


def sums_from_the_end(z: Any) -> Any:
    return (cpu.cumax(z[:, ::-1].copy())[0][:, ::-1],)


def sums_the_gradient_forwards(d_out: Any, outputs: Any, z: Any) -> Any:
    return cpu.cumax_vjp(d_out[:, ::-1].copy(), outputs, z)


def gates_of_chunks(a: Any, b: Any, x: Any, spread: Callable[[Any, int], Any]) -> tuple[Any, Any]:
    chunk = x.shape[1] // a.shape[1]
    return spread(cpu.cumax(a)[0], chunk), spread(1 - cpu.cumax(b)[0], chunk)


def gated(rise: Any, fall: Any, f: Any, x: Any) -> Any:
    overlap = rise * fall
    return (((np.exp(-np.logaddexp(0, -f)) * overlap + (rise - overlap)) * x).astype(x.dtype),)


def chunks_are_tiled(a: Any, b: Any, f: Any, x: Any) -> Any:
    rise, fall = gates_of_chunks(a, b, x, lambda gate, chunk: np.tile(gate, (1, chunk)))
    return gated(rise, fall, f, x)


def without_overlap(a: Any, b: Any, f: Any, x: Any) -> Any:
    rise, _ = gates_of_chunks(a, b, x, lambda gate, chunk: np.repeat(gate, chunk, axis=1))
    return gated(rise, np.ones_like(rise), f, x)


def input_gate_rises(a: Any, b: Any, f: Any, x: Any) -> Any:
    rise, fall = gates_of_chunks(a, b, x, lambda gate, chunk: np.repeat(gate, chunk, axis=1))
    return gated(rise, 1 - fall, f, x)


def swapped(rows: Any, n_units: int) -> Any:
    """Exchange the last two blocks, in and forget."""
    return np.concatenate([rows[: -2 * n_units], rows[-n_units:], rows[-2 * n_units : -n_units]])


def in_and_forget_swapped(gates: Any, weight: Any, bias: Any, h0: Any, *rest: Any, **options: Any) -> Any:
    n_units = h0.shape[1]
    return cpu.recurrence(
        swapped(gates.T, n_units).T, swapped(weight, n_units), swapped(bias, n_units), h0, *rest, **options
    )


def master_rows_swapped(gates: Any, c0: Any, offsets: Any) -> Any:
    n = (gates.shape[1] - 4 * c0.shape[1]) // 2
    swapped_rows = np.concatenate([gates[:, n : 2 * n], gates[:, :n], gates[:, 2 * n :]], axis=1)
    return cpu.linear_recurrence(swapped_rows, c0, offsets)


def without_the_hidden_bias(gates: Any, weight: Any, bias: Any, *rest: Any, **options: Any) -> Any:
    return cpu.recurrence(gates, weight, bias * 0, *rest, **options)


def hidden_state_is_lost(gates: Any, weight: Any, *rest: Any, **options: Any) -> Any:
    return cpu.recurrence(gates, weight * 0, *rest, **options)


def first_hidden_state_is_lost(gates: Any, weight: Any, bias: Any, h0: Any, *rest: Any, **options: Any) -> Any:
    return cpu.recurrence(gates, weight, bias, h0 * 0, *rest, **options)


def distance_of_the_input_gate(*arguments: Any, **options: Any) -> Any:
    h, c, activations, distance = cpu.recurrence(*arguments, **options)
    return h, c, activations, distance[:, ::-1].copy()


def one_long_sequence(gates: Any, c0: Any, offsets: Any) -> Any:
    return cpu.linear_recurrence(gates, c0[:1], offsets[[0, -1]])


def gradient_forgets_the_first_state(d_out: Any, outputs: Any, *arguments: Any, **options: Any) -> Any:
    d_gates, d_weight, d_bias = cpu.recurrence_vjp(d_out, outputs, *arguments, **options)
    _, weight, _, h0, _, offsets = arguments
    return d_gates, d_weight - d_gates[offsets[:-1], -len(weight) :].T @ h0, d_bias


def gradient_stops_at_the_hidden_state(d_out: Any, outputs: Any, *arguments: Any, **options: Any) -> Any:
    gates, weight, *rest = arguments
    d_gates, _, _ = cpu.recurrence_vjp(d_out, outputs, gates, weight * 0, *rest, **options)
    return d_gates, *cpu.recurrence_vjp(d_out, outputs, *arguments, **options)[1:]


def gradient_stops_at_the_cell(d_out: Any, outputs: Any, gates: Any, c0: Any, offsets: Any) -> Any:
    before = np.empty_like(outputs[1])
    before[1:] = outputs[1][:-1]
    before[offsets[:-1]] = c0
    return cpu.linear_recurrence_vjp(d_out, outputs, gates, before, np.arange(len(gates) + 1))


def last_of_equal_distances(distances: Any, offsets: Any, *, split: str = "biased") -> Any:
    slope = 1e-9 * np.arange(len(distances), dtype=distances.dtype)
    return cpu.distance_trees(distances + slope, offsets, split=split)


def always_biased(distances: Any, offsets: Any, *, split: str = "biased") -> Any:
    return cpu.distance_trees(distances, offsets, split="biased")


def spans_count_from_the_batch(distances: Any, offsets: Any, *, split: str = "biased") -> Any:
    spans, span_offsets = cpu.distance_trees(distances, offsets, split=split)
    return (spans + np.repeat(offsets[:-1], np.diff(span_offsets))[:, np.newaxis]).astype(np.int32), span_offsets


FASTTREES: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("cumax", sums_before_itself),
    ("cumax", sums_from_the_end),
    ("cumax_vjp", sums_the_gradient_forwards),
    ("tree_gate", chunks_are_tiled),
    ("tree_gate", without_overlap),
    ("tree_gate", input_gate_rises),
    ("recurrence", in_and_forget_swapped),
    ("recurrence", without_the_hidden_bias),
    ("recurrence", hidden_state_is_lost),
    ("recurrence", first_hidden_state_is_lost),
    ("recurrence", distance_of_the_input_gate),
    ("recurrence_vjp", gradient_forgets_the_first_state),
    ("recurrence_vjp", gradient_stops_at_the_hidden_state),
    ("linear_recurrence", master_rows_swapped),
    ("linear_recurrence", one_long_sequence),
    ("linear_recurrence_vjp", gradient_stops_at_the_cell),
    ("distance_trees", last_of_equal_distances),
    ("distance_trees", always_biased),
    ("distance_trees", spans_count_from_the_batch),
)
