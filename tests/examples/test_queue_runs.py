"""The runs of the queues: their order, their options, the data that they name."""

from __future__ import annotations

import re

import pytest

from accel import cli
from accel.commands import induction, train
from examples.gpst import measure
from examples.gpu_runs import GPU_RUNS
from examples.queue_runs import RUNS
from examples.small_runs import SMALL_RUNS
from tests.fixtures.readme_blocks import ROOT


def test_every_run_can_be_made_in_its_order() -> None:
    paths = {"data": "D", "runs": "R", "run": "O", "best": "B"}
    for queued in (RUNS, SMALL_RUNS, GPU_RUNS):
        for number, run in enumerate(queued):
            assert {before.name for before in queued[:number]}.issuperset((*run.needs, *run.after))
            assert run.commands and run.hours > 0 and all(command.format(**paths) for command in run.commands)
        assert len({run.name for run in queued}) == len({run.name.replace("/", "-") for run in queued}) == len(queued)


def test_the_pages_name_the_data() -> None:
    """DATA.md has a row for each folder, with each file that a run names; RESULTS.md has the folders of small runs."""
    page = (ROOT / "examples/DATA.md").read_text(encoding="utf-8")
    files_of = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    [small] = re.findall(
        r"`data` needs the folders ([^;]+)", (ROOT / "examples/RESULTS.md").read_text(encoding="utf-8")
    )
    texts = {queued: " ".join(text for run in queued for text in (*run.commands, *run.data))
             for queued in (RUNS, SMALL_RUNS, GPU_RUNS)}  # fmt: skip
    assert set(files_of) == set(re.findall(r"\{data\}/(\w+)", " ".join(texts.values())))
    assert set(re.findall(r"`(\w+)`", small)) == set(re.findall(r"\{data\}/(\w+)", texts[SMALL_RUNS]))
    for folder, name in set(re.findall(r"\{data\}/(\w+)/(\S+)", " ".join(texts.values()))):
        start, dot, end = name.partition(".lc.")  # multi30k's files are listed by their beginnings and ends
        assert f"`{name}`" in files_of[folder] or (dot and f"`{start}`" in files_of[folder] and end in files_of[folder])


def test_trainings_of_the_queues_have_the_options_that_they_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "run", lambda options: 0)
    words = [command.split() for queued in (RUNS, SMALL_RUNS, GPU_RUNS) for run in queued for command in run.commands]
    assert len(trainings := [rest for program, *rest in words if program == "accel.cli" and rest[0] == "train"]) > 50
    for arguments in trainings:
        assert cli.main(arguments) == 0, arguments


def test_measures_of_the_queues_have_the_options_that_they_give(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {"data": "D", "runs": "R", "run": "O", "best": "B"}
    monkeypatch.setattr(induction, "run", lambda options: 0)
    for arguments in (command.format(**paths).split() for run in (*RUNS, *GPU_RUNS) for command in run.commands):
        if arguments[0] == "examples.gpst.measure":
            options = measure.read_options(arguments[1:])
            assert len(options.gold) == (0 if options.induction is None else 2)
        elif arguments[:2] == ["accel.cli", "induction"]:
            assert cli.main(arguments[1:]) == 0


def test_runs_on_a_gpu_are_trained_there() -> None:
    for run in GPU_RUNS:
        commands = [x for x in run.commands if x.startswith("accel.cli")]
        assert commands or run.name == "treebanks"
        assert all(x.endswith(" --backend cuda" + " --kernels fast" * ("cli train" in x)) for x in commands)
