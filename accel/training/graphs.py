"""Training steps as CUDA graphs: captured for one batch, replayed for all batches that look the same to the host.

A graph repeats the same kernels on the same device memory. What changes from step to step is copied into memory that
the graph reads: the batch, the numbers of the step (how many labels, the learning rate, Adam's bias corrections) and
the seeds of dropout. All else that the host reads while it captures a step is noted, and compared before a replay: the
shapes of the batch and facts that follow from its arrays, its other fields, and the addresses of the run's arrays. If
any of it differs, another graph is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from accel.autodiff.arrays import Array
from accel.autodiff.seeds import mix, mix_all
from accel.training import optimizer
from accel.training.memory import free_unused
from accel.training.run import Graphs, Run, TrainingError, tokens_of

SITES = 4096  # places of dropout in a step
PLAIN = int | float | str | bool | None

T = TypeVar("T")


@dataclass(frozen=True)
class Graph:
    """A captured step: what it depends on, the arrays that it reads and writes, and the function that replays it."""

    shapes: Any  # of the batch and the memory, and the addresses of the run's arrays
    notes: list[Any]  # what the host read from the batch's arrays
    looked_at: dict[str, Any]  # the batch's other fields that the host read, with their values
    block: Array  # the device memory of the batch
    memory: list[Array]  # the memory [rows, d] of each layer before the step
    next_memory: list[Array]  # the same after the step
    results: Array  # loss, norm, and the results of checks
    checks: Any
    replay: Callable[[], None]


class Watched:
    """A batch with the arrays of a graph in place of its own; it notes every other field that is read."""

    def __init__(self, batch: Any, arrays: Mapping[str, Array]) -> None:
        self.looked_at: dict[str, Any] = {}
        self._batch, self._arrays = batch, arrays

    def __getattr__(self, name: str) -> Any:
        if name in self._arrays:
            return self._arrays[name]
        value = getattr(self._batch, name)
        if not isinstance(value, PLAIN | np.ndarray):
            raise RuntimeError(f"{name}: a graph cannot read a {type(value).__name__} of the batch")
        self.looked_at[name] = value
        return value


def new_graphs(run: Run) -> Graphs:
    """Return an empty collection of graphs, with their inputs.

    Raises TrainingError for a run with several processes or with micro-batches, which cannot have graphs.
    """
    if run.communicator.size > 1 or run.training.micro_batch is not None:
        raise TrainingError("graphs: need one process, and no --micro-batch: leave out --graphs")
    return Graphs(run.ops.Inputs(2 + 3 * len(run.optimizer.parts), SITES))


def numbers_by_graph(run: Run, parts: list[Any], rate: float) -> list[float] | None:
    """Make a step by a graph; return its loss, its numbers of labels and tokens, and the gradient's norm.

    Returns None if the step must be made without a graph: the first step of a shape, so that all its kernels are
    compiled and have run; the step that reports its memory; an empty batch; a step whose graph finds no memory.
    """
    (batch,), graphs = parts, run.graphs
    assert graphs is not None
    if run.report is not None or not len(batch.ids):
        return None
    names, block = _sent(run.ops, batch)
    memory = run.memories[0] if run.memories else None
    shapes = _shapes(run, names, block, memory)
    if shapes not in graphs.warm:
        graphs.warm.add(shapes)
        return None
    arrays = {name: getattr(batch, name) for name in names}
    graph = next((graph for graph in graphs.graphs if _fits(graph, shapes, names, batch, arrays)), None)
    seed = mix(mix(run.training.seed, run.step), run.communicator.rank)
    if graph is None:
        if not graphs.most:
            return None
        del graphs.graphs[: max(0, len(graphs.graphs) + 1 - graphs.most)]
        with suppress(MemoryError):
            graph = _captured(run, graphs, shapes, batch, names, block, memory, seed)
        if graph is None:
            forget_oldest(run.ops, graphs)
            return None
        graphs.graphs.append(graph)
    graph.block[...] = block.there
    for place, rows in zip(graph.memory, memory or [], strict=True):
        if place is not rows:
            place[...] = rows
    numbers = [batch.n_labels, *optimizer.of_step(run.ops, run.optimizer, rate)]
    graphs.inputs.send(numbers, mix_all(seed, np.arange(SITES)))
    graph.replay()
    run.memories = [graph.next_memory]
    run.optimizer.step += 1
    run.optimizer.averaged += "average" in run.optimizer.vectors
    loss, norm, *firsts = graph.results.tolist()
    graph.checks.raise_first(firsts)
    return [loss, float(batch.n_labels), float(tokens_of(batch)), norm]


def with_room(run: Run, compute: Callable[[], T]) -> T:
    """Return what `compute` returns; while the device lacks memory for it, forget graphs, which have a lot."""
    while True:
        try:
            return compute()
        except MemoryError:
            if run.graphs is None or not run.graphs.graphs:
                raise
        forget_oldest(run.ops, run.graphs)  # here, no traceback holds the arrays of the attempt


def forget_oldest(ops: ModuleType, graphs: Graphs) -> None:
    """Forget the oldest graph because the device lacks memory; from now on, have no more graphs than there were.

    Each graph has memory of its own, which nothing else can use while the graph is there.
    """
    graphs.most = len(graphs.graphs)
    del graphs.graphs[:1]
    free_unused(ops)


def _sent(ops: ModuleType, batch: Any) -> tuple[dict[str, str], Any]:
    """Return the names under which the arrays of a batch were sent, by field, and the `Block` that was sent.

    Raises TrainingError if they were not sent together.
    """
    values = {f.name: getattr(batch, f.name) for f in fields(batch)}
    places = {name: ops.place_of(x) for name, x in values.items() if isinstance(x, ops.xp.ndarray)}
    if not places or any(x is None for x in places.values()) or len({id(x[1]) for x in places.values()}) > 1:
        raise TrainingError("graphs: the arrays of a batch were not sent together: leave out --graphs")
    return {name: x[0] for name, x in places.items()}, next(iter(places.values()))[1]


def _shapes(run: Run, names: Mapping[str, str], block: Any, memory: list[Array] | None) -> Any:
    """Return the part of what a graph depends on that is known before it is captured."""
    state = run.optimizer
    arrays = [run.vector, run.gradient, *state.vectors.values(), *run.frozen.values()]
    of_memory = tuple((x.shape, x.dtype.str) for x in memory or ())
    averages = "average" in state.vectors and min(state.averaged, 2)
    return (block.layout, tuple(names.items()), of_memory, tuple(run.ops.address(x) for x in arrays), averages)


def _fits(graph: Graph, shapes: Any, names: Mapping[str, str], batch: Any, arrays: Mapping[str, Array]) -> bool:
    """Return whether a graph can replay the step of a batch; raise ValueError if the batch fails a noted check."""
    if graph.shapes != shapes:
        return False
    if not all(np.array_equal(getattr(batch, name), value) for name, value in graph.looked_at.items()):
        return False
    by_sent_name = {names[name]: array for name, array in arrays.items()}
    return all(note.holds(by_sent_name) for note in graph.notes)


def _captured(
    run: Run, graphs: Graphs, shapes: Any, batch: Any, names: Mapping[str, str], block: Any,
    memory: list[Array] | None, seed: int,
) -> Graph:  # fmt: skip
    """Capture a step, and return its graph; nothing is computed before a replay."""
    ops, numbers = run.ops, graphs.inputs.numbers
    arrays = ops.sent(block.copies, block.facts)
    watched = Watched(batch, {name: arrays[names[name]] for name in names})
    graph_memory = [] if memory is None else [rows.copy() for rows in memory]
    places = {int(x): number for number, x in enumerate(mix_all(seed, np.arange(SITES)))}

    def step() -> tuple[Array, list[Array], Any]:
        with ops.deferred_checks() as checks, ops.seeds_in_memory(places, graphs.inputs.seeds):
            with ops.narrowed_once(run.vector):
                loss, _, next_memory = run.model.loss_and_grad(
                    ops, run.config, run.parameters | run.frozen, watched, None if memory is None else graph_memory,
                    dropout_seed=seed, gradients=run.gradients, recompute=run.training.recompute, wait=False,
                )  # fmt: skip
            norm, factor = optimizer.clipped(ops, run.gradient, numbers[0], run.training.clip_norm)
            rates = [numbers[1 + 3 * k : 4 + 3 * k] for k in range(len(run.optimizer.parts))]
            optimizer.apply(ops, run.optimizer, run.vector, run.gradient, rates, factor, numbers[-1])
            firsts = [checks.firsts] if checks.messages else []
            results = ops.xp.concatenate([loss.reshape(1), norm.reshape(1), *firsts])
        if [(x.shape, x.dtype) for x in graph_memory] != [(x.shape, x.dtype) for x in next_memory]:
            return results, next_memory, checks
        copies = [rows.copy() for rows in next_memory]  # copy all first: they may be views of `graph_memory`
        for place, rows in zip(graph_memory, copies, strict=True):
            place[...] = rows
        return results, graph_memory, checks

    try:
        with ops.noted() as notes:
            (results, next_memory, checks), replay = ops.captured(step)
    except RuntimeError as error:
        raise TrainingError(f"graphs: this model's step cannot be captured ({error}): leave out --graphs") from error
    there = ops.place_of(next(iter(arrays.values())))[1].there
    return Graph(shapes, notes, watched.looked_at, there, graph_memory, next_memory, results, checks, replay)
