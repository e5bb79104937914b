"""Weights with the names of the released code: which ones are converted, and which are refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import accel
from accel import cli
from accel.models.fasttrees import language_model
from accel.models.fasttrees.stack import KINDS
from accel.trained.opening import open_model
from accel.trained.released import read_released
from accel.training.checkpoint import CheckpointError
from tests.fixtures.text_files import write_text

Tensors = dict[str, np.ndarray]


def released(kind: str, n_words: int = 9) -> tuple[language_model.Config, Tensors, Tensors]:
    """Return a configuration, parameters, and the same parameters under the names of the released code."""
    variant = "released" if kind == "conv_fasttrees" else "paper"
    chunk = 1 if kind == "lstm" else 4  # the weights of an LSTM do not show it
    config = language_model.Config(n_words, kind, 8, 12, 3, chunk, variant=variant)
    p = language_model.initialise(config, 1)
    theirs = {"encoder.weight": p["embedding"], "decoder.weight": p["embedding"], "decoder.bias": p["output_bias"]}
    for layer in range(3):
        for part in ("weight", "bias"):
            theirs[f"rnn.cells.{layer}.ih.0.{part}"] = p[f"cells.{layer}.ih.{part}"]
            if kind == "faster_fasttrees":  # the released code saves weights that it does not use
                rows, hidden = len(p[f"cells.{layer}.ih.bias"]), config.stack.hidden_sizes[layer]
                unused = np.ones((rows, hidden) if part == "weight" else rows, np.float32)
                theirs[f"rnn.cells.{layer}.hh.{part}"] = unused
            else:
                theirs[f"rnn.cells.{layer}.hh.{part}"] = p[f"cells.{layer}.hh.{part}"]
            if kind == "conv_fasttrees":
                for name in ("conv1", "net.0"):
                    theirs[f"rnn.convnet.{layer}.{name}.{part}"] = p[f"cells.{layer}.conv.{part}"]
    return config, p, {name: x.copy() for name, x in theirs.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_released_weights_are_converted(tmp_path: Path, kind: str) -> None:
    config, p, theirs = released(kind)
    save_file(theirs, tmp_path / "weights")
    file_config, parameters = read_released(tmp_path / "weights", kind)
    assert file_config == config and list(parameters) == list(p)
    for name, x in p.items():
        np.testing.assert_array_equal(parameters[name], x)


def test_an_imported_model_is_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [write_text(tmp_path / name, 30, seed) for seed, name in enumerate(("train", "valid"))]
    n_words = len({word for text in texts for word in text.read_text().split()}) + 1
    _, p, theirs = released("fasttrees", n_words)
    save_file(theirs, tmp_path / "weights")
    command = ["import", tmp_path / "weights", "--model", "fasttrees", "--text", *texts, "--out", tmp_path / "run"]
    assert cli.main([str(x) for x in command]) == 0
    model = open_model(accel.load("cpu"), tmp_path / "run")
    np.testing.assert_array_equal(model.parameters["cells.2.hh.weight"], p["cells.2.hh.weight"])
    assert model.vocabulary.words[:2] == tuple(texts[0].read_text().split()[:2])
    assert cli.main(["perplexity", "--checkpoint", str(tmp_path / "run"), "--text", str(texts[1])]) == 0
    capsys.readouterr()
    assert cli.main([str(x) for x in command]) == 2
    assert "holds a run already" in capsys.readouterr().err
    (tmp_path / "run" / "best.safetensors").unlink()
    for name in ("config.json", "vocabulary.json"):  # files of something else
        assert cli.main([str(x) for x in command]) == 2
        assert f"{tmp_path}/run/{name}: is there already: choose another directory" in capsys.readouterr().err
        (tmp_path / "run" / name).unlink()
    (tmp_path / "one").write_text("w1\n")
    command = [*command[:5], tmp_path / "one", "--out", tmp_path / "other"]
    assert cli.main([str(x) for x in command]) == 2
    assert f"has {n_words} words, but the texts have" in capsys.readouterr().err


def _shorten(tensors: Tensors, name: str) -> None:
    tensors[name] = tensors[name][:-1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("rnn.cells.1.hh.weight"), "tensor rnn.cells.1.hh.weight is missing"),
        (lambda t: t.pop("encoder.weight"), "tensor encoder.weight is missing"),
        (lambda t: _shorten(t, "decoder.bias"), "tensor decoder.bias has shape (8,), not (9,)"),
        (lambda t: _shorten(t, "rnn.cells.2.ih.0.weight"), "tensor rnn.cells.2.ih.0.weight has shape (35, 12), not"),
        (lambda t: _shorten(t, "rnn.cells.0.ih.0.weight"), "tensor rnn.cells.0.ih.0.weight has 5 rows of master gates"),
        (lambda t: t.update({"encoder.weight": np.ones(3, np.float32)}), "encoder.weight has shape (3,), not two"),
        (lambda t: t.update({"decoder.weight": np.ones((9, 8), np.float32)}), "tensor decoder.weight is not encoder"),
        (lambda t: t.update({"rnn.more": np.ones(1, np.float32)}), "tensor rnn.more belongs to no fasttrees language"),
        (lambda t: t["rnn.cells.1.ih.0.bias"].fill(np.nan), "tensor rnn.cells.1.ih.0.bias holds a NaN"),
    ],
)  # fmt: skip
def test_wrong_weights_are_named(tmp_path: Path, change: Callable[[Tensors], object], words: str) -> None:
    _, _, theirs = released("fasttrees")
    change(theirs)
    save_file(theirs, tmp_path / "weights")
    with pytest.raises(CheckpointError) as error:
        read_released(tmp_path / "weights", "fasttrees")
    assert str(error.value).startswith(f"{tmp_path}/weights: ") and words in str(error.value)
    assert "\n" not in str(error.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("no weights")
    for path in (tmp_path / "weights", tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
            read_released(path, "lstm")
    header = b'{"x":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    (tmp_path / "bf16").write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
    with pytest.raises(CheckpointError, match="bf16: data type 'bfloat16' not understood: convert the tensors to fl"):
        read_released(tmp_path / "bf16", "lstm")
    with pytest.raises(CheckpointError, match="^.*: is a directory: name the .safetensors file in it$"):
        read_released(tmp_path, "lstm")
