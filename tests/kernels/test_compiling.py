"""Kernels that are compiled ahead of a model's first step, and the files in which they are stored."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest

from accel import BackendUnavailable
from accel.cpu.support import compiling, turns
from tests.house.snapshot_data import FILES
from tests.kernels.first_steps import first_step_apart

LISTED = tomllib.loads(compiling.FIRST_STEPS.read_text(encoding="utf-8"))
TOY = '[models]\ntoy = ["support.turns.take"]\n[signatures]\n"support.turns.take" = "(i8[::1],)"\n'
AHEAD = """
import sys
from pathlib import Path
from accel.cpu.support import compiling, turns
compiling.FIRST_STEPS = Path(sys.argv[1])
if sys.argv[2] == "compile":
    compiling.compile_share("any", "toy", 0, 1)
turns.take(turns.counters())
"""


@pytest.mark.parametrize("case", ["tg", "lm_fasttrees", "translation_treeformer", "gpst"])
def test_what_a_first_step_needs_is_listed(case: str, tmp_path: Path) -> None:
    for files in FILES:
        files(tmp_path)
    model, kernels = first_step_apart(case, tmp_path)
    names = LISTED["models"].get(model, LISTED["models"][model.split()[-1]])
    entries = {(name.split()[0], LISTED["signatures"][name]) for name in names}
    missing_kernels = {(path, signature) for path, signature in kernels} - entries
    assert not missing_kernels, "run python -m tests.kernels.first_steps"


def test_what_is_listed_exists() -> None:
    for model in LISTED["models"]:
        for kernel, signature in compiling._first_step("", model):
            assert len(inspect.signature(kernel.py_func).parameters) == len(signature), kernel


def test_a_change_in_any_module_that_a_kernel_holds_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba itself sees the kernel's own file only."""
    folder = tmp_path / "accel/cpu/support"
    folder.mkdir(parents=True)
    for name, text in {
        "kernel": "from accel.cpu.support import (\n    cell,\n)\nfrom accel.cpu.support.turns import take\n",
        "cell": "from accel.cpu.support.lanes import ADD\n", "lanes": "ADD = 1\n", "turns": "", "other": "",
    }.items():  # fmt: skip
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(compiling, "ROOT", tmp_path)

    def digest() -> str:
        for function in (compiling._content, compiling._imported):
            function.cache_clear()
        return compiling.digest_of(folder / "kernel.py")

    digests = [digest()]
    for name in ("kernel", "cell", "lanes", "turns"):
        (folder / f"{name}.py").write_text((folder / f"{name}.py").read_text() + "TWO = 2\n")
        digests.append(digest())
    assert len(set(digests)) == 5
    (folder / "other.py").write_text("TWO = 2\n")
    assert digest() == digests[-1]
    monkeypatch.undo()
    digest()


def test_kernels_hold_the_modules_that_they_import() -> None:
    sources = compiling._imported(compiling.ROOT / "accel/cpu/cumax.py")
    assert compiling.ROOT / "accel/cpu/support/cell.py" in sources


def test_what_one_process_compiles_another_one_loads(tmp_path: Path) -> None:
    path = tmp_path / "listed.toml"
    path.write_text(TOY)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for action, message in (("compile", "grove: compiling kernels (once)\n"), ("load", "")):
        command = [sys.executable, "-c", AHEAD, str(path), action]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert process.stderr == message


def test_two_types_stored_at_once_keep_files_of_their_own(tmp_path: Path) -> None:
    """Two processes that both see an empty index lose at most one entry, which is then compiled again."""
    first, second = (compiling._Files(str(tmp_path), "kernel", "source") for _ in range(2))
    first._load_index = second._load_index = dict  # type: ignore[method-assign,assignment]
    first.save("float32", 1)
    second.save("float64", 2)
    third = compiling._Files(str(tmp_path), "kernel", "source")
    assert [third.load(key) for key in ("float32", "float64")] == [None, 2]
    third.save("float32", 1)
    assert [third.load(key) for key in ("float32", "float64")] == [1, 2]
    assert compiling._Files(str(tmp_path), "kernel", "another source").load("float64") is None


def test_kernels_of_a_type_that_is_gone_are_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("module_of_the_type")
    exec("class Sections(tuple): pass", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    files = compiling._Files(str(tmp_path), "kernel", "source")
    files.save(module.Sections, 1)
    assert files.load(module.Sections) == 1
    monkeypatch.delitem(sys.modules, module.__name__)
    assert files.load("float64") is None
    files.save("float64", 2)
    assert files.load("float64") == 2


@pytest.mark.parametrize(
    ("threads", "is_empty", "processes"), [(1, True, 0), (2, True, 1), (2, False, 0), (16, True, 3)]
)
def test_a_process_is_started_where_it_helps(
    threads: int, is_empty: bool, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[Any] = []
    monkeypatch.setattr(compiling, "available_threads", lambda: threads)
    monkeypatch.setattr(compiling._Cache, "is_empty", lambda cache: is_empty)
    monkeypatch.setattr(compiling.subprocess, "Popen", lambda command, **options: commands.append(command))
    monkeypatch.setattr(compiling.atexit, "register", lambda *arguments: None)
    compiling.compile_ahead("trees", "tg")
    compiling.compile_ahead("trees", "none that is listed")
    assert len(commands) == processes


def test_without_another_process_this_one_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command: list[str], **options: Any) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(compiling, "available_threads", lambda: 2)
    monkeypatch.setattr(compiling._Cache, "is_empty", lambda cache: True)
    monkeypatch.setattr(compiling.subprocess, "Popen", fails)
    compiling.compile_ahead("trees", "tg")


def test_a_machine_without_a_folder_to_write_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(cache: Any, function: Any) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiling._Cache, "__init__", fails)
    with pytest.raises(BackendUnavailable, match="set NUMBA_CACHE_DIR to a writable folder$"):
        compiling.stored(turns.take)
