"""The error for an option that a model does not take, or a value that an option does not take."""

from __future__ import annotations

from numbers import Integral

_TYPED = {"sync": "--no-sync"}  # other options are typed as they are named


class OptionError(ValueError):
    """An option, its value unless that is None, and why it is refused.

    In Python the option has the name of the argument. `typed` returns the message with the name that `grove` takes.

    Examples
    --------
    >>> error = OptionError("word_beam", "at least 1 is needed", 0)
    >>> str(error), error.typed()
    ('word_beam 0: at least 1 is needed', '--word-beam 0: at least 1 is needed')
    """

    def __init__(self, option: str, reason: str, value: object = None) -> None:
        self.option, self.rest = option, f"{'' if value is None else f' {value}'}: {reason}"
        super().__init__(option + self.rest)

    def typed(self) -> str:
        """Return the message with the option as it is typed on the command line."""
        return typed(self.option) + self.rest


def check_number(option: str, value: object, least: int = 1) -> None:
    """Raise OptionError unless a value is a whole number of at least `least`.

    >>> check_number("beam", 2.5)
    Traceback (most recent call last):
    accel.trained.options.OptionError: beam 2.5: a whole number is needed
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise OptionError(option, "a whole number is needed", repr(value))
    if value < least:
        raise OptionError(option, f"at least {least} is needed", value)


def typed(option: str) -> str:
    """Return an option as it is typed on the command line.

    >>> typed("word_beam"), typed("sync")
    ('--word-beam', '--no-sync')
    """
    return _TYPED.get(option, f"--{option.replace('_', '-')}")
