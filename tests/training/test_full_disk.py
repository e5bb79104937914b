"""A disk that is full at any moment of a run: one line names the user's file, and the run can be resumed afterwards."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from accel import cli
from accel.training import checkpoint
from accel.training.checkpoint import Checkpoint
from accel.training.lock import LOCK
from accel.training.run import BEST, METRICS, NEWEST
from tests.fixtures.command_line import Grove
from tests.fixtures.toy_house import House, train


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A treebank, and a run of six steps."""
    return House(tmp_path_factory.mktemp("house"), ("tg",))


def fail(*arguments: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_first_checkpoint_that_is_not_saved(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    """The best parameters of the same step, which were saved before, are removed, so that the run can begin anew."""
    run, replace = tmp_path / "run", os.replace
    words = train(run, house.data, "--validation", house.valid, "--set", "validate_every=2")

    def full(source: Path, target: Path) -> None:
        fail() if Path(target).name == NEWEST else replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    message = mistake(*words)
    assert f"{run / NEWEST}: not saved: " in message and message.endswith("; there was none before")
    assert not (run / BEST).exists()
    monkeypatch.undo()
    assert cli.main([*words, "--resume"]) == 0 and (run / NEWEST).exists() and (run / BEST).exists()


def test_a_lock_that_cannot_be_written(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    monkeypatch.setattr(os, "write", fail)
    assert mistake(*train(tmp_path / "run", house.data)) == f"{tmp_path / 'run' / LOCK}: No space left on device"
    assert not (tmp_path / "run").exists()


def test_an_export_is_named_as_it_was_typed(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    monkeypatch.setattr(checkpoint, "save_file", fail)
    message = mistake("export", house.folder / "tg", tmp_path / "model")
    assert message.startswith(f"{tmp_path / 'model'}/model.safetensors: not saved: ") and not list(tmp_path.iterdir())


def test_memory_that_is_not_there(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_grove: Grove
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("accel.commands.train.train", full)
    _, _, err = run_grove(*train(tmp_path / "run", house.data))
    assert err.endswith(
        "MemoryError: not enough memory; use a smaller --batch-size or --micro-batch, or a smaller model\n"
    )


def test_checkpoints_are_for_whom_the_user_s_files_are(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        checkpoint.save(tmp_path / "x.safetensors", Checkpoint({"a": np.zeros(1)}, {}))
    finally:
        os.umask(before)
    assert (tmp_path / "x.safetensors").stat().st_mode & 0o777 == 0o640


def test_metrics_that_cannot_be_written(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    """The system's error names no file, because the file is already open; the message does."""
    monkeypatch.setattr("accel.training.loop.json", SimpleNamespace(dumps=fail))
    assert mistake(*train(tmp_path / "run", house.data)) == f"{tmp_path / 'run' / METRICS}: No space left on device"
