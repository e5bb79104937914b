"""The errors that a kernel must raise: a bad argument, and words that the message must have."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from accel.verify.compare import Disagreement
from accel.verify.op import Op


def assert_refused(backend: ModuleType, op: Op, arguments: dict[str, Any], words: Sequence[str], why: str) -> None:
    """Bad arguments give a ValueError of one line with all the words; `why` says what is bad."""
    what, wanted = f"{op.clause} {op.name}", f"a ValueError with {quoted(words)}"
    try:
        op.call(backend, arguments)
    except ValueError as error:
        message = str(error)
        if not all(word in message for word in words):
            raise Disagreement(what, why, repr(message), wanted) from error
        if "\n" in message:
            raise Disagreement(what, why, repr(message), "a message of one line") from error
    except Exception as error:
        raise Disagreement(what, why, f"{type(error).__name__}: {error}", wanted) from error
    else:
        raise Disagreement(what, why, "no error", wanted)


def quoted(words: Sequence[str]) -> str:
    return " and ".join(map(repr, words))


def changes(right: dict[str, Any], wrong: dict[str, Any]) -> str:
    """Return what is wrong in the arguments: those that are not the right ones, and how they differ."""
    parts = [_change(name, right.get(name), x) for name, x in wrong.items()]
    return ", ".join(filter(None, parts)) or "no change"


def _change(name: str, right: Any, wrong: Any) -> str:
    if not isinstance(wrong, np.ndarray) or not isinstance(right, np.ndarray):
        return "" if type(wrong) is type(right) and wrong == right else f"{name} = {wrong!r}"
    if wrong.dtype != right.dtype:
        return f"{name} of {wrong.dtype}, not {right.dtype}"
    if np.array_equal(wrong, right, equal_nan=wrong.dtype.kind == "f"):
        return ""
    if wrong.ndim == 1 and 0 < wrong.size <= 8:
        return f"{name} = {wrong.tolist()}"
    special = np.argwhere(~np.isfinite(wrong)) if wrong.dtype.kind == "f" else []
    if wrong.shape != right.shape and not len(special):
        return f"{name} {list(wrong.shape)}, not {list(right.shape)}"
    place = tuple(map(int, special[0] if len(special) else np.argwhere(wrong != right)[0]))
    new_shape = f"{name} {list(wrong.shape)}, with " if wrong.shape != right.shape else ""
    return f"{new_shape}{name}{list(place)} = {wrong[place].item()}"
