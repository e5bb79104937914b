"""A zip or tar archive (.gz, .xz too) read like a folder: ``data.zip/raw/train.tsv`` is a file in ``data.zip``."""

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
    """Return the file among the folders of a path, if there is one."""
    return next((parent for parent in path.parents if parent.is_file()), None)


def open_member(archive: Path, name: str) -> BinaryIO:
    """Return a file of an archive, unpacked."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                return io.BytesIO(packed.read(name))
        with tarfile.open(archive) as packed:
            member = {normpath(one.name): one for one in packed if one.isfile()}[name]  # some begin with ./
            return io.BytesIO(packed.extractfile(member).read())  # type: ignore[union-attr]
    except KeyError:
        raise FileNotFoundError(errno.ENOENT, "no such file in this archive", f"{archive}/{name}") from None


def open_members(archive: Path, suffix: str) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield the files of an archive whose names end like this, unpacked, in one pass; raises as `members` does."""
    if zipfile.is_zipfile(archive):
        for name in members(archive):
            if name.endswith(suffix):
                yield archive / name, open_member(archive, name)
        return
    with tarfile.open(archive) as packed:
        for one in packed:
            if one.isfile() and one.name.endswith(suffix):
                yield archive / normpath(one.name), io.BytesIO(packed.extractfile(one).read())  # type: ignore[union-attr]


def find_member(archive: Path, name: str) -> Path:
    """Return the path of the file that ends like this, in whatever folder of the archive.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is none, or several; if this is no archive.
    """
    try:
        found = [member for member in members(archive) if f"/{member}".endswith(f"/{name}")]
    except (*BROKEN, EOFError) as error:
        raise ValueError(f"{archive}: neither a folder nor an archive: {error}") from error
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no such file in this archive", f"{archive}/{name}")
    if len(found) > 1:
        raise ValueError(f"{archive}: holds both {found[0]} and {found[1]}")
    return archive / found[0]


def members(archive: Path) -> list[str]:
    """Return the names of the files of an archive; raises one of BROKEN, or EOFError, where this is none."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            return packed.namelist()
    with tarfile.open(archive) as packed:
        return [normpath(one.name) for one in packed if one.isfile()]
