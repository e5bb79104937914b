"""Which packages may import which: for example, the reference imports nothing of the code that it checks."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = (
    ("ref", "cpu", "cuda"),
    ("autodiff",),
    ("data",),
    ("models",),
    ("training",),
    ("trained",),
    ("search",),
    ("parsing", "scoring"),
    ("evaluation",),
    ("drawing",),
    ("verify",),
    ("trained.interface",),
    ("torch",),
    ("tasks",),
    ("commands",),
)
"""The packages of accel/ ("rooms") by level ("floor"): a package may import only from packages on earlier floors.

`accel/trained/interface.py` and its `scorer.py` are above the rest of their package: they are the Python interface of a
trained model. The package's `__init__.py` has the function that opens one.
"""
DOOR = ("accel.trained.__init__", "accel.trained.interface")
ABOVE = {"accel.trained.interface", "accel.trained.scorer"}
DOORS = ROOT / "accel" / "trained", ROOT / "accel" / "torch"
"""Folders whose `__init__.py` has names that users import."""
BESIDE = {("scoring", "parsing")}
"""Pairs (importing package, imported package) that are allowed on the same floor."""
WITHOUT_FAST_TWIN = {"refimpl.trees", "refimpl.transformer_grammars.marginal"}


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, at any place in it."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                is_module = (ROOT / name.replace(".", "/")).with_suffix(".py").exists()
                modules.add(name if is_module else str(node.module))
    return modules


@pytest.mark.parametrize("path", sorted((ROOT / "refimpl").rglob("*.py")), ids=lambda p: p.name)
def test_the_reference_imports_numpy_and_itself(path: Path) -> None:
    modules = {"numpy", "refimpl"} | sys.stdlib_module_names
    assert {name.split(".")[0] for name in imports(path)} <= modules


@pytest.mark.parametrize("path", sorted((ROOT / "accel").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_fast_code_does_not_import_its_oracle(path: Path) -> None:
    if not {ROOT / "accel" / "ref", ROOT / "accel" / "verify"} & set(path.parents):
        assert {name for name in imports(path) if name.startswith("refimpl")} <= WITHOUT_FAST_TWIN
    tops = {name.split(".")[0] for name in imports(path)}
    assert "tests" not in tops
    if path != ROOT / "accel" / "cuda" / "support" / "gpu.py":
        assert "cupy" not in tops and "cupyx" not in tops - ({"cupyx"} if path.name == "communicator.py" else set())


def room_of(name: str) -> str:
    """Return the package of `accel/` in which the module of this name is; empty if it is in none."""
    parts = name.split(".")
    if name in ABOVE:
        return "trained.interface"
    return parts[1] if parts[0] == "accel" and len(parts) > 1 else ""


def floor_of(name: str) -> int | None:
    """Return the number of the floor on which the module of this name is; None if it is on none."""
    return next((number for number, rooms in enumerate(FLOORS) if room_of(name) in rooms), None)


@pytest.mark.parametrize("path", sorted((ROOT / "accel").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    """A package imports from itself and from packages on floors before its own; no backend imports another."""
    here = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    floor = floor_of(here)
    if floor is None:
        assert here in ("accel.__init__", "accel.cli"), f"{here}: a room without a floor"
        return
    for name in imports(path):
        there = floor_of(name)
        if there is None:
            assert name.split(".")[0] != "accel" or name == "accel", f"{here} imports {name}"
        elif (here, name) != DOOR:
            rooms = room_of(here), room_of(name)
            assert there < floor or rooms[0] == rooms[1] or rooms in BESIDE, f"{name} is above"


def test_the_hall_is_empty() -> None:
    """At the top of accel/ there are only packages, `__init__.py` and the command line.

    Only `accel`, the backends and DOORS have code in their `__init__.py`.
    """
    lying = {path.name for path in (ROOT / "accel").iterdir() if path.is_file()}
    assert lying <= {"__init__.py", "cli.py", "py.typed"}
    for path in (ROOT / "accel").rglob("__init__.py"):
        if path.parent not in (ROOT / "accel", *DOORS) and path.parent.name not in FLOORS[0]:
            [line] = path.read_text(encoding="utf-8").splitlines()
            assert line.startswith('"""') and line.endswith('"""') and len(line) > 6, path


def test_ceilings() -> None:
    """All of refimpl/ holds at most 1,600 lines of code, and 3,600 with docstrings, comments and blank lines."""
    paths = sorted((ROOT / "refimpl").rglob("*.py"))
    assert sum(map(code_lines, paths)) <= 1600
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths) <= 3600


def test_the_bridge_to_pytorch_is_small() -> None:
    assert sum(map(code_lines, (ROOT / "accel" / "torch").glob("*.py"))) <= 400


def code_lines(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    docstring_lines = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False):
            docstring_lines |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, line in lines if n not in docstring_lines and line.strip() and not line.strip().startswith("#"))
