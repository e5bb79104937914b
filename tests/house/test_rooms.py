"""Every folder of tests/ has a one-line docstring, and what several test files use is in fixtures/."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("*.py"))
ROOMS = sorted(path for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__")


def modules_of(path: Path) -> set[str]:
    """Return the names of the modules of tests/ that a file imports, and of the objects that it imports from them."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.split(".")[0] == "tests"}


def test_only_rooms_lie_at_the_top() -> None:
    assert {path.name for path in TESTS.iterdir() if path.is_file()} == {"__init__.py", "conftest.py"}


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.name)
def test_every_room_has_a_docstring_of_one_line(room: Path) -> None:
    """Its `__init__.py` has this line and nothing else."""
    text = (room / "__init__.py").read_text(encoding="utf-8")
    assert text.count("\n") == 1 and ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_no_helper_is_imported_out_of_a_test_file(path: Path) -> None:
    imported = {name for name in modules_of(path) if any(part.startswith("test_") for part in name.split("."))}
    assert not imported, f"{path}: move to tests/fixtures what several files use"


def test_fixtures_hold_no_tests() -> None:
    for path in (TESTS / "fixtures").glob("*.py"):
        names = {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if hasattr(node, "name")}
        assert not path.name.startswith("test_") and not any(name.startswith("test_") for name in names), path
