"""Published ALBERTs: the files that are read, how words are split, and files that are refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.data.vocabularies.albert import FIRST, AlbertPieces, train_albert_pieces
from accel.models.albert import model as albert
from accel.trained.albert_weights import read_albert
from accel.trained.opening import open_model
from accel.trained.torch_file import read_torch_file
from accel.training.checkpoint import CheckpointError
from tests.fixtures.albert_files import TEXT, config_of, pieces, published, write_albert
from tests.fixtures.cpu_backend import CPU

VOCABULARY = pieces()
CONFIG = config_of(len(VOCABULARY))


def parameters_of() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {name: draw.standard_normal(x.shape).astype(np.float32) for name, x in albert.initialise(CONFIG, 0).items()}


@pytest.mark.parametrize("prefix", ["", "albert."])
def test_a_folder_becomes_a_run(tmp_path: Path, grove: Callable[..., str], prefix: str) -> None:
    parameters = parameters_of()
    folder = write_albert(tmp_path / "model", parameters, prefix)
    out = grove("import", folder, "--kind", "albert", "--out", tmp_path / "run")
    assert out.splitlines() == [str(tmp_path / "run" / "best.safetensors")]
    model = open_model(CPU, tmp_path / "run")
    assert model.config == CONFIG and model.vocabulary == VOCABULARY
    for name, x in parameters.items():
        np.testing.assert_array_equal(model.parameters[name], x)
    grove("export", tmp_path / "run", tmp_path / "exported")
    card = (tmp_path / "exported" / "README.md").read_text()
    assert "A model of the kind `albert`, imported with grove-lm " in card
    assert "trained with" not in card and "| steps |" not in card


def test_a_model_without_heads(tmp_path: Path, grove: Callable[..., str]) -> None:
    parameters = {name: x for name, x in parameters_of().items() if not name.startswith(("narrow", "output_bias"))}
    folder = write_albert(tmp_path / "model", parameters)
    out = grove("import", folder, "--kind", "albert", "--out", tmp_path / "run")
    assert out.startswith("not among the weights, drawn at random: narrow, output_bias\n")


def test_options_of_the_other_kind(tmp_path: Path, mistake: Callable[..., str]) -> None:
    words = mistake("import", tmp_path, "--kind", "albert", "--model", "lstm", "--out", tmp_path / "run")
    assert words == "--model: is for language models of FastTrees; leave it out"
    assert mistake("import", tmp_path, "--out", tmp_path / "run").startswith("--model is missing")
    here = mistake("import", tmp_path, "--kind", "albert", "--out", tmp_path)
    assert here == f"--out {tmp_path}: this command reads it: name another directory"


def test_words() -> None:
    """Words are read in lower case, without accents, with one kind of quotation mark; an unknown letter is <unk>."""
    assert VOCABULARY.encode_words(["Caf\u00e9", "``Dog''"]) == VOCABULARY.encode_words(["cafe", '"dog"'])
    assert VOCABULARY.decode(VOCABULARY.encode_words("The old DOG".split())) == ["the", "old", "dog"]
    assert VOCABULARY.ids["<unk>"] in VOCABULARY.encode_words(["\u4e00"])
    assert VOCABULARY.encode_words([FIRST])[0] != VOCABULARY.ids[FIRST]
    assert AlbertPieces.from_json(VOCABULARY.to_json()) == VOCABULARY


def test_pieces_that_cannot_be() -> None:
    for size, fewest in ((1, ""), (7, "36 or ")):
        with pytest.raises(ValueError, match=f"^vocabulary size {size}, but every .* is a piece; use {fewest}more$"):
            train_albert_pieces(TEXT, size)
    assert len(train_albert_pieces(TEXT, 36)) == 36
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        AlbertPieces(b"nothing")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bert"}, "describes a bert"),
        ({"num_hidden_groups": 2}, "num_hidden_groups is 2; only 1 is known"),
        ({"hidden_act": "relu"}, "activation: 'relu'"),
        ({"vocab_size": 99}, "pieces, but the vocab_size"),
        ({"hidden_size": 16}, "tensor encoder.embedding_hidden_mapping_in.weight has shape"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        read_albert(write_albert(tmp_path / "model", parameters_of(), **changes))


def test_a_configuration_of_something_else(tmp_path: Path) -> None:
    folder = write_albert(tmp_path / "model", parameters_of())
    (folder / "config.json").write_text('{"model": "fasttrees"}')
    with pytest.raises(
        CheckpointError, match="config.json: vocab_size is missing: no configuration of an ALBERT: give "
    ):
        read_albert(folder)


def test_missing_files_and_tensors(tmp_path: Path) -> None:
    parameters = parameters_of()
    folder = write_albert(tmp_path / "model", {name: x for name, x in parameters.items() if name != "position"})
    with pytest.raises(CheckpointError, match="tensor embeddings.position_embeddings.weight is missing"):
        read_albert(folder)
    write_albert(folder, parameters | {"widen": np.full_like(parameters["widen"], np.nan)})
    with pytest.raises(CheckpointError, match="holds a NaN"):
        read_albert(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="has neither model.safetensors nor pytorch_model.bin"):
        read_albert(folder)
    (folder / "spiece.model").unlink()
    with pytest.raises(CheckpointError, match="spiece.model: cannot be read"):
        read_albert(folder)


@pytest.mark.parametrize("archive", [True, False])
def test_files_of_pytorch(tmp_path: Path, archive: bool) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")
    parameters = parameters_of()
    folder = write_albert(tmp_path / "model", parameters)
    (folder / "model.safetensors").unlink()
    tensors = {name: torch.from_numpy(x) for name, x in published(parameters).items()}
    tensors["pooler.weight"] = torch.from_numpy(parameters["pooler"]).T  # its memory is not contiguous
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=archive)
    _, weights, _ = read_albert(folder)
    for name, x in parameters.items():
        np.testing.assert_array_equal(weights[name], x)
    whole = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="cannot be read as a file of torch.save"):
        read_albert(folder)


class _Harm:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harmed"),)


def test_nothing_in_a_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(pickle.dumps(_Harm()))
    with pytest.raises(CheckpointError, match="which is no part of a tensor"):
        read_torch_file(path)
    assert not Path("harmed").exists()
