"""The weights of a trained model by name, and the same model with other ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accel import trained
from accel.trained.weights import read_weights, write_weights
from accel.training.checkpoint import Checkpoint, CheckpointError, read_state
from accel.training.directory import EXPORTED
from accel.training.run import BEST
from tests.fixtures.tiny_runs import save_tiny

N_SYMBOLS = 14  # of the tiny vocabulary


def test_other_weights_make_another_model_of_the_same_kind(tmp_path: Path) -> None:
    run = save_tiny(tmp_path / "run", "tg")
    weights = read_weights(run)
    bias = np.arange(len(weights["output_bias"]), dtype=np.float64)
    write_weights(run, tmp_path / "new" / "folder", {"output_bias": bias})
    model = trained.open(tmp_path / "new" / "folder")
    assert model.kind == "tg" and model.vocabulary == trained.open(run).vocabulary
    assert model.parameters["output_bias"].dtype == np.float32
    np.testing.assert_array_equal(model.parameters["output_bias"], bias)
    np.testing.assert_array_equal(model.parameters["embedding"], weights["embedding"])
    assert not any(key.startswith("validation_") for key in read_state(model.path))
    np.testing.assert_array_equal(read_weights(run / BEST)["output_bias"], weights["output_bias"])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"bias": np.zeros(3)}, "bias: no parameter of .*, which has embedding, output_bias"),
        ({"output_bias": np.zeros(3)}, r"output_bias: shape \(3,\), but in .* \(\d+,\)"),
        ({"output_bias": np.full(N_SYMBOLS, np.nan)}, "output_bias: holds a NaN"),
        ({"output_bias": np.full(N_SYMBOLS, 1e300)}, "output_bias: .* a number too large for float32"),
    ],
)
def test_weights_that_do_not_fit_write_nothing(tmp_path: Path, weights: dict[str, np.ndarray], message: str) -> None:
    run = save_tiny(tmp_path / "run", "tg")
    with pytest.raises(ValueError, match=message):
        write_weights(run, tmp_path / "new", weights)
    assert not (tmp_path / "new").exists()
    with pytest.raises(CheckpointError, match="does not exist"):
        read_weights(tmp_path / "new")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, checkpoint: Checkpoint) -> None:
        raise CheckpointError(f"{path}: no space left")

    run = save_tiny(tmp_path / "run", "tg")
    monkeypatch.setattr("accel.trained.weights.save", fail)
    with pytest.raises(CheckpointError, match=f"{tmp_path / 'new' / EXPORTED}: no space left"):
        write_weights(run, tmp_path / "new", {})
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    run = save_tiny(tmp_path / "run", "tg")
    with pytest.raises(FileExistsError):
        write_weights(run, run, {})
