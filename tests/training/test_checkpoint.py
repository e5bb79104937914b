"""Checkpoints: arrays survive saving, damaged files are named, and a full disk leaves the old file intact."""

from __future__ import annotations

import errno
import json
import os
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from accel.training.checkpoint import FORMAT, Checkpoint, CheckpointError, announce, load, read_state, save

SHAPES = {"embedding": (300, 40), "layers.0.bias": (40,)}


def example(seed: int = 0) -> Checkpoint:
    random = np.random.default_rng(seed)

    def draw() -> dict[str, np.ndarray]:
        return {name: random.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}

    memory = [random.standard_normal((3, 40)).astype(np.float32) for _ in range(11)]
    state = {"step": 7, "position": {"trees": [1, -1]}, "best": None, "vocabulary": "“ß”", "seed": 2**63}
    return Checkpoint(draw(), state, {"first": draw(), "second": draw()}, memory)


def assert_same(loaded: Checkpoint, expected: Checkpoint) -> None:
    assert loaded.state == expected.state
    assert list(loaded.optimizer) == list(expected.optimizer)
    pairs = [(loaded.parameters, expected.parameters)]
    for one, other in [*pairs, *((loaded.optimizer[name], expected.optimizer[name]) for name in expected.optimizer)]:
        assert list(one) == list(other)
        for name, tensor in other.items():
            np.testing.assert_array_equal(one[name], tensor)
    assert len(loaded.memory) == len(expected.memory)
    for rows, expected_rows in zip(loaded.memory, expected.memory, strict=True):
        np.testing.assert_array_equal(rows, expected_rows)


def test_everything_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    save(path, example())
    assert_same(load(path, SHAPES), example())
    assert read_state(path) == example().state
    save(path, example(1))
    assert_same(load(path, SHAPES), example(1))
    assert os.listdir(tmp_path) == [path.name], "a temporary file was left"


