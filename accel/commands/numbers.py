"""The types of options with numbers, which refuse a value out of range before anything is read."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from math import isfinite


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of whole numbers that are not below `least`.

    Examples
    --------
    >>> at_least(1)("0")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: 0: at least 1 is needed
    """

    def whole_number(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text}: a whole number is needed") from None
        if number < least:
            raise ArgumentTypeError(f"{text}: at least {least} is needed")
        return number

    return whole_number


def finite(text: str) -> float:
    """Return a number that is not below 0, not infinite and not NaN."""
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text}: a number is needed") from None
    if not isfinite(number) or number < 0:
        raise ArgumentTypeError(f"{text}: a finite number from 0 is needed")
    return number
