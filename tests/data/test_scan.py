"""SCAN: its files, the held-out examples, and a trained model's accuracy at every length."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accel.data.batches.sequence_pairs import TextPair
from accel.data.files.lines import LineError
from accel.data.published.scan import SPLITS, file_name, read_scan
from tests.fixtures.command_line import Grove
from tests.fixtures.parallel_text import SMALL


def test_commands_and_actions(tmp_path: Path) -> None:
    path = tmp_path / "tasks"
    path.write_text("IN: jump twice OUT: I_JUMP I_JUMP\r\nIN: run OUT: I_RUN\n")
    assert list(read_scan(path)) == [
        TextPair(("jump", "twice"), ("I_JUMP", "I_JUMP"), 1, 2),
        TextPair(("run",), ("I_RUN",), 2, 1),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not IN: and a command, then OUT: and its actions"),
        ("run OUT: I_RUN", "not IN: and a command, then OUT: and its actions"),
        ("IN: run I_RUN", "not IN: and a command, then OUT: and its actions"),
        ("IN: run OUT: I_RUN OUT: I_RUN", "not IN: and a command, then OUT: and its actions"),
        ("IN: OUT: I_RUN", "nothing after IN:"),
        ("IN: run OUT:", "nothing after OUT:"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "tasks"
    path.write_text(f"IN: run OUT: I_RUN\n{line}\n")
    with pytest.raises(LineError) as error:
        list(read_scan(path))
    assert str(error.value) == f"{path}:2: {message}"


def test_splits_have_files() -> None:
    assert file_name("test", "length") == "tasks_test_length.txt"
    with pytest.raises(ValueError, match="unknown split 'jump': choose one of simple, length, addprim_jump"):
        file_name("train", "jump")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    verbs = ("jump", "run", "walk", "look", "turn")
    counts = (("", 1), (" twice", 2), (" thrice", 3))
    lines = [f"IN: {verb}{word} OUT:{f' I_{verb.upper()}' * n}\n" for verb in verbs for word, n in counts]
    (tmp_path / "tasks_train_length.txt").write_text("".join(lines * 4))
    (tmp_path / "tasks_test_length.txt").write_text("".join(lines) + "IN: swim OUT: I_SWIM\n")
    return tmp_path


def test_trained_and_evaluated(folder: Path, run_grove: Grove) -> None:
    arguments = ("--task", "scan", "--split", "length", "--data", folder, "--steps", 200, "--batch-size", 150)
    status, _, err = run_grove("train", *arguments, "--out", folder / "run", *SMALL)
    assert status == 0, err
    assert "57 pairs, 3 held out" in err
    accuracies = json.loads((folder / "run" / "evaluation.json").read_text())["accuracy"]
    assert accuracies == {"all": 15 / 16, "1 actions": pytest.approx(5 / 6), "2 actions": 1.0, "3 actions": 1.0}


def test_mistakes(folder: Path, run_grove: Grove) -> None:
    def failed(*more: object) -> str:
        status, _, err = run_grove("train", "--task", "scan", "--data", folder, "--out", folder / "run", *SMALL, *more)
        assert status == 2 and not (folder / "run").exists()
        return err

    assert "tasks_train_simple.txt" in failed()
    assert "--split jump: choose one of " in failed("--split", "jump")
    assert "tasks_train_length.txt:3: source and target have 7 tokens" in failed("--split", "length", "--batch-size", 6)
    with (folder / "tasks_test_length.txt").open("a") as file:
        file.write("sink\n")
    assert "tasks_test_length.txt:17: " in failed("--split", "length")  # before the training


COUNTS = {"simple": (16_728, 4_182), "length": (16_990, 3_920), "addprim_jump": (14_670, 7_706)}


@pytest.mark.parametrize("split", SPLITS)
def test_real_files(data_dir: Path, split: str) -> None:
    train, test = (list(read_scan(data_dir / "scan" / f"{file_name(part, split)}.xz")) for part in ("train", "test"))
    assert (len(train), len(test)) == COUNTS[split]
    known_words = {word for pair in train for word in (*pair.source, *pair.target)}
    assert known_words.issuperset(word for pair in test for word in (*pair.source, *pair.target))
    if split == "length":
        assert max(int(pair.kind) for pair in train) < min(int(pair.kind) for pair in test) == 24
