"""The length of a training in tokens, for models of text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accel import cli
from accel.data.batches.contexts import ContextBatches
from accel.training.run import METRICS
from tests.fixtures.snapshot_jobs import batches_of, folder, job_of
from tests.fixtures.toy_run import metrics
from tests.house.snapshot_cases import TRAININGS

__all__ = ["folder"]


def of_tokens(folder: Path, name: str, out: Path, *more: str) -> list[str]:
    """Return the command of a training of the snapshot, with `more` instead of its number of steps."""
    arguments = [x.replace("@/", f"{folder}/") for x in TRAININGS[name]]
    place = arguments.index("--steps")
    return [*arguments[:place], *arguments[place + 2 :], "--out", str(out), *more]


def test_a_run_reads_so_many_tokens_and_resumes(folder: Path, tmp_path: Path, capfd: Any) -> None:
    """A text of 2,637 tokens has 10 contexts: two batches an epoch. The last tokens of 6,000 are in the fifth batch."""
    whole, part = tmp_path / "whole", tmp_path / "cut"
    constant = ("--set", "schedule=constant", "--set", "warmup_steps=0")
    assert cli.main(of_tokens(folder, "gpt2", whole, "--tokens", "6e3", *constant)) == 0
    assert "6,000 tokens: 2.28 epochs, 5 steps" in capfd.readouterr().err
    assert cli.main(of_tokens(folder, "gpt2", part, "--tokens", "2637", *constant)) == 0
    assert len(metrics(part)) == 2
    assert cli.main(["train", "--out", str(part), "--resume", "--tokens", "6000"]) == 0
    assert [line["loss"] for line in metrics(part)] == [line["loss"] for line in metrics(whole)]
    assert cli.main(["train", "--out", str(part), "--resume", "--steps", "6"]) == 0
    assert len((part / METRICS).read_text().splitlines()) == 6
    assert json.loads((part / "config.json").read_text())["options"]["tokens"] is None


def test_steps_follow_from_the_tokens_of_an_epoch(folder: Path, tmp_path: Path) -> None:
    job = job_of(folder, "gpst")
    assert isinstance(job.batches, ContextBatches)
    n_tokens = sum(len(batch.ids) for batch in batches_of(job, len(job.batches)))
    assert str(f"{n_tokens:,} tokens") in job.description


def test_bad_lengths_are_refused(folder: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    run = of_tokens(folder, "gpt2", tmp_path / "run")
    for more, expected in (
        (("--tokens", "5e9", "--steps", "3"), "--tokens: --steps sets the length of the training, too; leave one of"),
        (("--tokens", "5e9", "--epochs", "3"), "--tokens: --epochs sets the length of the training, too; leave one of"),
        (("--epochs", "3", "--steps", "2"), "--epochs: --steps sets the length of the training, too; leave one of"),
        (("--tokens", "0.5"), "--tokens: 0.5, but tokens are counted in whole numbers from 1 on; use such as 5e9"),
        (("--tokens", "many"), "--tokens: many, but tokens are counted in whole numbers from 1 on; use such as 5e9"),
    ):
        assert mistake(*run, *more).startswith(expected)
    assert not (tmp_path / "run").exists()
