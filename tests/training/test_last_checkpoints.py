"""The checkpoints that a run keeps under their steps: also when it is lengthened, goes on, or is to keep none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from accel.training.last_checkpoints import kept_checkpoints
from accel.training.run import NEWEST
from tests.fixtures.toy_run import TRAINING, run

KEEPING = replace(TRAINING, schedule="constant", keep_checkpoints=3)  # a checkpoint every 4 steps, 14 steps


def steps(directory: Path) -> list[int]:
    """Return the steps of the checkpoints that a run keeps."""
    return [int(path.stem[-8:]) for path in kept_checkpoints(directory)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_lengthened_run_keeps_those_of_a_run_of_so_many_steps(is_killed: bool, tmp_path: Path) -> None:
    """The checkpoint of the former last step is removed, also if the process was killed before it saved the run."""
    run(tmp_path, training=replace(KEEPING, steps=12))
    saved = (tmp_path / NEWEST).read_bytes()
    run(tmp_path, training=replace(KEEPING, steps=13), resume=True)
    assert steps(tmp_path) == [8, 12, 13]
    if is_killed:
        (tmp_path / NEWEST).write_bytes(saved)
    run(tmp_path, training=KEEPING, resume=True)
    assert steps(tmp_path) == [8, 12, 14]


def test_a_training_that_goes_on_keeps_those_of_one_that_had_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    monkeypatch.setattr("accel.training.loop.evaluate", lambda *_: {"loss": next(losses)})
    assert run(tmp_path, training=replace(KEEPING, stop_after=1))["step"] == 6 and steps(tmp_path) == [4, 6]
    run(tmp_path, training=replace(KEEPING, keep_checkpoints=4), resume=True)
    assert steps(tmp_path) == [4, 8, 12, 14]


def test_checkpoints_at_other_distances_stay(tmp_path: Path) -> None:
    run(tmp_path, training=replace(KEEPING, steps=8))
    run(tmp_path, training=replace(KEEPING, checkpoint_every=6, keep_checkpoints=4), resume=True)
    assert steps(tmp_path) == [4, 8, 12, 14]


def test_a_run_that_is_to_keep_none_removes_them(tmp_path: Path) -> None:
    """An average of the last checkpoints would be that of old ones."""
    run(tmp_path, training=replace(KEEPING, steps=8))
    assert steps(tmp_path) == [4, 8]
    run(tmp_path, training=replace(KEEPING, keep_checkpoints=0), resume=True)
    assert steps(tmp_path) == []
