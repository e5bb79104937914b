"""Parameters in a flat vector: aligned for a GPU, without gaps for a processor, in the same form in a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import accel
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import run as runs
from accel.training.checkpoint import Checkpoint, load
from accel.training.communicator import serial
from accel.training.run import NEWEST
from accel.training.settings import TrainingConfig
from tests.fixtures.stand_in_gpu import host_backend
from tests.fixtures.toy_run import CONFIG, SURE, TRAINING, metrics, run

__all__ = ["host_backend"]

SHORT = replace(TRAINING, steps=4)


def started(ops: ModuleType, training: TrainingConfig = SHORT) -> runs.Run:
    return runs.start(ops, transformer_grammar, CONFIG, training, serial(), "")


def loaded(path: Path) -> Checkpoint:
    return load(path, transformer_grammar.parameter_shapes(CONFIG))


def test_a_gpu_s_parameters_are_aligned(host_backend: ModuleType) -> None:
    """So are the gradients and the moments: all vectors have the same places, and the gaps are zeros."""
    there, here = started(host_backend), started(accel.load("cpu"))
    for views, vector in ((there.parameters, there.vector), (there.gradients, there.gradient)):
        assert {(view.ctypes.data - vector.ctypes.data) % 256 for view in views.values()} == {0}
    assert there.vector.size > here.vector.size == sum(view.size for view in here.parameters.values())
    assert np.abs(there.vector).sum(dtype=np.float64) == pytest.approx(np.abs(here.vector).sum(dtype=np.float64))


def test_checkpoints_are_those_of_a_processor(host_backend: ModuleType, tmp_path: Path) -> None:
    """A processor's checkpoint that a GPU reads and saves again is the same bit for bit, averages included."""
    for name, training in (("adam", SHORT), ("nt_asgd", replace(SHORT, optimizer="nt_asgd", nonmonotone=1))):
        run(tmp_path / name, training=training)
        before, state = loaded(tmp_path / name / NEWEST), started(host_backend, training)
        position = runs.restore_run(state, tmp_path / name / NEWEST)
        runs.save_run(state, tmp_path / name / "again", position)
        after = loaded(tmp_path / name / "again")
        assert after.state == before.state and list(after.optimizer) == list(before.optimizer)
        for one, other in [
            (after.parameters, before.parameters),
            *((after.optimizer[vector], before.optimizer[vector]) for vector in before.optimizer),
        ]:
            assert all(np.array_equal(one[name], other[name]) for name in other)


def test_padding_changes_no_step(host_backend: ModuleType, tmp_path: Path) -> None:
    """A run with clipping, weight decay and a separate rate resumes on a GPU with the same steps."""
    training = replace(
        TRAINING, steps=3, schedule="constant", clip_norm=0.1, weight_decay=0.1, own_rate_of="layers.1", own_rate=1e-4
    )
    run(tmp_path / "here", config=SURE, training=training)
    run(tmp_path / "there", config=SURE, training=replace(training, steps=1))
    run(tmp_path / "there", config=SURE, training=training, backend="cuda", resume=True)
    here, there = (metrics(tmp_path / name)[1:] for name in ("here", "there"))
    assert there == [pytest.approx(line, rel=1e-5) for line in here]
