"""The types of options with numbers, which refuse a value out of range before anything is read."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

from accel.search.beam import MOST_PENALTY

MOST = 2**63 - 1
"""The greatest number that an array holds."""


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
        if number > MOST:
            raise ArgumentTypeError(f"{text}: at most {MOST} is possible")
        return number

    return whole_number


def length_penalty(text: str) -> float:
    """Return a length penalty: a number from 0 to `MOST_PENALTY`.

    Examples
    --------
    >>> length_penalty("nan")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: nan: a number from 0 to 10 is needed
    """
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text}: a number is needed") from None
    if not 0 <= value <= MOST_PENALTY:
        raise ArgumentTypeError(f"{text}: a number from 0 to {MOST_PENALTY} is needed")
    return value
