"""The state of a training run: how it starts, what of it goes into a checkpoint, and how it comes back.

A run lives in a directory: `metrics.jsonl` (one line a step), `checkpoint.safetensors` (the newest state of the run),
`best.safetensors` (the parameters of the lowest validation loss).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from accel.checkpoint import Checkpoint, CheckpointError, load, read_state, save
from accel.communicator import Communicator, all_gather
from accel.optimizer import Adam, adam, learning_rate
from accel.tape import Array, named_views

METRICS, NEWEST, BEST = "metrics.jsonl", "checkpoint.safetensors", "best.safetensors"


class TrainingError(RuntimeError):
    """A run that cannot start or go on; the message says why, and at which step."""


@dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained (Figure 9): steps, learning rate, clipping, and how often to look and to save."""

    batch_size: int = 64
    steps: int = 50_000
    warmup_steps: int = 6_000
    initial_rate: float = 1e-7
    maximum_rate: float = 7.1e-4
    final_rate: float = 3e-7
    clip_norm: float | None = 3.0
    validate_every: int = 500
    checkpoint_every: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "steps", "validate_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be positive, is {getattr(self, name)}")
        if self.seed < 0:
            raise ValueError(f"seed: must not be negative, is {self.seed}")
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(f"warmup_steps: {self.warmup_steps} do not fit into {self.steps} steps")
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise ValueError(f"clip_norm: must be positive or None, is {self.clip_norm}")

    def rate(self, step: int) -> float:
        """Return the learning rate of update `step`, counted from 0."""
        return learning_rate(
            step,
            steps=self.steps,
            warmup=self.warmup_steps,
            initial=self.initial_rate,
            maximum=self.maximum_rate,
            final=self.final_rate,
        )


@dataclass
class Run:
    """The state of a run between two steps."""

    ops: ModuleType
    model: ModuleType
    config: Any
    training: TrainingConfig
    communicator: Communicator
    vector: Array  # all parameters, flat
    parameters: dict[str, Array]  # views of `vector`
    gradient: Array
    gradients: dict[str, Array]
    adam: Adam
    description: dict[str, Any]  # the part of the checkpoint's state that does not change
    memory: list[Array] | None = None
    best: float | None = None  # the lowest validation loss so far
    clock: float = field(default_factory=time.perf_counter)  # when the last step ended


def start(
    ops: ModuleType,
    model: ModuleType,
    config: Any,
    training: TrainingConfig,
    communicator: Communicator,
    vocabulary: str,
) -> Run:
    """Return a run before its first step, with the same parameters on every rank."""
    shapes = model.parameter_shapes(config)
    initial = model.initialise(config, training.seed)
    vector = ops.xp.asarray(np.concatenate([initial[name].ravel() for name in shapes]))
    communicator.broadcast(vector)
    gradient = ops.xp.zeros_like(vector)
    return Run(
        ops,
        model,
        config,
        training,
        communicator,
        vector,
        named_views(vector, shapes),
        gradient,
        named_views(gradient, shapes),
        adam(ops, vector),
        description={
            "model": model.__name__.rpartition(".")[2],
            "config": asdict(config),
            "training": asdict(training),
            "vocabulary": vocabulary,
            "ranks": communicator.size,
        },
    )


def save_run(run: Run, path: Path, position: Any) -> None:
    """Write everything that the next step depends on."""
    memories = [all_gather(run.communicator, run.ops.xp, rows) for rows in run.memory or []]
    state = run.description | {
        "step": run.adam.step,
        "position": position,
        "best": run.best,
        "memory_rows": [len(rows) for rows in memories[0]] if memories else [],
    }
    shapes = {name: value.shape for name, value in run.parameters.items()}

    def contents() -> Checkpoint:
        return Checkpoint(
            on_host(run.parameters),
            state,
            on_host(named_views(run.adam.first, shapes)),
            on_host(named_views(run.adam.second, shapes)),
            [np.concatenate([_host(rows) for rows in parts]) for parts in memories],
        )

    write(run, path, contents)


def write(run: Run, path: Path, contents: Callable[[], Checkpoint]) -> None:
    """Save on rank 0; if it fails, raise on every rank."""
    error: CheckpointError | None = None
    if run.communicator.rank == 0:
        try:
            save(path, contents())
        except CheckpointError as reason:
            error = reason
    if on_any_rank(run.communicator, run.ops.xp, error is not None):
        raise error or CheckpointError(f"{path}: not saved; rank 0 says why")


def restore_run(run: Run, path: Path) -> Any:
    """Bring the run to the state of a checkpoint, and return its position in the data."""
    saved = read_state(path)
    for key, value in run.description.items():
        if saved.get(key) != json.loads(json.dumps(value)):
            raise TrainingError(f"{path}: was trained with {key} {saved.get(key)}, not {value}")
    loaded = load(path, {name: value.shape for name, value in run.parameters.items()})
    xp = run.ops.xp
    groups = (loaded.parameters, run.vector), (loaded.first, run.adam.first), (loaded.second, run.adam.second)
    for group, vector in groups:
        if not group:
            raise TrainingError(f"{path}: holds no state of the optimizer, so that training cannot go on from it")
        vector[...] = xp.asarray(np.concatenate([group[name].ravel() for name in run.parameters]))
    stop = sum(saved["memory_rows"][: run.communicator.rank + 1])
    start = stop - (saved["memory_rows"][run.communicator.rank] if saved["memory_rows"] else 0)
    run.memory = [xp.asarray(rows[start:stop]) for rows in loaded.memory]
    run.adam.step, run.best = saved["step"], saved["best"]
    return saved["position"]


def open_metrics(path: Path, step: int, rank: int) -> IO[str]:
    """Open the metrics for appending, without the lines behind `step`, which a killed run may have left."""
    if rank > 0:
        return open(os.devnull, "w", encoding="utf-8")
    kept = path.read_text(encoding="utf-8").splitlines(keepends=True)[:step] if path.exists() else []
    temporary = path.with_suffix(".temporary")
    temporary.write_text("".join(kept), encoding="utf-8")
    os.replace(temporary, path)
    return open(path, "a", encoding="utf-8")


def on_any_rank(communicator: Communicator, xp: ModuleType, condition: bool) -> bool:
    """Return whether the condition holds on one rank at least; waits for all."""
    count = xp.asarray([float(condition)])
    communicator.all_reduce_sum(count)
    return bool(count[0] > 0)


def _host(array: Array) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


def on_host(arrays: Mapping[str, Array]) -> dict[str, np.ndarray]:
    return {name: _host(array) for name, array in arrays.items()}
