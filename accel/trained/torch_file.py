"""The tensors of a file that `torch.save` wrote, without PyTorch and without running functions that a pickle names.

Only the few functions and types that tensors are made of are accepted in a pickle; any other name is an error. Both
formats are read: the archive of PyTorch 1.6 and later, and the stream of pickles before it.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accel.training.checkpoint import CheckpointError, Tensors

_TYPES = {
    "DoubleStorage": np.float64, "FloatStorage": np.float32, "HalfStorage": np.float16, "LongStorage": np.int64,
    "IntStorage": np.int32, "ShortStorage": np.int16, "CharStorage": np.int8, "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}  # fmt: skip
_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a stream


class _Storage(NamedTuple):
    """A flat array of numbers that tensors are views of; the numbers are read after the pickle."""

    key: str
    dtype: Any
    size: int


class _View(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch_file(path: Path) -> Tensors:
    """Return the tensors of a file by their names.

    Raises
    ------
    CheckpointError
        If the file cannot be read, names anything but tensors, or is cut off.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                [name] = [name for name in archive.namelist() if name.endswith("/data.pkl")]
                views = _Reader(io.BytesIO(archive.read(name))).load()
                folder = name.removesuffix("data.pkl")
                return _tensors(views, lambda storage: archive.read(f"{folder}data/{storage.key}"))
        with path.open("rb") as file:
            return _stream(file)
    except CheckpointError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, IndexError, AttributeError, pickle.UnpicklingError,
            zipfile.BadZipFile) as error:  # fmt: skip
        raise CheckpointError(f"{path}: cannot be read as a file of torch.save: {error}") from error


def _stream(file: io.BufferedReader) -> Tensors:
    """Return the tensors of a stream: three pickles about its format, one of views, one of keys; then the numbers."""
    if _Reader(file).load() != _MAGIC:
        raise ValueError("it does not begin with the magic number of such files")
    _Reader(file).load(), _Reader(file).load()  # the version, and the sizes of integers
    views, keys = _Reader(file).load(), _Reader(file).load()
    storages = {view.storage.key: view.storage for view in views.values() if isinstance(view, _View)}
    numbers = {}
    for key in keys:
        count = int(np.frombuffer(file.read(8), np.int64)[0])
        numbers[key] = file.read(count * np.dtype(storages[key].dtype).itemsize)
    return _tensors(views, lambda storage: numbers[storage.key])


def _tensors(views: dict[str, Any], numbers: Callable[[_Storage], bytes]) -> Tensors:
    """Return the tensors that are views of storages, as copies."""
    if not isinstance(views, dict):
        raise ValueError(f"it holds a {type(views).__name__}, not tensors by name")
    tensors = {}
    for name, view in views.items():
        if not isinstance(view, _View):
            raise ValueError(f"{name} is a {type(view).__name__}, not a tensor")
        flat = np.frombuffer(numbers(view.storage), view.storage.dtype)
        last = view.offset + sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
        if 0 not in view.shape and not 0 <= view.offset <= last < len(flat):
            raise ValueError(f"{name} is cut off: it has {len(flat)} numbers, not {last + 1}")
        strides = tuple(step * flat.itemsize for step in view.strides)
        tensors[name] = np.lib.stride_tricks.as_strided(flat[view.offset :], view.shape, strides).copy()
    return tensors


def _rebuild(storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *rest: Any) -> _View:
    return _View(storage, offset, shape, strides)


def _rebuild_parameter(view: _View, *rest: Any) -> _View:
    return view


class _Reader(pickle.Unpickler):
    """Reads a pickle of tensors; any other name in it raises an error before anything of it is called."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "torch.storage") and name in _TYPES:
            return _TYPES[name]
        builders = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
            ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
        }
        if (module, name) not in builders:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no part of a tensor")
        return builders[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, count, *_ = pid
        if kind != "storage":
            raise pickle.UnpicklingError(f"it refers to a {kind}, not to numbers")
        return _Storage(str(key), dtype, int(count))
