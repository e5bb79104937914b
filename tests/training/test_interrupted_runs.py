"""A run that is repeated, killed, stopped by an error or lengthened ends bit for bit as an uninterrupted one."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import checkpoint
from accel.training import loop as train
from tests.fixtures.finished_runs import assert_same_run, finished
from tests.fixtures.toy_run import CONFIG, SHAPES, TRAINING, metrics, run

__all__ = ["finished"]


def test_a_run_is_the_same_again_and_another_seed_is_not(finished: Path, tmp_path: Path) -> None:
    run(tmp_path / "again", prefetch=2)
    assert_same_run(tmp_path / "again", finished)
    run(tmp_path / "other", training=replace(TRAINING, seed=1))
    assert metrics(tmp_path / "other")[0]["loss"] != metrics(finished)[0]["loss"]


@pytest.mark.parametrize(
    ("function", "call", "lines"),
    [("loss_and_grad", 7, 6), ("replace", 6, 8), ("replace", 2, 2), ("replace", 3, 3), ("on_any_rank", 5, 3)],
    ids=["between two steps", "while saving", "before the first checkpoint", "while saving it", "before saving it"],
)
def test_a_killed_run_resumes_bit_for_bit(finished: Path, tmp_path: Path, function: str, call: int, lines: int) -> None:
    """A process is killed with SIGKILL, and its run resumed here; metrics after the checkpoint are deleted."""
    program = [
        sys.executable,
        "-m",
        "tests.fixtures.toy_run",
        str(tmp_path),
        "--kill-in",
        function,
        "--kill-at",
        str(call),
    ]
    killed = subprocess.run(program, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(metrics(tmp_path)) == lines
    with open(tmp_path / train.METRICS, "a") as file:
        file.write('{"step": 9, "lo')  # a killed process may have written half a line
    run(tmp_path, resume=True)
    assert_same_run(tmp_path, finished)


def test_a_process_that_compiles_rounds_as_one_that_loads(tmp_path: Path) -> None:
    """The first run on a machine compiles its kernels, and says so; a resumed one loads them from Numba's cache."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for name, message in (("compiles", "grove: compiling kernels (once)\n"), ("loads", "")):
        program = [sys.executable, "-m", "tests.fixtures.toy_run", str(tmp_path / name)]
        options = {"cwd": Path(__file__).parents[2], "env": environment, "timeout": 900}
        process = subprocess.run(program, check=True, capture_output=True, text=True, **options)
        assert process.stderr == message
    assert_same_run(tmp_path / "compiles", tmp_path / "loads")


def test_resuming_a_finished_run_does_nothing(finished: Path) -> None:
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    assert run(finished, resume=True) == {}
    assert before == {path.name: path.read_bytes() for path in finished.iterdir()}


def test_another_run_s_directory_is_refused(finished: Path) -> None:
    with pytest.raises(
        train.TrainingError, match="holds a run already: resume it with --resume, or choose another directory$"
    ):
        run(finished)
    settings = "a resumed run keeps its settings"
    both = f"maximum_rate: 0.005, now 1.0; seed: {TRAINING.seed}, now 4"
    with pytest.raises(train.TrainingError, match=f"{settings}: {both}; leave them as"):
        run(finished, resume=True, training=replace(TRAINING, maximum_rate=1.0, seed=4))
    with pytest.raises(train.TrainingError, match=f"{settings}: digest of the vocabulary: , now other; leave "):
        run(finished, resume=True, vocabulary="other")
    with pytest.raises(train.TrainingError, match="the run has made 14 steps: --steps 7, but at least 14 steps$"):
        run(finished, resume=True, training=replace(TRAINING, steps=7))


@pytest.mark.parametrize("schedule", ["constant", "noam"])
def test_a_run_may_be_given_more_steps(schedule: str, tmp_path: Path) -> None:
    """If the rate does not depend on the number of steps, a lengthened run equals a longer run bit for bit."""
    training = replace(TRAINING, schedule=schedule, steps=14)
    run(tmp_path / "long", training=training)
    run(tmp_path / "short", training=replace(training, steps=7))
    run(tmp_path / "short", training=training, resume=True)
    parameters = [checkpoint.load(tmp_path / name / train.NEWEST, SHAPES).parameters for name in ("long", "short")]
    for name in SHAPES:
        np.testing.assert_array_equal(parameters[0][name], parameters[1][name])


