"""A stand-in for CuPy, made of NumPy and as strict as CuPy, to run host code without a GPU.

It has the names of CuPy that Grove uses, and no others. Arrays of the host go in by `asarray` and come out by `get`;
anything else that mixes host and device is refused, as CuPy refuses it. `empty` is filled with NaN. What a GPU would do
is counted: kernel launches, copies from the host, and synchronisations, at which the host waits for the GPU. A sort
counts as eight kernels, and a selection by a mask as three, as many as CuPy launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from accel.verify.cuda_host.cupy_array import (
    COMPRESSION,
    COPIES,
    ELEMENTWISE,
    KERNELS,
    MODULE,
    OPERATORS,
    SYNCHRONISATIONS,
    count,
    elementwise,
    ndarray,
    raw,
    raw_options,
    wrapped,
)  # fmt: skip
from accel.verify.cuda_host.cupy_graphs import refuse
from accel.verify.cuda_host.cupy_streams import cuda

SORT = 8  # kernels
PASSED = 8  # CuPy joins at most so many arrays one by one, each by its own kernel
FILLING = 77  # the integers in an array of `empty`


def _function(name: str, kernels: int = 1, waits: bool = False) -> Callable[..., Any]:
    """Return NumPy's function of this name, for arrays of the device."""
    plain = getattr(np, name)

    def function(*args: Any, **options: Any) -> Any:
        count(KERNELS, name, kernels)
        arguments, keywords = raw(args), raw_options(options)
        if not waits:
            return wrapped(lambda: plain(*arguments, **keywords))
        count(SYNCHRONISATIONS, name)
        result = plain(*arguments, **keywords)
        return tuple(map(ndarray, result)) if isinstance(result, tuple) else ndarray(result)

    return function


def asarray(x: Any, dtype: Any = None) -> ndarray:
    if isinstance(x, ndarray):
        return x if dtype is None else x.astype(dtype, copy=False)
    if isinstance(x, (list, tuple)) and any(isinstance(y, ndarray) for y in x):
        count(KERNELS, "asarray")
        parts = raw(x)
        return wrapped(lambda: np.asarray(parts, dtype))
    count(COPIES, "asarray")
    return ndarray(np.array(x, dtype))


def ascontiguousarray(x: Any, dtype: Any = None) -> ndarray:
    x = asarray(x, dtype)
    if x.flags.c_contiguous:
        return x
    count(KERNELS, "ascontiguousarray")
    return wrapped(lambda: np.ascontiguousarray(x.on_device))


def empty(shape: Any, dtype: Any = float) -> ndarray:
    dtype = np.dtype(dtype)
    value = np.nan if dtype.kind == "f" else FILLING if dtype.kind in "iu" else True
    return wrapped(lambda: np.full(shape, value, dtype))


def empty_like(x: ndarray, dtype: Any = None) -> ndarray:
    return empty(x.shape, dtype or x.dtype)


def dot(a: ndarray, b: ndarray, out: ndarray | None = None) -> ndarray:
    """Return one product of cuBLAS; an operand that is neither C- nor Fortran-contiguous is copied first."""
    return _product("dot", a, b, out)


def matmul(a: ndarray, b: ndarray, out: ndarray | None = None) -> ndarray:
    return _product("matmul", a, b, out)


def _product(name: str, a: ndarray, b: ndarray, out: ndarray | None) -> ndarray:
    if not (isinstance(a, ndarray) and isinstance(b, ndarray)):
        raise TypeError(f"{name}: an operand is no array of the device")
    refuse(f"{name}, of cuBLAS")
    count(KERNELS, name)
    for x in (a, b):
        if x.ndim == 2 and not (x.flags.c_contiguous or x.flags.f_contiguous):
            count(KERNELS, f"{name}: copy of an operand")
    result = getattr(np, name)(a.on_device, b.on_device)
    if out is None:
        return ndarray(np.asarray(result))
    if not out.flags.c_contiguous:
        raise ValueError(f"{name}: out is not C-contiguous")
    out.on_device[...] = result
    return out


def concatenate(arrays: Sequence[ndarray], axis: int = 0) -> ndarray:
    """Return arrays one after another. Many of one type take one kernel, to which CuPy copies their addresses."""
    parts = raw(list(arrays))
    if len(parts) > PASSED and len({part.dtype for part in parts}) == 1:
        refuse("concatenate of many arrays, whose addresses it copies from the host")
    count(KERNELS, "concatenate")
    return wrapped(lambda: np.concatenate(parts, axis))


def argsort(x: ndarray, axis: int = -1, kind: str | None = None) -> ndarray:
    """Return the order, which is stable as CuPy's is."""
    if kind not in (None, "stable"):
        raise ValueError(f"argsort: kind {kind!r}")
    count(KERNELS, "argsort", SORT)
    return wrapped(lambda: x.on_device.argsort(axis, kind="stable"))


def lexsort(keys: ndarray) -> ndarray:
    if not isinstance(keys, ndarray):
        raise TypeError("lexsort: CuPy takes one array of all keys")
    count(KERNELS, "lexsort", SORT)
    return wrapped(lambda: np.lexsort(keys.on_device))


def repeat(x: ndarray, repeats: int | list[int] | tuple[int, ...], axis: int | None = None) -> ndarray:
    """Return repeated elements: the numbers of repeats lie on the host, and each of them launches a kernel."""
    if isinstance(repeats, (ndarray, np.ndarray)):
        raise ValueError("repeat: CuPy takes an int, a list or a tuple")
    count(KERNELS, "repeat", len(repeats) if isinstance(repeats, (list, tuple)) else 1)
    return wrapped(lambda: np.repeat(x.on_device, repeats, axis))


def split(x: ndarray, places: int | list[int], axis: int = 0) -> list[ndarray]:
    return [ndarray(part) for part in np.split(x.on_device, places, axis)]


CALLS = {
    "zeros": 1, "zeros_like": 1, "ones": 1, "ones_like": 1, "full": 1, "full_like": 1, "arange": 1, "where": 1,
    "clip": 1, "stack": 1, "cumsum": 1, "diff": 1, "searchsorted": 1, "take": 1,
    "take_along_axis": 1, "argmin": 1, "partition": SORT,
}  # fmt: skip
CONSTANTS = (
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64"),
    *("inf", "nan", "newaxis", "finfo", "iinfo", "dtype"),
)
for _function_of in (
    *(
        ndarray,
        asarray,
        ascontiguousarray,
        concatenate,
        empty,
        empty_like,
        dot,
        matmul,
        argsort,
        lexsort,
        repeat,
        split,
    ),
):
    setattr(MODULE, _function_of.__name__, _function_of)
MODULE.array, MODULE.cuda = asarray, cuda  # type: ignore[attr-defined]
for _name in ELEMENTWISE | OPERATORS.keys():
    setattr(MODULE, _name, partial(elementwise, getattr(np, _name)))
for _name, _kernels in CALLS.items():
    setattr(MODULE, _name, _function(_name, _kernels))
for _name in ("flatnonzero", "nonzero"):
    setattr(MODULE, _name, _function(_name, COMPRESSION, waits=True))
for _name in CONSTANTS:
    setattr(MODULE, _name, getattr(np, _name))
