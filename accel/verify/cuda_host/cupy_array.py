"""A stand-in for CuPy's arrays that counts what a GPU would do: kernel launches, copies from the host, and waiting.

An operation that mixes an array of the device with one of the host is refused, as CuPy refuses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from accel.verify.cuda_host.cupy_graphs import done, made, refuse

KERNELS, COPIES, SYNCHRONISATIONS, GRAPHS = "kernels", "copies", "synchronisations", "graphs"
COMPRESSION = 3  # kernels that a selection by a mask launches
MODULE = ModuleType("cupy", "The stand-in: what Grove uses of CuPy.")
_counts: Counter[tuple[str, str]] = Counter()


@contextmanager
def counted() -> Iterator[Counter[tuple[str, str]]]:
    """Yield a counter of what happens inside, by kind and by the name of the function; it is filled on exit."""
    before, result = _counts.copy(), Counter[tuple[str, str]]()
    yield result
    result.update(_counts - before)


def totals(counts: Counter[tuple[str, str]]) -> dict[str, int]:
    """Return the numbers of kernels, copies and synchronisations; the kernels inside graphs are not among them."""
    return {kind: sum(n for (k, _), n in counts.items() if k == kind) for kind in (KERNELS, COPIES, SYNCHRONISATIONS)}


def count(kind: str, name: str, times: int = 1) -> None:
    if kind in (COPIES, SYNCHRONISATIONS):
        refuse(name)
    _counts[kind, name] += times


ELEMENTWISE = {
    "exp", "expm1", "log", "sqrt", "sin", "cos", "tanh", "sign", "minimum", "maximum", "isfinite", "isnan",
    "logical_and", "logical_or", "logical_not",
}  # fmt: skip


def memory(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of this one."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class ndarray:
    """An array of the device; `on_device` is the NumPy array that holds its numbers."""

    __slots__ = ("on_device", "__weakref__")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, on_device: np.ndarray) -> None:
        self.on_device = on_device

    shape = property(lambda self: self.on_device.shape)
    dtype = property(lambda self: self.on_device.dtype)
    ndim = property(lambda self: self.on_device.ndim)
    size = property(lambda self: self.on_device.size)
    itemsize = property(lambda self: self.on_device.itemsize)
    nbytes = property(lambda self: self.on_device.nbytes)
    strides = property(lambda self: self.on_device.strides)
    flags = property(lambda self: self.on_device.flags)
    data = property(lambda self: SimpleNamespace(ptr=self.on_device.ctypes.data, mem=memory(self.on_device)))
    T = property(lambda self: ndarray(self.on_device.T))

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed: use get()")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or ufunc.__name__ not in ELEMENTWISE | OPERATORS.keys():
            raise TypeError(f"numpy.{ufunc.__name__} ({method}) of an array of the device")
        return elementwise(ufunc, *inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return getattr(MODULE, function.__name__)(*args, **options)

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("an array of the device: use get()")

    def __len__(self) -> int:
        return len(self.on_device)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"on the device: {self.on_device!r}"

    def _to_host(self, name: str) -> np.ndarray:
        count(SYNCHRONISATIONS, name)
        return self.on_device.copy()

    def get(self) -> np.ndarray:
        return self._to_host("get")

    def set(self, array: np.ndarray, stream: Any = None) -> None:
        """Copy an array of the host into this one: at once in the current stream, in another one when it runs."""
        count(COPIES, "set")
        (stream or MODULE.cuda.get_current_stream()).ask(lambda: np.copyto(self.on_device, array))

    def tolist(self) -> Any:
        return self._to_host("tolist").tolist()

    def item(self) -> Any:
        return self._to_host("item").item()

    def __float__(self) -> float:
        return float(self._to_host("float"))

    def __int__(self) -> int:
        return int(self._to_host("int"))

    def __bool__(self) -> bool:
        return bool(self._to_host("bool"))

    def __getitem__(self, index: Any) -> ndarray:
        _count_index(index, "getitem")
        place = (*_tuple(_index(index)), ...) if _is_one_number(self.on_device, index) else _index(index)
        if any(isinstance(part, (list, np.ndarray)) for part in _tuple(place)):
            return wrapped(lambda: self.on_device[place])
        return ndarray(self.on_device[place])

    def __setitem__(self, index: Any, value: Any) -> None:
        _count_index(index, "setitem")
        count(KERNELS, "setitem")
        place, source = _index(index), raw(value)
        done(lambda: self.on_device.__setitem__(place, source), self.on_device)

    def reshape(self, *shape: Any) -> ndarray:
        part = self.on_device.reshape(*shape)
        if part.size and not np.shares_memory(part, self.on_device):
            count(KERNELS, "reshape")
            part = made(lambda: self.on_device.reshape(*shape).copy())
        return ndarray(part)

    def ravel(self) -> ndarray:
        return self.reshape(-1)

    def transpose(self, *axes: Any) -> ndarray:
        return ndarray(self.on_device.transpose(*axes))

    def swapaxes(self, first: int, second: int) -> ndarray:
        return ndarray(self.on_device.swapaxes(first, second))

    def view(self, dtype: Any) -> ndarray:
        return ndarray(self.on_device.view(dtype))

    def astype(self, dtype: Any, copy: bool = True) -> ndarray:
        if not copy and self.dtype == np.dtype(dtype):
            return self
        count(KERNELS, "astype")
        return ndarray(made(lambda: self.on_device.astype(dtype)))

    def copy(self) -> ndarray:
        count(KERNELS, "copy")
        return ndarray(made(self.on_device.copy))

    def fill(self, value: Any) -> None:
        count(KERNELS, "fill")
        done(lambda: self.on_device.fill(value), self.on_device)

    def argsort(self, axis: int = -1) -> ndarray:
        return MODULE.argsort(self, axis)

    def dot(self, other: ndarray) -> ndarray:
        return MODULE.dot(self, other)

    def __matmul__(self, other: ndarray) -> ndarray:
        return MODULE.matmul(self, other)


ndarray.__module__ = "cupy"


def raw(x: Any) -> Any:
    """Return the NumPy array of an array of the device, other arguments unchanged; refuse arrays of the host."""
    if isinstance(x, ndarray):
        return x.on_device
    if isinstance(x, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>: an array of the host beside one of the device")
    return type(x)(raw(y) for y in x) if isinstance(x, (list, tuple)) else x


def _tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _index(index: Any) -> Any:
    if isinstance(index, ndarray):
        return index.on_device
    return tuple(map(_index, index)) if isinstance(index, tuple) else index


def _count_index(index: Any, name: str) -> None:
    """Count the kernels, copies and waiting that an index with arrays causes; views cost nothing."""
    parts = _tuple(index)
    for part in parts:
        if isinstance(part, (list, np.ndarray)):
            count(COPIES, f"{name} by indices of the host")
        if isinstance(part, ndarray) and part.dtype == bool:
            count(KERNELS, f"{name} by a mask", COMPRESSION)
            count(SYNCHRONISATIONS, f"{name} by a mask")
    if name == "getitem" and any(isinstance(part, (list, np.ndarray, ndarray)) for part in parts):
        count(KERNELS, name)


def _is_one_number(array: np.ndarray, index: Any) -> bool:
    """Return whether an index names one number, of which NumPy returns a copy, and CuPy a view."""
    parts = _tuple(index)
    return len(parts) == array.ndim and all(isinstance(part, int | np.integer) for part in parts)


def wrapped(compute: Callable[[], Any]) -> ndarray:
    """Return the result of a kernel as an array of the device."""
    return ndarray(made(compute))


def elementwise(function: Callable[..., Any], *inputs: Any, out: Any = None, **options: Any) -> Any:
    count(KERNELS, function.__name__)
    (out,) = out if isinstance(out, tuple) else (out,)
    plain, keywords = raw(inputs), raw_options(options)
    if out is None:
        return wrapped(lambda: function(*plain, **keywords))
    there = raw(out)
    done(lambda: np.copyto(there, function(*plain, **keywords), casting="same_kind"), there)
    return out


def raw_options(options: dict[str, Any]) -> dict[str, Any]:
    return {key: raw(x) for key, x in options.items()}


def _method(name: str) -> Callable[..., Any]:
    plain = getattr(np.ndarray, name)

    def method(self: ndarray, *args: Any, **options: Any) -> ndarray:
        count(KERNELS, name)
        arguments, keywords = raw(args), raw_options(options)
        return wrapped(lambda: plain(self.on_device, *arguments, **keywords))

    return method


def _operator(ufunc: np.ufunc, reflected: bool = False) -> Callable[[ndarray, Any], Any]:
    return lambda self, other: elementwise(ufunc, *((other, self) if reflected else (self, other)))


def _in_place(ufunc: np.ufunc) -> Callable[[ndarray, Any], ndarray]:
    return lambda self, other: elementwise(ufunc, self, other, out=self)


OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod", "power": "pow", "left_shift": "lshift", "right_shift": "rshift", "bitwise_and": "and",
    "bitwise_or": "or", "bitwise_xor": "xor", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "equal": "eq", "not_equal": "ne", "negative": "neg", "invert": "invert",
    "absolute": "abs",
}  # fmt: skip
for _name, _short in OPERATORS.items():
    _ufunc = getattr(np, _name)
    if _ufunc.nin == 1:
        setattr(ndarray, f"__{_short}__", lambda self, ufunc=_ufunc: elementwise(ufunc, self))
        continue
    setattr(ndarray, f"__{_short}__", _operator(_ufunc))
    if not _name.startswith(("less", "greater", "equal", "not")):
        setattr(ndarray, f"__r{_short}__", _operator(_ufunc, reflected=True))
        setattr(ndarray, f"__i{_short}__", _in_place(_ufunc))
for _name in ("sum", "max", "min", "mean", "any", "all", "cumsum", "argmax", "argmin", "prod", "take", "repeat"):
    setattr(ndarray, _name, _method(_name))
