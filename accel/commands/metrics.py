"""`grove metrics`: the last values of a run's metrics as a table, and all of them as events of TensorBoard."""

from __future__ import annotations

import argparse
from pathlib import Path

from accel.commands.tables import print_table
from accel.training.metrics import Line, metrics_file, read_metrics, write_events
from accel.training.run import METRICS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=f"a run's folder, or its {METRICS}")
    parser.add_argument(
        "--tensorboard", type=Path, metavar="DIR", help="write the metrics of each run to DIR/RUN as TensorBoard events"
    )


def run(options: argparse.Namespace) -> int:
    if options.tensorboard is not None and options.tensorboard.is_file():
        raise ValueError(f"--tensorboard {options.tensorboard}: a file: name a folder")
    for path in options.runs:
        if path.suffix == ".safetensors":
            raise ValueError(f"{path}: a checkpoint, which has no metrics: name its run, {path.parent}")
    files = [metrics_file(path).resolve() for path in options.runs]
    names = [path.parent.name if path.name == METRICS else path.stem for path in files]
    twice = next((name for name in names if names.count(name) > 1), None)
    if options.tensorboard is not None and twice is not None:
        raise ValueError(f"--tensorboard: two runs are called {twice!r}: export one of them into another folder")
    for number, (path, name) in enumerate(zip(files, names, strict=True)):
        lines = read_metrics(path)
        if options.tensorboard is None:
            print(f"\n{name}" if number else name)
            print_table(_table(lines), 1)
        else:
            folder = options.tensorboard / name
            print(f"{folder}: {write_events(lines, folder, path.stat().st_mtime):,} events")
    if options.tensorboard is not None:
        print(f"tensorboard --logdir {options.tensorboard}")
    return 0


def _table(lines: list[Line]) -> list[list[str]]:
    """Return a row for every metric: the last value, the least and the greatest, each with its step."""
    rows = [["metric", "last", "step", "least", "step", "greatest", "step"]]
    for name in dict.fromkeys(name for line in lines for name in line if name != "step"):
        steps = [line for line in lines if name in line]
        summary = (steps[-1], min(steps, key=lambda line: line[name]), max(steps, key=lambda line: line[name]))
        rows.append([name, *(cell for line in summary for cell in (f"{line[name]:.6g}", f"{line['step']:,}"))])
    return rows
