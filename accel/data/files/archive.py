"""Zip and tar archives (also .gz, .xz) read like folders: ``data.zip/raw/train.tsv`` is a file in ``data.zip``."""

from __future__ import annotations

import errno
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath
from typing import BinaryIO

BROKEN = (zipfile.BadZipFile, tarfile.TarError)


def archive_of(path: Path) -> Path | None:
    """Return the parent of a path that is a file, if there is one."""
    return next((parent for parent in path.parents if parent.is_file()), None)


def open_member(archive: Path, name: str) -> BinaryIO:
    """Return a file of an archive, unpacked."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                return io.BytesIO(packed.read(name))
        with tarfile.open(archive) as packed:
            member = {normpath(info.name): info for info in packed if info.isfile()}[name]  # some begin with ./
            return io.BytesIO(packed.extractfile(member).read())  # type: ignore[union-attr]
    except KeyError:
        raise FileNotFoundError(errno.ENOENT, "no such file in this archive", f"{archive}/{name}") from None


def open_members(archive: Path, suffix: str) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield the files of an archive whose names end with `suffix`, unpacked, in one pass; raises as `members` does."""
    if zipfile.is_zipfile(archive):
        for name in members(archive):
            if name.endswith(suffix):
                yield archive / name, open_member(archive, name)
        return
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.isfile() and member.name.endswith(suffix):
                yield archive / normpath(member.name), io.BytesIO(packed.extractfile(member).read())  # type: ignore[union-attr]


def find_member(archive: Path, name: str) -> Path:
    """Return the path of the file `name`, in any folder of the archive.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is none, or several; if the file is not an archive.
    """
    try:
        matches = [member for member in members(archive) if f"/{member}".endswith(f"/{name}")]
    except (*BROKEN, EOFError) as error:
        raise ValueError(f"{archive}: neither a folder nor an archive: {error}") from error
    if not matches:
        raise FileNotFoundError(errno.ENOENT, "no such file in this archive", f"{archive}/{name}")
    if len(matches) > 1:
        raise ValueError(f"{archive}: holds both {matches[0]} and {matches[1]}")
    return archive / matches[0]


def members(archive: Path) -> list[str]:
    """Return the names of the files of an archive; raises one of BROKEN, or EOFError, if it is not an archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            return packed.namelist()
    with tarfile.open(archive) as packed:
        return [normpath(member.name) for member in packed if member.isfile()]
