"""Zip and tar archives (also .gz, .xz) read like folders: ``data.zip/raw/train.tsv`` is a file in ``data.zip``."""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from posixpath import basename, normpath
from typing import BinaryIO

BROKEN = (
    zipfile.BadZipFile,
    NotImplementedError,  # zipfile raises it
    tarfile.TarError,
    lzma.LZMAError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
)
"""The errors that reading raises if a file is no archive, or a damaged one."""


def archive_of(path: Path) -> Path | None:
    """Return the archive that a path leads into: the parent that is a file; None if there is none."""
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
    except RuntimeError as error:  # zipfile raises it: encrypted, or packed in an unknown way
        raise zipfile.BadZipFile(str(error)) from error


def open_members(archive: Path, suffix: str) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield the files of an archive whose names end with `suffix`, unpacked, in one pass; raises one of BROKEN."""
    if zipfile.is_zipfile(archive):
        for name in _members(archive):
            if name.endswith(suffix):
                yield archive / name, open_member(archive, name)
        return
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.isfile() and member.name.endswith(suffix) and not _of_macos(member.name):
                yield archive / normpath(member.name), io.BytesIO(packed.extractfile(member).read())  # type: ignore[union-attr]


def find_member(archive: Path, name: str) -> Path:
    """Return the path of the file `name`, in any folder of the archive.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file; if there are several, or `archive` is not an archive.
    """
    matches = [member for member in names_in(archive) if f"/{member}".endswith(f"/{name}")]
    if not matches:
        raise FileNotFoundError(errno.ENOENT, "no such file in this archive", f"{archive}/{name}")
    if len(matches) > 1:
        raise ValueError(f"{archive}: holds both {matches[0]} and {matches[1]}")
    return archive / matches[0]


def names_in(archive: Path, wanted: str = "a folder") -> list[str]:
    """Return the names of the files of an archive; ValueError, which says what was wanted, if it is no archive."""
    try:
        return _members(archive)
    except BROKEN as error:
        raise ValueError(no_archive(archive, error, wanted)) from error


def no_archive(path: Path, error: Exception, wanted: str) -> str:
    """Return the message for a file that is neither what was wanted nor an archive."""
    return f"{path}: neither {wanted} nor an archive that can be opened ({cause(error)}): give one, as .zip or .tar.gz"


def cause(error: Exception) -> str:
    """Return the reason of one of BROKEN in a few words."""
    text = str(error)  # where it begins with "file could not be opened", tarfile lists all forms that it tried
    return "no form of tar or zip" if text.startswith("file could not be opened") else text


def _members(archive: Path) -> list[str]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            return [name for name in packed.namelist() if not _of_macos(name)]
    with tarfile.open(archive) as packed:
        return [normpath(member.name) for member in packed if member.isfile() and not _of_macos(member.name)]


def _of_macos(name: str) -> bool:
    """Say whether a member is what macOS packs beside a file `x`, as `._x`: icons and dates, no text."""
    return basename(name).startswith("._")
