"""The metrics of a run: the lines of its `metrics.jsonl`, one a step, and the same as events of TensorBoard."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import IO

from accel.training.run import METRICS

SUFFIX = ".grove"  # ends the names of event files, so that a later export finds those that it replaces

Line = dict[str, float]


def open_metrics(path: Path, step: int, rank: int) -> IO[str]:
    """Open the metrics for appending, without lines after `step`, which an interrupted run may have left."""
    if rank > 0:
        return open(os.devnull, "w", encoding="utf-8")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[:step] if path.exists() else []
    temporary = path.with_suffix(".temporary")
    temporary.write_text("".join(lines), encoding="utf-8")
    os.replace(temporary, path)
    return open(path, "a", encoding="utf-8")


def metrics_file(path: Path) -> Path:
    """Return the file of a run's metrics, given by its folder or by the file; ValueError if the folder has none."""
    if path.is_dir() and not (path / METRICS).exists():
        raise ValueError(f"{path}: no run, for it has no {METRICS}; name a directory that `grove train` wrote")
    return path / METRICS if path.is_dir() else path


def read_metrics(path: Path) -> list[Line]:
    """Return the lines of a file of metrics; an unfinished last line is left out.

    Raises
    ------
    ValueError
        If a line is not one of metrics, or holds a NaN or an infinity; the message names the file and the line.
    """
    lines: list[Line] = []
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True), 1):
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if line is None and not text.endswith("\n"):
            break  # a step that is being written
        if not isinstance(line, dict) or not {"step", "loss"} <= line.keys() or not all(map(_is_number, line.values())):
            raise ValueError(f"{path}:{number}: not the metrics of a step: give a run's folder or its {METRICS}")
        for name, value in line.items():
            if not isfinite(value):
                raise ValueError(
                    f"{path}:{number}: {name} is {value}: metrics are finite numbers, as grove train writes"
                )
        lines.append(line)
    if not lines:
        raise ValueError(f"{path}: holds no metrics yet: they are written step by step")
    return lines


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def write_events(lines: Sequence[Line], directory: Path, end: float) -> int:
    """Write every value as a TensorBoard event, and return how many; events of an earlier export are replaced.

    `end` is the time of the last step, in seconds since 1970; the times of the others follow from their seconds.

    Raises
    ------
    ModuleNotFoundError
        If tensorboardX, which writes the format, is not installed; the message says how to install it.
    """
    try:
        from tensorboardX import SummaryWriter
    except ModuleNotFoundError as error:
        message = "TensorBoard's events need tensorboardX: pip install 'grove-lm[tensorboard]'"
        raise ModuleNotFoundError(message, name=error.name) from error
    for earlier in directory.glob(f"events.out.tfevents.*{SUFFIX}"):
        earlier.unlink()
    remaining = sum(line.get("seconds", 0.0) for line in lines)
    count = 0
    with SummaryWriter(str(directory), filename_suffix=SUFFIX) as writer:
        for line in lines:
            remaining -= line.get("seconds", 0.0)
            for name, value in line.items():
                if name != "step":
                    writer.add_scalar(name, value, int(line["step"]), walltime=end - remaining)
                    count += 1
    return count
