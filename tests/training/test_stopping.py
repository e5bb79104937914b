"""Ctrl-C, SIGTERM and saving by time: the step is finished and saved, and the resumed run is the uninterrupted one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import accel
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import checkpoint, loop, signals
from accel.training import run as runs
from accel.training.communicator import serial
from accel.training.run import NEWEST
from accel.training.signals import Stopped
from tests.fixtures.finished_runs import assert_same_run
from tests.fixtures.toy_run import CONFIG, TRAINING, metrics, run

RARELY = replace(TRAINING, checkpoint_every=1000)


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    """Handle Ctrl-C in every test, also if the tests run in the background, where it is ignored."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an uninterrupted run."""
    directory = tmp_path_factory.mktemp("finished")
    run(directory, training=RARELY)
    return directory


def at_call(monkeypatch: pytest.MonkeyPatch, number: int, action: Callable[[], None]) -> None:
    """Do `action` in the middle of the step of that number, counted from 1."""
    right, calls = transformer_grammar.loss_and_grad, iter(range(1, 1000))

    def step(*arguments: Any, **options: Any) -> Any:
        if next(calls) == number:
            action()
        return right(*arguments, **options)

    monkeypatch.setattr(transformer_grammar, "loss_and_grad", step)


def send(*numbers: int) -> Callable[[], None]:
    return lambda: [os.kill(os.getpid(), number) for number in numbers] and None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_and_saves(
    number: int, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    at_call(monkeypatch, 5, send(number))
    with pytest.raises(Stopped) as stop:
        run(tmp_path, training=RARELY)
    assert str(stop.value) == f"stopped: step 5 of 14 is saved in {tmp_path / NEWEST}"
    assert stop.value.number == number and stop.value.is_saved
    assert checkpoint.read_state(tmp_path / NEWEST)["step"] == 5 == len(metrics(tmp_path))
    assert handlers == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    run(tmp_path, resume=True, training=RARELY)
    assert_same_run(tmp_path, finished)


def test_a_run_that_is_stopped_after_every_step_is_the_same_run(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1, 15):
        with monkeypatch.context() as patch, pytest.raises(Stopped):
            at_call(patch, 1, send(signal.SIGINT))
            run(tmp_path, resume=True, training=RARELY)
        assert checkpoint.read_state(tmp_path / NEWEST)["step"] == step
    assert run(tmp_path, resume=True, training=RARELY) == {}
    assert_same_run(tmp_path, finished)


def test_a_second_signal_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_call(monkeypatch, 3, send(signal.SIGINT, signal.SIGTERM))
    with pytest.raises(Stopped, match="^interrupted$") as stop:
        run(tmp_path, training=RARELY)
    assert stop.value.number == signal.SIGTERM and not stop.value.is_saved
    assert not (tmp_path / NEWEST).exists() and len(metrics(tmp_path)) == 2


def test_the_first_best_parameters_come_with_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_call(monkeypatch, 7, send(signal.SIGINT, signal.SIGTERM))
    with pytest.raises(Stopped):
        run(tmp_path, training=RARELY)
    assert checkpoint.read_state(tmp_path / NEWEST)["step"] == TRAINING.validate_every


def test_a_signal_after_the_last_look_is_not_lost() -> None:
    with pytest.raises(Stopped, match="^interrupted$"), signals.deferred(""):
        os.kill(os.getpid(), signal.SIGINT)


def test_signals_that_are_ignored_stay_ignored() -> None:
    """A process that a shell starts in the background ignores signals."""
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals.deferred("") as numbers:
            os.kill(os.getpid(), signal.SIGINT)
            assert not numbers
    finally:
        signal.signal(signal.SIGINT, former)


def test_a_run_is_saved_by_time(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is saved at steps 2 and 5; it fails in step 7 and resumes from step 5."""
    monkeypatch.setattr(loop, "is_save_due", lambda run: run.step in (2, 5))

    def crash() -> None:
        raise RuntimeError

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        at_call(patch, 7, crash)
        run(tmp_path, training=RARELY)
    assert checkpoint.read_state(tmp_path / NEWEST)["step"] == 5
    run(tmp_path, resume=True, training=RARELY)
    assert_same_run(tmp_path, finished)


def test_a_save_is_due_after_two_minutes_or_twenty_times_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(runs.time, "perf_counter", lambda: now[0])
    state: Any = type("State", (), {"training": TRAINING, "saved": 1000.0, "saving": 1.0})
    for seconds, saving, expected in ((119.0, 1.0, False), (120.0, 1.0, True), (120.0, 7.0, False), (140.0, 7.0, True)):
        now[0], state.saving = 1000.0 + seconds, saving
        assert runs.is_save_due(state) is expected


def test_the_seconds_of_a_save_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time runs from the begin of the save to the written file, whatever the clock shows at first."""
    now, right = [1000.0], checkpoint.save
    state = runs.start(accel.load("cpu"), transformer_grammar, CONFIG, TRAINING, serial(), "")

    def slow(*arguments: Any) -> None:
        right(*arguments)
        now[0] += 3.0

    monkeypatch.setattr(runs.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(runs, "save", slow)
    runs.save_run(state, tmp_path / NEWEST, {})
    assert (state.saved, state.saving, state.saved_step) == (1003.0, 3.0, 0)
