"""What the host knows of arrays on the device, so that operations need not wait for copies from the device.

`sent` copies the arrays of a batch in one piece, and remembers their copies on the host; nobody may change such arrays.
Any other array is copied from the device each time that an operation needs it on the host.

A note records a value on the host on which a captured CUDA graph depends. While a training step is captured, the host
computes such values from the copies of the batch's arrays: for sizes of launches, for branches and for checks. A replay
launches the same kernels again, so it is right only for a batch that gives the same values. Inside `noted` each such
value becomes a `Note`: a function of the arrays, and the value that it returned. Before a replay, `Note.holds` calls
the function for the arrays of the new batch, and compares. The docstrings below say which values are noted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import packing

Fact = TypeVar("Fact")  # a dataclass: its NumPy arrays become arrays of the device


Facts = Sequence[tuple[Callable[..., Any], tuple[str, ...]]]


@dataclass(frozen=True)
class Block:
    """Arrays that were sent together: their memory on the device, copies on the host, and `sent`'s argument `facts`."""

    there: Array
    copies: dict[str, np.ndarray]
    facts: Facts
    layout: tuple[tuple[Any, ...], ...]  # the shapes and types of all its parts


class Known:
    """An array that was sent: its copy on the host, and the facts computed from it, alone or with other arrays."""

    def __init__(self, array: Array, copy: np.ndarray, name: str, block: Block) -> None:
        number = id(array)
        self.array = weakref.ref(array, lambda _: _entries.pop(number, None))
        self.copy, self.name, self.block = copy, name, block
        self.facts: dict[tuple[Any, ...], Any] = {}


_entries: dict[int, Known] = {}  # by `id` of the array, as long as it lives


def sent(
    arrays: Mapping[str, np.ndarray], facts: Iterable[tuple[Callable[..., Any], tuple[str, ...]]] = ()
) -> dict[str, Array]:
    """Return the arrays on the device, after one copy, and remember them.

    facts: pairs of a function, as for `once`, and the names of the arrays that it takes. They are computed now, and
    sent in the same copy.
    """
    facts = list(facts)
    computed = [(compute, names, compute(*(arrays[name] for name in names))) for compute, names in facts]
    parts = [_arrays_of(fact) for *_, fact in computed]
    there, pairs = packing.packed_block([*arrays.values(), *(array for part in parts for array in part.values())])
    packed, layout = iter(pairs), tuple((copy.shape, copy.dtype.str) for copy, _ in pairs)
    result, copies = {}, dict[str, np.ndarray]()
    block = Block(there, copies, facts, (*layout, *arrays))
    for name in arrays:
        copies[name], result[name] = next(packed)
        copies[name].flags.writeable = False
        _entries[id(result[name])] = Known(result[name], copies[name], name, block)
    for (compute, names, fact), part in zip(computed, parts, strict=True):
        owner, key = _place(compute, [_entries[id(result[name])] for name in names])
        owner.facts[key] = replace(fact, **{name: next(packed)[1] for name in part})
    return result


def copy_of(array: Array) -> np.ndarray | None:
    """Return the copy on the host of an array that was sent; None for any other array.

    Nothing is noted: the caller notes what it computes from the copy, by `number`, `once` or `note_check`.
    """
    entry = _entries.get(id(array))
    return None if entry is None else entry.copy


def host(array: Array) -> np.ndarray:
    """Return an array on the host, without waiting if it was sent; all its numbers are noted."""
    copy = copy_of(array)
    if copy is None:
        return device.to_host(array)
    _note(lambda entry: (entry.copy.shape, entry.copy.tobytes()), array)
    return copy


def copies(*arrays: Array) -> list[np.ndarray]:
    """Return arrays on the host, waiting for those that were not sent. As with `copy_of`, nothing is noted."""
    return [device.to_host(array) if (copy := copy_of(array)) is None else copy for array in arrays]


def number(compute: Callable[..., Any], arrays: Sequence[Array], copies: Sequence[np.ndarray]) -> Any:
    """Return what `compute` returns for the copies of arrays: a value to compare by ==, or None for a check.

    If all arrays were sent, only this value is noted.
    """
    value = compute(*copies)
    if all(id(array) in _entries for array in arrays):
        _note(lambda *entries: compute(*(x.copy for x in entries)), *arrays)
    return value


def fact(compute: Callable[..., Any], *arrays: Array) -> Any:
    """Return what `compute` returns for arrays on the host, and note it as `number` does."""
    return number(compute, arrays, copies(*arrays))


def place_of(array: Array) -> tuple[str, Block] | None:
    """Return the name of an array that was sent, and the block of arrays sent with it; None for any other array."""
    entry = _entries.get(id(array))
    return None if entry is None else (entry.name, entry.block)


