"""Who may import what: the oracle shares nothing with the code it judges."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT_FAST_TWIN = {"refimpl.trees", "refimpl.transformer_grammars.marginal"}


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                is_module = (ROOT / name.replace(".", "/")).with_suffix(".py").exists()
                found.add(name if is_module else str(node.module))
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "refimpl").rglob("*.py")), ids=lambda p: p.name)
def test_the_reference_imports_numpy_and_itself(path: Path) -> None:
    allowed = {"numpy", "refimpl"} | sys.stdlib_module_names
    assert {name.split(".")[0] for name in imports(path)} <= allowed


@pytest.mark.parametrize("path", sorted((ROOT / "accel").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_fast_code_does_not_import_its_oracle(path: Path) -> None:
    if not {ROOT / "accel" / "ref", ROOT / "accel" / "verify"} & set(path.parents):
        assert {name for name in imports(path) if name.startswith("refimpl")} <= WITHOUT_FAST_TWIN
    tops = {name.split(".")[0] for name in imports(path)}
    assert "tests" not in tops
    if path != ROOT / "accel" / "cuda" / "device.py":
        assert "cupy" not in tops and "cupyx" not in tops - ({"cupyx"} if path.name == "communicator.py" else set())


def test_ceilings() -> None:
    """All of refimpl/ holds at most 1,600 lines of code, and 3,600 with docstrings, comments and blank lines."""
    paths = sorted((ROOT / "refimpl").rglob("*.py"))
    assert sum(map(code_lines, paths)) <= 1600
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths) <= 3600


def code_lines(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    skipped = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False):
            skipped |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, line in lines if n not in skipped and line.strip() and not line.strip().startswith("#"))
