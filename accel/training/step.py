"""One update of a training: the gradient, its clipping, the optimizer, and the step's line of metrics.

The host waits for a GPU only after it has launched all kernels: loss, norm and results of checks come back together.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import isfinite
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array
from accel.training import optimizer
from accel.training.gradient import differentiate
from accel.training.graphs import numbers_by_graph, with_room
from accel.training.run import Run, TrainingError

NOT_FINITE = re.compile(r"\bNaN\b")  # in operations' errors; a batch is always finite: the training has diverged


class NonFiniteLoss(TrainingError):
    """A loss or a gradient that is NaN or infinite; the checkpoint before it, if there is one, is kept."""


def make_step(run: Run, batch: Any) -> dict[str, Any]:
    """Run one update, and return its line of metrics.

    Raises NonFiniteLoss after the update; the parameters of the run are useless then.
    """
    training, step = run.training, run.step
    if training.micro_batch is not None and not isinstance(batch, list):
        raise TrainingError(f"micro_batch: {training.micro_batch}, but these batches are not cut; leave it out")
    parts = batch if isinstance(batch, list) else [batch]
    if run.is_restored:
        _fit_memories(run, parts)
    rate = training.rate(step) * run.rate_factor() * getattr(parts[0], "rate_scale", 1.0)
    with divergence_named(run, step + 1):
        by_graph = None if run.graphs is None else numbers_by_graph(run, parts, rate)
        loss, labels, tokens, norm = by_graph or _computed(run, parts, rate)
    mean = loss / max(labels, 1.0)
    if not (isfinite(mean) and isfinite(norm)):
        raise NonFiniteLoss(f"step {step + 1}: loss {mean}, gradient norm {norm}: stopped; {run.kept()}")
    previous, run.clock = run.clock, time.perf_counter()
    seconds = run.clock - previous
    return {
        "step": step + 1,
        "loss": mean,
        "learning_rate": rate,
        "gradient_norm": norm,
        "tokens_per_second": round(tokens / seconds, 1),
        "seconds": round(seconds, 6),
    }


@contextmanager
def divergence_named(run: Run, step: int) -> Iterator[None]:
    """Raise NonFiniteLoss in the place of an operation's error about a NaN."""
    try:
        yield
    except ValueError as error:
        if not NOT_FINITE.search(str(error)):
            raise
        raise NonFiniteLoss(f"step {step}: {error}: stopped; {run.kept()}") from error


def _fit_memories(run: Run, parts: list[Any]) -> None:
    """Give the memories of a checkpoint as many rows as the batch reads.

    With graphs, batches are padded, and so are the memories that they leave behind: padding is the last rows.
    """
    run.is_restored = False
    for memory, part in zip(run.memories, parts, strict=False):  # an epoch's last batch may have fewer parts
        n_rows = getattr(part, "n_memory", 0)
        if n_rows:
            memory[:] = [_with_rows(run.ops.xp, rows, n_rows, grow=run.graphs is not None) for rows in memory]


def _with_rows(xp: ModuleType, rows: Array, n_rows: int, *, grow: bool) -> Array:
    """Return the first `n_rows` of the rows [n, d]; with `grow`, rows of zeros follow if there are too few."""
    if n_rows <= len(rows) or not grow:
        return rows[:n_rows]
    return xp.concatenate([rows, xp.zeros((n_rows - len(rows), rows.shape[1]), rows.dtype)])


def _computed(run: Run, parts: list[Any], rate: float) -> list[float]:
    """Change the parameters; return the batch's loss, its numbers of labels and tokens, and the gradient's norm."""
    with nullcontext() if run.ops.xp is np else run.ops.deferred_checks() as checks:
        with run.ops.narrowed_once(run.vector) if hasattr(run.ops, "narrowed_once") else nullcontext():
            loss, labels, tokens = with_room(run, lambda: differentiate(run, parts))
        norm, factor = optimizer.clipped(run.ops, run.gradient, labels, run.training.clip_norm)
        optimizer.update(run.ops, run.optimizer, run.vector, run.gradient, rate, factor)
        return _numbers(run.ops, (loss, labels, tokens, norm), checks)


def _numbers(ops: ModuleType, values: Sequence[Array | float], checks: Any) -> list[float]:
    """Return all values as floats on the host, wherever they are; raise ValueError if a check failed."""
    there = [x for x in values if isinstance(x, ops.xp.ndarray)]
    if not there:
        return [float(x) for x in values]
    results = [x.reshape(1) for x in there] + ([checks.firsts] if checks.messages else [])
    floats = ops.xp.concatenate(results).tolist()
    checks.raise_first(floats[len(there) :])
    numbers = iter(floats)
    return [next(numbers) if isinstance(x, ops.xp.ndarray) else float(x) for x in values]
