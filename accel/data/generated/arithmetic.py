"""Mathematical language understanding (Wangperawong, 2018): from ``x=85,y=-523,x*y`` to ``-44455``, by characters.

x and y are whole numbers in [-1000, 1000), and the operator is one of + - *. The order of the variables is random in
the assignments and in the expression. Problem number i of a seed is always the same. A tenth of all combinations of
an operator and two numbers (in either order) never occurs in training.
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
from accel.data.files.lines import LineError, errors_at, read_lines
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
        If the problem is not two assignments and an expression of x and y.

    Examples
    --------
    >>> answer("x=85,y=-523,x*y")
    -44455
    """
    match = _PROBLEM.fullmatch(problem)
    if match is None or match[1] == match[3] or match[5] == match[7]:
        raise ValueError(f"{problem!r} is not a problem such as 'x=85,y=-523,x*y'")
    values = {match[1]: int(match[2]), match[3]: int(match[4])}
    value: int = OPERATORS[match[6]](values[match[5]], values[match[7]])
    return value


def problem(seed: int, index: int, split: str = "train") -> str:
    """Return a problem of one of the SPLITS; the same arguments give the same problem.

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
            assignments = [f"x={x}", f"y={y}"][:: 1 - 2 * (draw & 1)]
            sides = ["x", "y"][:: 1 - (draw & 2)]
            return ",".join([*assignments, symbol.join(sides)])
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
    """The first `count` problems of a seed, computed on request: pairs for `pair_batches`."""

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
        At the faulty line: no colon, an ill-formed problem, a wrong answer; as `read_lines` does.
    """
    for number, line in read_lines(path):
        text, colon, answer_text = line.strip().partition(":")
        if not colon:
            raise LineError(path, number, "no colon between a problem and its answer")
        with errors_at(path, number):
            value = answer(text)
        if answer_text != str(value):
            raise LineError(path, number, f"the answer to {text} is {value}, not {answer_text!r}")
        yield text, value
