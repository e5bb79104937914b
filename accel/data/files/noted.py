"""Which files were read: a training notes them, so that it resumes with the same data only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_notes: list[set[Path]] = []


@contextmanager
def noted() -> Iterator[set[Path]]:
    """Note the files of data that are opened while the context lasts, in the set that it returns.

    A file of an archive counts as the archive.
    """
    files: set[Path] = set()
    _notes.append(files)
    try:
        yield files
    finally:
        _notes.remove(files)


def note(path: Path) -> None:
    """Note a file; done by everything that opens files of data."""
    for files in _notes:
        files.add(Path(os.path.abspath(path)))
