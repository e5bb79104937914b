"""The lock of a run's directory: one training at a time writes there; with several processes rank 0 holds the lock.

The operating system keeps the lock (flock), and releases it when the process ends, for whatever reason. The file
`run.lock` names the process for people and for other hosts, which may not see the system's lock.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from accel.data.files.written import named
from accel.training.run import TrainingError

try:
    import fcntl
except ModuleNotFoundError:
    raise ModuleNotFoundError("Windows cannot lock a run's directory: use the Windows Subsystem for Linux") from None

LOCK = "run.lock"
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)  # of a file system without flock


class Holder(NamedTuple):
    """The process that a lock file names."""

    pid: int
    host: str


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which is made if it is missing, and removed if it is still empty at the end.

    Raises
    ------
    TrainingError
        If another process holds the lock, or one of another host may hold it. The lock of a dead process of this host
        is taken over.
    """
    new_folders = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / LOCK
    try:
        descriptor = _take(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)
    finally:
        with suppress(OSError):  # the first folder that is not empty ends the loop
            for folder in new_folders:
                folder.rmdir()


def holder(directory: Path) -> Holder | None:
    """Return the process that holds the lock of a directory; one of this host is returned only if it lives."""
    owner = _named(directory / LOCK)
    return None if owner is None or (owner.host == socket.gethostname() and not _lives(owner.pid)) else owner


def _take(path: Path) -> int:
    """Lock the lock file, write this process into it, and return its descriptor."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            has_flock = _flock(path, descriptor)
            if not path.exists() or os.stat(path).st_ino != os.fstat(descriptor).st_ino:
                os.close(descriptor)  # its last holder has removed it meanwhile
                continue
            owner = _named(path)
            if owner is not None and (owner.host != socket.gethostname() or not has_flock and _lives(owner.pid)):
                advice = f"if it has ended, remove {path}"
                raise TrainingError(f"{path.parent}: process {owner.pid} on {owner.host} trains this run; {advice}")
            _write(path, descriptor)
            return descriptor
        except BaseException:
            os.close(descriptor)
            raise


def _write(path: Path, descriptor: int) -> None:
    """Write this process into the locked file; if that fails, as on a full disk, remove it; OSError names the file."""
    try:
        with named(str(path)):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _flock(path: Path, descriptor: int) -> bool:
    """Lock the file, and return whether its file system has locks; raise TrainingError if another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _named(path)
        process = "another process" if owner is None else f"process {owner.pid} on {owner.host}"
        raise TrainingError(f"{path.parent}: {process} trains this run; wait for its end, or end it") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def _named(path: Path) -> Holder | None:
    """Return the process that a lock file names; None if there is no file, or it is not written yet."""
    try:
        pid, host = path.read_text(encoding="utf-8").split()
        return Holder(int(pid), host)
    except (FileNotFoundError, ValueError):
        return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True
