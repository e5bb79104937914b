"""The progress of a loop, on stderr: a bar on a terminal; elsewhere one plain line every ten seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")
SECONDS = 10.0  # between two lines
DELAY = 1.0  # seconds until a bar appears


def progress(
    items: Iterable[T],
    count: int | None = None,
    unit: str = "tree",
    *,
    label: str = "",
    done: int = 0,
    note: Callable[[], str] | None = None,
    quiet: bool = False,
) -> Generator[T, None, None]:
    """Yield the items, and show how many were used; close the iterator (`contextlib.closing`) where a loop may break.

    Parameters
    ----------
    count : int or None
        How many there are in all, those that were `done` before included; None: not known.
    unit : str
        The name of an item; in lines its plural ends in s.
    label : str
        What is done, such as "reading train.trees".
    note : function
        Returns what else to show, such as the loss; called after an item was used.
    quiet : bool
        Show nothing.
    """
    if quiet:
        return (item for item in items)
    show = _bar if sys.stderr.isatty() else _lines
    return show(items, count, unit, label, done, note or str)


def _bar(
    items: Iterable[T], count: int | None, unit: str, label: str, n_done: int, note: Callable[[], str]
) -> Generator[T, None, None]:
    from tqdm import tqdm  # only where there is a terminal

    with tqdm(total=count, unit=unit, desc=label or None, initial=n_done, leave=False, delay=DELAY) as bar:
        for item in items:
            yield item
            bar.set_postfix_str(note(), refresh=False)
            bar.update()


def _lines(
    items: Iterable[T], count: int | None, unit: str, label: str, n_done: int, note: Callable[[], str]
) -> Generator[T, None, None]:
    last = monotonic()
    begin, before = None, n_done  # the first item may wait for kernels to compile: the speed is of those after it
    for item in items:
        yield item
        n_done += 1
        now = monotonic()
        if now - last >= SECONDS:
            last = now
            speed = None if begin is None else (n_done - before) / (now - begin)
            print(_line(count, unit, label, n_done, note(), speed), file=sys.stderr, flush=True)
        if begin is None:
            begin, before = now, n_done


def _line(count: int | None, unit: str, label: str, n_done: int, note: str, speed: float | None) -> str:
    """Return a line such as `grove: reading train.trees: 1,200 of 5,000 trees, 40.0 a second, 1:35 left`."""
    of = "" if count is None else f" of {count:,}"
    head, tail = (f"{label}: " if label else ""), (f"; {note}" if note else "")
    if speed is not None:
        rate = f", {speed:,.0f} a second" if speed >= 100 else f", {speed:.3g} a second"
        tail = rate + ("" if count is None else _left(round((count - n_done) / speed))) + tail
    return f"grove: {head}{n_done:,}{of} {unit}s{tail}"


def _left(seconds: int) -> str:
    return f", {seconds // 60}:{seconds % 60:02} left" if seconds < 3600 else f", {seconds / 3600:.1f} h left"
