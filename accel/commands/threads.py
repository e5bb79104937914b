"""How many threads train a model, and how many processes use a trained one: --threads, or all that are useful.

Two threads can make the step of a narrow model slower: its products and kernels take less time than waking a thread. A
GPST's kernels use a second thread only for enough pairs: at width 64 no composition step takes longer on two threads
than on one (benchmarks/README.md has the times).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from types import ModuleType

from accel.tasks.job import Job
from accel.trained.opening import Model

LEAST_WIDTH = 128
"""A narrower model is trained by one thread (benchmarks/README.md has the figures)."""
LEAST_GPST_WIDTH = 64
"""The same limit for a GPST."""
MOST_WIDTH = 512
"""A wider model is used by one process with all threads: its matrix products are large enough for them."""


def use_threads(options: argparse.Namespace, ops: ModuleType, job: Job) -> int | None:
    """Set the number of threads that train on the CPU, and return it; None for other backends."""
    if ops.name != "cpu":
        return None
    from accel.cpu.support import threads

    available = threads.available_threads()
    least = LEAST_GPST_WIDTH if getattr(job.config, "model", None) == "gpst" else LEAST_WIDTH
    count = options.threads or (available if width(job) >= least else 1)
    threads.use_threads(count)
    return min(count, available)


def processes(ops: ModuleType, model: Model) -> int:
    """Return how many processes use a model at the same time: on the CPU one per thread, unless it is wide; else 1."""
    if ops.name != "cpu" or _width(x.shape for x in model.parameters.values()) > MOST_WIDTH:
        return 1
    from accel.cpu.support.threads import available_threads

    return available_threads()


def compile_ahead(ops: ModuleType, task: str, kind: str) -> None:
    """Start processes that compile what a model's first step needs on the CPU, while this process reads the data."""
    if ops.name == "cpu":
        from accel.cpu.support import compiling

        compiling.compile_ahead(task, kind)


def width(job: Job) -> int:
    """Return the width of a model: the greatest second-longest axis of its weights, or 0 if none has two axes.

    So the table of a vocabulary counts by the width of its rows.
    """
    return _width(job.model.parameter_shapes(job.config).values())


def _width(shapes: Iterable[tuple[int, ...]]) -> int:
    return max((sorted(shape)[-2] for shape in shapes if len(shape) > 1), default=0)


def note(count: int | None) -> list[str]:
    """Return a line on the threads, if a narrow model leaves some idle."""
    if count != 1:
        return []
    from accel.cpu.support.threads import available_threads

    available = available_threads()
    if available == 1:
        return []
    return [f"1 of {available} threads: more make so narrow a model slower; --threads {available} uses all"]
