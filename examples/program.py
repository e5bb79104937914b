"""End a program of the examples with one line if it is interrupted or its user made a mistake, as grove does."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from accel.cli import in_words, mistakes
from accel.training.signals import Stopped


def run_program(main: Callable[[], object]) -> None:
    """Run a program; an error that says what to change ends it with one line. `python -X dev` shows where it came from.

    Ctrl-C, and SIGTERM in a training, end it with one line and status 130 or 143. If the training was saved, the line
    says that the same command continues it.

    Raises
    ------
    SystemExit
        With the line, or the status.
    """
    try:
        main()
    except KeyboardInterrupt as stop:
        is_saved = isinstance(stop, Stopped) and stop.is_saved
        print(f"{stop}; run the same command again to continue" if is_saved else "interrupted", file=sys.stderr)
        raise SystemExit(128 + getattr(stop, "number", signal.SIGINT)) from None
    except Exception as error:
        if sys.flags.dev_mode or not isinstance(error, mistakes()):
            raise
        raise SystemExit(f"error: {in_words(error)}") from None
