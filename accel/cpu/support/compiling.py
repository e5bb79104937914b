"""Kernels are compiled at their first use on a machine, and after a change of their source; a line on stderr says so.

Numba stores what it compiles. A kernel also holds code and constants of modules that its own one imports: it is
compiled anew after a change in any of them, which Numba itself would not see. Other processes compile the kernels of a
model's first step beside this process, from the last kernel to the first. A process that comes to a kernel that another
process has stored loads it. `first_steps.toml` lists these kernels; `python -m tests.kernels.first_steps` writes it.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

from accel import BackendUnavailable
from accel.cpu.support.threads import available_threads

FIRST_STEPS = Path(__file__).with_name("first_steps.toml")
ROOT = Path(__file__).parents[3]
WIDEST = bool(llvm.get_host_cpu_features().get("avx512f"))
"""Kernels of `lanes` and `products` hold the width of vectors, which Numba's own key of a kernel may not tell."""
_IMPORT = re.compile(r"^from (accel\.cpu[.\w]*) import (\([^)]*\)|.*)", re.MULTILINE)
MOST = 3
"""Largest number of other processes: with more, the longest kernel takes longer than each share of the rest."""
PROGRAM = """
import sys
sys.path[:] = {}
from accel.cpu.support.compiling import compile_share
compile_share({!r}, {!r}, {}, {})
"""


class _Notice(event.Listener):
    """A listener that prints the line at the first compilation of a process; Numba does not announce what it loads."""

    is_due = True

    def on_start(self, compilation: event.Event) -> None:
        if self.is_due:
            self.is_due = False
            print("grove: compiling kernels (once)", file=sys.stderr, flush=True)

    def on_end(self, compilation: event.Event) -> None:
        """Do nothing."""


NOTICE = _Notice()


class _Files(IndexDataCacheFile):
    """The files of a kernel, each named after its types and source.

    Numba itself numbers the files, and two processes that store a kernel for different types may take the same number.
    """

    def save(self, key: Any, data: Any) -> None:
        digest = hashlib.sha1(repr((self._source_stamp, key)).encode()).hexdigest()
        name = self._index_name.replace(".nbi", f".{digest}.nbc")
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()
        except (ModuleNotFoundError, AttributeError):  # stored for a type that the present source no longer has
            return {}


class _Cache(FunctionCache):
    def __init__(self, function: Any) -> None:
        super().__init__(function)
        stamp = digest_of(Path(function.__code__.co_filename)), WIDEST
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, stamp)

    def is_empty(self) -> bool:
        """Return whether nothing is stored of the kernel for its present source."""
        return not self._cache_file._load_index()


def digest_of(source: Path) -> str:
    """Return a digest of a source file and of the modules of this backend that it imports, also through others."""
    sources, todo = {source}, [source]
    while todo:
        new = _imported(todo.pop()) - sources
        sources |= new
        todo += new
    return hashlib.sha1(b"".join(map(_content, sorted(sources)))).hexdigest()


@cache
def _content(source: Path) -> bytes:
    return source.read_bytes()


@cache
def _imported(source: Path) -> set[Path]:
    """Return the modules of this backend that a source file imports by `from accel.cpu... import ...`."""
    result = set()
    for package, names in _IMPORT.findall(_content(source).decode()):
        path = ROOT.joinpath(*package.split("."))
        children = [path / f"{name}.py" for name in re.findall(r"\w+", names)]
        result |= {child for child in (path.with_suffix(".py"), path / "__init__.py", *children) if child.is_file()}
    return result


def stored(kernel: Any) -> Any:
    """Return a compiled function of Numba, changed so that it stores what it compiles and loads what is stored.

    Raises
    ------
    BackendUnavailable
        If no folder can be written.
    """
    try:
        kernel._cache = _Cache(kernel.py_func)
    except RuntimeError as error:
        reason = "no folder for compiled kernels is writable: set NUMBA_CACHE_DIR to a writable folder"
        raise BackendUnavailable(f"cpu: {reason}") from error
    return kernel


def compile_ahead(task: str, kind: str) -> None:
    """Start processes that compile the kernels of a model's first step, unless all are stored or there is one thread.

    For a kind that `first_steps.toml` does not list, nothing is compiled ahead.
    """
    count = min(available_threads() - 1, MOST)
    if count < 1 or not any(kernel._cache.is_empty() for kernel, _ in _first_step(task, kind)):
        return
    for first in range(count):
        program = PROGRAM.format(sys.path, task, kind, first, count)
        try:  # its output would mix with that of this process, which meets the same errors
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:  # no memory for a process: this one compiles all
            return
        atexit.register(_end, process)


def compile_share(task: str, kind: str, first: int, step: int) -> None:
    """Compile every `step`-th kernel of the first step from the last one back, beginning with number `first`."""
    for kernel, signature in _first_step(task, kind)[::-1][first::step]:
        kernel.compile(signature)


@cache
def _first_step(task: str, kind: str) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the kernels of a model's first step and the types of their arguments, as `first_steps.toml` lists them."""
    table = tomllib.loads(FIRST_STEPS.read_text(encoding="utf-8"))
    kernels = []
    for name in table["models"].get(f"{task} {kind}", table["models"].get(kind, ())):
        path, function = name.split(" ")[0].rsplit(".", 1)
        module = vars(import_module(f"accel.cpu.{path}"))
        signature = eval(table["signatures"][name], vars(types) | module)
        kernels.append((getattr(module[function], "compiled", module[function]), signature))
    return kernels


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
