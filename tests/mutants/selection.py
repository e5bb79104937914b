"""Which tests concern a mutant: those that run its lines, the fastest first."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import Mutant


@dataclass(frozen=True)
class Contexts:
    """`seconds[test]`: the time of each passed test; `tests[path][line]`: the tests that run a line."""

    seconds: dict[str, float]
    tests: dict[str, dict[int, list[str]]]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(paths: Iterable[Path]) -> Contexts:
    seconds: dict[str, float] = {}
    tests: dict[str, dict[int, list[str]]] = {}
    for path in paths:
        measured = json.loads(path.read_text())
        seconds |= measured["seconds"]
        for file, lines in measured["lines"].items():
            for line, ids in lines.items():
                tests.setdefault(file, {}).setdefault(int(line), []).extend(ids)
    return Contexts(seconds, tests)


def concerned(mutant: Mutant, contexts: Contexts, root: Path) -> list[str]:
    """Return the tests that run a line of the mutant, the fastest first.

    Lines of compiled code, and lines that run at import, are recorded for no test. For these, return the tests that run
    any line of the files that import or include the mutated file.
    """
    ids = _of_lines(mutant.path, mutant.lines, contexts)
    if not ids or _is_compiled(mutant, root):
        ids = set(ids)
        for path in users(mutant.path, root):
            ids |= _of_lines(path, None, contexts)
    return sorted((test for test in ids if test in contexts.seconds), key=lambda test: contexts.seconds[test])


def users(path: str, root: Path) -> set[str]:
    """Return a file and all files of its folder of `accel/` that import or include it, directly or not.

    A CUDA source is used by the Python file beside it that has its name, or that launches it by its name.
    """
    folder = Path(*Path(path).parts[:2])
    texts = {str(file.relative_to(root)): file.read_text() for file in (root / folder).rglob("*.*")
             if file.suffix in (".py", ".cu") and file.name != "__init__.py"}  # fmt: skip
    files = {path}
    while more := {file for file, text in texts.items() if file not in files and _uses(file, text, files, folder)}:
        files |= more
    return files


def _uses(file: str, text: str, files: set[str], folder: Path) -> bool:
    for path in files:
        stem = str(Path(path).relative_to(folder).with_suffix(""))
        if path.endswith(".cu"):
            beside = f"|{Path(path).stem}" if Path(file).parent == Path(path).parent else ""
            if re.search(rf'"({stem}{beside})(\.cu)?"', text):
                return True
        elif re.search(rf"\b{re.escape('.'.join([*folder.parts, *Path(stem).parts]))}\b", text):
            return True
        elif re.search(
            rf"from {re.escape('.'.join([*folder.parts, *Path(stem).parts[:-1]]))} import .*\b{Path(stem).name}\b", text
        ):
            return True
    return False


def _of_lines(path: str, lines: Iterable[int] | None, contexts: Contexts) -> set[str]:
    tests = contexts.tests.get(path, {})
    return set().union(*(tests.get(line, ()) for line in (tests if lines is None else lines)))


def _is_compiled(mutant: Mutant, root: Path) -> bool:
    """Return True for CUDA C++, and for a function that Numba compiles."""
    if mutant.path.endswith(".cu"):
        return True
    source = (root / mutant.path).read_text()
    return any(
        isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line <= (node.end_lineno or 0) and _decorated(node)
        for node in ast.walk(ast.parse(source))
    )


def _decorated(node: ast.FunctionDef) -> bool:
    return any(
        re.search(r"kernel|njit|overload|vectorize", ast.unparse(decorator)) for decorator in node.decorator_list
    )
