"""The average of the last checkpoints: the mean of each parameter, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accel.trained.average import AVERAGE, average_checkpoints
from accel.training.checkpoint import Checkpoint, CheckpointError, load, read_state, save
from accel.training.run import KEPT, kept_checkpoints

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
    path = average_checkpoints(tmp_path, SHAPES, last=3)
    assert path == tmp_path / AVERAGE  # how it does on the validation data is not known
    assert read_state(path) == STATE | {"step": 1200, "averaged_steps": [1000, 1100, 1200]}
    for name, mean in load(path, SHAPES).parameters.items():
        assert mean.dtype == np.float32
        np.testing.assert_allclose(mean, np.mean([x[name].astype(float) for x in weights[1:]], axis=0), rtol=1e-6)


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
