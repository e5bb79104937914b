"""The state of a training run: its start, its checkpoint, and its return from a checkpoint.

A run has a directory: `metrics.jsonl` (one line a step), `checkpoint.safetensors` (the newest state of the run),
`best.safetensors` (the parameters of the best validation result) and, with `keep_checkpoints`, the parameters of the
last checkpoints under their steps.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from accel.autodiff.arrays import Array, host
from accel.autodiff.tape import named_views
from accel.training import optimizer
from accel.training.checkpoint import Checkpoint, CheckpointError, load, read_state, save
from accel.training.communicator import Communicator, all_gather
from accel.training.schedule import plateau
from accel.training.settings import TrainingConfig

METRICS, NEWEST, BEST = "metrics.jsonl", "checkpoint.safetensors", "best.safetensors"
KEPT = "checkpoint-{:08}.safetensors"


class TrainingError(RuntimeError):
    """A run that cannot start or continue; the message says why, and at which step."""


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
    optimizer: optimizer.Optimizer
    description: dict[str, Any]  # the part of the checkpoint's state that does not change
    memory: list[Array] | None = None
    results: list[float] = field(default_factory=list)  # of all validations: the loss or the accuracy
    best: float | None = None  # the best of them
    clock: float = field(default_factory=time.perf_counter)  # when the last step ended

    @property
    def step(self) -> int:
        """How many updates were made."""
        return self.optimizer.step

    def rate_factor(self) -> float:
        """Return the factor of the learning rate that follows from the validations so far."""
        if self.training.schedule != "plateau":
            return 1.0
        highest = self.training.select == "accuracy"
        return plateau(self.results, factor=self.training.factor, patience=self.training.patience, highest=highest)

    def parameters_to_use(self) -> dict[str, Array]:
        """Return the parameters to validate: the averages, once there are some."""
        average = self.optimizer.vectors.get("average")
        shapes = {name: value.shape for name, value in self.parameters.items()}
        return self.parameters if average is None else named_views(average, shapes)


def start(
    ops: ModuleType,
    model: ModuleType,
    config: Any,
    training: TrainingConfig,
    communicator: Communicator,
    vocabulary: str,
    replaced: Mapping[str, np.ndarray] | None = None,
) -> Run:
    """Return a run before its first step, with the same parameters on every rank; `replaced` ones are not drawn."""
    shapes = model.parameter_shapes(config)
    initial = model.initialise(config, training.seed) | dict(replaced or {})
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
        optimizer.start(ops, training, vector, shapes),
        description={
            "model": model.NAME,
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
        "step": run.step,
        "position": position,
        "best": run.best,
        "results": run.results,
        "averaged": run.optimizer.averaged,
        "memory_rows": [len(rows) for rows in memories[0]] if memories else [],
    }
    shapes = {name: value.shape for name, value in run.parameters.items()}

    def contents() -> Checkpoint:
        return Checkpoint(
            on_host(run.parameters),
            state,
            {name: on_host(named_views(vector, shapes)) for name, vector in run.optimizer.vectors.items()},
            [np.concatenate([host(rows) for rows in parts]) for parts in memories],
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
        raise error or CheckpointError(f"{path}: not saved; see the error of rank 0")


def restore_run(run: Run, path: Path) -> Any:
    """Set the run to the state of a checkpoint, and return its position in the data."""
    saved = read_state(path)
    classes = {"config": type(run.config), "training": TrainingConfig}
    for key, value in run.description.items():
        saved_value = _completed(classes[key], saved.get(key, {})) if key in classes else saved.get(key)
        if key == "training" and run.training.may_go_on:
            saved_value = saved_value | {"steps": run.training.steps}
        if saved_value != json.loads(json.dumps(value)):
            raise TrainingError(f"{path}: was trained with {key} {saved_value}, not {value}")
    if "position" not in saved:
        raise TrainingError(f"{path}: holds no state of the optimizer, so that training cannot be resumed from it")
    loaded = load(path, {name: value.shape for name, value in run.parameters.items()})
    if "average" in loaded.optimizer:
        optimizer.start_average(run.optimizer, run.vector)
    if loaded.optimizer.keys() != run.optimizer.vectors.keys():
        names = ", ".join(loaded.optimizer) or "nothing"
        raise TrainingError(f"{path}: its state of the optimizer holds {names}, not {', '.join(run.optimizer.vectors)}")
    xp = run.ops.xp
    groups = [(loaded.parameters, run.vector), *((loaded.optimizer[n], v) for n, v in run.optimizer.vectors.items())]
    for group, vector in groups:
        vector[...] = xp.asarray(np.concatenate([group[name].ravel() for name in run.parameters]))
    stop = sum(saved["memory_rows"][: run.communicator.rank + 1])
    start = stop - (saved["memory_rows"][run.communicator.rank] if saved["memory_rows"] else 0)
    run.memory = [xp.asarray(rows[start:stop]) for rows in loaded.memory]
    run.optimizer.step, run.optimizer.averaged = saved["step"], saved.get("averaged", 0)
    run.best, run.results = saved["best"], saved.get("results", [])
    return saved["position"]


def _completed(settings: Any, saved: dict[str, Any]) -> dict[str, Any]:
    """Return saved settings with the defaults of newer ones, which older runs lack."""
    return {f.name: f.default for f in fields(settings) if f.default is not MISSING} | saved


def keep_parameters(run: Run, directory: Path) -> None:
    """Write the parameters under the number of the step, and remove all but the last `keep_checkpoints`."""
    state = run.description | {"step": run.step}
    path = directory / KEPT.format(run.step)
    write(run, path, lambda: Checkpoint(on_host(run.parameters), state))
    if run.communicator.rank == 0:
        for old in sorted(directory.glob(KEPT.format(0).replace("0", "[0-9]")))[: -run.training.keep_checkpoints]:
            old.unlink()


def open_metrics(path: Path, step: int, rank: int) -> IO[str]:
    """Open the metrics for appending, without lines after `step`, which an interrupted run may have left."""
    if rank > 0:
        return open(os.devnull, "w", encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:step] if path.exists() else []
    temporary = path.with_suffix(".temporary")
    temporary.write_text("".join(lines), encoding="utf-8")
    os.replace(temporary, path)
    return open(path, "a", encoding="utf-8")


def on_any_rank(communicator: Communicator, xp: ModuleType, condition: bool) -> bool:
    """Return whether the condition holds on one rank at least; waits for all."""
    count = xp.asarray([float(condition)])
    communicator.all_reduce_sum(count)
    return bool(count[0] > 0)


def on_host(arrays: Mapping[str, Array]) -> dict[str, np.ndarray]:
    return {name: host(array) for name, array in arrays.items()}
