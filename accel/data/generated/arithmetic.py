"""Mathematical language understanding (Wangperawong, 2018): from ``x=85,y=-523,x*y`` to ``-44455``, by characters.

x and y are whole numbers in [-1000, 1000), the operator is one of + - *, and which variable comes first is random in
the assignments and in the expression. Problem number i of a seed is always the same, and a tenth of all combinations of
operator and two numbers (in whichever order) never occurs in training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from operator import add, mul, sub
from pathlib import Path

import numpy as np

from accel.data.batches.sequence_pairs import Pair
from accel.data.files.lines import LineError, read_lines
from accel.data.vocabularies.vocabulary import Vocabulary

OPERATORS = {"+": add, "-": sub, "*": mul}
SMALLEST, NUMBERS = -1000, 2000
VOCABULARY = Vocabulary("words", tuple(sorted("0123456789xy=,+-*")), ())
SPLITS = ("train", "test")
_PROBLEM = re.compile(r"([xy])=(-?[0-9]+),([xy])=(-?[0-9]+),([xy])([-+*])([xy])")


def answer(problem: str) -> int:
    """Return the value of a problem's expression.

    Raises
    ------
    ValueError
        If it is not two assignments and an expression of x and y.

    Examples
    --------
    >>> answer("x=85,y=-523,x*y")
    -44455
    """
    found = _PROBLEM.fullmatch(problem)
    if found is None or found[1] == found[3] or found[5] == found[7]:
        raise ValueError(f"{problem!r} is not a problem such as 'x=85,y=-523,x*y'")
    values = {found[1]: int(found[2]), found[3]: int(found[4])}
    value: int = OPERATORS[found[6]](values[found[5]], values[found[7]])
    return value


def problem(seed: int, index: int, split: str = "train") -> str:
    """Return a problem of one of the SPLITS; the same numbers give the same one.

    Examples
    --------
    >>> problem(0, 0), problem(0, 0) == problem(0, 0), problem(0, 0) == problem(0, 1)
    ('y=-106,x=-989,y+x', True, False)
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    attempt = 0
    while True:
        draw = _hash(f"{seed} {index} {attempt}")
        draw, x = divmod(draw, NUMBERS)
        draw, y = divmod(draw, NUMBERS)
        draw, operator = divmod(draw, len(OPERATORS))
        x, y, symbol = x + SMALLEST, y + SMALLEST, [*OPERATORS][operator]
        if _is_held_out(x, y, symbol) == (split == "test"):
            assigned = [f"x={x}", f"y={y}"][:: 1 - 2 * (draw & 1)]
            sides = ["x", "y"][:: 1 - (draw & 2)]
            return ",".join([*assigned, symbol.join(sides)])
        attempt += 1


def _is_held_out(x: int, y: int, operator: str) -> bool:
    return _hash(f"{min(x, y)} {operator} {max(x, y)}") % 10 == 0


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def encode(problem: str, value: int) -> Pair:
    """Return a problem and its answer as ids of characters."""
    source, target = (np.array(VOCABULARY.encode_words(text), np.int32) for text in (problem, str(value)))
    return source, target


@dataclass(frozen=True)
class Problems:
    """The first `count` problems of a seed, made when they are asked for: pairs for `pair_batches`."""

    count: int
    seed: int
    split: str = "train"

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ValueError(f"unknown split {self.split!r}: choose one of {', '.join(SPLITS)}")

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Pair:
        if not 0 <= i < self.count:
            raise IndexError(f"problem {i} of {self.count}")
        text = problem(self.seed, i, self.split)
        return encode(text, answer(text))


def read_problems(path: str | Path) -> Iterator[tuple[str, int]]:
    """Yield the problems and answers of a file of lines ``problem:answer``.

    Raises
    ------
    LineError
        At its line: no colon, an ill-formed problem, a wrong answer; as `read_lines` does.
    """
    for number, line in read_lines(path):
        text, colon, given = line.strip().partition(":")
        if not colon:
            raise LineError(path, number, "no colon between a problem and its answer")
        try:
            value = answer(text)
        except ValueError as error:
            raise LineError(path, number, str(error)) from error
        if given != str(value):
            raise LineError(path, number, f"the answer to {text} is {value}, not {given!r}")
        yield text, value
