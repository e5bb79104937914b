"""Checks of the fields of a configuration.

Every mistake is a ValueError in one wording, "name: value, but what is wrong; use what is allowed".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from math import inf, lcm
from numbers import Integral, Real
from typing import Any


@dataclass(frozen=True)
class Allowed:
    """The values that a field may have."""

    holds: Callable[[Any], bool]
    but: str  # what is wrong with any other value
    use: str

    def __contains__(self, value: object) -> bool:
        return self.holds(value)


Rule = tuple[Collection[str], str, Container[Any]]
"""Settings, and another one with its values with which they are read."""


def refusal(name: str, value: Any, but: str, use: str) -> ValueError:
    """Return the error of a value that is not allowed.

    >>> refusal("dropout", 1.0, "a rate is below 1", "0 for none")
    ValueError('dropout: 1.0, but a rate is below 1; use 0 for none')
    """
    return ValueError(f"{name}: {value!r}, but {but}; use {use}")


def check(config: Any, **fields: Allowed) -> None:
    """Raise ValueError at the first field whose value is not allowed."""
    for name, rule in fields.items():
        value = getattr(config, name)
        if not rule.holds(value):
            raise refusal(name, value, rule.but, rule.use)


def at_least(least: int) -> Allowed:
    """Whole numbers from `least` on."""
    return Allowed(
        lambda value: _is_whole(value) and value >= least, f"the least whole number is {least}", f"{least} or more"
    )


def one_of(choices: Sequence[str]) -> Allowed:
    """The words in `choices`."""
    return Allowed(lambda value: value in choices, "there is no such choice", _listed(choices))


def or_none(allowed: Allowed) -> Allowed:
    """The values of another rule, and None."""
    return Allowed(lambda value: value is None or allowed.holds(value), allowed.but, f"{allowed.use}, or none")


RATE = Allowed(
    lambda value: _is_real(value) and 0.0 <= value < 1.0,
    "a rate is at least 0 and below 1",
    "0 for none, or up to 0.99",
)
POSITIVE = Allowed(
    lambda value: _is_real(value) and 0.0 < value < inf, "it must be above 0 and finite", "a number above 0"
)
NOT_NEGATIVE = Allowed(
    lambda value: _is_real(value) and 0.0 <= value < inf, "it must be at least 0 and finite", "0 or a number above 0"
)
SHARE = Allowed(
    lambda value: _is_real(value) and 0.0 < value <= 1.0, "it must be above 0 and at most 1", "a number from 0.01 to 1"
)
FLAG = Allowed(lambda value: isinstance(value, bool), "it must be a truth value", "true or false")
TEXT = Allowed(lambda value: isinstance(value, str), "it must be text", "letters")
WHOLE = Allowed(lambda value: _is_whole(value), "it must be a whole number", "digits only")


def reasons_unread(config: Any, names: Iterable[str], rules: Sequence[Rule]) -> dict[str, str]:
    """Return, of the settings among `names` that nothing reads, the setting that makes it so, such as "kind=lstm".

    Of several rules that leave a setting unread, the first gives the reason.
    """
    reasons: dict[str, str] = {}
    for name in names:
        for settings, other, values in rules:
            if name in settings and getattr(config, other) not in values:
                reasons.setdefault(name, f"{other}={getattr(config, other)}")
    return reasons


def check_width(config: Any, width: str, heads: str, even: bool = False) -> None:
    """Raise ValueError unless the width is a multiple of the number of heads and, if `even`, of 2."""
    value, count = getattr(config, width), getattr(config, heads)
    step = lcm(count, 2 if even else 1)
    if value % step:
        below, above = value // step * step, value // step * step + step
        use = f"{below} or {above}" if below else str(above)
        if even and value % 2:
            raise refusal(width, value, "it is odd", use)
        raise refusal(width, value, f"it is no multiple of {heads}, {count}", f"{use}, or another {heads}")


def chunk_size(most: int, *widths: int) -> int:
    """Return the greatest number up to `most` that divides every width.

    >>> chunk_size(10, 400, 1150), chunk_size(10, 32), chunk_size(10, 48, 64)
    (10, 8, 8)
    """
    return max(size for size in range(1, min(most, *widths) + 1) if all(width % size == 0 for width in widths))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _listed(choices: Sequence[str]) -> str:
    """Return words as in "a, b or c"."""
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last
