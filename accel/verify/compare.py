"""One rule for "equal": exact for integers; for floats twice the reference's own rounding, or what the terms allow."""

from __future__ import annotations

from typing import Any

import numpy as np

EPS32 = float(np.finfo(np.float32).eps)
TINY32 = float(np.finfo(np.float32).tiny)


class Disagreement(AssertionError):
    """An answer that is not the reference's: which output, where in it, what it is, and what it should be."""

    def __init__(self, what: str, place: str, got: Any, wanted: Any, allowed: float = 0.0, share: str = "") -> None:
        off = f", allowed {allowed:.3g} off" if allowed else ""
        super().__init__(f"{what}: {place}: got {got}, wanted {wanted}{off}{share}")
        self.what, self.place, self.got, self.wanted, self.allowed = what, place, got, wanted, allowed


def assert_equal(fast: Any, exact: Any, what: str) -> None:
    """Integers, masks and indices: the same shape and the same numbers."""
    fast, exact = np.asarray(fast), np.asarray(exact)
    assert_shape(fast, exact, what)
    assert_none_wrong(fast, exact, 0.0, fast != exact, what)


def assert_shape(fast: np.ndarray, exact: np.ndarray, what: str) -> None:
    if fast.shape != exact.shape:
        raise Disagreement(what, "shape", list(fast.shape), list(exact.shape))


def assert_none_wrong(fast: np.ndarray, exact: np.ndarray, allowed: Any, wrong: np.ndarray, what: str) -> None:
    """Raise a Disagreement that shows the first wrong element, if `wrong` holds at any place."""
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        share = f" ({int(wrong.sum())} of {wrong.size} wrong)"
        bound = float(np.broadcast_to(allowed, wrong.shape)[place])
        raise Disagreement(what, str(list(place)), fast[place].item(), exact[place].item(), bound, share)


def assert_close(fast: Any, ref64: Any, ref32: list[Any], what: str, scale: float = 0.0, condition: Any = None) -> None:
    """Floats: |fast - ref64| <= 2 max|ref32 - ref64| + eps32 max|ref64|; float64: 1e-10 max|ref64|.

    `ref32` are answers of the reference in float32, for the inputs and for neighbours of them within one rounding: a
    single answer may be right by luck. Infinities must stand in the same places; a NaN anywhere fails. `scale` replaces
    a smaller max|ref64| where outputs are differences of numbers of that size.
    In float32 an element may also be off by eps32 times its `condition` (`accel/verify/conditions.py`), and by the
    smallest normal number: a kernel may replace a subnormal number by 0.
    """
    fast, ref64 = np.asarray(fast, np.float64), np.asarray(ref64, np.float64)
    assert_shape(fast, ref64, what)
    assert not np.isnan(ref64).any(), f"{what}: the reference gave NaN"
    finite = np.isfinite(ref64)
    size = np.abs(ref64[finite]).max(initial=0.0)
    rounding = EPS32 * max(size, scale)
    bound: Any = rounding if ref32 else 1e-10 * max(size, 1e-3)
    for answer in ref32:
        bound = max(
            bound, rounding + 2 * np.abs(np.asarray(answer, np.float64)[finite] - ref64[finite]).max(initial=0.0)
        )
    if ref32:
        bound = np.maximum(bound, EPS32 * np.asarray(0.0 if condition is None else condition)) + TINY32
    with np.errstate(invalid="ignore"):
        wrong = np.where(finite, ~(np.abs(fast - ref64) <= bound), fast != ref64)
    assert_none_wrong(fast, ref64, bound, wrong, what)
