"""The provenance in every result file: the code, the data, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TRAINED_AT = "commit.txt"
"""The file of a run with the commit that trained it."""


def commit() -> str:
    """Return the commit of this file's checkout, with "+" if files were changed; or "unknown"."""
    folder = Path(__file__).parent
    command = ("git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> dict[str, Any]:
    """Return the processor, the cores that this process may use, and the threads of NumPy and Numba."""
    threads = os.environ.get("NUMBA_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
    return {"processor": _processor(), "cores": cores(), "threads": int(threads) if threads else cores()}


def cores() -> int:
    """Return how many cores this process may use; macOS knows only how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """Return the first 16 hexadecimal digits of the SHA-256 of every file, by `folder/name`."""
    digest_of = {}
    for path in paths:
        with open(path, "rb") as file:
            digest_of[f"{path.resolve().parent.name}/{path.name}"] = hashlib.file_digest(file, "sha256").hexdigest()[
                :16
            ]
    return digest_of


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return name[1].strip() if name else platform.processor() or platform.machine()
