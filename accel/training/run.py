"""The state of a training run: its start, its checkpoint, and its return from a checkpoint.

A run has a directory: `metrics.jsonl` (one line a step), `checkpoint.safetensors` (the newest state of the run),
`best.safetensors` (the parameters of the best validation result) and, with `keep_checkpoints`, the parameters of the
last checkpoints under their steps. While a process trains, `run.lock` names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, multiple_of, named_views, packed, places
from accel.training import optimizer
from accel.training.buckets import MOST_BYTES, Bucket, buckets
from accel.training.checkpoint import Checkpoint, CheckpointError, announce, load, read_state, save
from accel.training.communicator import Communicator, all_gather
from accel.training.resumed_settings import Change, changes, may_change, results
from accel.training.schedule import ends_after_restart, has_ended, plateau
from accel.training.settings import TrainingConfig

METRICS, NEWEST, BEST = "metrics.jsonl", "checkpoint.safetensors", "best.safetensors"


@dataclass
class Graphs:
    """The graphs of a run, and what they have in common; see `accel.training.graphs`."""

    inputs: Any  # numbers and seeds in the memory of the device, which change from step to step
    warm: set[Any] = field(default_factory=set)  # the shapes of steps whose kernels have run
    graphs: list[Any] = field(default_factory=list)
    most: int = 16  # graphs at most: a new one replaces the oldest; fewer, if the device lacks memory for them


def tokens_of(batch: Any) -> int:
    """Return the number of tokens of a batch, without padding."""
    return int(getattr(batch, "n_tokens", len(batch.ids)))


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
    buckets: list[Bucket]  # of the gradient, in the order of their sums over all processes
    description: dict[str, Any]  # the part of the checkpoint's state that does not change
    frozen: dict[str, Array] = field(default_factory=dict)  # arrays that the model reads, and that are not learned
    memories: list[list[Array]] = field(default_factory=list)  # of every micro-batch; none before the first step
    is_restored: bool = False  # the memories are those of a checkpoint
    results: list[float] = field(default_factory=list)  # of all validations so far, in the measure that `select` names
    best: float | None = None  # the best of them
    graphs: Graphs | None = None  # the CUDA graphs of steps, if a GPU is to replay them
    report: Callable[[str], None] | None = None  # takes a line about memory, at the first step
    clock: float = field(default_factory=time.perf_counter)  # when the last step ended
    saved_step: int = 0  # the step that was last saved
    saved: float = field(default_factory=time.perf_counter)  # the time of that save, or of the run's start
    saving: float = 0.0  # the seconds that the last save took

    @property
    def step(self) -> int:
        """How many updates were made."""
        return self.optimizer.step

    def rate_factor(self) -> float:
        """Return the factor of the learning rate that follows from the validations so far."""
        training, highest = self.training, self.training.select != "loss"
        if training.schedule != "plateau" or not training.maximum_rate:
            return 1.0
        least = training.least_rate / training.maximum_rate
        return plateau(self.results, factor=training.factor, patience=training.patience, highest=highest, least=least)

    def has_ended(self) -> bool:
        """Return whether the validations so far end the training."""
        training = self.training
        return has_ended(self.results, after=training.stop_after, highest=training.select != "loss") or (
            training.optimizer == "nt_asgd"
            and ends_after_restart(self.results, nonmonotone=training.nonmonotone, at=training.restart_after)
        )

    def kept(self) -> str:
        """Return in words which checkpoint is kept, and what to type: a run that has one cannot change its rate."""
        lower = f"below {self.training.maximum_rate:g}"
        if self.saved_step:
            checkpoint = f"the checkpoint of step {self.saved_step:,} is kept"
            return f"{checkpoint}; try a lower --set maximum_rate, {lower}, in another directory"
        return f"nothing was saved before; try a lower rate: --resume --set maximum_rate=VALUE, {lower}"

    def parameters_to_use(self) -> dict[str, Array]:
        """Return the arrays to validate with: `learned_to_use` and the frozen arrays."""
        return self.learned_to_use() | self.frozen

    def learned_to_use(self) -> dict[str, Array]:
        """Return the learned parameters to validate: their averages, once there are some."""
        average = self.optimizer.vectors.get("average")
        return self.parameters if average is None else self.views(average.astype(self.vector.dtype))

    def views(self, vector: Array) -> dict[str, Array]:
        """Return the parts of a flat vector, by the names of the parameters that they belong to."""
        shapes = {name: value.shape for name, value in self.parameters.items()}
        return named_views(vector, shapes, multiple_of(self.ops, self.vector.itemsize))


def start(
    ops: ModuleType,
    model: ModuleType,
    config: Any,
    training: TrainingConfig,
    communicator: Communicator,
    vocabulary: str,
    replaced: Mapping[str, np.ndarray] | None = None,
    frozen: Mapping[str, np.ndarray] | None = None,
) -> Run:
    """Return a run before its first step, equal on every rank; parameters in `replaced` replace the drawn ones."""
    shapes = model.parameter_shapes(config)
    initial = model.initialise(config, training.seed) | dict(replaced or {})
    multiple = multiple_of(ops, np.result_type(*initial.values()).itemsize)
    vector = ops.xp.asarray(packed(initial, shapes, multiple))
    communicator.broadcast(vector)
    gradient, of_name = ops.xp.zeros_like(vector), places(shapes, multiple)[0]
    return Run(
        ops,
        model,
        config,
        training,
        communicator,
        vector,
        named_views(vector, shapes, multiple),
        gradient,
        named_views(gradient, shapes, multiple),
        optimizer.start(ops, training, vector, of_name),
        buckets(of_name, MOST_BYTES // vector.itemsize),
        description={
            "model": model.NAME,
            "config": asdict(config),
            "training": asdict(training),
            "vocabulary": vocabulary,
            "ranks": communicator.size,
        },
        frozen={name: ops.xp.asarray(value) for name, value in (frozen or {}).items()},
    )


def is_save_due(run: Run) -> bool:
    """Return whether `checkpoint_seconds` have passed since the last save; at most 1/20 of the time is for saving."""
    return time.perf_counter() - run.saved >= max(run.training.checkpoint_seconds, 20 * run.saving)


def save_run(run: Run, path: Path, position: Any) -> None:
    """Write everything that the next step depends on."""
    begin = time.perf_counter()
    layers = [_joined(run.ops.xp, rows) for rows in zip(*run.memories, strict=True)]
    memories = [all_gather(run.communicator, run.ops.xp, rows) for rows in layers]
    state = run.description | {
        "step": run.step,
        "position": position,
        "best": run.best,
        "results": run.results,
        "averaged": run.optimizer.averaged,
        "memory_rows": _memory_rows(run) if memories else [],
    }

    def contents() -> Checkpoint:
        return Checkpoint(
            on_host(run.parameters),
            state,
            {name: on_host(run.views(vector)) for name, vector in run.optimizer.vectors.items()},
            [np.concatenate([host(rows) for rows in parts]) for parts in memories],
        )

    write(run, path, contents)
    run.saved, run.saved_step = time.perf_counter(), run.step
    run.saving = run.saved - begin


def _joined(xp: ModuleType, parts: tuple[Array, ...]) -> Array:
    return parts[0] if len(parts) == 1 else xp.concatenate(parts)


def _memory_rows(run: Run) -> list[Any]:
    """Return how many rows every rank's memory has: a number, or with micro-batches a list of numbers."""
    rows = [len(memory[0]) for memory in run.memories]
    ranks = all_gather(run.communicator, run.ops.xp, run.ops.xp.asarray(rows, dtype=np.int64))
    return [parts[0] if len(parts) == 1 else parts for parts in (rank.tolist() for rank in ranks)]


