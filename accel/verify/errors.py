"""The errors that a kernel must raise, and words of their messages; and how a check has failed, in words."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.verify.arrays import ArrayError
from accel.verify.compare import Disagreement
from accel.verify.op import Op, kernel_of

CALL = ("kernel", kernel_of.__code__.co_filename)  # the function in `kernel_of` that calls a kernel


def assert_refused(backend: ModuleType, op: Op, arguments: dict[str, Any], words: Sequence[str], why: str) -> None:
    """Raise Disagreement unless bad arguments raise a ValueError of one line with all words; `why` says what is bad."""
    what, expected = f"{op.clause} {op.name}", f"a ValueError with {quoted(words)}"
    try:
        op.call(backend, arguments)
    except ValueError as error:
        message = str(error)
        if not all(says(message, word) for word in words):
            raise Disagreement(what, why, repr(message), expected) from error
        if "\n" in message:
            raise Disagreement(what, why, repr(message), "a message of one line") from error
    except Exception as error:
        raise Disagreement(what, why, f"{type(error).__name__}: {error}", expected) from error
    else:
        raise Disagreement(what, why, "no error", expected)


def says(message: str, words: str) -> bool:
    """Return whether a message has these words, and not only as parts of longer words.

    >>> says("z: no logits", "z"), says("zero-size array to reduction operation", "z")
    (True, False)
    """
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", message) is not None


def quoted(words: Sequence[str]) -> str:
    return " and ".join(map(repr, words))


def changes(right: dict[str, Any], wrong: dict[str, Any]) -> str:
    """Return in words which arguments differ from the right ones, and how."""
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
    special = np.argwhere(~np.isfinite(wrong))
    if wrong.shape != right.shape and not len(special):
        return f"{name} {list(wrong.shape)}, not {list(right.shape)}"
    place = tuple(map(int, special[0] if len(special) else np.argwhere(wrong != right)[0]))
    new_shape = f"{name} {list(wrong.shape)}, with " if wrong.shape != right.shape else ""
    return f"{new_shape}{name}{list(place)} = {wrong[place].item()}"


def without_clause(op: Op, text: str) -> str:
    """Return a line of `in_words` without the operation and its clause in front."""
    rest = text.removeprefix(f"{op.clause} {op.name}")
    return f"{op.name}{rest}" if rest.startswith("_vjp") else rest.lstrip(",: ")


def in_words(op: Op, error: Exception) -> str:
    """Return one line that says how a check has failed."""
    text = " ".join(str(error).split())
    if isinstance(error, Disagreement):
        return text
    if isinstance(error, ArrayError):
        return f"{op.clause} {op.name}: {text.removeprefix(op.name).lstrip(': ')}"
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, AssertionError) and not text:
        laws = {law.__name__: law for law in op.laws}
        broken = [laws[frame.name] for frame in frames if frame.name in laws]
        if broken:
            return f"{op.clause} {op.name}: breaks a law, {(broken[-1].__doc__ or '').strip().partition(chr(10))[0]}"
        return f"{op.clause} {op.name}: {frames[-1].name}: {frames[-1].line}"
    if isinstance(error, AssertionError):
        return f"{op.clause} {op.name}: {text}"
    outside = [frame for frame in frames if not Path(frame.filename).is_relative_to(Path(__file__).parent)]
    of_kernel = [frame for frame in outside if frame.filename == outside[0].filename]  # the kernel's file
    kind = f"{type(error).__name__}: {text}"
    if (frames[-1].name, frames[-1].filename) == CALL:  # the call itself failed, before any line of the kernel
        how = f"cannot be called as --describe {op.name} prints:" if isinstance(error, TypeError) else "raises"
        return f"{op.clause} {op.name}: {how} {kind}"
    last = (of_kernel or frames)[-1]
    return f"{op.clause} {op.name}: raises {kind} ({last.filename}:{last.lineno})"
