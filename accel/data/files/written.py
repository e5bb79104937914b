"""Files that get their name only when they are complete; an old file of that name stays until then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import BinaryIO


def is_special(path: Path) -> bool:
    """Return whether a path names a device, a pipe, or a file that is open, as /dev/fd/3 does."""
    return _descriptor(path) is not None or (path.exists() and not path.is_file() and not path.is_dir())


def _descriptor(path: Path) -> int | None:
    """Return the number of the open file that a path such as /dev/stderr or /dev/fd/3 names; None if it names none."""
    link = path.parent / os.readlink(path) if path.is_symlink() else path
    for one in (path, link):
        if one.name.isdecimal() and os.path.realpath(one.parent) == os.path.realpath("/dev/fd"):
            return int(one.name)
    return None


@contextmanager
def named(name: str) -> Iterator[None]:
    """Add the file's name to an OSError that has none, such as that of a write to an open file on a full disk."""
    try:
        yield
    except OSError as error:
        raise error if error.filename else OSError(error.errno, error.strerror, name) from error


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which replaces the old one only when it is complete.

    If `path` is a link, the file that it points to is replaced. A device or a pipe, such as /dev/null, is written
    directly. An open file, such as /dev/fd/3, is written directly, too, from its current position on.

    Raises
    ------
    OSError
        With the name of the file, as on a full disk.
    """
    target = Path(os.path.realpath(path))
    temporary = path if is_special(path) else target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with _renamed(path, temporary) as file:
            yield file
    finally:
        if temporary != path:
            temporary.unlink(missing_ok=True)


@contextmanager
def growing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which replaces the old one when it is complete, and is called `<path>.part` until then.

    If the work is interrupted, the flushed bytes stay in that file, and the KeyboardInterrupt names it. If earlier work
    has left such a file, it is kept, and the new one is called `<path>.2.part`. A device, a pipe or an open file is
    written directly.

    Raises
    ------
    OSError
        With the name of the file, as on a full disk.
    """
    target = Path(os.path.realpath(path))
    names = (target.with_name(f"{target.name}{f'.{k}' if k > 1 else ''}.part") for k in count(1))
    part = path if is_special(path) else next(name for name in names if not name.exists())
    try:
        with _renamed(path, part) as file:
            yield file
    except KeyboardInterrupt as stop:
        if part != path and part.stat().st_size:
            stop.args = (f"interrupted: what is done is in {part}",)
        raise
    finally:
        if part != path and part.exists() and not part.stat().st_size:
            part.unlink()


@contextmanager
def _renamed(path: Path, temporary: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file, which is renamed to `path` when it is complete; an OSError names `path`."""
    try:
        descriptor = _descriptor(path)
        with open(temporary if descriptor is None else os.dup(descriptor), "wb") as file:
            yield file
        if temporary != path:
            os.replace(temporary, os.path.realpath(path))
    except OSError as error:
        if error.filename not in (None, str(temporary)):  # the error is about another file
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
