"""End a program of the examples with one line if its user made a mistake, as the commands of grove do."""

from __future__ import annotations

import sys
from collections.abc import Callable

from accel.cli import in_words, mistakes


def run_program(main: Callable[[], object]) -> None:
    """Run a program; an error that says what to change ends it with one line. `python -X dev` shows where it came from.

    Raises
    ------
    SystemExit
        With the line.
    """
    try:
        main()
    except Exception as error:
        if sys.flags.dev_mode or not isinstance(error, mistakes()):
            raise
        raise SystemExit(f"error: {in_words(error)}") from None
