"""Files written in one step: afterwards a file is complete, or as it was before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def is_special(path: Path) -> bool:
    """Return whether a path names a device or a pipe."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which replaces the old one only when it is complete.

    Of a link, the file that it names is replaced. A device or a pipe, such as /dev/null, is written as it is.

    Raises
    ------
    OSError
        With the name of the file, as on a full disk.
    """
    special = is_special(path)
    target = Path(os.path.realpath(path))
    temporary = path if special else target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with open(temporary, "wb") as file:
            yield file
        if not special:
            os.replace(temporary, target)
    except OSError as error:
        if error.filename not in (None, str(temporary)):  # of another file
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if not special:
            temporary.unlink(missing_ok=True)
