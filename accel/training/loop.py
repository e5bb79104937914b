"""The training loop: configuration and data in; metrics, checkpoints and a trained model out.

Every draw follows from the seed and the number of the step, so that interrupted runs resume bit for bit. With several
processes each process takes its rows of every global batch, and with micro-batches it computes a part of them at a
time; the gradients of the summed loss are added up and divided by the number of labels of all processes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from accel.data.files import progress as shown
from accel.data.files.written import named
from accel.training import optimizer
from accel.training.checkpoint import Checkpoint
from accel.training.communicator import Communicator, serial
from accel.training.directory import require_checkpoint
from accel.training.graphs import new_graphs, with_room
from accel.training.last_checkpoints import keep_parameters
from accel.training.memory import greatest
from accel.training.metrics import open_metrics
from accel.training.run import (
    BEST,
    METRICS,
    NEWEST,
    Run,
    TrainingError,
    is_save_due,
    on_any_rank,
    on_host,
    restore_run,
    save_run,
    start,
    write,
)
from accel.training.schedule import restarts, stalled
from accel.training.settings import TrainingConfig
from accel.training.signals import Stopped, deferred
from accel.training.step import NonFiniteLoss, divergence_named, make_step
from accel.training.subnormals import as_zeros

STOPPING = "grove: stopping after this step, which is saved; once more stops at once"


class Measure(NamedTuple):
    """A result of a validation that is no loss: its name, such as "f1", and the function from parameters to it."""

    name: str
    of: Callable[[dict[str, Any]], float]


class Batches(Protocol):
    """An endless iterable of this rank's rows of every global batch, such as `accel.data.batches.trees.Batches`.

    An item is a batch, or the list of its micro-batches.
    """

    def __iter__(self) -> Iterator[Any]: ...

    def state(self) -> Any:
        """Return the position after the last batch given, as a JSON object."""

    def restore(self, state: Any) -> None:
        """Continue from a position that `state` returned."""


def train(
    ops: ModuleType,
    model: ModuleType,
    config: Any,
    training: TrainingConfig,
    batches: Batches,
    directory: Path,
    *,
    validation: Callable[[], Iterable[Any]] | None = None,
    measure: Measure | None = None,
    vocabulary: str = "",
    initial: Mapping[str, Any] | None = None,
    frozen: Mapping[str, Any] | None = None,
    communicator: Communicator | None = None,
    resume: bool = False,
    begin: Callable[[], None] | None = None,
    report: Callable[[str], None] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Train up to the last step, or until validations are no longer better, and return the last line of metrics.

    The run is saved every `checkpoint_every` steps, every `checkpoint_seconds`, at the end, and at Ctrl-C or SIGTERM.

    Parameters
    ----------
    ops : a backend
    model : a module of `accel.models`
        Its `parameter_shapes`, `initialise`, `loss_and_grad`, and `scores` or `token_logps` are used. `scores` also
        returns whether each label is the most probable one: with it, validations show the accuracy. If its losses have
        denominators other than the number of labels, its `counts` returns those of a batch by name.
    validation : function
        Returns the validation batches, the first of which has an empty memory; None: no validation.
    measure : Measure
        A further result of every validation.
    vocabulary : str
        The name of the vocabulary of the ids, such as its digest; stored in the checkpoint, and compared on resuming.
    initial : dict of arrays
        Parameters that replace the model's initial ones.
    frozen : dict of arrays
        Arrays that the model reads and does not learn, with the names in `frozen_shapes` of its module. No checkpoint
        holds them: the caller must keep them.
    resume : bool
        Continue from the directory's checkpoint, if there is one.
    begin : function
        Called once, after all checks and before anything is written in the directory.
    report : function
        Called with a line of text: before the first update about the memory of a token, at the end about all memory.

    Raises
    ------
    TrainingError
        If the directory holds another run, the resumed run was of another configuration, or several processes cannot
        train the model.
    Stopped
        At Ctrl-C or SIGTERM, after the step that is being made.
    NonFiniteLoss
        If a loss or a gradient is not finite.
    CheckpointError
        If a checkpoint cannot be written or read.
    """
    communicator = communicator or serial()
    is_used = not resume and any((directory / name).exists() for name in (METRICS, NEWEST))
    if any(on_any_rank(communicator, ops.xp, is_used)):
        raise TrainingError(f"{directory}: holds a run already: resume it with --resume, or choose another directory")
    if resume:
        require_checkpoint(directory, training.checkpoint_every)
    if communicator.size > 1 and getattr(getattr(config, "stack", None), "released", False):
        but = "the released convolution reads the other sequences of its batch"
        raise TrainingError(f"variant: released, but {but}; use one process, or variant paper")
    if training.select == "accuracy" and not _has_accuracy(model, config):
        raise TrainingError(f"select: accuracy, but {model.NAME} has none; use loss")
    measured = None if measure is None else measure.name
    if training.select == "f1" != measured:
        options = "--validation-gold of gpst, or --validation of span_parser"
        raise TrainingError(f"select: f1, but no gold trees are parsed in a validation; use {options}, or select=loss")
    if training.select == "matthews" != measured:
        raise TrainingError("select: matthews is the correlation of CoLA, of the task glue; use loss or accuracy")
    run = start(ops, model, config, training, communicator, vocabulary, initial, frozen)
    if (directory / NEWEST).exists():
        position = restore_run(run, directory / NEWEST)
        try:
            batches.restore(position)
        except ValueError as error:
            raise TrainingError(f"{directory / NEWEST}: a resumed run keeps its data: {error}") from error
    if ops.xp is not np and ops.wants_graphs():
        run.graphs = new_graphs(run)
    on_any_rank(communicator, ops.xp, False)  # waits until every rank has checked
    directory.mkdir(parents=True, exist_ok=True)
    if begin is not None:
        begin()
    run.report = report
    with as_zeros() if ops.xp is np else ops.own_stream():
        line = _train(run, batches, validation, measure, directory, quiet=not progress or communicator.rank > 0)
    if line and report is not None:
        report(greatest(ops))
    return line


