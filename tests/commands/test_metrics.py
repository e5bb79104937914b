"""`grove metrics`: a table of the last values of a run, and its metrics as events that TensorBoard reads."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.training.metrics import read_metrics

LINES = [
    {"step": 1, "loss": 4.0, "seconds": 2.0},
    {"step": 2, "loss": 1.5, "seconds": 1.0, "validation_loss": 2.5},
    {"step": 3, "loss": 2.0, "seconds": 0.5},
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "tg"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    os.utime(folder / "metrics.jsonl", (0, 1_000_000_000))
    return folder


def events(folder: Path) -> list[tuple[str, int, float, float]]:
    """Return tag, step, value and time of the events in the only file of a folder, record by record."""
    event = pytest.importorskip("tensorboardX.proto.event_pb2", reason="no tensorboardX: extra `tensorboard`").Event
    [path] = folder.iterdir()
    data, records = path.read_bytes(), []
    while data:
        [length] = struct.unpack("<Q", data[:8])  # a record: length, checksum of it, event, checksum of it
        records.append(event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return [(v.tag, one.step, v.simple_value, one.wall_time) for one in records for v in one.summary.value]


def test_the_last_values_are_printed(run: Path, grove: Callable[..., str]) -> None:
    lines = grove("metrics", run).splitlines()
    assert lines[0] == "tg" and lines[1].split() == "metric last step least step greatest step".split()
    rows = {line.split()[0]: line.split()[1:] for line in lines[2:]}
    assert rows["loss"] == ["2", "3", "1.5", "2", "4", "1"] and rows["validation_loss"] == ["2.5", "2"] * 3
    assert list(rows) == ["loss", "seconds", "validation_loss"]
    assert grove("metrics", run / "metrics.jsonl", run).count("metric ") == 2


def test_tensorboard_reads_what_was_written(run: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    for _ in range(2):  # the second export replaces the first
        out = grove("metrics", run, "--tensorboard", tmp_path / "board")
        assert out.splitlines() == [f"{tmp_path}/board/tg: 7 events", f"tensorboard --logdir {tmp_path}/board"]
    scalars = events(tmp_path / "board" / "tg")
    assert [(tag, step, value) for tag, step, value, _ in scalars] == [
        (name, line["step"], value) for line in LINES for name, value in line.items() if name != "step"
    ]
    assert [time for tag, _, _, time in scalars if tag == "loss"] == [1e9 - 1.5, 1e9 - 0.5, 1e9]


def test_a_line_that_is_being_written_is_left_out(run: Path) -> None:
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step": 4, "lo')
    assert read_metrics(run / "metrics.jsonl") == LINES


def test_mistakes(run: Path, tmp_path: Path, mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = run / "metrics.jsonl"
    for command in (["metrics", run.parent], ["draw", "loss", run.parent, "--out", tmp_path / "loss.svg"]):
        assert mistake(*command).startswith(f"{run.parent}: no run, for it has no metrics.jsonl; name a directory")
    wrong = f"{run}/best.safetensors: a checkpoint, which has no metrics: name its run, {run}"
    assert mistake("metrics", run / "best.safetensors") == wrong
    twice = mistake("metrics", run, run, "--tensorboard", tmp_path / "board")
    assert twice == "--tensorboard: two runs are called 'tg': export one of them into another folder"
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    message = mistake("metrics", run, "--tensorboard", tmp_path / "board")
    assert message == "TensorBoard's events need tensorboardX: pip install 'grove-lm[tensorboard]'"
    assert not (tmp_path / "board").exists()
    for text in ('{"step": 2}', '{"step": 2, "loss": "low"}', "[1]", "{"):
        path.write_text(json.dumps(LINES[0]) + f"\n{text}\n")
        reason = f"{path}:2: not the metrics of a step: give a run's folder or its metrics.jsonl"
        assert mistake("metrics", run) == reason
    for name, value in (("loss", "NaN"), ("validation_loss", "-Infinity"), ("loss", "1e999")):
        path.write_text(json.dumps(LINES[0]) + f'\n{{"step": 2, "loss": 1.5, "{name}": {value}}}\n')
        reason = f"{path}:2: {name} is {float(value)}: metrics are finite numbers, as grove train writes"
        assert mistake("metrics", run) == mistake("draw", "loss", run, "--out", tmp_path / "loss.svg") == reason
    path.write_text("")
    assert mistake("metrics", run) == f"{path}: holds no metrics yet: they are written step by step"
