"""`grove train --resume` without a checkpoint: a run that lost it is refused, one killed early begins anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.training.run import BEST, NEWEST
from tests.fixtures.command_line import Grove
from tests.fixtures.toy_house import House


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A treebank, and a run of six steps."""
    return House(tmp_path_factory.mktemp("house"), ("tg",))


@pytest.fixture
def directory(house: House, tmp_path: Path) -> Path:
    """Return a copy of the run."""
    return Path(shutil.copytree(house.folder / "tg", tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_a_run_that_has_lost_its_checkpoint_is_refused(
    directory: Path, tmp_path: Path, mistake: Callable[..., str], run_grove: Grove
) -> None:
    shutil.move(directory / NEWEST, tmp_path / NEWEST)
    before = contents(directory)
    for options in ((), ("--steps", "9")):
        assert mistake("train", "--out", directory, "--resume", *options) == (
            f"{directory / NEWEST}: is missing, and a run cannot be resumed without it: put it back, choose another "
            f"directory with --out, or remove {directory} to train from the start"
        )
        assert contents(directory) == before
    (directory / BEST).unlink()  # now like a run killed before its first checkpoint
    status, _, err = run_grove("train", "--out", directory, "--resume")
    assert status == 0 and f"{directory}: no checkpoint is there: training starts from step 1" in err
    assert (directory / NEWEST).read_bytes() == (tmp_path / NEWEST).read_bytes()


def test_checkpoints_and_metrics_that_are_left_show_a_run_that_lost_its_checkpoint(
    directory: Path, mistake: Callable[..., str]
) -> None:
    """A run without validation has no best parameters; the six steps of this one are more than its first five."""
    (directory / BEST).unlink()
    (directory / NEWEST).rename(directory / "checkpoint-00000006.safetensors")
    missing = f"{directory / NEWEST}: is missing, and a run cannot be resumed without it"
    before = contents(directory)
    assert missing in mistake("train", "--out", directory, "--resume")
    assert contents(directory) == before
    (directory / f"{NEWEST}.partial").touch()  # incomplete: the step that saves the first one was its fifth at most
    assert missing in mistake("train", "--out", directory, "--resume", "--set", "checkpoint_every=5")
    (directory / f"{NEWEST}.partial").unlink()
    (directory / "checkpoint-00000006.safetensors").unlink()
    assert missing in mistake("train", "--out", directory, "--resume", "--set", "checkpoint_every=5")
