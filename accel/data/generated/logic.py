"""Logical inference (Bowman, Manning and Potts, 2015): two formulas, and which of seven relations holds between them.

A line of a file is ``relation TAB formula TAB formula``. Blanks separate tokens, and brackets are tokens. With
brackets, the formulas in the files of 5, 6 and 7 operators have 15.2, 17.8 and 20.4 tokens on average, as in the
papers; without brackets they would have 5.7, 6.6 and 7.5. The 11 tokens and the relations are in the order of the
released code (whose twelfth token is padding).

In the pairs of ``train3`` and ``test3``, the longer formula has 3 operators; in those of ``train12`` and ``test12``, 12
or more. `python -m accel.data.generated.logic --out DIR --samples 500000 --seed 1` writes new files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from errno import EEXIST
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accel.data.batches.sentences import Example, Examples, encode_examples
from accel.data.files.lines import LineError, find_file, read_lines
from accel.data.files.written import replaced
from accel.data.vocabularies.words import Words

ATOMS = ("a", "b", "c", "d", "e", "f")
BINARY = ("or", "and")
OPERATORS = (*BINARY, "not")
WORDS = Words(("(", ")", *ATOMS, *OPERATORS))
RELATIONS = ("<", ">", "=", "^", "|", "#", "v")
LONGEST = 12
TRAINING_LENGTHS = tuple(range(7))

WORLDS = (1 << 64) - 1  # all worlds; world w makes atom i true if bit i of w is set
_TRUE = {atom: sum(1 << w for w in range(64) if w >> i & 1) for i, atom in enumerate(ATOMS)}

_TRAIN_PORTION = 0.85
_ATOMS_PER_PAIR = 4
_CHOICES = ("and", "or", "and", "or", "", "", "", "", "")  # "": an atom
_DEPTH_BUDGET = 12


def parse(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return a formula in postfix order, without brackets.

    Raises
    ------
    ValueError
        If a token is unknown or in the wrong place (the message has its number), or a bracket is not closed.

    Examples
    --------
    >>> parse("( ( not a ) ( and b ) )".split())
    ('a', 'not', 'b', 'and')
    """
    stack: list[
        str | tuple[str, ...]
    ] = []  # brackets and operators as strings; formulas and results of `_bracket` as tuples
    for position, token in enumerate(tokens, 1):
        if token in ATOMS:
            stack.append((token,))
        elif token in OPERATORS or token == "(":
            if token != "(" and stack[-1:] != ["("]:
                raise ValueError(f"token {position}, {token!r}, is an operator in the wrong place")
            stack.append(token)
        elif token == ")":
            if "(" not in stack:
                raise ValueError(f"token {position}: a closing bracket without an opening one")
            start = len(stack) - stack[::-1].index("(")
            stack[start - 1 :] = [_bracket(stack[start:], position)]
        else:
            raise ValueError(f"token {position}: unknown token {token!r}")
    if "(" in stack:
        raise ValueError(f"{stack.count('(')} open bracket(s) without a closing one")
    if len(stack) != 1 or not isinstance(stack[0], tuple) or stack[0][0] == "":
        raise ValueError(f"{len(tokens)} tokens are not one formula")
    return stack[0]


def _bracket(items: list[str | tuple[str, ...]], position: int) -> tuple[str, ...]:
    """Return the content of a bracket in postfix order: a formula; or "", a right operand and its operator."""
    match items:
        case ["not", tuple(inner)] if inner[0]:
            return (*inner, "not")
        case [str(operator), tuple(right)] if operator in BINARY and right[0]:
            return ("", *right, operator)
        case [tuple(left), tuple(right)] if left[0] and not right[0]:
            return (*left, *right[1:])
    raise ValueError(f"the bracket that token {position} closes does not hold one operator and its operands")


def worlds(formula: Sequence[str]) -> int:
    """Return the worlds in which a parsed formula is true, as the set bits of a 64-bit number."""
    stack: list[int] = []
    for token in formula:
        if token in _TRUE:
            stack.append(_TRUE[token])
        elif token == "not":
            stack.append(WORLDS & ~stack.pop())
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(left & right if token == "and" else left | right)
    return stack.pop()


def relation(left: int, right: int) -> str:
    """Return the relation between two sets of worlds.

    ``=`` the sets are equal; ``<`` ``>`` one is within the other; ``^`` they are complements; ``|`` they are disjoint,
    but some world is in neither; ``v`` every world is in one of them, but they overlap; ``#`` none of these, or one set
    is empty or holds all worlds.

    Examples
    --------
    >>> relation(0b01, 0b11), relation(0b01, 0b10), relation(WORLDS ^ 0b01, 0b01)
    ('<', '|', '^')
    """
    in_both, only_left, only_right, neither = left & right, left & ~right, right & ~left, WORLDS & ~(left | right)
    occupied = (bool(in_both), bool(only_left), bool(only_right), bool(neither))
    return _RELATION.get(occupied, "#")


_RELATION = {
    (True, False, False, True): "=",
    (True, False, True, True): "<",
    (True, True, False, True): ">",
    (False, True, True, False): "^",
    (False, True, True, True): "|",
    (True, True, True, False): "v",
}


