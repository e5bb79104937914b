"""Every training step of the benchmarks' table on this GPU, in every form, with graphs, and beside the CPU backend.

A step's results are compared with those of the CPU backend. The bytes and the operations of a step come from
benchmarks/results/; a small report on the stand-in counts them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

from accel import PRECISIONS
from accel.autodiff.arrays import host
from accel.cuda.forms import Forms, use
from benchmarks import gpst, transformer_grammars
from benchmarks.gpu_counts import COUNTS, count_step, load
from benchmarks.gpu_report.records import Row, Setting
from benchmarks.gpu_steps import TableStep, table

FORMS = (Forms(), *(Forms("fast", precision, graphs) for graphs in (False, True) for precision in PRECISIONS))
COMPARED = Forms(), Forms("fast"), Forms("fast", "bf16"), Forms("fast", graphs=True)
"""The forms whose results are compared with those of the CPU backend."""
REPEATS = 7
NEGLIGIBLE = 1e-3
"""A difference is divided by the expected number, or by this share of the step's largest number if that is more: the
gradients of some biases are 0 but for rounding."""
SMALL = (
    "Transformer Grammar, PTB size, 8 random trees", "FastTrees stack 128-400, 20 x 256",
    "Treeformer's chart, d 512, H 10, 16 x 25 tokens", "GPST's whole step, d 64, 8 x 128 words",
)  # fmt: skip
"""The steps in a small report."""


def rows(setting: Setting) -> Iterator[Row]:
    """Yield the times of all forms, and then whether they agree with the CPU, whose kernels take long to compile."""
    ops, steps = setting.ops(), chosen(setting)
    for form in FORMS:
        for step in steps:
            yield row_name(step.name, form), lambda step=step, form=form: timed_in(setting, ops, step, form)
    for step in steps:
        yield f"{step.name} | CPU", lambda step=step: beside_cpu(setting, ops, step)


def chosen(setting: Setting) -> list[TableStep]:
    return [step for name, step in table().items() if not setting.small or name in SMALL]


def row_name(step: str, form: Forms) -> str:
    return f"{step} | {words(form)}"


def words(form: Forms) -> str:
    """Return what a report calls a form."""
    return f"{form.kernels}, {form.precision}" + ", a graph" * form.graphs


@cache
def made(step: TableStep, ops: ModuleType, small: bool) -> Callable[[], Any]:
    return step.make(ops, small)


def timed_in(setting: Setting, ops: ModuleType, step: TableStep, form: Forms) -> dict[str, Any]:
    """Return the times of a step in a form and, for the plain form, the step's counts."""
    call = made(step, ops, setting.small)
    with use(form):
        result = times(setting, as_graph(ops, call) if form.graphs else call)
    if form != Forms():
        return result
    all_counts = {} if setting.small else load(COUNTS)
    counts = count_step(call) if setting.small and setting.stand_in else all_counts.get(step.name)
    if counts is not None:
        names = "launches", "copies", "synchronisations", "bytes", "flops"
        result |= {name: getattr(counts, name) for name in names}
    return result


def as_graph(ops: ModuleType, call: Callable[[], Any]) -> Callable[[], None]:
    """Return a function that replays a step, with the same batch and the same masks of dropout."""

    def work() -> None:
        with ops.deferred_checks():
            call()

    with ops.own_stream():  # CUDA cannot capture the null stream
        call()  # so that nothing is compiled meanwhile
        replay: Callable[[], None] = ops.captured(work)[1]
    return replay


def times(setting: Setting, call: Callable[[], Any]) -> dict[str, float]:
    """Return the median, least and greatest seconds of a call, and the median until the host has made its calls."""
    whole, of_host = [], []
    for _ in range(1 + (1 if setting.small else REPEATS)):
        setting.synchronise()
        begin = time.perf_counter()
        call()
        of_host.append(time.perf_counter() - begin)
        setting.synchronise()
        whole.append(time.perf_counter() - begin)
    del whole[0], of_host[0]
    return {"step": median(whole), "least": min(whole), "greatest": max(whole), "host": median(of_host)}


def beside_cpu(setting: Setting, ops: ModuleType, step: TableStep) -> dict[str, Any]:
    """Return the time of the CPU backend, and the relative differences of the GPU's results from it in each form."""
    from accel import cpu

    ours, theirs = (step.make(backend, setting.small) for backend in (ops, cpu))
    expected = numbers(theirs, results(theirs))
    least, differences = NEGLIGIBLE * max(expected), {}
    for form in COMPARED:
        with use(form):
            actual = numbers(ours, replayed(ops, ours) if form.graphs else results(ours))
        relative = [abs(x - y) / max(y, least) for x, y in zip(actual, expected, strict=True)]
        differences[words(form)] = float(np.max(relative))  # NaN, if one is NaN
    begin = time.perf_counter()
    theirs()
    return {"step": time.perf_counter() - begin, "differences": differences, "numbers": len(expected)}


def results(step: Any) -> list[Any]:
    """Return the loss of a step, or its results, and set its gradients."""
    if isinstance(step, gpst.Step):
        return [step.losses()]
    return [step.loss(step.config)] if isinstance(step, transformer_grammars.Step) else list(step())


def replayed(ops: ModuleType, step: Any) -> list[Any]:
    """Return the results of a step that a graph replays; its gradients are 0 before the replay."""

    def work() -> list[Any]:
        with ops.deferred_checks():
            return results(step)

    with ops.own_stream():
        results(step)
        outputs, replay = ops.captured(work)
        for x in step.gradients.values():
            x.fill(0)
        replay()
        return outputs  # type: ignore[no-any-return]


def numbers(step: Any, outputs: list[Any]) -> list[float]:
    """Return the Euclidean lengths of all results, and of all gradients."""
    return [length(x) for x in (*outputs, *step.gradients.values())]


def length(x: Any) -> float:
    return float((np.asarray(x if np.isscalar(x) else host(x), np.float64) ** 2).sum()) ** 0.5
