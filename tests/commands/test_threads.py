"""How many threads train a model, and where a run stores their number."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

from accel import cli, cpu, ref
from accel.commands import threads
from accel.cpu.support import threads as of_process
from tests.fixtures.toy_house import House


def job(**shapes: tuple[int, ...]) -> Any:
    return SimpleNamespace(model=SimpleNamespace(parameter_shapes=lambda config: shapes), config=None)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of threads that a command sets, in a process that has four threads."""
    numbers: list[int] = []
    monkeypatch.setattr(of_process, "available_threads", lambda: 4)
    monkeypatch.setattr(numba, "set_num_threads", numbers.append)
    monkeypatch.setattr(of_process.blas, "_libraries", lambda: ())
    return numbers


def test_a_narrow_model_is_trained_by_one_thread(used: list[int]) -> None:
    narrow, wide = threads.LEAST_WIDTH - 1, threads.LEAST_WIDTH
    assert threads.width(job(table=(50_000, narrow), bias=(9_000,))) == narrow
    assert threads.use_threads(Namespace(threads=None), cpu, job(table=(50_000, narrow))) == 1
    assert threads.use_threads(Namespace(threads=None), cpu, job(weight=(4 * wide, wide))) == 4
    assert threads.use_threads(Namespace(threads=3), cpu, job(table=(50_000, narrow))) == 3
    assert threads.use_threads(Namespace(threads=9), cpu, job(table=(50_000, narrow))) == 4
    assert threads.use_threads(Namespace(threads=None), ref, job(table=(50_000, narrow))) is None
    assert used == [1, 4, 3, 4]
    assert threads.note(1) == ["1 of 4 threads: more make so narrow a model slower; --threads 4 uses all"]
    assert not threads.note(4) and not threads.note(None)


def test_a_gpst_is_trained_by_all_threads_from_a_smaller_width_on(used: list[int]) -> None:
    for width, model, count in ((64, "gpst", 4), (63, "gpst", 1), (64, "gpt2", 1)):
        gpst = SimpleNamespace(**vars(job(weight=(256, width))) | {"config": SimpleNamespace(model=model)})
        assert threads.use_threads(Namespace(threads=None), cpu, gpst) == count  # type: ignore[arg-type]


def test_a_model_is_used_by_a_process_for_every_thread_unless_it_is_wide(used: list[int]) -> None:
    for width, count in ((threads.MOST_WIDTH, 4), (threads.MOST_WIDTH + 1, 1)):
        model: Any = SimpleNamespace(
            parameters={"table": np.zeros((9_000, width), np.float16), "bias": np.zeros(9_000)}
        )
        assert threads.processes(cpu, model) == count and threads.processes(ref, model) == 1


def test_a_run_keeps_its_number(tmp_path: Path, used: list[int]) -> None:
    """A resumed run takes the number of threads from its configuration, whatever the width of the model."""
    run, path = House(tmp_path, ("tg",)).folder / "tg", tmp_path / "tg" / "config.json"
    config = json.loads(path.read_text())
    assert config["options"]["threads"] == 1 and used == [1]
    config["options"]["threads"] = 3
    path.write_text(json.dumps(config))
    assert cli.main(["train", "--resume", "--out", str(run), "--steps", "7"]) == 0
    assert used == [1, 3] and json.loads(path.read_text())["options"]["threads"] == 3