def _train(
    run: Run,
    batches: Batches,
    validation: Callable[[], Iterable[Any]] | None,
    measure: Measure | None,
    directory: Path,
    *,
    quiet: bool,
) -> dict[str, Any]:
    """Run the remaining steps, and return the last line of metrics."""
    training, stream = run.training, iter(batches)
    line: dict[str, Any] = {}
    with (
        np.errstate(over="ignore", invalid="ignore"),  # a loss that is not finite raises NonFiniteLoss
        open_metrics(directory / METRICS, run.step, run.communicator.rank) as metrics,
        closing(
            shown.progress(
                range(run.step, run.step if run.has_ended() else training.steps),
                training.steps,
                "step",
                done=run.step,
                note=lambda: f"loss {line['loss']:.3f}",
                quiet=quiet,
            )
        ) as steps,
        deferred("" if quiet else STOPPING) as signals,
    ):
        for _ in steps:
            batch = next(stream, None)
            if batch is None:
                raise TrainingError(f"step {run.step + 1}: the data ended before the last step, {training.steps}")
            line = make_step(run, batch)
            is_last = run.step == training.steps
            if validation is not None and (is_last or run.step % training.validate_every == 0):
                line |= _validate(run, validation, measure, directory)
                is_last = is_last or run.has_ended()
            with named(str(directory / METRICS)):
                metrics.write(json.dumps(line) + "\n")
                metrics.flush()
            is_periodic = is_last or run.step % training.checkpoint_every == 0
            is_due, is_stopped = on_any_rank(run.communicator, run.ops.xp, is_save_due(run), bool(signals))
            is_due = is_due or (run.best is not None and not run.saved_step)  # the best parameters need a checkpoint
            if is_periodic:
                keep_parameters(run, directory)
            if is_periodic or is_due or is_stopped:
                save_run(run, directory / NEWEST, batches.state())
            if is_stopped:
                place = f"step {run.step:,} of {training.steps:,} is saved in {directory / NEWEST}"
                raise Stopped(f"stopped: {place}", *signals[:1], is_saved=True)
            if is_last:
                break
    return line


