"""What the host knows of arrays of the device, so that no operation waits to hear of it.

`sent` copies the arrays of a batch in one piece, and remembers their copies on the host; nobody may change such arrays.
What an operation needs to know of any other array it asks the device, each time anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from accel.cuda import device
from accel.cuda.device import Array

Fact = TypeVar("Fact")  # a dataclass: its NumPy arrays become arrays of the device


class Known:
    """An array: its copy on the host, and the facts that follow from it, alone or with other arrays."""

    def __init__(self, array: Array, copy: np.ndarray) -> None:
        number = id(array)
        self.array = weakref.ref(array, lambda _: _known.pop(number, None))
        self.copy = copy
        self.facts: dict[tuple[Any, ...], Any] = {}


_known: dict[int, Known] = {}  # by the identity of the array, as long as it lives


def sent(
    arrays: Mapping[str, np.ndarray], facts: Iterable[tuple[Callable[..., Any], tuple[str, ...]]] = ()
) -> dict[str, Array]:
    """Return the arrays on the device, after one copy, and remember them.

    Facts that operations will ask for travel in the same copy: pairs of a function, as of `once`, and of the names of
    the arrays that it takes.
    """
    computed = [(compute, names, compute(*(arrays[name] for name in names))) for compute, names in facts]
    parts = [_arrays_of(fact) for *_, fact in computed]
    packed = iter(device.packed([*arrays.values(), *(array for part in parts for array in part.values())]))
    result = {}
    for name in arrays:
        copy, result[name] = next(packed)
        copy.flags.writeable = False
        _known[id(result[name])] = Known(result[name], copy)
    for (compute, names, fact), part in zip(computed, parts, strict=True):
        owner, key = _place(compute, [_known[id(result[name])] for name in names])
        owner.facts[key] = replace(fact, **{name: next(packed)[1] for name in part})
    return result


def of(array: Array) -> np.ndarray | None:
    """Return the copy on the host of an array that was sent; None of any other."""
    known = _known.get(id(array))
    return None if known is None else known.copy


def host(array: Array) -> np.ndarray:
    """Return an array on the host, without waiting if it was sent."""
    copy = of(array)
    return device.to_host(array) if copy is None else copy


def limits(array: Array) -> tuple[int, int] | None:
    """Return the least and the greatest number of an array that was sent, (0, -1) if it is empty; None of any other."""
    known = _known.get(id(array))
    if known is None:
        return None
    if (limits,) not in known.facts:
        known.facts[limits,] = (int(known.copy.min()), int(known.copy.max())) if known.copy.size else (0, -1)
    return known.facts[limits,]  # type: ignore[no-any-return]


def once(compute: Callable[..., Fact], arrays: Sequence[Array], copies: Sequence[np.ndarray]) -> Fact:
    """Return what `compute` makes of the copies of arrays on the host, its arrays on the device.

    If all arrays were sent it is computed once, and kept as long as they are.
    """
    known = [_known.get(id(array)) for array in arrays]
    if any(x is None for x in known):
        return _on_device(compute(*copies))
    owner, key = _place(compute, known)  # type: ignore[arg-type]
    if key not in owner.facts:
        owner.facts[key] = _on_device(compute(*copies))
    return owner.facts[key]  # type: ignore[no-any-return]


def _place(compute: Callable[..., Any], known: list[Known]) -> tuple[Known, tuple[Any, ...]]:
    """Return which array keeps a fact, and under which key; the key must not hold that array, which would never die."""
    owner, *others = known
    return owner, (compute, *(None if other is owner else other for other in others))


def _on_device(fact: Fact) -> Fact:
    arrays = _arrays_of(fact)
    packed = device.packed(list(arrays.values()))
    return replace(fact, **{name: array for name, (_, array) in zip(arrays, packed, strict=True)})  # type: ignore


def _arrays_of(fact: Any) -> dict[str, np.ndarray]:
    values = ((f.name, getattr(fact, f.name)) for f in fields(fact))
    return {name: value for name, value in values if isinstance(value, np.ndarray)}
