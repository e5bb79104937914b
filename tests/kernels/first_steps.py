"""What the first training step of a model compiles: the kernels, and the types of their arguments.

python -m tests.kernels.first_steps

writes `accel/cpu/support/first_steps.toml`, from the snapshot's first training of every task and kind of model.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from numba import types
from numba.core.dispatcher import Dispatcher

from accel import cli
from accel.commands import train
from accel.cpu.support.compiling import FIRST_STEPS
from accel.training import optimizer
from tests.house.snapshot_cases import TRAININGS
from tests.house.snapshot_data import FILES

PACKAGE = "accel.cpu."
NUMBERS = {
    types.float32: "f4", types.float64: "f8", types.int8: "i1", types.int32: "i4", types.int64: "i8",
    types.uint64: "u8", types.boolean: "b1",
}  # fmt: skip
SOMETIMES = "support.few_queries."
"""Kernels of short sequences, which only some data have. They come first: kernels are compiled from the list's end."""


class Updated(BaseException):
    """Ends a training after its first update."""


def text_of(kind: Any) -> str:
    """Return the type of an argument in Numba's short form."""
    if isinstance(kind, types.Array):
        assert kind.layout in "CF" and kind.mutable and kind.aligned, f"{kind}: one more type to compile"
        axes = [*[":"] * (kind.ndim - 1), "::1"]
        return f"{text_of(kind.dtype)}[{','.join(axes if kind.layout == 'C' else axes[::-1])}]"
    if isinstance(kind, types.NamedUniTuple):
        return f"NamedUniTuple({text_of(kind.dtype)},{kind.count},{kind.instance_class.__name__})"
    if isinstance(kind, types.UniTuple):
        return f"UniTuple({text_of(kind.dtype)},{kind.count})"
    return NUMBERS[kind]


def first_step(name: str, folder: Path) -> tuple[str, list[list[str]]]:
    """Train a case of the snapshot up to its first update; return its model, and the kernels with their signatures.

    Call it in a fresh process: a kernel that a process has compiled or loaded is not compiled again.
    """
    models: list[str] = []
    kernels: list[list[str]] = []
    inner, update = Dispatcher.compile, optimizer.update
    is_inner = False

    def compiled(kernel: Any, signature: Any) -> Any:
        nonlocal is_inner
        if is_inner:  # another kernel calls it
            return inner(kernel, signature)
        function = kernel.py_func
        path = f"{function.__module__.removeprefix(PACKAGE)}.{function.__qualname__}"
        kernels.append([path, f"({', '.join(map(text_of, signature))})"])
        is_inner = True
        try:
            return inner(kernel, signature)
        finally:
            is_inner = False

    def updated(*arguments: Any) -> None:
        update(*arguments)
        raise Updated

    arguments = [part.replace("@/", f"{folder}/") for part in TRAININGS[name]]
    with (
        patch.object(Dispatcher, "compile", compiled),
        patch.object(optimizer, "update", updated),
        patch.object(train, "compile_ahead", lambda ops, task, kind: models.append(f"{task} {kind}")),
    ):
        try:
            cli.main([*arguments, "--out", str(folder / name)])
        except Updated:
            return models[0], kernels
    raise AssertionError(f"{name}: it has made no step")


def first_step_apart(name: str, folder: Path) -> tuple[str, list[list[str]]]:
    """Return the result of `first_step` from a process of its own."""
    command = [sys.executable, "-m", "tests.kernels.first_steps", name, str(folder)]
    model, kernels = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    return model, kernels


def kept(steps: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the longest step of each kind of model, and each step of a single task that has further kernels."""
    kinds: dict[str, list[str]] = {}
    for model, names in steps.items():
        kind = model.split()[-1]
        if kind not in kinds or set(names) > set(kinds[kind]):
            kinds[kind] = names
    return kinds | {model: names for model, names in steps.items() if set(names) - set(kinds[model.split()[-1]])}


def write() -> None:
    steps: dict[str, list[str]] = {}
    signatures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for files in FILES:
            files(Path(folder))
        for case, arguments in TRAININGS.items():
            if any(part.startswith("@/runs/") for part in arguments):
                continue  # it trains another one further
            model, kernels = first_step_apart(case, Path(folder))
            steps.setdefault(model, [named(signatures, *kernel) for kernel in kernels])
    lines = ["# What the first step of a model compiles. Written by python -m tests.kernels.first_steps."]
    lines += ["", "[models]  # by kind, or task and kind: those of some data only, then in order of use"]
    for model, names in kept(steps).items():
        names.sort(key=lambda name: not name.startswith(SOMETIMES))
        lines += [f"{json.dumps(model)} = [", *(f"    {json.dumps(name)}," for name in names), "]"]
    lines += ["", "[signatures]", *(f"{json.dumps(key)} = {json.dumps(signatures[key])}" for key in sorted(signatures))]
    FIRST_STEPS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def named(signatures: dict[str, str], path: str, signature: str) -> str:
    """Return the name under which the signature of a kernel is stored, one name for each signature."""
    while signatures.setdefault(path, signature) != signature:
        path += " again"  # for other types than before
    return path


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(first_step(sys.argv[1], Path(sys.argv[2]))))
    else:
        write()
