"""Formulas over regions: random formulas with their values, precedence by hand, and mistakes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.published.region_formula import Region, holds, parse_formula, regions_of

SUMS = {"a": {1: 1.0, 2: 2.0, 3: 4.0}, "no-gap_x": {1: 8.0, 2: 0.5}}
SPACE = st.sampled_from(["", "", " ", "  "])
Drawn = tuple[str, float]


def bracketed(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    def surround(formula: Drawn, pair: str, space: str) -> Drawn:
        return f"{pair[0]}{space}{formula[0]}{space}{pair[1]}", formula[1]

    return st.builds(surround, inner, st.sampled_from(["[]", "()"]), SPACE)


@st.composite
def chains(draw: st.DrawFn, operand: st.SearchStrategy[Drawn], marks: str, least: int, most: int) -> Drawn:
    """Draw a formula and its value, which is computed here, from left to right, without the code under test."""
    text, value = draw(operand)
    for _ in range(draw(st.integers(least, most)) - 1):
        mark, (more, other) = draw(st.sampled_from(marks)), draw(operand)
        text += draw(SPACE) + mark + draw(SPACE) + more
        value = {
            "+": value + other, "-": value - other, "<": value < other, ">": value > other, "=": value == other,
            "&": bool(value) and bool(other), "|": bool(value) or bool(other),
        }[mark]  # fmt: skip
    return text, value


REGIONS = [(f"({n};%{name}%)", bits) for name, regions in SUMS.items() for n, bits in regions.items()]
ATOMS = st.sampled_from(
    [*REGIONS, ("( 2; %a% )", 2.0), ("(*;%a%)", 7.0), ("(*;%no-gap_x%)", 8.5), ("0", 0), ("2.5", 2.5)]
)
ADDED = st.recursive(ATOMS, lambda inner: bracketed(chains(inner, "+-", 1, 3)), max_leaves=5)
COMPARED = chains(chains(ADDED, "+-", 1, 3), "<>=", 2, 2)
PARTS = st.recursive(COMPARED, lambda inner: bracketed(chains(inner, "&|", 1, 3)), max_leaves=4)


@given(drawn=chains(PARTS, "&|", 1, 3), before=SPACE, after=SPACE)
def test_every_formula_has_its_value(drawn: Drawn, before: str, after: str) -> None:
    text, value = drawn
    assert holds(parse_formula(before + text + after), SUMS) is bool(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(3;%a%) - (2;%a%) - (1;%a%) = 1", True),  # 4 - 2 - 1, not 4 - (2 - 1)
        ("(3;%a%) - [(2;%a%) - (1;%a%)] = 3", True),
        ("(1;%a%) + (2;%a%) < (3;%a%)", True),  # + before <
        ("1 < 2 & 2 > 1", True),  # < before &
        ("1 < 2 | 1 < 2 & 2 < 1", False),  # (true | true) & false: equally strong, from left to right
        ("1 < 2 | [1 < 2 & 2 < 1]", True),
        ("2 < 2", False),
        ("2 = 2.00101", True),  # tolerance: 1e-3 + 1e-5 of the right side
        ("2 = 2.00103", False),
        ("100 = 100.0019", True),
    ],
)
def test_precedence_and_equality(text: str, value: bool) -> None:
    assert holds(parse_formula(text), SUMS) is value


def test_regions() -> None:
    formula = parse_formula("[(6;%what_gap%) > (*;%that_no-gap%)] & 1 < (6;%what_gap%) - (7;%b%)")
    twice = Region("what_gap", 6)
    assert list(regions_of(formula)) == [twice, Region("that_no-gap", None), twice, Region("b", 7)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: the formula ends where a region, a number or a bracket is due"),
        ("(1;%a%)", "nothing is compared"),
        ("(1;%a%) + 1", "nothing is compared"),
        ("(1;%a%) < ", "character 11: the formula ends where a region, a number or a bracket is due"),
        ("(1;%a%) < > 1", "character 11: '>' where a region, a number or a bracket is due"),
        ("1 < 2 < 3", "character 7: '<' has no place here"),
        ("[1 < 2] + 1 > 2", "character 1: '+' stands between sums, not comparisons"),
        ("1 < 2 & 3", "character 9: '&' stands between comparisons, not sums"),
        ("3 | 1 < 2", "character 1: '|' stands between comparisons, not sums"),
        ("1 < [1 < 2]", "character 5: '<' stands between sums, not comparisons"),
        ("[1 < 2)", "character 7: ']' is missing"),
        ("(1 < 2", "character 7: ')' is missing"),
        ("1 < 2]", "character 6: ']' has no place here"),
        ("1 < -2", "character 5: '-' where a region, a number or a bracket is due"),
        ("(1;%a) < 2", "character 3: cannot read ';%a) < 2'"),
        ("(x;%a%) < 2", "character 2: cannot read 'x;%a%) < 2'"),
        ("1 < 2 and 2 < 1", "character 7: cannot read 'and 2 < 1'"),
        ("[" * 9999, "too many brackets within one another"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_formula(text)
    assert str(error.value) == message
