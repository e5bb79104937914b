"""Formulas over the surprisals of regions, the predictions of SyntaxGym's suites (Hu et al., 2020), and their parser.

    formula     = comparison, { ("&" | "|"), comparison } ;
    comparison  = sum, ("<" | ">" | "="), sum | "[", formula, "]" ;
    sum         = term, { ("+" | "-"), term } ;
    term        = region | number | "[", sum, "]" ;
    region      = "(", (digits | "*"), ";", "%", condition, "%", ")" ;

Brackets may be round. Operators of equal precedence, & and | among them, are read from left to right. The region ``*``
is the whole sentence, and = means equal within TOLERANCE. All this is as in the released evaluation.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TOLERANCE = (1e-3, 1e-5)  # bits, plus a fraction of the right side
_JOINING, _COMPARING, _ADDING = "&|", "<>=", "+-"
_CLOSING = {"[": "]", "(": ")"}
_TOKEN = re.compile(
    r"\s*(?:\(\s*(?P<region>\d+|\*)\s*;\s*%(?P<condition>[^%]+)%\s*\)|(?P<number>\d+(?:\.\d*)?)|(?P<mark>[]&|<>=+()[-]))"
)


@dataclass(frozen=True)
class Region:
    """The sum of a region of a condition; of all its regions if the number is None."""

    condition: str
    number: int | None


@dataclass(frozen=True)
class Chain:
    """Operands and the operators between them, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


Node = Region | float | Chain
Sums = Mapping[str, Mapping[int, float]]
"""The sum of every region of every condition, bits."""


def parse_formula(text: str) -> Chain:
    """Return a parsed formula, the argument of `holds`.

    Raises
    ------
    ValueError
        With the character, from 1, where the text is not a formula.

    Examples
    --------
    >>> formula = parse_formula("[(2;%a%) + (3;%a%) < (2;%b%)] & (2;%b%) > 1")
    >>> holds(formula, {"a": {2: 1.0, 3: 2.5}, "b": {2: 4.0}})
    True
    """
    try:
        return _Parser(text).formula()
    except RecursionError:
        raise ValueError("too many brackets within one another") from None


def holds(formula: Chain, sums: Sums) -> bool:
    """Return whether a formula is true; raises KeyError for a region that has no sum. Spec: SYN-1."""
    return bool(_value(formula, sums))


def share_of_draws(formula: Chain, sums: Mapping[str, Mapping[int, np.ndarray]]) -> float:
    """Return the share of draws for which a formula is true.

    The sum of every region is an array of draws; all arrays have one shape.

    Examples
    --------
    >>> share_of_draws(parse_formula("(1;%a%) < (1;%b%)"), {"a": {1: np.arange(4)}, "b": {1: np.ones(4)}})
    0.25
    """
    return float(np.mean(_value(formula, sums)))


def regions_of(node: Node) -> Iterator[Region]:
    """Yield the regions that a formula names, from left to right."""
    if isinstance(node, Region):
        yield node
    elif isinstance(node, Chain):
        for operand in (node.first, *(operand for _, operand in node.rest)):
            yield from regions_of(operand)


def _equal(a: Any, b: Any) -> Any:
    return abs(a - b) <= TOLERANCE[0] + TOLERANCE[1] * abs(b)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "&": operator.and_, "|": operator.or_, "<": operator.lt, ">": operator.gt, "=": _equal,
    "+": operator.add, "-": operator.sub,
}  # fmt: skip


def _value(node: Node, sums: Mapping[str, Mapping[int, Any]]) -> Any:
    """Return a sum in bits, or whether a comparison is true; an array of these if the sums are arrays."""
    if isinstance(node, Region):
        of_condition = sums[node.condition]
        return sum(of_condition.values()) if node.number is None else of_condition[node.number]
    if not isinstance(node, Chain):
        return node
    value = _value(node.first, sums)
    for mark, operand in node.rest:
        value = _OPERATIONS[mark](value, _value(operand, sums))
    return value


class _Parser:
    """Recursive descent, with a method for each line of the grammar."""

    def __init__(self, text: str) -> None:
        self.text, self.end = text, 0
        self.token: re.Match[str] | None = None
        self._next()

    def formula(self) -> Chain:
        node = self._conjunction()
        if self.token is not None:
            raise self._wrong(f"{self.token[0].strip()!r} has no place here")
        if not isinstance(node, Chain) or node.rest[0][0] in _ADDING:
            raise ValueError("nothing is compared")
        return node

    def _conjunction(self) -> Node:
        return self._chain(_JOINING, self._comparison, of_truths=True)

    def _comparison(self) -> Node:
        return self._chain(_COMPARING, self._sum, of_truths=False, most=1)

    def _sum(self) -> Node:
        return self._chain(_ADDING, self._term, of_truths=False)

    def _chain(self, marks: str, operand: Callable[[], Node], *, of_truths: bool, most: int | None = None) -> Node:
        """Return the chain of operands between such marks, or the operand itself if there is only one."""
        begin, first, rest = self.begin, operand(), list[tuple[str, Node]]()
        while self._mark() in marks and len(rest) != most:
            mark = self._mark()
            if not rest:
                self._check(begin, first, mark, of_truths)
            self._next()
            begin, node = self.begin, operand()
            self._check(begin, node, mark, of_truths)
            rest.append((mark, node))
        return Chain(first, tuple(rest)) if rest else first

    def _term(self) -> Node:
        token = self.token
        if token is None:
            raise self._wrong("the formula ends where a region, a number or a bracket is due")
        if (close := _CLOSING.get(self._mark())) is not None:
            self._next()
            inner = self._conjunction()
            if self._mark() != close:
                raise self._wrong(f"{close!r} is missing")
            self._next()
            return inner
        self._next()
        if token["number"]:
            return float(token["number"])
        if token["region"]:
            return Region(token["condition"], None if token["region"] == "*" else int(token["region"]))
        self.begin = token.start("mark")
        raise self._wrong(f"{token['mark']!r} where a region, a number or a bracket is due")

    def _check(self, begin: int, node: Node, mark: str, of_truths: bool) -> None:
        is_truth = isinstance(node, Chain) and node.rest[0][0] not in _ADDING
        if is_truth != of_truths:
            self.begin = begin
            operands = "comparisons, not sums" if of_truths else "sums, not comparisons"
            raise self._wrong(f"{mark!r} stands between {operands}")

    def _mark(self) -> str:
        """Return the next mark; a blank, which is never a mark, if the next token is not a mark."""
        return (self.token and self.token["mark"]) or " "

    def _next(self) -> None:
        """Move to the next token, or to the end."""
        rest = self.text[self.end :]
        self.begin = self.end + len(rest) - len(rest.lstrip())
        if self.begin == len(self.text):
            self.token = None
            return
        self.token = _TOKEN.match(self.text, self.end)
        if self.token is None:
            raise self._wrong(f"cannot read {self.text[self.begin :][:12]!r}")
        self.end = self.token.end()

    def _wrong(self, reason: str) -> ValueError:
        return ValueError(f"character {self.begin + 1}: {reason}")
