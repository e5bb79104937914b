"""The folder of a report: the setting of a run, and the rows of every part, one line of JSON each, as they are made."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DONE, MISSING, FAILED, BEGUN = "done", "missing", "failed", "begun"
PR_SET_PDEATHSIG = 1
Row = tuple[str, Callable[[], dict[str, Any]]]  # a name, and what makes its figures


class Missing(Exception):  # noqa: N818
    """A tool that this machine lacks; the message is the line that the report shows."""


@dataclass(frozen=True)
class Setting:
    """Where the report is written, and what it measures: a GPU, or a stand-in; steps of the table, or small ones."""

    out: Path
    stand_in: bool
    small: bool

    def ops(self) -> ModuleType:
        """Return the CUDA backend; raise Missing if it cannot run."""
        import accel

        if self.stand_in:
            from accel.verify.cuda_host.launcher import host_backend

            return host_backend()
        try:
            return accel.load("cuda")
        except accel.BackendUnavailable as reason:
            raise Missing(str(reason)) from reason

    def synchronise(self) -> None:
        """Wait for the GPU."""
        if not self.stand_in:
            import cupy

            cupy.cuda.Device().synchronize()

    def options(self) -> list[str]:
        """Return the options that make this setting again."""
        flags = [f"--{name.replace('_', '-')}" for name in ("stand_in", "small") if getattr(self, name)]
        return ["--out", str(self.out), *flags]


def path_of(out: Path, part: str) -> Path:
    return out / f"{part}.jsonl"


def read_rows(out: Path, part: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a part by name; a later line of a name replaces an earlier one, half a line is left out."""
    return {row["row"]: row for row in read_lines(path_of(out, part))}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines; the last line may have been cut off."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def append_line(path: Path, content: dict[str, Any]) -> None:
    """Write a line; after a line that was cut off, begin a new one."""
    with open(path, "a+b") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write((json.dumps(content) + "\n").encode())


def keep_done(out: Path, part: str) -> None:
    """Leave out the rows that are not done, so that they are made again."""
    rows = [row for row in read_rows(out, part).values() if row["status"] == DONE]
    if path_of(out, part).exists():
        write(path_of(out, part), "".join(json.dumps(row) + "\n" for row in rows))


def write(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def dies_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run_command(command: Sequence[str], log: Path, seconds: float | None = None) -> int:
    """Run a command in the checkout, its output in a file; return its status, 124 if it took longer than that."""
    with open(log, "ab") as file:
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            preexec_fn=dies_with_parent if sys.platform == "linux" else None,
        )  # fmt: skip
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return 124


def one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
