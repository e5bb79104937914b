"""A mutant: a wrong version of one place of the code, as a block of lines and its replacement."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """In `path` (relative to the checkout) the lines `before`, from `line` on (counted from 1), become `after`.

    `nth` is the number of equal blocks of lines before them.
    """

    path: str
    line: int
    operator: str
    before: str
    after: str
    nth: int = 0

    @property
    def name(self) -> str:
        """A digest that stays when lines move, the path, and the line at the time of the draw."""
        text = f"{self.path}\n{self.nth}\n{self.before}\n{self.after}"
        return f"{hashlib.sha256(text.encode()).hexdigest()[:8]} {self.path}:{self.line}"

    @property
    def lines(self) -> range:
        return range(self.line, self.line + self.before.count("\n") + 1)

    def diff(self) -> str:
        old_lines = "".join(f"- {line}\n" for line in self.before.splitlines())
        return old_lines + "".join(f"+ {line}\n" for line in self.after.splitlines())


@dataclass(frozen=True)
class Drawn:
    """The mutants drawn by a seed, from these files, or from all if none are named."""

    seed: int
    files: list[str]
    mutants: list[Mutant]


def mutant_of(path: str, operator: str, source: str, mutated: str) -> Mutant:
    """Return the mutant of two texts: the lines from the first to the last difference.

    >>> mutant_of("a.py", "", "x = 1\\ny = 2\\nz = 3\\n", "x = 1\\ny = 4\\nz = 3\\n")
    Mutant(path='a.py', line=2, operator='', before='y = 2', after='y = 4', nth=0)
    """
    old, new = source.split("\n"), mutated.split("\n")
    first = next(i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])
    last = next(i for i, pair in enumerate(zip(reversed(old), reversed(new), strict=False)) if pair[0] != pair[1])
    last = min(last, len(old) - first - 1, len(new) - first - 1)
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    nth = _starts(before, old).index(first)
    return Mutant(path, first + 1, operator, "\n".join(before), "\n".join(after), nth)


def applied(mutant: Mutant, source: str) -> str | None:
    """Return the mutated text; None if the lines are no longer there."""
    lines, before = source.split("\n"), mutant.before.split("\n")
    starts = _starts(before, lines)
    if mutant.nth >= len(starts):
        return None
    start = starts[mutant.nth]
    return "\n".join([*lines[:start], mutant.after, *lines[start + len(before) :]])


def _starts(block: list[str], lines: list[str]) -> list[int]:
    return [i for i in range(len(lines)) if lines[i : i + len(block)] == block]
