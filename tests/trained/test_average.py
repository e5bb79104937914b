"""The average of the last checkpoints: the mean of each parameter, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import accel
from accel.tasks.pairs import best_and_average
from accel.trained import average
from accel.trained.average import AVERAGE, average_checkpoints, averaged
from accel.trained.opening import Model, open_model
from accel.training.checkpoint import Checkpoint, CheckpointError, load, read_state, save
from accel.training.last_checkpoints import KEPT, kept_checkpoints
from tests.fixtures.tiny_runs import save_tiny

SHAPES = {"a": (2, 3), "b": (4,)}
STATE = {"model": "encoder_decoder", "config": {"d_model": 4}, "vocabulary": "v"}


def write(directory: Path, step: int, **changes: object) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(step)
    parameters = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    save(directory / KEPT.format(step), Checkpoint(parameters, STATE | {"step": step} | changes))
    return parameters


def test_mean_of_the_last(tmp_path: Path) -> None:
    weights = [write(tmp_path, step, validation_loss=step / 1000) for step in (900, 1000, 1100, 1200)]
    save(tmp_path / "checkpoint.safetensors", Checkpoint(weights[0], STATE))  # the newest state is not averaged
    assert [path.stem for path in kept_checkpoints(tmp_path)][0] == "checkpoint-00000900"
    result = average_checkpoints(tmp_path, SHAPES, last=3)  # how it does on the validation data is not known
    assert result.state == STATE | {"step": 1200, "averaged_steps": [1000, 1100, 1200]}
    for name, mean in result.parameters.items():
        assert mean.dtype == np.float32
        np.testing.assert_allclose(mean, np.mean([x[name].astype(float) for x in weights[1:]], axis=0), rtol=1e-6)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """A model whose run has kept two checkpoints, with 1 and with 3 in place of every parameter."""
    one = open_model(accel.load("cpu"), save_tiny(tmp_path / "run", "encoder_decoder"))
    state = read_state(one.path)
    for step, value in ((1, 1.0), (2, 3.0)):
        parameters = {name: np.full_like(x, value) for name, x in one.parameters.items()}
        save(tmp_path / "run" / KEPT.format(step), Checkpoint(parameters, state | {"step": step}))
    return one


def test_a_mean_is_used_as_it_was_computed(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may write the mean of other checkpoints to the same file, before this one goes on."""

    def save_another(path: Path, checkpoint: Checkpoint) -> None:
        parameters = {name: np.zeros_like(x) for name, x in checkpoint.parameters.items()}
        save(path, replace(checkpoint, parameters=parameters))

    monkeypatch.setattr(average, "save", save_another)
    ops = accel.load("cpu")
    for result in (averaged(ops, model, 2), *best_and_average(ops, model, 2).values()):
        assert result.path == model.path.with_name(AVERAGE) and result.parameters.keys() == model.parameters.keys()
        assert all((x == 2.0).all() for x in result.parameters.values())
    shapes = model.module.parameter_shapes(model.config)
    assert not any(x.any() for x in load(model.path.with_name(AVERAGE), shapes).parameters.values())


def test_a_mean_that_cannot_be_kept_is_used(
    model: Model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: Path, checkpoint: Checkpoint) -> None:
        raise CheckpointError(f"{path}: not saved: a reason")

    monkeypatch.setattr(average, "save", fail)
    assert all((x == 2.0).all() for x in averaged(accel.load("cpu"), model, 2).parameters.values())
    reason = f"the average is used, and not kept: {model.path.with_name(AVERAGE)}: not saved: a reason"
    assert capsys.readouterr().err == f"grove: {reason}\n"


def test_checkpoints_of_another_model_are_refused(model: Model) -> None:
    other = replace(model, config=replace(model.config, dropout=0.5))
    with pytest.raises(CheckpointError, match=f"run: its last checkpoints are not of the model in {model.path}$"):
        averaged(accel.load("cpu"), other, 2)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="keeps 0 checkpoints, not 2: train with --set keep_checkpoints=2$"):
        average_checkpoints(tmp_path, SHAPES, last=2)
    write(tmp_path, 1)
    use = "average at most 1, or train with --set keep_checkpoints=3$"
    with pytest.raises(CheckpointError, match=f"keeps 1 checkpoint, not 3: {use}"):
        average_checkpoints(tmp_path, SHAPES, last=3)
    write(tmp_path, 2, config={"d_model": 6})
    with pytest.raises(CheckpointError, match=r"00000002.safetensors: its config"):
        average_checkpoints(tmp_path, SHAPES, last=2)
    with pytest.raises(ValueError, match="last"):
        average_checkpoints(tmp_path, SHAPES, last=0)
