"""Encoded files: one-dimensional arrays, written once as a stream, and memory-mapped afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike

from accel.data.files.archive import archive_of
from accel.data.files.lines import open_bytes
from accel.data.files.noted import note


def load_encoded(
    path: str | Path | Sequence[Path],
    cache: str | Path,
    description: str,
    dtypes: Mapping[str, DTypeLike],
    encode: Callable[[dict[str, Growing]], None],
) -> dict[str, np.ndarray]:
    """Return the arrays of one file or several by name, memory-mapped from a folder in `cache`.

    A file may be in an archive. The folder has the name of the first file and a hash, which covers the files' bytes and
    the `description` of their encoding. An existing folder is used again; otherwise `encode` fills the arrays. The
    folder appears when it is complete.
    """
    paths = [Path(path)] if isinstance(path, (str, Path)) else list(path)
    digest = hashlib.sha256(description.encode())
    for number, name in enumerate(paths):
        note(archive_of(name) or name)
        if number:
            digest.update(f"file {number}".encode())
        with open(name, "rb") if archive_of(name) is None else open_bytes(name) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    cache = Path(cache)
    folder = cache / f"{paths[0].name}.{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".encoding-", dir=cache))
        try:
            with ExitStack() as files:
                encode({name: files.enter_context(Growing(partial, name, dtype)) for name, dtype in dtypes.items()})
            os.replace(partial, folder)
        except OSError as error:
            if not folder.is_dir():  # otherwise another process has written it
                raise OSError(error.errno, error.strerror, error.filename or str(folder)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    try:
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in dtypes}
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{folder}: damaged: {error}; remove this folder, and it is written again") from error


class Growing:
    """A one-dimensional .npy file that is written piece by piece."""

    def __init__(self, folder: Path, name: str, dtype: DTypeLike) -> None:
        self.size = 0
        self._dtype = np.dtype(dtype)
        self._file = open(folder / f"{name}.npy", "wb")
        self._write_header()

    def append(self, values: Iterable[int]) -> None:
        array = np.asarray(values, self._dtype)
        self._file.write(array.tobytes())
        self.size += len(array)

    def __enter__(self) -> Growing:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()  # the header has room for any size
            self._file.flush()
            os.fsync(self._file.fileno())

    def _write_header(self) -> None:
        fields = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.size,)}
        npy.write_array_header_1_0(self._file, fields)
