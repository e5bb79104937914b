"""Files that have their name only once they are complete; the old one stays until then."""

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
    """Name the file in an OSError that has no name, as one of writing to an open file, on a full disk."""
    try:
        yield
    except OSError as error:
        raise error if error.filename else OSError(error.errno, error.strerror, name) from error


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which replaces the old one only when it is complete.

    Of a link, the file that it names is replaced. A device or a pipe, such as /dev/null, is written as it is, and a
    file that is open, such as /dev/fd/3, where it has come to.

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

    What was flushed stays there if the work is interrupted: a KeyboardInterrupt names the file. Such a file of earlier
    work is kept, and the new one called `<path>.2.part`. A device, a pipe or an open file is written as it is.

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
    """Yield the temporary file of `path`, which gets its name when it is complete; OSError names `path`."""
    try:
        descriptor = _descriptor(path)
        with open(temporary if descriptor is None else os.dup(descriptor), "wb") as file:
            yield file
        if temporary != path:
            os.replace(temporary, os.path.realpath(path))
    except OSError as error:
        if error.filename not in (None, str(temporary)):  # of another file
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
