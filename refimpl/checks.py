"""Checks of arguments, and the names of parameters."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
Int = NDArray[np.integer[Any]]
Parameters = Mapping[str, Float]  # by readable names with dots, "encoder.0.attention.query"


def check_shape(name: str, x: Float | Int, *axes: int | None, like: Float | None = None) -> None:
    """Raise ValueError unless `x` has these axes (None: of any length), and the dtype of `like` if there is one."""
    if x.ndim != len(axes) or any(axis not in (None, length) for axis, length in zip(axes, x.shape, strict=True)):
        expected = ", ".join("any" if axis is None else str(axis) for axis in axes)
        raise ValueError(f"{name}: shape {x.shape}, expected ({expected})")
    if like is not None and x.dtype != like.dtype:
        raise ValueError(f"{name}: dtype {x.dtype}, expected {like.dtype}")


def check_shapes(*, like: Float | None = None, **arrays: tuple[Float | Int, str]) -> None:
    """Raise ValueError unless arrays have one axis per letter, one length for equal letters, and the dtype of `like`.

    >>> check_shapes(x=(np.zeros((2, 3)), "Td"), scale=(np.zeros(4), "d"))
    Traceback (most recent call last):
    ValueError: scale: shape (4,), expected (3)
    """
    lengths: dict[str, int] = {}
    for name, (x, axes) in arrays.items():
        check_shape(name, x, *map(lengths.get, axes), like=like)
        lengths |= zip(axes, x.shape, strict=True)


def check_heads(n_heads: int, d: int) -> None:
    """Raise ValueError unless `n_heads` is at least 1 and divides `d`, the width of a row."""
    if n_heads < 1 or d % n_heads:
        raise ValueError(f"n_heads: {n_heads} does not divide {d}")


def check_least(least: int, **numbers: int | None) -> None:
    """Raise ValueError if a number is below `least`; None is not checked."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise ValueError(f"{name}: {number} is below {least}")


def check_known(name: str, value: str, known: Collection[str]) -> None:
    """Raise ValueError unless `value` is in `known`."""
    if value not in known:
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(known)}")


def check_finite(name: str, x: Float) -> None:
    """Raise ValueError if `x` holds a NaN or an infinity; the message names the first row."""
    if not np.isfinite(x).all():
        raise ValueError(f"{name}: NaN or infinity in row {np.argwhere(~np.isfinite(x))[0, 0]}")


def part(parameters: Parameters, prefix: str) -> Parameters:
    """Return the parameters whose names begin with `prefix` and a dot, and remove both from the names.

    >>> list(part({"gate.a.weight": np.zeros(1), "gates.b": np.zeros(1)}, "gate"))
    ['a.weight']
    """
    return {name.removeprefix(f"{prefix}."): p for name, p in parameters.items() if name.startswith(f"{prefix}.")}
