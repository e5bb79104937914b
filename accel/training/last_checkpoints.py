"""The last checkpoints of a run: their parameters, each file under its step, for an average (`keep_checkpoints`)."""

from __future__ import annotations

from pathlib import Path

from accel.training.checkpoint import Checkpoint, read_state
from accel.training.run import Run, on_host, write

KEPT = "checkpoint-{:08}.safetensors"


def keep_parameters(run: Run, directory: Path) -> None:
    """Write the parameters under the number of the step, and remove all but the last `keep_checkpoints`.

    If the training goes on after its former last step, the parameters of that step are removed, too, unless a
    checkpoint was due there: so the run keeps the steps of one that had not ended.
    """
    path, count = directory / KEPT.format(run.step), run.training.keep_checkpoints
    if count:
        write(run, path, lambda: Checkpoint(on_host(run.parameters), run.description | {"step": run.step}))
    if run.communicator.rank == 0:
        paths = kept_checkpoints(directory)
        due_paths = [old for old in paths if old == path or _was_due(old, run.training.checkpoint_every)]
        for old in {*paths} - {*due_paths[::-1][:count]}:
            old.unlink()


def _was_due(path: Path, every: int) -> bool:
    """Return whether a run has kept these parameters because a checkpoint was due, and not because the run ended.

    Where the step is no multiple of `every`, the run may have had another `checkpoint_every` then.
    """
    if int(path.stem[-8:]) % every == 0:
        return True
    state = read_state(path)
    return state["step"] % state["training"]["checkpoint_every"] == 0


def kept_checkpoints(directory: Path) -> list[Path]:
    """Return the files of parameters that a run has kept under their steps, the oldest first."""
    return sorted(directory.glob(KEPT.format(0).replace("0", "[0-9]")))