def read_pairs(path: str | Path) -> Iterator[Example]:
    """Yield the pairs of a file.

    Raises
    ------
    LineError
        At the faulty line: not three columns, an unknown relation, an empty or ill-formed formula; as `read_lines`
        does.
    """
    for number, line in read_lines(path):
        columns = line.split("\t")
        if len(columns) != 3:
            raise LineError(path, number, f"{len(columns)} column(s), not relation, left and right between tabs")
        label = columns[0].strip()
        if label not in RELATIONS:
            raise LineError(path, number, f"unknown relation {label!r}: it must be one of {' '.join(RELATIONS)}")
        sides = columns[1].split(), columns[2].split()
        for name, tokens in zip(("left", "right"), sides, strict=True):
            try:
                parse(tokens)
            except ValueError as error:
                raise LineError(path, number, f"{name} formula: {error}") from error
        yield Example(label, sides, number)


def load_training(folder: str | Path, lengths: Sequence[int] = TRAINING_LENGTHS) -> tuple[Examples, Examples]:
    """Return training and validation pairs of the files ``train{length}``: every tenth line is validation.

    Lines are counted from 1 through all the files in order.
    """
    paths = [_file(folder, "train", length) for length in lengths]
    numbered_pairs = [*enumerate(chain.from_iterable(map(read_pairs, paths)), 1)]
    parts = ([pair for number, pair in numbered_pairs if (number % 10 == 0) == held_out] for held_out in (False, True))
    training, validation = (encode_examples(folder, part, WORDS.encode, RELATIONS, 2) for part in parts)
    return training, validation


def load_test(folder: str | Path, length: int) -> Examples:
    """Return the pairs of ``test{length}``."""
    path = _file(folder, "test", length)
    return encode_examples(path, read_pairs(path), WORDS.encode, RELATIONS, 2)


def _file(folder: str | Path, kind: str, length: int) -> Path:
    if not 0 <= length <= LONGEST:
        raise ValueError(f"lengths are 0..{LONGEST}, not {length}")
    return find_file(folder, f"{kind}{length}")


class Formula(NamedTuple):
    """A generated formula: its text, the worlds where it is true, and its number of operators."""

    text: str
    worlds: int
    n_operators: int


def generate(seed: int) -> Iterator[tuple[Formula, Formula]]:
    """Yield pairs of formulas without end, drawn as in the papers' data.

    The atoms of a pair are four of the six. A node is an atom with probability 5/9, ``and`` or ``or`` with 2/9 each; it
    is negated with probability 1/3. The depth budget is 12 at the root, and each binary operator halves it; a node
    whose budget is below 2 is an atom. Pairs with a tautology or a contradiction are left out.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    draw = chain.from_iterable(iter(lambda: rng.random(1 << 14).tolist(), None)).__next__
    while True:
        pool = list(ATOMS)
        atoms = [pool.pop(int(draw() * len(pool))) for _ in range(_ATOMS_PER_PAIR)]
        left, right = (_draw_formula(draw, atoms, _DEPTH_BUDGET) for _ in range(2))
        if not {left.worlds, right.worlds} & {0, WORLDS}:
            yield left, right


def _draw_formula(draw: Callable[[], float], atoms: list[str], budget: int) -> Formula:
    operator = _CHOICES[int(draw() * len(_CHOICES))]
    if not operator or budget < 2:
        atom = atoms[int(draw() * len(atoms))]
        formula = Formula(atom, _TRUE[atom], 0)
    else:
        left, right = (_draw_formula(draw, atoms, budget // 2) for _ in range(2))
        true = left.worlds & right.worlds if operator == "and" else left.worlds | right.worlds
        text = f"( {left.text} ( {operator} {right.text} ) )"
        formula = Formula(text, true, left.n_operators + right.n_operators + 1)
    if draw() * 3 < 1:
        return Formula(f"( not {formula.text} )", WORLDS & ~formula.worlds, formula.n_operators + 1)
    return formula


def write_files(folder: str | Path, samples: int, seed: int) -> dict[str, int]:
    """Write ``train0`` to ``test12`` from `samples` pairs, and return the number of lines of each file.

    Lines are distinct; of each length the first 85 % are for training. Memory: about 200 bytes a line.

    Raises
    ------
    FileExistsError
        If the folder has one of these files already; nothing is written then.
    """
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")
    folder = Path(folder)
    for name in (f"{part}{length}" for length in range(LONGEST + 1) for part in ("train", "test")):
        if (folder / name).exists():
            raise FileExistsError(EEXIST, "File exists", str(folder / name))
    lines: list[dict[str, None]] = [{} for _ in range(LONGEST + 1)]
    for left, right in islice(generate(seed), samples):
        length = min(max(left.n_operators, right.n_operators), LONGEST)
        lines[length][f"{relation(left.worlds, right.worlds)}\t{left.text}\t{right.text}\n"] = None
    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for length, unique in enumerate(lines):
        n_training = int(_TRAIN_PORTION * len(unique))
        for name, part in ((f"train{length}", [*unique][:n_training]), (f"test{length}", [*unique][n_training:])):
            with replaced(folder / name) as file:
                file.writelines(line.encode() for line in part)
            counts[name] = len(part)
    return counts


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files that the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m accel.data.generated.logic", description="write logical-inference files"
    )
    parser.add_argument("--out", required=True, help="folder for train0 ... test12")
    parser.add_argument("--samples", type=int, default=500_000, help="pairs to draw; repeated ones are written once")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        counts = write_files(options.out, options.samples, options.seed)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print("".join(f"{name}\t{count}\n" for name, count in counts.items()), end="")


if __name__ == "__main__":
    main()
