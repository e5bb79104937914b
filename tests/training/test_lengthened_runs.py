"""Runs that get more steps: their schedule, the line that reports it, and the line that says why a run has ended."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.commands.resuming import note_on_steps, why_ended
from accel.training import loop
from accel.training.settings import TrainingConfig
from tests.fixtures.command_line import Grove, settings, with_options
from tests.fixtures.gpst_runs import TASK, run_of, texts
from tests.fixtures.labelled_examples import SENTIMENT
from tests.fixtures.toy_house import House, train
from tests.fixtures.toy_run import metrics

__all__ = ["texts"]


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


def test_a_run_that_was_stopped_before_its_only_validation_ends_there(
    house: House, tmp_path: Path, run_grove: Grove, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no best checkpoint: the newest one is named."""
    more = ("--validation", str(house.valid), "--set", "validate_every=100")
    with monkeypatch.context() as patch:
        patch.setattr(loop, "is_save_due", lambda run: run.step == 4 and os.kill(os.getpid(), signal.SIGTERM))
        assert run_grove(*train(tmp_path / "run", house.data, *more))[0] == 128 + signal.SIGTERM
    status, out, _ = run_grove("train", "--out", tmp_path / "run", "--resume", "--steps", 4)
    assert (status, out) == (0, f"{tmp_path / 'run' / 'checkpoint.safetensors'}\n") and Path(out.strip()).exists()


@pytest.mark.parametrize("task", ["gpst", "sentiment"])
def test_the_warm_up_of_noam_stays(
    task: str, texts: Path, tmp_path: Path, run_grove: Grove, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warm-up is 1 % of the steps: none of 3 steps, 2 of 200 steps; the rates go on as those of 3 steps."""
    (tmp_path / "data").write_text(SENTIMENT)
    of_sentiment = ("train", "--task", task, "--data", tmp_path / "data", "--no-phrases", "--out", tmp_path / "run")
    of_gpst = run_of(texts, tmp_path / "run", "--sentence-a-line", "--model", "gpt2")
    command = of_gpst if task == "gpst" else of_sentiment
    more = ("--model", "gpt2", "--steps", 3, *settings((*TASK, "schedule=noam", "maximum_rate=0.01")))
    assert run_grove(*with_options(command, *more))[0] == 0
    monkeypatch.setattr(loop, "is_save_due", lambda run: run.step == 4 and os.kill(os.getpid(), signal.SIGTERM))
    err = run_grove("train", "--out", tmp_path / "run", "--resume", "--steps", 200)[2]
    note = "3 steps are made; 200 are to be made in all, before it was 3; the learning rate does not depend on it"
    assert note in err.splitlines()
    rates = [line["learning_rate"] for line in metrics(tmp_path / "run")]
    assert rates == pytest.approx([0.01 * count**-0.5 for count in (1, 2, 3, 4)])


def test_the_note_on_steps_compares_the_rates(house: House) -> None:
    training = TrainingConfig(schedule="noam", steps=12, warmup_steps=2, maximum_rate=1.0)
    start = "6 steps are made; 12 are to be made in all, before it was 6"
    note = note_on_steps(house.folder / "tg", training, {"steps": (6, 12)})
    assert note == f"{start}; the learning rate does not depend on it"
    note = note_on_steps(house.folder / "tg", training, {"steps": (6, 12), "warmup_steps": (6, 2)})
    assert note == f"{start}: the noam schedule is now that of 12 steps; the learning rate goes from 1 to 0.535"


def test_why_a_training_ended() -> None:
    training = TrainingConfig(stop_after=2)
    assert why_ended([3.0, 2.0, 2.5, 2.0], training) == ("2 validations were not better", "stop_after")
    average = TrainingConfig(optimizer="nt_asgd", schedule="constant", nonmonotone=0, restart_after=3)
    reason = "the losses of the average after validation 3 stalled"
    assert why_ended([2.0, 3.0, 2.5, 2.0, 2.1], average) == (reason, "restart_after")
    assert why_ended([2.0], training) == why_ended([2.0, 3.0], average) == ("", "")


@pytest.mark.parametrize(("validate_every", "steps", "is_over"), [(1, 7, 6), (4, 8, 1)])
def test_a_restart_is_not_moved_to_a_validation_that_is_over(
    house: House, tmp_path: Path, run_grove: Grove, mistake: Callable[..., str], validate_every: int, steps: int,
    is_over: int,
) -> None:  # fmt: skip
    """With `validate_every` 4 that of the former last step, 6, does not count: number 2 is that of step 8."""
    directory, averaged = (
        tmp_path / "run",
        ("optimizer=nt_asgd", "schedule=constant", f"validate_every={validate_every}"),
    )
    options = [word for setting in averaged for word in ("--set", setting)]
    assert run_grove(*train(directory, house.data, "--validation", str(house.valid), *options))[0] == 0
    again = ("train", "--out", directory, "--resume", "--steps", steps, "--set")
    wrong = f"restart_after: {is_over}, but validation {is_over} is over; use {is_over + 1} or more, or 0"
    assert mistake(*again, f"restart_after={is_over}") == wrong
    assert run_grove(*again, f"restart_after={is_over + 1}")[0] == 0
