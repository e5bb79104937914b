"""The folder of `examples.queue`: the state, the lock and the result of every run, and the status of all runs."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from accel.training.checkpoint import read_state
from accel.training.metrics import read_metrics
from accel.training.run import METRICS, NEWEST
from examples.provenance import digests, machine
from examples.queue_commands import Run


def of(folder: Path, kind: str, run: Run | str, ending: str = "json") -> Path:
    """Return the path of the state, the log or the result of a run."""
    name = run if isinstance(run, str) else run.name
    return folder / kind / f"{name.replace('/', '-')}.{ending}"


def state_of(folder: Path, run: Run) -> dict[str, Any]:
    path = of(folder, "state", run)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def result(folder: Path, run: Run, data: Path, state: dict[str, Any]) -> dict[str, Any]:
    """Return the provenance of a run, its curve, and the figures of its commands, without paths of this machine."""
    runs, directory = folder / "runs", folder / "runs" / run.name
    files = [Path(name.format(data=data, runs=runs)) for name in run.data]
    files = [file for path in files for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    files = [file for file in files if not file.is_dir()]
    content: dict[str, Any] = {"name": run.name, "table": run.table, "seed": run.seed, "commit": state["commit"],
                             "data": digests(files), "machine": machine() | {"threads": 1},
                             "core_hours": round(state["hours"], 4), "commands": list(run.commands)}  # fmt: skip
    if (directory / NEWEST).exists():
        trained = read_state(directory / NEWEST)
        content["settings"] = {name: trained[name] for name in ("config", "training")}
        lines = read_metrics(directory / METRICS)
        names = [name for name in ("validation_loss", "validation_accuracy") if name in lines[-1]]
        content |= {name: [[line["step"], line[name]] for line in lines if name in line] for name in names}
        content["last_step"] = lines[-1]
        if names:
            content["still_improving"] = is_last_best(trained["results"], trained["best"])
    for path in sorted(path for pattern in run.figures for path in runs.glob(pattern.format(run=run.name))):
        text = path.read_text(encoding="utf-8").replace(f'"{runs}', '"{runs}').replace(f'"{data}', '"{data}')
        figures = json.loads(text)
        if isinstance(figures.get("rows"), list):
            del figures["rows"]  # one for every sentence
        content.setdefault("figures", {})[path.relative_to(runs).as_posix()] = figures
    return content


def is_last_best(validations: Sequence[float], best: float) -> bool:
    """Return whether the last validation is the best one, and better than all before it.

    `best` may also be from a validation after the last step of a run that was lengthened later.

    >>> is_last_best([0.5, 0.7], 0.7), is_last_best([0.7, 0.5, 0.7], 0.7), is_last_best([0.5, 0.6], 0.7)
    (True, False, False)
    """
    return validations[-1] == best and best not in validations[:-1]


def f1_of(results: Path, name: str) -> float | None:
    """Return the F1 of a run by its result file, None if there is no file or no F1 in it."""
    path = results / of(results, "", name).name
    figures = json.loads(path.read_text(encoding="utf-8")).get("figures", {}) if path.exists() else {}
    return next((float(scores["f1"]) for scores in figures.values() if "f1" in scores), None)


def best(results: Path, names: Iterable[str]) -> str:
    """Return the name of the run with the highest F1."""
    f1 = {name: value for name in names if (value := f1_of(results, name)) is not None}
    return max(f1, key=lambda name: f1[name])


def status(folder: Path, queued: Sequence[Run]) -> str:
    """Return the runs that are done, the core hours that are left, and the tables that can be written."""
    lines, hours_left, tables = [], 0.0, dict[str, list[bool]]()
    for run in queued:
        state, is_done = state_of(folder, run), of(folder, "results", run).exists()
        share, step = 1.0 if is_done else 0.0, ""
        if not is_done and (path := folder / "runs" / run.name / NEWEST).exists():
            trained = read_state(path)
            share, step = trained["step"] / trained["training"]["steps"], f"step {trained['step']:,}"
        hours_left += run.hours * (1 - share)
        tables.setdefault(run.table, []).append(is_done)
        run_state = (
            "done" if is_done else "running" if is_alive(of(folder, "state", run, "lock")) else "begun" if state else ""
        )
        lines.append(
            f"{run_state:8}{run.name:32}{state.get('hours', 0.0):6.2f} of about {run.hours:5.2f} core hours  {step}"
        )
    lines.append(f"left: about {hours_left:.1f} core hours")
    for table, runs in tables.items():
        availability = "complete" if all(runs) else "in part" if any(runs) else "not yet"
        lines.append(f"{table}: {sum(runs)} of {len(runs)} runs done; table can be written: {availability}")
    return "\n".join(lines)


def lock(file: IO[str]) -> bool:
    """Lock a file for this process and its children; return whether no other process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_pid(file: IO[str], pid: int) -> None:
    file.truncate(0)
    file.write(f"{pid}\n")
    file.flush()


def end_left_over(lock_file: IO[str]) -> None:
    """End the process that holds the lock of a run, and take the lock."""
    lock_file.seek(0)
    pid = lock_file.read().strip()
    if not lock(lock_file):
        if pid:
            os.kill(int(pid), signal.SIGTERM)
        fcntl.flock(lock_file, fcntl.LOCK_EX)
    lock_file.truncate(0)


def is_alive(path: Path) -> bool:
    """Return whether the process whose number is in a file is alive; the lock is not touched."""
    pid = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    try:
        os.kill(int(pid or 0), 0)
    except (ProcessLookupError, PermissionError):  # none, or of another user
        return False
    return bool(pid)
