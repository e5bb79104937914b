"""The lock of a run: it belongs to a process that lives, also where the file system has no locks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from accel.training import lock
from accel.training.run import TrainingError


def test_a_process_of_another_user_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError

    (tmp_path / lock.LOCK).write_text(f"1 {socket.gethostname()}\n")
    monkeypatch.setattr(lock.os, "kill", refuse)
    assert lock.holder(tmp_path) == (1, socket.gethostname())


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without file locks, the run is locked while the process that the file names is alive."""

    def no_locks(*arguments: object) -> None:
        raise OSError(lock.errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    with lock.locked(tmp_path / "run"):
        with pytest.raises(TrainingError, match=f"process {os.getpid()} on "), lock.locked(tmp_path / "run"):
            pass
    assert not (tmp_path / "run").exists()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / lock.LOCK).write_text(f"{dead.pid} {socket.gethostname()}\n")
    with lock.locked(tmp_path):
        assert lock.holder(tmp_path) == (os.getpid(), socket.gethostname())
