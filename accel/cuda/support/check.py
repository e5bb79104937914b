"""Checks of arguments before a kernel reads them; an error names the argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import floor
from typing import Any

import numpy as np

from accel.cuda import device
from accel.cuda.device import REAL, Array
from accel.cuda.support import known, seeds

FLOATS = frozenset(map(np.dtype, REAL))
THREADS = 256
NONE = 2**63 - 1  # the place of the first error, of a check without errors
TOGETHER = 3  # arrays that a kernel takes, as in check.cu
DEFERRED = 256  # checks whose results may stay on the device; before a further one the host waits for them


def floats(**arrays: Array) -> list[Array]:
    """Return the arrays, made C-contiguous; raise ValueError unless they are device arrays of one float dtype."""
    xp, dtype, result = device.xp(), None, []
    for name, array in arrays.items():
        if not isinstance(array, xp.ndarray):
            raise ValueError(f"{name}: {type(array).__name__} is not an array of {xp.__name__}")
        if array.dtype not in FLOATS:
            raise ValueError(f"{name}: dtype {array.dtype} is neither float32 nor float64")
        dtype = dtype or array.dtype
        if array.dtype != dtype:
            raise ValueError(f"{name}: dtype {array.dtype}, but that of {next(iter(arrays))} is {dtype}")
        result.append(array if array.flags.c_contiguous else xp.ascontiguousarray(array))
    return result


def integers(dtype: Any, **arrays: Array) -> list[Array]:
    """Return the arrays, made C-contiguous; raise ValueError unless they are flat device arrays of this dtype."""
    xp = device.xp()
    for name, array in arrays.items():
        if not isinstance(array, xp.ndarray):
            raise ValueError(f"{name}: {type(array).__name__} is not an array of {xp.__name__}")
        if array.dtype != dtype:
            raise ValueError(f"{name}: dtype {array.dtype} is not {np.dtype(dtype)}")
        if array.ndim != 1:
            raise ValueError(f"{name}: shape {array.shape}, expected one axis")
    return [array if array.flags.c_contiguous else xp.ascontiguousarray(array) for array in arrays.values()]


def shape(name: str, array: Array, *expected: int | str) -> None:
    """Raise ValueError unless the array has axes of these lengths; a string stands for any length."""
    lengths = array.shape
    fits = len(lengths) == len(expected)
    for length, size in zip(lengths, expected):  # noqa: B905 `fits` is False already if the numbers of axes differ
        fits = fits and (length == size or isinstance(size, str))
    if not fits:
        raise ValueError(f"{name}: shape {array.shape} is not [{', '.join(map(str, expected))}]")


@dataclass
class Checks:
    """Checks whose results are on the device: for each check the place of its first error, or NONE."""

    room: int
    firsts: Array = None  # [room] int64, once there is a check
    messages: list[Callable[[int], str]] = field(default_factory=list)  # of each check: its error for a place

    def add(self, *messages: Callable[[int], str]) -> Array:
        """Return the array into which kernels write the places of the first errors, one for each message.

        If there is no room for them, first wait for the checks before, and raise their first error.
        """
        if len(self.messages) + len(messages) > self.room:
            self.raise_first(device.to_host(self.firsts).tolist())
            self.messages.clear()
        if not self.messages:
            self.firsts = device.xp().full(self.room, NONE, np.int64)
        self.messages.extend(messages)
        return self.firsts[len(self.messages) - len(messages) :]

    def raise_first(self, firsts: Sequence[int | float]) -> None:
        """Raise ValueError for the first check that has an error; `firsts` is a copy of `self.firsts` on the host."""
        for message, first in zip(self.messages, firsts, strict=False):
            if first < NONE:
                raise ValueError(message(int(first)))


_deferred: ContextVar[Checks | None] = ContextVar("deferred", default=None)


@contextmanager
def deferred() -> Iterator[Checks]:
    """Leave the results of checks on the device while the context lasts; the caller reads them and raises the first.

    Until then, kernels also compute with arrays that are wrong.
    """
    checks = Checks(DEFERRED)
    token = _deferred.set(checks)
    try:
        yield checks
    finally:
        _deferred.reset(token)


@contextmanager
def _collected(room: int) -> Iterator[Checks]:
    """Yield the deferred checks, or, outside of `deferred`, new ones; these raise their first error at the end."""
    checks = _deferred.get()
    if checks is not None:
        yield checks
        return
    checks = Checks(room)
    yield checks
    checks.raise_first(device.to_host(checks.firsts).tolist())


def indices(index: dict[str, tuple[Array, int, int]], offsets: dict[str, tuple[Array, int]] | None = None) -> None:
    """Raise ValueError if an array holds an index outside low..high-1, or offsets do not rise from 0 to last.

    `index` holds (array, low, high), and `offsets` (array, last), by name; arrays are as `integers` returns them. The
    host checks arrays that were sent (`known.sent`). For each other array a kernel does, unless `known.promise` gave
    its limits, and the host waits for the results, unless checks are deferred.
    """
    unknown: list[tuple[str, str, tuple[Any, ...], int]] = []  # message, kernel, its arguments, its threads
    for name, (array, last) in (offsets or {}).items():
        copy, message = known.copy_of(array), f"{name}: does not rise from 0 to {last}"
        if not len(array):
            raise ValueError(f"{name}: empty")
        if copy is None:
            unknown.append((message, "offsets_wrong", (array, len(array) - 1, last), len(array)))
        else:
            requirement = partial(_require_rising, message=message, last=last)
            requirement(copy)
            known.note_check(requirement, array)
    for name, (array, low, high) in index.items():
        limits, message = known.limits(array), f"{name}: outside {low}..{high - 1}"
        if known.promised(array, low, high):
            continue
        if limits is None:
            unknown.append((message, "index_outside", (array, array.size, low, high), array.size))
        elif limits[0] < low or limits[1] >= high:
            raise ValueError(message)
        else:
            known.note_check(partial(_require_inside, message=message, low=low, high=high), array)
    if not unknown:
        return
    with _collected(len(unknown)) as checks:
        for message, kernel, args, threads in unknown:
            first = checks.add(lambda place, message=message: message)  # type: ignore[misc]
            device.launch("support/check", kernel, (-(-threads // THREADS),), (THREADS,), (*args, first), np.float32)


def finite(**arrays: Array) -> None:
    """Raise ValueError for the first array that holds a NaN or an infinity, naming the row.

    Takes up to three arrays as `floats` returns them. Runs one kernel, and waits for it, unless checks are deferred.
    """
    with finite_rows(*arrays) as first:
        of_arrays = [(x, x.size, x.size // max(1, len(x))) for x in arrays.values()]
        largest, count = max(arrays.values(), key=lambda x: x.size), len(arrays)
        args = (*chain(*of_arrays, *of_arrays[:1] * (TOGETHER - count)), first)
        grid = *device.wide_grid(largest, THREADS), count
        device.launch("support/check", "not_finite", grid, (THREADS,), args, largest.dtype)


@contextmanager
def finite_rows(*names: str) -> Iterator[Array]:
    """Yield an array into which kernels write, for each name, the first row of that array with a NaN or an infinity.

    At the end, unless checks are deferred, wait for the kernels; raise ValueError for the first name with such a row.
    """
    with _collected(len(names)) as checks:
        yield checks.add(*(partial("{name}: NaN or infinity in row {}".format, name=name) for name in names))


def sequence_offsets(offsets: Array, total: int) -> Any:
    """Return the offsets of sequences on the host; raise ValueError unless they rise from 0 to `total`."""
    integers(np.int64, offsets=offsets)
    copy = known.host(offsets)
    if not len(copy) or not _rises(copy, total):
        raise ValueError(f"offsets: does not rise from 0 to {total}")
    return copy


def rises(name: str, offsets: Array, copy: np.ndarray, total: int) -> None:
    """Raise ValueError unless offsets of sequences, with their copy on the host, rise from 0 to `total`.

    Only this check is noted (see `known`), not the numbers.
    """
    integers(np.int64, **{name: offsets})
    message = f"{name}: does not rise from 0 to {total}"
    if not len(offsets):
        raise ValueError(message)
    known.number(partial(_require_rising, message=message, last=total), [offsets], [copy])


def _require_rising(offsets: np.ndarray, message: str, last: int) -> None:
    if not _rises(offsets, last):
        raise ValueError(message)


def _require_inside(index: np.ndarray, message: str, low: int, high: int) -> None:
    if index.size and not low <= index.min() <= index.max() < high:
        raise ValueError(message)


def _rises(offsets: np.ndarray, total: int) -> bool:
    return bool(offsets[0] == 0 and offsets[-1] == total and (offsets[1:] >= offsets[:-1]).all())


def dropout(rate: float, seed: int) -> tuple[np.uint64, np.uint64, float]:
    """Return the arguments of `keep` in warp.cu: the seed, the threshold, and the multiplier of kept elements.

    A rate below 2^-32 drops nothing: its threshold is 0.

    While a graph is captured, the first number is the address of the seed in device memory; the threshold has the bit
    `seeds.IS_PLACE`.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"rate: {rate} is outside [0, 1)")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: {seed} is outside 0..2^64-1")
    threshold = floor(rate * 2**32)
    place = seeds.place_of(seed) if threshold else None
    if place is None:
        return np.uint64(seed), np.uint64(threshold), 1 / (1 - rate)
    return np.uint64(place), np.uint64(threshold | seeds.IS_PLACE), 1 / (1 - rate)
