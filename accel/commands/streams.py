"""The standard streams of a process that was started without some of them."""

from __future__ import annotations

import os
import sys


def open_closed() -> None:
    """Open the standard streams that were closed at the start, as by `<&-` in a shell, on the null device.

    Otherwise the next file that is opened gets their number, and what is printed would go into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))