def write(run: Run, path: Path, contents: Callable[[], Checkpoint]) -> None:
    """Save a checkpoint on rank 0; if that fails, raise CheckpointError on every rank."""
    error: CheckpointError | None = None
    if run.communicator.rank == 0:
        try:
            if not (path.parent / NEWEST).exists():
                announce(path.parent / NEWEST)  # the first one follows within this step: see `require_checkpoint`
            save(path, contents())
        except CheckpointError as reason:
            error = reason
            if not (path.parent / NEWEST).exists():  # nothing can be resumed: the run must begin anew
                (path.parent / BEST).unlink(missing_ok=True)
    if any(on_any_rank(run.communicator, run.ops.xp, error is not None)):
        raise error or CheckpointError(f"{path}: not saved; see the error of rank 0")


def restore_run(run: Run, path: Path) -> Any:
    """Set the run to the state of a checkpoint, and return its position in the data."""
    saved = read_state(path)
    _require_resumable(run, path, saved)
    shapes = {name: value.shape for name, value in run.parameters.items()}
    content = load(path, shapes)
    if "average" in content.optimizer:
        optimizer.start_average(run.optimizer, run.vector)
    if content.optimizer.keys() != run.optimizer.vectors.keys():
        names = ", ".join(content.optimizer) or "nothing"
        raise TrainingError(f"{path}: its state of the optimizer holds {names}, not {', '.join(run.optimizer.vectors)}")
    xp = run.ops.xp
    groups = [(content.parameters, run.vector), *((content.optimizer[n], v) for n, v in run.optimizer.vectors.items())]
    for group, vector in groups:
        vector[...] = xp.asarray(packed(group, shapes, multiple_of(run.ops, run.vector.itemsize)))
    rows_of = [rows if isinstance(rows, list) else [rows] for rows in saved["memory_rows"]]  # by rank and micro-batch
    start = sum(map(sum, rows_of[: run.communicator.rank]))
    for n_rows in rows_of[run.communicator.rank] if rows_of else []:
        run.memories.append([xp.asarray(rows[start : start + n_rows]) for rows in content.memory])
        start += n_rows
    run.is_restored = True
    run.optimizer.step, run.optimizer.averaged = saved["step"], saved.get("averaged", 0)
    run.saved_step = saved["step"]
    run.best, run.results = saved["best"], results(saved, run.training)
    best = path.with_name(BEST)
    if best.exists() and (state := read_state(best))["step"] > run.step:  # of steps that a killed process made
        run.best = state[f"validation_{run.training.select}"]
    return saved["position"]


