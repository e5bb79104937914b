"""One rule for "equal": integers exactly; floats within what rounding can do on the way to each element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Precision:
    """A float format: `eps` is the distance from 1 to the next number, `tiny` the smallest normal number."""

    name: str
    bits: int  # after the point, of a number between 1 and 2
    smallest: int  # the exponent of the smallest normal number

    @property
    def eps(self) -> float:
        return 2.0**-self.bits

    @property
    def tiny(self) -> float:
        return 2.0**self.smallest


FLOAT64, FLOAT32 = Precision("float64", 52, -1022), Precision("float32", 23, -126)
PRECISIONS = {
    precision.name: precision
    for precision in (FLOAT32, Precision("tfloat32", 10, -126), Precision("float16", 10, -14),
                      Precision("bfloat16", 7, -126))
}  # fmt: skip
EPS32, TINY32 = FLOAT32.eps, FLOAT32.tiny


def rounded(x: Any, precision: Precision) -> np.ndarray:
    """Return the nearest numbers of a precision, ties to even, in float64; numbers too large for it stay as they are.

    >>> rounded(np.array([1 + 2**-9, 1 + 3 * 2**-8, 1e-40]), PRECISIONS["bfloat16"]).tolist()
    [1.0, 1.015625, 0.0]
    """
    x = np.asarray(x, np.float64)
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 1.0))
    unit = np.ldexp(1.0, np.maximum(exponent - 1, precision.smallest) - precision.bits)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isfinite(x), np.round(x / unit) * unit, x))


class Disagreement(AssertionError):
    """An answer that is not the reference's: which output, where in it, what it is, and what it should be."""

    def __init__(self, what: str, place: str, got: Any, wanted: Any, allowed: float = 0.0, share: str = "") -> None:
        off = f", allowed {allowed:.3g} off" if allowed else ""
        super().__init__(f"{what}: {place}: got {got}, wanted {wanted}{off}{share}")
        self.what, self.place, self.got, self.wanted, self.allowed = what, place, got, wanted, allowed


def assert_equal(fast: Any, exact: Any, what: str) -> None:
    """Raise Disagreement unless integers, masks or indices have the same shape and the same numbers."""
    fast, exact = np.asarray(fast), np.asarray(exact)
    assert_shape(fast, exact, what)
    assert_none_wrong(fast, exact, 0.0, fast != exact, what)


def assert_shape(fast: np.ndarray, exact: np.ndarray, what: str) -> None:
    if fast.shape != exact.shape:
        raise Disagreement(what, "shape", list(fast.shape), list(exact.shape))


def assert_offsets(offsets: np.ndarray, count: int, end: int, what: str) -> None:
    """Raise Disagreement unless offsets of `count` parts begin at 0 and end at `end`, the number of all elements."""
    if offsets.shape != (count + 1,):
        raise Disagreement(what, "shape", list(offsets.shape), [count + 1])
    for place, right in ((0, 0), (count, end)):
        if offsets[place] != right:
            raise Disagreement(what, str([place]), int(offsets[place]), right)


def assert_none_wrong(fast: np.ndarray, exact: np.ndarray, allowed: Any, wrong: np.ndarray, what: str) -> None:
    """Raise a Disagreement that shows the first wrong element, if `wrong` holds at any place."""
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        share = f" ({int(wrong.sum())} of {wrong.size} wrong)"
        bound = float(np.broadcast_to(allowed, wrong.shape)[place])
        raise Disagreement(what, str(list(place)), fast[place].item(), exact[place].item(), bound, share)


def assert_close(
    fast: Any, ref64: Any, narrow: list[Any], what: str, condition: Any = None, precision: Precision = FLOAT64
) -> None:
    """Raise AssertionError if floats differ by more than `allowance`, infinities are elsewhere, or there is a NaN."""
    fast, ref64 = np.asarray(fast, np.float64), np.asarray(ref64, np.float64)
    assert_shape(fast, ref64, what)
    assert not np.isnan(ref64).any(), f"{what}: the reference gave NaN"
    bound = allowance(ref64, narrow, condition, precision)
    with np.errstate(invalid="ignore"):
        wrong = np.where(np.isfinite(ref64), ~(np.abs(fast - ref64) <= bound), fast != ref64)
    assert_none_wrong(fast, ref64, bound, wrong, what)


def allowance(ref64: np.ndarray, narrow: list[Any], condition: Any = None, precision: Precision = FLOAT64) -> Any:
    """Return how far floats may be off. In float64: 1e-10 max|ref64|, where the maximum counts as at least 1e-3.

    For an element it is eps times its `condition` if that is larger: large numbers may cancel.

    In another precision, with its eps: 2 max|narrow - ref64| + eps max|ref64|, or for an element eps times its
    `condition` if that is larger, what the roundings on the way to it can do (`accel/verify/conditions.py`). `narrow`
    are answers of the reference in float32, for the inputs and for neighbours within one rounding of the precision,
    since a single answer may be right by luck; without them their term is 0. The smallest normal number is added: a
    kernel may replace a subnormal number by 0.
    """
    finite = np.isfinite(ref64)
    size = np.abs(ref64[finite]).max(initial=0.0)
    if precision == FLOAT64:
        return np.maximum(1e-10 * max(size, 1e-3), precision.eps * np.asarray(0.0 if condition is None else condition))
    off = max((np.abs(np.asarray(x, np.float64)[finite] - ref64[finite]).max(initial=0.0) for x in narrow), default=0.0)
    of_element = precision.eps * np.asarray(0.0 if condition is None else condition)
    return np.maximum(2 * off + precision.eps * size, of_element) + precision.tiny
