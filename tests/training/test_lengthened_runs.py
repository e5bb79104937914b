"""Runs that get more steps: their schedule, the line that reports it, and the line that says why a run has ended."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.commands.resuming import why_ended
from accel.training.settings import TrainingConfig
from tests.fixtures.command_line import Grove
from tests.fixtures.toy_house import House, train
from tests.fixtures.toy_run import metrics


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A treebank, and a run of six steps."""
    return House(tmp_path_factory.mktemp("house"), ("tg",))


def test_a_finished_run_is_lengthened(house: House, tmp_path: Path, run_grove: Grove) -> None:
    """The schedule is that of the new number of steps, and a line reports the change of the learning rate."""
    directory = Path(shutil.copytree(house.folder / "tg", tmp_path / "run"))
    status, _, err = run_grove("train", "--out", directory, "--resume", "--steps", 12)
    before, after = (line["learning_rate"] for line in metrics(directory)[5:7])
    change = f"the learning rate goes from {before:.3g} to {after:.3g}"
    steps = "6 steps are made; 12 are to be made in all, before it was 6"
    assert f"{steps}: the cosine schedule is now that of 12 steps; {change}" in err.splitlines() and not status
    assert after > 10 * before
    assert [line["step"] for line in metrics(directory)] == list(range(1, 13))
    assert metrics(directory)[:6] == metrics(house.folder / "tg")
    run_grove(*train(tmp_path / "long", house.data, "--validation", str(house.valid), "--steps", "12"))
    assert after == metrics(tmp_path / "long")[6]["learning_rate"]
    status, _, err = run_grove("train", "--out", directory, "--resume")
    assert "all 12 steps are made; a larger --steps lengthens the run" in err.splitlines() and not status
    run_grove("train", "--out", directory, "--resume", "--steps", 13)
    run_grove("export", directory, tmp_path / "folder")
    card = (tmp_path / "folder" / "README.md").read_text()
    assert "The number of steps was changed: until step 6 it was 6, until step 12 it was 12. " in card
    assert " --steps 13 " in card


def test_steps_that_were_a_setting_are_lengthened(house: House, tmp_path: Path, run_grove: Grove) -> None:
    directory = tmp_path / "run"
    first = [word for word in train(directory, house.data, "--set", "steps=3") if word != "--steps=6"]
    assert run_grove(*first)[0] == 0 and len(metrics(directory)) == 3
    assert run_grove("train", "--out", directory, "--resume", "--steps", 5)[0] == 0
    assert len(metrics(directory)) == 5
    (directory / "config.json").unlink()
    again = (*train(directory, house.data, "--steps", "6"), "--resume", "--set", "checkpoint_every=2")
    assert run_grove(*again)[0] == 0 and len(metrics(directory)) == 6


def test_why_a_training_ended() -> None:
    training = TrainingConfig(stop_after=2)
    assert why_ended([3.0, 2.0, 2.5, 2.0], training) == ("2 validations were not better", "stop_after")
    average = TrainingConfig(optimizer="nt_asgd", schedule="constant", nonmonotone=0, restart_after=3)
    reason = "the losses of the average after validation 3 stalled"
    assert why_ended([2.0, 3.0, 2.5, 2.0, 2.1], average) == (reason, "restart_after")
    assert why_ended([2.0], training) == why_ended([2.0, 3.0], average) == ("", "")


def test_a_restart_is_not_moved_to_a_validation_that_is_over(
    house: House, tmp_path: Path, run_grove: Grove, mistake: Callable[..., str]
) -> None:
    directory, averaged = tmp_path / "run", ("optimizer=nt_asgd", "schedule=constant", "validate_every=1")
    options = [word for setting in averaged for word in ("--set", setting)]
    assert run_grove(*train(directory, house.data, "--validation", str(house.valid), *options))[0] == 0
    again = ("train", "--out", directory, "--resume", "--steps", 7, "--set")
    wrong = "restart_after: 6, but 6 validations are made; use 7 or more, or 0"
    assert mistake(*again, "restart_after=6") == wrong
    assert run_grove(*again, "restart_after=7")[0] == 0