def _require_resumable(run: Run, path: Path, saved: Mapping[str, Any]) -> None:
    """Raise TrainingError if a run cannot continue from the checkpoint with this state."""
    different = changes(saved, run.config, run.training)
    different = {name: change for name, change in different.items() if not may_change(name, different)}
    for name, label in (("model", "model"), ("vocabulary", "digest of the vocabulary"), ("ranks", "processes")):
        if saved.get(name) != run.description[name]:
            different[label] = (saved.get(name), run.description[name])
    require_same(path, different)
    if "position" not in saved:
        raise TrainingError(f"{path}: holds no state of the optimizer, so that training cannot be resumed from it")
    if saved["step"] > run.training.steps:
        steps = f"{saved['step']:,} steps"
        raise TrainingError(f"{path}: the run has made {steps}: --steps {run.training.steps:,}, but at least {steps}")


def require_same(path: Path, different: Mapping[str, Change]) -> None:
    """Raise TrainingError, which shows the differences, if there are any."""
    if different:
        pairs = "; ".join(f"{name}: {old}, now {new}" for name, (old, new) in different.items())
        advice = "leave them as they were, or train in another directory"
        raise TrainingError(f"{path}: a resumed run keeps its settings: {pairs}; {advice}")


def on_any_rank(communicator: Communicator, xp: ModuleType, *conditions: bool) -> tuple[bool, ...]:
    """Return for each condition whether it holds on at least one rank; waits for all ranks."""
    if communicator.size == 1:
        return conditions
    counts = xp.asarray(conditions, dtype=xp.float64)
    communicator.all_reduce_sum(counts)
    return tuple(count > 0 for count in counts.tolist())


def on_host(arrays: Mapping[str, Array]) -> dict[str, np.ndarray]:
    return {name: host(array) for name, array in arrays.items()}