def _validate(
    run: Run, batches: Callable[[], Iterable[Any]], measure: Measure | None, directory: Path
) -> dict[str, float]:
    """Return the results on the validation data; save the best parameters, and start averaging if the loss stalls."""
    model = run.ops, run.model, run.config, run.parameters_to_use()
    with divergence_named(run, run.step):
        results = with_room(run, lambda: evaluate(*model, batches(), run.communicator))
    if not isfinite(results["loss"]):
        loss = results["loss"]
        raise NonFiniteLoss(f"step {run.step}: validation loss {loss}: stopped; {run.kept()}")
    if measure is not None:
        with divergence_named(run, run.step):
            results[measure.name] = _of_rank_0(run, with_room(run, lambda: measure.of(run.parameters_to_use())))
    result, highest = results[run.training.select], run.training.select != "loss"
    line = {f"validation_{name}": value for name, value in results.items()}
    if run.best is None or (result > run.best if highest else result < run.best):
        run.best = result
        state = run.description | {"step": run.step} | line
        write(run, directory / BEST, lambda: Checkpoint(on_host(run.learned_to_use()), state))
    run.results.append(result)
    if run.training.optimizer == "nt_asgd" and run.step % run.training.validate_every == 0:
        _average(run)
    run.clock = time.perf_counter()
    return line


def _average(run: Run) -> None:
    """Start the average of NT-ASGD if the last validation asks for it, or start it anew."""
    training, averages = run.training, "average" in run.optimizer.vectors
    nonmonotone, at = training.nonmonotone, training.restart_after
    begins = not averages and stalled(run.results, nonmonotone)
    if begins or (averages and restarts(run.results, nonmonotone=nonmonotone, at=at)):
        optimizer.start_average(run.optimizer, run.vector)


def _of_rank_0(run: Run, result: float) -> float:
    """Return the result of rank 0, so that all ranks select the same checkpoint."""
    values = run.ops.xp.asarray([result], dtype=run.ops.xp.float64) * (run.communicator.rank == 0)
    run.communicator.all_reduce_sum(values)
    return float(values[0])


def _has_accuracy(model: ModuleType, config: Any) -> bool:
    """Return whether a model has an accuracy; a model with one class, which predicts a number, has none."""
    return hasattr(model, "scores") and getattr(config, "n_classes", 0) != 1


def evaluate(
    ops: ModuleType,
    model: ModuleType,
    config: Any,
    parameters: dict[str, Any],
    batches: Iterable[Any],
    communicator: Communicator | None = None,
) -> dict[str, float]:
    """Return the loss per label, and the accuracy if the model has one, over all batches of all ranks."""
    totals, memories = ops.xp.zeros(3, dtype=ops.xp.float64), {}
    has_scores = hasattr(model, "scores")
    for batch in batches:
        for number, part in enumerate(batch if isinstance(batch, list) else [batch]):
            memory = memories.get(number)
            if has_scores:
                logp, right, memories[number] = model.scores(ops, config, parameters, part, memory)
                totals[1] += right.sum()
            else:
                logp, memories[number] = model.token_logps(ops, config, parameters, part, memory)
            totals[0] -= logp.sum(dtype=ops.xp.float64)
            totals[2] += part.n_labels
    (communicator or serial()).all_reduce_sum(totals)
    loss, right, labels = totals.tolist()
    labels = max(labels, 1.0)
    return {"loss": loss / labels} | ({"accuracy": right / labels} if _has_accuracy(model, config) else {})
