"""A line on stderr when kernels are compiled: at their first use on a machine, and after a change of their source.

Numba announces every function that it compiles because its cache does not have it. What it loads, it does not announce.
"""

from __future__ import annotations

import sys

from numba.core import event


class _Notice(event.Listener):
    """The line, at the first compilation of a process."""

    is_due = True

    def on_start(self, compilation: event.Event) -> None:
        if self.is_due:
            self.is_due = False
            print("grove: compiling kernels (once)", file=sys.stderr, flush=True)

    def on_end(self, compilation: event.Event) -> None:
        """Do nothing."""


NOTICE = _Notice()
