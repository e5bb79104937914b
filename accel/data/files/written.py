"""Files written in one step: afterwards a file is complete, or as it was before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which replaces the old one only when it is complete.

    Of a link, the file that it names is replaced. A device or a pipe, such as /dev/null, is written as it is.

    Raises
    ------
    OSError
        With the name of the file, as on a full disk.
    """
    is_special = path.exists() and not path.is_file() and not path.is_dir()
    target = Path(os.path.realpath(path))
    temporary = path if is_special else target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with open(temporary, "wb") as file:
            yield file
        if not is_special:
            os.replace(temporary, target)
    except OSError as error:
        if error.filename not in (None, str(temporary)):  # of another file
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if not is_special:
            temporary.unlink(missing_ok=True)