def test_processes_that_save_one_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one process waits for its disk, another one saves the same file."""
    path, processes, synchronise = tmp_path / "average.safetensors", iter((1, 2)), os.fsync

    def save_meanwhile(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", synchronise)
        save(path, example(2))
        synchronise(descriptor)

    monkeypatch.setattr(os, "getpid", lambda: next(processes))
    monkeypatch.setattr(os, "fsync", save_meanwhile)
    save(path, example(1))
    assert_same(load(path, SHAPES), example(1))
    assert os.listdir(tmp_path) == [path.name], "a temporary file was left"


def test_an_announced_checkpoint_is_complete_when_it_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    announce(path)
    assert os.listdir(tmp_path) == [f"{path.name}.partial"]
    save(path, example())
    assert os.listdir(tmp_path) == [path.name]


def test_a_model_without_training_state(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    bare = Checkpoint(example().parameters, {"step": 1})
    save(path, bare)
    assert_same(load(path, SHAPES), bare)


def test_a_slice_of_another_array_is_saved_as_it_reads(tmp_path: Path) -> None:
    parameters = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    parameters["embedding"] = np.arange(12_000, dtype=np.float32).reshape(40, 300).T
    save(tmp_path / "x", Checkpoint(parameters, {}))
    np.testing.assert_array_equal(load(tmp_path / "x", SHAPES).parameters["embedding"], parameters["embedding"])


def damage(path: Path, change: str) -> None:
    """Write the example checkpoint with the one fault that `change` names."""
    one = example()
    parameters, first = dict(one.parameters), dict(one.optimizer["first"])
    if change == "missing":
        del parameters["layers.0.bias"]
    elif change == "missing moment":
        del first["embedding"]
    elif change == "extra":
        parameters["layers.1.bias"] = np.zeros(3, np.float32)
    elif change == "shape":
        parameters["embedding"] = parameters["embedding"][:, :39]
    elif change == "type":
        parameters["embedding"] = parameters["embedding"].astype(np.int32)
    elif change == "nan":
        parameters["layers.0.bias"][3] = np.nan
    elif change == "infinity":
        one.memory[10][0, 0] = np.inf
    save(path, replace(one, parameters=parameters, optimizer=one.optimizer | {"first": first}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("missing", "tensor parameters.layers.0.bias is missing"),
        ("missing moment", "tensor first.embedding is missing"),
        ("extra", "tensor parameters.layers.1.bias belongs to no such model"),
        ("shape", "tensor parameters.embedding has shape (300, 39), not (300, 40)"),
        ("type", "tensor parameters.embedding has type int32, not float32 or float64"),
        ("nan", "tensor parameters.layers.0.bias holds a NaN or an infinity"),
        ("infinity", "tensor memory.10 holds a NaN or an infinity"),
    ],
)
def test_a_wrong_tensor_is_named(tmp_path: Path, change: str, words: str) -> None:
    path = tmp_path / "run.safetensors"
    damage(path, change)
    with pytest.raises(CheckpointError) as error:
        load(path, SHAPES)
    assert str(error.value) == f"{path}: {words}"


def test_a_damaged_tensor_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    save(path, example())
    content = bytearray(path.read_bytes())
    begin = content.index(example().optimizer["second"]["embedding"].tobytes())
    content[begin + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as error:
        load(path, SHAPES)
    reason = "tensor second.embedding is damaged: its bytes are not those that were saved"
    assert str(error.value) == f"{path}: {reason}; use another checkpoint or a copy of this one"


def test_no_changed_byte_goes_unnoticed(tmp_path: Path) -> None:
    """If one byte of a file changes, the file is refused, or is read right (a change in the header's spaces)."""
    path, shapes = tmp_path / "run.safetensors", {"a": (2, 3), "b": (1,)}
    tensors = {
        name: np.arange(1.0, 1.0 + np.prod(shape), dtype=np.float32).reshape(shape) for name, shape in shapes.items()
    }
    whole = Checkpoint(tensors, {"step": 7, "rate": 0.1}, {"first": tensors}, [np.ones((2, 1), np.float32)])
    save(path, whole)
    content, n_read = path.read_bytes(), 0
    for position in range(len(content)):
        for bit in (1, 16):
            path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
            try:
                result = load(path, shapes)
            except CheckpointError as error:
                assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            else:
                n_read += 1
                assert_same(replace(result, state={name: result.state[name] for name in whole.state}), whole)
    assert n_read < 40 < len(content) / 10


def test_a_checkpoint_of_an_older_version_has_no_digests(tmp_path: Path) -> None:
    one, path = example(), tmp_path / "run.safetensors"
    tensors = {f"parameters.{name}": tensor for name, tensor in one.parameters.items()}
    save_file(tensors, path, metadata={FORMAT: json.dumps(one.state)})
    assert_same(load(path, SHAPES), Checkpoint(one.parameters, one.state))


@pytest.mark.parametrize("length", [0, 4, 50, 2_000, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "run.safetensors"
    save(path, example())
    path.write_bytes(path.read_bytes()[:length])
    for reader in (read_state, lambda path: load(path, SHAPES)):
        with pytest.raises(CheckpointError) as error:
            reader(path)
        assert str(error.value).startswith(f"{path}: truncated, or not a safetensors file; use ")
        assert "\n" not in str(error.value)


def test_files_that_are_no_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nothing: cannot be read: "):
        load(tmp_path / "nothing", SHAPES)
    with pytest.raises(CheckpointError, match="cannot be read: "):
        load(tmp_path, SHAPES)
    save_file({"x": np.zeros(3, np.float32)}, tmp_path / "other")
    with pytest.raises(CheckpointError, match=f"other: is not a '{FORMAT}': its metadata names nothing$"):
        load(tmp_path / "other", SHAPES)


def test_a_file_without_permission_to_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was called missing, and its path came twice."""
    path = tmp_path / "run.safetensors"
    save(path, example())

    def refuse(name: Path, mode: str) -> None:  # root may read everything
        raise PermissionError(errno.EACCES, "Permission denied", str(name))

    monkeypatch.setattr("accel.training.checkpoint.open", refuse, raising=False)
    for reader in (read_state, lambda path: load(path, SHAPES)):
        with pytest.raises(CheckpointError) as error:
            reader(path)
        assert str(error.value) == f"{path}: cannot be read: Permission denied"


def assert_refused_and_intact(path: Path, before: Checkpoint, words: str) -> None:
    with pytest.raises(CheckpointError, match=words) as error:
        save(path, example(1))
    assert str(error.value).startswith(f"{path}: not saved: ") and "\n" not in str(error.value)
    assert str(error.value).endswith("; the former checkpoint is intact")
    assert_same(load(path, SHAPES), before)
    assert os.listdir(path.parent) == [path.name], "a temporary file was left"


def test_a_full_disk_leaves_the_former_checkpoint(tmp_path: Path) -> None:
    """The system refuses to write more than 20,000 bytes, which is in the middle of the file."""
    path = tmp_path / "run.safetensors"
    save(path, example())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        assert_refused_and_intact(path, example(), "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_late_failure_leaves_the_former_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "run.safetensors"
    save(path, example())

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    assert_refused_and_intact(path, example(), "No space left on device")


def test_a_first_checkpoint_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not saved: .*; there was none before$"):
        save(tmp_path / "no such folder" / "x", example())
