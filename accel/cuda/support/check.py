"""Checks of arguments before a kernel reads them; an error names the argument."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import REAL, Array

THREADS = 256


def floats(**arrays: Array) -> list[Array]:
    """Return the arrays, C-contiguous; they must be the device's, and all of one float dtype."""
    xp = device.xp()
    first = next(iter(arrays))
    for name, array in arrays.items():
        if not isinstance(array, xp.ndarray):
            raise ValueError(f"{name}: {type(array).__name__} is not an array of {xp.__name__}")
        if array.dtype.name not in REAL:
            raise ValueError(f"{name}: dtype {array.dtype} is neither float32 nor float64")
        if array.dtype != arrays[first].dtype:
            raise ValueError(f"{name}: dtype {array.dtype} is not {arrays[first].dtype} as that of {first}")
    return [xp.ascontiguousarray(array) for array in arrays.values()]


def integers(dtype: Any, **arrays: Array) -> list[Array]:
    """Return the arrays, C-contiguous; they must be the device's, flat, and of this dtype."""
    xp = device.xp()
    for name, array in arrays.items():
        if not isinstance(array, xp.ndarray):
            raise ValueError(f"{name}: {type(array).__name__} is not an array of {xp.__name__}")
        if array.dtype != dtype:
            raise ValueError(f"{name}: dtype {array.dtype} is not {np.dtype(dtype)}")
        if array.ndim != 1:
            raise ValueError(f"{name}: shape {array.shape} has not one axis")
    return [xp.ascontiguousarray(array) for array in arrays.values()]


def shape(name: str, array: Array, *expected: int | str) -> None:
    """Raise unless the array has these axes; a string stands for any length."""
    fits = array.ndim == len(expected) and all(
        isinstance(e, str) or n == e for n, e in zip(array.shape, expected, strict=True)
    )
    if not fits:
        raise ValueError(f"{name}: shape {array.shape} is not [{', '.join(map(str, expected))}]")


def indices(index: dict[str, tuple[Array, int, int]], offsets: dict[str, tuple[Array, int]] | None = None) -> None:
    """Raise for the first array that holds an index outside low..high-1, or offsets that do not rise from 0 to last.

    Runs one kernel an array, and waits for one flag word. Arrays as `integers` returns them.
    """
    flags = device.xp().zeros(1, np.int32)
    messages: list[str] = []
    for name, (array, last) in (offsets or {}).items():
        n, flag = len(array) - 1, 1 << len(messages)
        if n < 0:
            raise ValueError(f"{name}: empty")
        args = (array, n, last, flag, flags)
        device.launch("support/check", "offsets_wrong", (n // THREADS + 1,), (THREADS,), args, np.float32)
        messages.append(f"{name}: does not rise from 0 to {last}")
    for name, (array, low, high) in index.items():
        args = (array, array.size, low, high, 1 << len(messages), flags)
        device.launch("support/check", "index_outside", (-(-array.size // THREADS),), (THREADS,), args, np.float32)
        messages.append(f"{name}: outside {low}..{high - 1}")
    raised = int(flags[0])
    for number, message in enumerate(messages):
        if raised >> number & 1:
            raise ValueError(message)


def finite(**arrays: Array) -> None:
    """Raise for the first array that holds a NaN or an infinity, naming the row. Arrays as `floats` returns them.

    Runs one kernel an array, and waits for one number of each.
    """
    firsts = device.xp().full(len(arrays), np.iinfo(np.int64).max, np.int64)
    for number, array in enumerate(arrays.values()):
        args = (array, array.size, array.size // max(1, len(array)), firsts[number:])
        device.launch("support/check", "not_finite", (-(-array.size // THREADS),), (THREADS,), args, array.dtype)
    for (name, array), row in zip(arrays.items(), device.to_host(firsts).tolist(), strict=True):
        if row < len(array):
            raise ValueError(f"{name}: NaN or infinity in row {row}")


def sequence_offsets(name: str, offsets: Array, total: int) -> Any:
    """Return the offsets of sequences on the host; raise unless they rise from 0 to `total`."""
    host = device.to_host(integers(np.int64, **{name: offsets})[0])
    if len(host) == 0 or host[0] != 0 or host[-1] != total or (np.diff(host) < 0).any():
        raise ValueError(f"{name}: does not rise from 0 to {total}")
    return host


def dropout(rate: float, seed: int) -> tuple[np.uint64, np.uint64, float]:
    """Return the arguments of `keep` in warp.cu: the seed, the threshold, and the multiplier of kept elements."""
    if not 0 <= rate < 1:
        raise ValueError(f"rate: {rate} is outside [0, 1)")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: {seed} is outside 0..2^64-1")
    return np.uint64(seed), np.uint64(floor(rate * 2**32)), 1 / (1 - rate)
