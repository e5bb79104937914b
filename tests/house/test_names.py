"""Variables are nouns that say what they hold (`scores`, `kept_rows`), not participles (`kept`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("accel", "benchmarks", "examples", "refimpl", "tests")
PARTICIPLES = frozenset("""
    added allowed asked begun changed chosen collected compared counted done drawn ended fed found given got held
    joined kept known listed loaded lost made matched met mixed moved named needed noted numbered opened passed
    printed put reached removed replaced said sent shown skipped started stored taken told turned used wanted
    written
""".split())  # fmt: skip


def variables(node: ast.AST, in_function: bool = False) -> Iterator[tuple[str, int]]:
    """Yield every variable that is set and every parameter of a private or nested function, with its line.

    Fields of classes and parameters of public functions are part of an interface, and are left out.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.ClassDef) and isinstance(child, (ast.AnnAssign, ast.Assign)):
            continue
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id, child.lineno
        is_function = isinstance(child, (ast.FunctionDef, ast.Lambda))
        if is_function and (in_function or is_private(child)):
            yield from ((x.arg, x.lineno) for x in ast.walk(child.args) if isinstance(x, ast.arg))
        yield from variables(child, in_function or is_function)


def is_private(function: ast.FunctionDef | ast.Lambda) -> bool:
    name = getattr(function, "name", "_")
    return name.startswith("_") and not name.endswith("__")


def participles(source: str) -> list[str]:
    return [f"{line}: {name}" for name, line in variables(ast.parse(source)) if name.strip("_") in PARTICIPLES]


def test_participles_are_found() -> None:
    source = "def f(kept):\n found = [_given for _given in kept]\n def g(used): return used\n return lambda sent: g"
    assert participles(source) == ["2: found", "2: _given", "3: used", "4: sent"]
    assert not participles(
        "class A:\n kept: int = 0\n def __init__(self, given): pass\ndef f(known): return A(known).kept"
    )


def test_variables_are_nouns() -> None:
    sources = {path: path.read_text(encoding="utf-8") for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    lines = [f"{path.relative_to(ROOT)}:{line}" for path, source in sources.items() for line in participles(source)]
    assert sources and not lines, "name these variables by a noun:\n" + "\n".join(lines)