def limits(array: Array) -> tuple[int, int] | None:
    """Return the least and the greatest number of an array that was sent, (0, -1) if it is empty; else None.

    Nothing is noted.
    """
    entry = _entries.get(id(array))
    if entry is None:
        return None
    if (limits,) not in entry.facts:
        entry.facts[limits,] = (int(entry.copy.min()), int(entry.copy.max())) if entry.copy.size else (0, -1)
    return entry.facts[limits,]  # type: ignore[no-any-return]


_promised: dict[int, tuple[weakref.ref[Any], int, int]] = {}  # by `id` of the array, as long as it lives


def promise(array: Array, low: int, high: int) -> None:
    """Remember that all numbers of an array, which a kernel writes, are in low..high-1."""
    number = id(array)
    _promised[number] = weakref.ref(array, lambda _: _promised.pop(number, None)), low, high


def promised(array: Array, low: int, high: int) -> bool:
    """Return whether `promise` said that all numbers of an array are in low..high-1."""
    _, least, most = _promised.get(id(array), (None, low - 1, high))
    return low <= least and most <= high


def once(compute: Callable[..., Fact], arrays: Sequence[Array], copies: Sequence[np.ndarray]) -> Fact:
    """Return the fact that `compute` returns for the copies of arrays on the host, with its own arrays on the device.

    If all arrays were sent, the fact is computed once, and kept as long as they live. Its numbers are noted, and of its
    arrays only shapes and dtypes.
    """
    entries = [_entries.get(id(array)) for array in arrays]
    if any(x is None for x in entries):
        return _on_device(compute(*copies))
    owner, key = _place(compute, entries)  # type: ignore[arg-type]
    if key not in owner.facts:
        owner.facts[key] = _on_device(compute(*copies))
    _note(lambda *entries: _host_part(compute, entries), *arrays)
    return owner.facts[key]  # type: ignore[no-any-return]


def once_on_device(compute: Callable[..., Fact], arrays: Sequence[Array]) -> Fact:
    """Return the fact that `compute` makes of arrays by kernels.

    If all arrays were sent, it is made once, and kept as long as they live. The host reads no array, so nothing is
    noted: a graph runs the kernels again in each replay.
    """
    entries = [_entries.get(id(array)) for array in arrays]
    if any(x is None for x in entries):
        return compute(*arrays)
    owner, key = _place(compute, entries)  # type: ignore[arg-type]
    if key not in owner.facts:
        owner.facts[key] = compute(*arrays)
    return owner.facts[key]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Note:
    """A value that the host computed from arrays that were sent, known by their names; see the module's docstring."""

    names: tuple[str, ...]
    take: Callable[..., Any]  # computes the value from the `Known` of each array
    value: Any

    def holds(self, arrays: Mapping[str, Array]) -> bool:
        """Return whether these arrays, which were sent, give the same value; raise the error of a check that fails."""
        return bool(self.take(*(_entries[id(arrays[name])] for name in self.names)) == self.value)


_notes: ContextVar[list[Note] | None] = ContextVar("notes", default=None)


@contextmanager
def noted() -> Iterator[list[Note]]:
    """Yield a list, to which a note is added for each value that the host computes from arrays that were sent."""
    notes: list[Note] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note_check(require: Callable[[np.ndarray], None], array: Array) -> None:
    """Note a check of an array that was sent, which raises an error if the array is wrong."""
    _note(lambda entry: require(entry.copy), array)


def _note(take: Callable[..., Any], *arrays: Array) -> None:
    notes = _notes.get()
    if notes is not None:
        entries = [_entries[id(array)] for array in arrays]
        notes.append(Note(tuple(x.name for x in entries), take, take(*entries)))


def _host_part(compute: Callable[..., Any], entries: Sequence[Known]) -> tuple[Any, ...]:
    """Return what a fact holds on the host: its numbers, and the shapes and dtypes of its arrays."""
    owner, key = _place(compute, list(entries))
    fact = owner.facts[key] if key in owner.facts else compute(*(x.copy for x in entries))
    values = (getattr(fact, f.name) for f in fields(fact))
    return tuple((x.shape, x.dtype.str) if hasattr(x, "dtype") and x.ndim else x for x in values)


def _place(compute: Callable[..., Any], entries: list[Known]) -> tuple[Known, tuple[Any, ...]]:
    """Return which array keeps a fact, and the key; the key must not hold that array, or it would never be freed."""
    owner, *others = entries
    return owner, (compute, *(None if other is owner else other for other in others))


def _on_device(fact: Fact) -> Fact:
    arrays = _arrays_of(fact)
    packed = packing.packed(list(arrays.values()))
    return replace(fact, **{name: array for name, (_, array) in zip(arrays, packed, strict=True)})  # type: ignore


def _arrays_of(fact: Any) -> dict[str, np.ndarray]:
    values = ((f.name, getattr(fact, f.name)) for f in fields(fact))
    return {name: value for name, value in values if isinstance(value, np.ndarray)}
