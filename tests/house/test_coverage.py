"""In the list of the papers' items, links, names, options, states and counts are right."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.fixtures.named_commands import check_command
from tests.house.spec_pages import BEGIN_COUNTS, COVERAGE, END_COUNTS, SPECS, clauses, counts, items

ITEMS = items()
PAGES = {clause.id: clause.page for clause in clauses()}
LINKS = re.findall(r"\[([^]]+)\]\(([^)\s]+)\)", COVERAGE.read_text(encoding="utf-8"))
CALLS = sorted({call for item in ITEMS for call in re.findall(r"`([^`]+ [^`]+)`", f"{item.where} {item.state}")})


def defined_in(path: Path) -> set[str]:
    """Return the names of functions, classes and variables defined at the top level of a Python file."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_states() -> None:
    """Every state is known, an item that is "as printed" names a place, and no item has two rows."""
    for item in ITEMS:
        assert item.kind, f"{item.section}, {item.item}: {item.state!r} is no state of an item"
        assert item.where or item.kind != "as printed", f"{item.section}, {item.item}: as printed, but where?"
    assert max(Counter((item.paper, item.section, item.item) for item in ITEMS).values()) == 1


@pytest.mark.parametrize(("text", "target"), sorted(set(LINKS)), ids=lambda x: x)
def test_links_name_what_is_there(text: str, target: str) -> None:
    """Names of code are defined in the linked file; clauses and lettered points are on the linked page."""
    if target.startswith("https://"):
        return
    path = (SPECS / target.partition("#")[0]).resolve()
    page = str(path.relative_to(SPECS).with_suffix("")) if path.is_relative_to(SPECS) else ""
    if name := re.fullmatch(r"`(\w+)`", text):
        assert name[1] in defined_in(path), f"{target} defines no {name[1]}"
    elif re.fullmatch(r"[A-Z]+-\d+", text):
        assert page == PAGES[text], f"{text} is not on {target}"
    elif point := re.fullmatch(r"(\w+) ([A-Za-z])", text):
        assert point[1] == path.stem, f"{text} leads to {target}"
        begins = rf"^(?:## {point[2]}\.|(?:- )?(?:\*\*)?{point[2]}\.) "
        assert re.search(begins, path.read_text(encoding="utf-8"), re.MULTILINE), f"{target} has no point {point[2]}"


@pytest.mark.parametrize("call", [call for call in CALLS if call.split()[0] in ("grove", "python", "make")])
def test_commands_have_the_options_that_are_named(call: str) -> None:
    check_command(call)


def test_needs_name_a_command() -> None:
    """An item that needs data or weights gives a command of grove or of a Python module."""
    for item in ITEMS:
        if item.kind.startswith("needs"):
            assert re.search(r"`(?:grove|python -m) [^`]+`$", item.state), item


def test_the_counts_are_up_to_date() -> None:
    text = COVERAGE.read_text(encoding="utf-8")
    assert text.split(BEGIN_COUNTS)[1].split(END_COUNTS)[0].strip() == counts(), "run: python -m tests.house.spec_pages"