def test_a_checkpoint_without_newer_settings_resumes(finished: Path, tmp_path: Path) -> None:
    """The checkpoint lacks the newer settings of training and model; they take their default values."""
    run(tmp_path, training=replace(TRAINING, steps=14))
    path = tmp_path / train.NEWEST
    content = checkpoint.load(path, SHAPES)
    newer = {"optimizer", "beta1", "epsilon", "weight_decay", "schedule", "select", "keep_checkpoints"}
    old = {name: value for name, value in content.state["training"].items() if name not in newer}
    state = {name: value for name, value in content.state.items() if name not in ("results", "averaged")}
    fields = asdict(CONFIG)
    model = {name: value for name, value in fields.items() if value != getattr(type(CONFIG), name, None)}
    assert len(model) < len(fields)
    checkpoint.save(path, replace(content, state=state | {"training": old, "config": model}))
    assert run(tmp_path, resume=True) == {}
    with pytest.raises(train.TrainingError, match="holds no state of the optimizer"):
        os.replace(tmp_path / train.BEST, path)
        run(tmp_path, resume=True)


def test_a_loss_that_is_nan_stops_and_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, calls = transformer_grammar.loss_and_grad, iter(range(1, 100))

    def poisoned(*arguments: object, **options: object) -> tuple:
        loss, gradients, memory = right(*arguments, **options)
        return (float("nan") if next(calls) == 7 else loss), gradients, memory

    monkeypatch.setattr(transformer_grammar, "loss_and_grad", poisoned)
    with pytest.raises(
        train.NonFiniteLoss,
        match="^step 7: loss nan, gradient norm [0-9.]+: stopped; the checkpoint of step 4 is kept; "
        "try a lower --set maximum_rate, below 0.005, in another directory$",
    ):
        run(tmp_path)
    assert checkpoint.load(tmp_path / train.NEWEST, SHAPES).state["step"] == 4
    assert [line["step"] for line in metrics(tmp_path)] == [1, 2, 3, 4, 5, 6]
    calls = iter([7])
    with pytest.raises(train.NonFiniteLoss, match="^step 5: loss nan, .*; the checkpoint of step 4 is kept; try "):
        run(tmp_path, resume=True)


def test_an_argument_that_is_not_finite_stops_with_the_step_and_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gates of a recurrent cell become NaN before the loss does; other errors of operations are raised unchanged."""
    messages = iter(("gates: NaN or infinity in row 0", "scores: NaN at split 0", "ids: 9 of 8 words"))

    def refused(*_: object, **__: object) -> tuple:
        raise ValueError(next(messages))

    monkeypatch.setattr(transformer_grammar, "loss_and_grad", refused)
    advice = "nothing was saved before; try a lower rate: --resume --set maximum_rate=VALUE, below 0.005"
    for message in ("gates: NaN or infinity in row 0", "scores: NaN at split 0"):
        with pytest.raises(train.NonFiniteLoss, match=f"^step 1: {message}: stopped; {advice}$"):
            run(tmp_path, resume=message.startswith("scores"))
    with pytest.raises(ValueError, match="^ids: 9 of 8 words$"):
        run(tmp_path, resume=True)


def test_a_validation_that_meets_a_nan_stops_in_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> dict[str, float]:
        raise ValueError("tokens: NaN or infinity in row 0")

    monkeypatch.setattr(train, "evaluate", refused)
    with pytest.raises(train.NonFiniteLoss, match=r"^step \d+: tokens: NaN or infinity in row 0: stopped; "):
        run(tmp_path)


def test_a_full_disk_keeps_the_last_checkpoint_and_the_run_can_go_on(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, calls = os.fsync, iter(range(1, 100))

    def full(descriptor: int) -> None:
        if next(calls) > 8:  # two calls a file: best 3, newest 3, newest 4, best 6; newest 8 fails
            raise OSError(errno.ENOSPC, "No space left on device")
        right(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(checkpoint.CheckpointError, match="checkpoint.safetensors: not saved: .*No space left"):
        run(tmp_path)
    assert checkpoint.read_state(tmp_path / train.NEWEST)["step"] == 4
    monkeypatch.undo()
    run(tmp_path, resume=True)
    assert_same_run(tmp_path, finished)
