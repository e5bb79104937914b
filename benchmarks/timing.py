"""Clocks, medians and the lines of the benchmark's table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Times:
    """Seconds: median, least, greatest."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{1e3 * self.median:.2f} ms [{1e3 * self.least:.2f}, {1e3 * self.greatest:.2f}]"


@dataclass(frozen=True)
class Row:
    """One line of the table: the goal is a bound on `figure`; an empty goal is none.

    `alone` is the time of the step's matrix products, `most` the greatest multiple of it that is our goal (0: none).
    """

    name: str
    ours: Times
    peer: Times | None
    figure: str
    goal: str
    met: bool
    alone: Times | None = None
    most: float = 0.0


@dataclass(frozen=True)
class Clock:
    """How to measure: a reading of seconds, and how often."""

    read: Callable[[], float]
    repeats: int

    def times(self, *calls: Callable[[], Any]) -> list[Times]:
        """Time the calls in turn, after one run each to warm up."""
        seconds: list[list[float]] = [[] for _ in calls]
        for repeat in range(self.repeats + 1):
            for durations, call in zip(seconds, calls, strict=True):
                begin = self.read()
                call()
                if repeat:
                    durations.append(self.read() - begin)
        return [Times(median(s), min(s), max(s)) for s in seconds]


def report(rows: Iterator[Row]) -> list[Row]:
    """Print the rows as they come."""
    out = []
    for row in rows:
        out.append(row)
        peer = f", PyTorch {row.peer}" if row.peer else ""
        goal = f" (goal {row.goal}: {'reached' if row.met else 'MISSED'})" if row.goal else ""
        print(f"{row.name}\n    {row.figure}{goal}; {row.ours}{peer}{beside_products(row)}", flush=True)
    return out


def beside_products(row: Row) -> str:
    """Return our time as a multiple of the time of the matrix products alone."""
    if row.alone is None:
        return ""
    ratio = row.ours.median / row.alone.median
    goal = f" (goal <= {row.most:g}: {'reached' if ratio <= row.most else 'MISSED'})" if row.most else ""
    return f"\n    {ratio:.2f} times the products alone{goal}, {row.alone}"
