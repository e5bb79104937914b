"""The user's own backend: imports the module of a name or file, or says in one line what to type instead."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Collection
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import accel
from accel.verify.arrays import ArrayError, check_library

NEAR = 0.88  # the least similarity of two names: the share of letters that stand in the same order in both


class OwnBackendError(ValueError):
    """A module that cannot be tested; the message is one line with the reason and with what to type instead."""


def import_own(name: str, operations: Collection[str]) -> ModuleType:
    """Return the module of that name or file, which has an array module `xp` and at least one of the operations.

    Raises OwnBackendError if there is no such module, it cannot be imported, or it lacks what a backend must have.
    """
    is_file = name.endswith(".py") or os.sep in name
    module_name, path = _module_of(name) if is_file else name, Path(name).resolve()
    if name.startswith(".") or not _exists(module_name):
        near = meant(name, [*accel.BACKENDS, *(path.stem for path in Path.cwd().glob("*.py"))])
        choice = near or f"choose one of {', '.join(accel.BACKENDS)}, or a module that can be imported here"
        raise OwnBackendError(f"unknown backend {name!r}: {choice}")
    try:
        module = import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise OwnBackendError(f"{name}: cannot be imported: {_where(error)}") from error
    if is_file and Path(module.__file__ or "").resolve() != path:
        raise OwnBackendError(f"{name}: the name {module_name} is taken by {module.__file__}: rename the file")
    if not any(hasattr(module, operation) for operation in operations):
        raise OwnBackendError(f"{name}: exports no operation; {_meant(module, operations)}")
    alone = [operation for operation in operations if hasattr(module, f"{operation}_vjp")
             and not hasattr(module, operation)]  # fmt: skip
    if alone:
        raise OwnBackendError(f"{name}: exports {alone[0]}_vjp, but no {alone[0]}: export both")
    if not hasattr(module, "xp"):
        raise OwnBackendError(
            f"{name}: has no xp, the array module of its functions: add `import numpy as xp`, or torch, jax.numpy, cupy"
        )
    try:
        check_library(module)
    except ArrayError as error:
        raise OwnBackendError(f"{name}: {error}") from error
    for note in misspelt(module, operations):
        print(f"{name}: {note}", file=sys.stderr)
    from accel.verify.precision import check_declarations

    try:
        check_declarations(module, operations)
    except ValueError as error:
        raise OwnBackendError(f"{name}: {error}") from error
    return module


def meant(name: str, names: Collection[str]) -> str:
    """Return the question whether a similar name was meant, or nothing."""
    similar = get_close_matches(name, names, n=1)
    return f"did you mean {similar[0]}?" if similar else ""


def misspelt(module: ModuleType, operations: Collection[str]) -> list[str]:
    """Return a note for every name of a module that differs by a letter or two from a name that the module lacks."""
    functions = [*operations, *(f"{operation}_vjp" for operation in operations)]
    notes = []
    for name, value in vars(module).items():
        right = functions if callable(value) else ["tiles", "precision"] if isinstance(value, dict) else []
        lacking = [other for other in right if not hasattr(module, other)]
        if not name.startswith("_") and name not in right:
            notes += [f"{name} is not tested: did you mean {x}?" for x in get_close_matches(name, lacking, 1, NEAR)]
    return notes


def _module_of(name: str) -> str:
    """Return a file's module name, with the packages that it lies in; add the folder above them to `sys.path`."""
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        advice = f"did you mean {path}.py?" if Path(f"{path}.py").is_file() else "name a .py file, or a module"
        raise OwnBackendError(f"{name}: no such file of Python code; {advice}")
    if not path.stem.isidentifier():
        raise OwnBackendError(f"{name}: cannot be imported under this name: use letters, digits and _ only")
    folder, parts = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").exists():
        folder, parts = folder.parent, [folder.name, *parts]
    sys.path.insert(0, str(folder))
    return ".".join(parts)


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError as error:  # perhaps for a package above it
        return error.name is None or not f"{name}.".startswith(f"{error.name}.")
    except KeyboardInterrupt:
        raise
    except BaseException:  # raised by a package above it: `import_module` will report it
        return True


def _where(error: BaseException) -> str:
    """Return the file, the line, the kind and the message of an error that an import has raised, in one line."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    place = f"{frames[-1].filename}:{frames[-1].lineno}: " if len(frames) > 1 else ""
    advice = "; add an __init__.py to its folder" if "no known parent package" in str(error) else ""
    return f"{place}{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ") + advice


def _meant(module: ModuleType, operations: Collection[str]) -> str:
    for name, value in vars(module).items():
        question = meant(name.removesuffix("_vjp"), operations) if callable(value) else ""
        if question:
            return f"for {name}, {question}"
    return f"their names are those of accel.ref, such as {min(operations)}"
