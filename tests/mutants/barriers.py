"""Delete each barrier of each CUDA kernel in turn, and list the ones that the race detector misses.

python -m tests.mutants.barriers
python -m tests.mutants.barriers gpst charts   only with the inputs of these operations and steps

The kernels run on the host with the inputs of the tests: one case of every operation, and one for every size of its
tiles, forward and backward, in the plain form and in the fast ones; GPST's passes over charts, and a step of it; and
Treeformer's charts with a query.
The launches of these are recorded, and a wrong kernel is run on them alone. A barrier in a file that others include is
listed for each source that runs it. If deleting a barrier causes no race, the barrier is redundant and should be
removed, or the tests lack an input. Rows of sources that have not changed since the last time stay.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import accel.cuda
from accel.cuda import device, forms
from accel.models.gpst.model import loss_and_grad
from accel.verify.cuda_host import launcher
from accel.verify.expected import cast
from accel.verify.op import Op, example_case
from accel.verify.ops.table import OPS
from accel.verify.sizes import cases_at_sizes
from tests.fixtures.chart_passes import MANY, both_passes
from tests.fixtures.chart_queries import LENGTHS, WIDTH, queried_charts
from tests.fixtures.gpst_batches import batch_of, config_of, parameters_of

STEPS = ("charts", "chart_queries", "gpst")
ROOT = Path(__file__).parents[2]
FOLDER = Path(device.__file__).parent
REPORT = Path(__file__).with_name("BARRIERS.md")
BARRIER = re.compile(r"(?:__sync(?:threads|warp)\(\)|(?<!void )grid_sync\(\w+\));")
OF_A_GPU = re.compile(r"^#ifndef ON_HOST$.*?^#endif$", flags=re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^(?:__device__|extern \"C\" __global__) [\w ]+?(\w+)\(", flags=re.MULTILINE)
WORDS = [9, 1, 2, 20]
"""Numbers of words of the sentences in a GPST step: more rows than one part of a gradient has."""
FAST_DEVICES = ((3, 227 * 1024), (1, 227 * 1024), (7, 16000))
"""Multiprocessors, and bytes of shared memory of each: some blocks get several sequences, some rows several parts."""
INTRODUCTION = """# Deleted barriers

`python -m tests.mutants.barriers` deletes every barrier of every CUDA kernel once, runs the kernel under the race
detector on the inputs of the tests, and writes this page. The last column has the first race that it finds: what two
threads touch, and the files of the two lines. A test holds that every barrier of today's sources stands here, with a
race.
"""


@dataclass(frozen=True)
class Barrier:
    """The `nth` barrier, from 1, in a function of `file`, in the kernels of a source that includes the file."""

    source: str
    file: str
    function: str
    nth: int
    start: int  # in the text of the source

    @property
    def name(self) -> str:
        return f"{self.file} {self.function} {self.nth}"


@dataclass(frozen=True)
class Launch:
    """The kernel and the arguments of one launch."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    dtype: np.dtype[Any]
    chunks: int
    shared: int
    cooperative: bool

    def run(self, text: str) -> None:
        rest = self.dtype, self.chunks, self.shared, self.cooperative
        launcher.launch_text(text, self.kernel, self.grid, self.block, tuple(copied(self.args)), *rest)


@dataclass(frozen=True)
class Outcome:
    """The result of a deleted barrier: `race` is empty if there was none; `reached`: whether a thread came past it."""

    barrier: Barrier
    reached: bool
    race: str


def sources() -> list[str]:
    """Return the files of `accel/cuda` that have kernels; each is compiled separately."""
    paths = (path for path in FOLDER.rglob("*.cu") if "__global__" in path.read_text())
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in paths)


def barriers(source: str) -> Iterator[Barrier]:
    """Yield the barriers of a source and of the files that it includes, in the order of the text."""
    text = OF_A_GPU.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), device.source_text(source))
    counts: dict[tuple[str, str], int] = {}
    for match in BARRIER.finditer(text):
        before = text[: match.start()]
        file = re.findall(r'^#line \d+ "([^"]+)"', before, flags=re.MULTILINE)[-1]
        function = FUNCTION.findall(before)[-1]
        counts[file, function] = counts.get((file, function), 0) + 1
        yield Barrier(source, file, function, counts[file, function], match.start())


def without(barrier: Barrier) -> str:
    """Return the source with the barrier replaced by a note for the stand-in that a thread has come past."""
    text = device.source_text(barrier.source)
    stop = text.index(";", barrier.start)
    return f"{text[: barrier.start]}DELETED_BARRIER(){text[stop:]}"


def digest(source: str) -> str:
    """Return a digest of a source without comments, line numbers and hints to unroll, which change no barrier."""
    code = re.sub(r"//.*|^#line .*|^#pragma unroll", "", device.source_text(source), flags=re.MULTILINE)
    return hashlib.sha256(" ".join(code.split()).encode()).hexdigest()[:8]


def copied(args: tuple[Any, ...]) -> list[Any]:
    """Return the arguments with copies of all arrays; views of one array become views of one copy."""
    wholes: dict[int, np.ndarray] = {}

    def copy_of(x: np.ndarray) -> np.ndarray:
        whole = x
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        if id(whole) not in wholes:
            memory = (ctypes.c_uint8 * whole.nbytes).from_address(whole.ctypes.data)
            wholes[id(whole)] = np.ctypeslib.as_array(memory).copy() if whole.nbytes else np.empty(0, np.uint8)
        return np.ndarray(x.shape, x.dtype, wholes[id(whole)], x.ctypes.data - whole.ctypes.data if x.size else 0)

    return [copy_of(x) if isinstance(x, np.ndarray) else x for x in args]


def recorded(names: tuple[str, ...] = ()) -> dict[str, list[Launch]]:
    """Return the launches by source, of all operations or those named; launches with equal shapes only once."""
    launches: dict[str, dict[Any, Launch]] = {}

    def keep(source: str, kernel: str, grid: Any, block: Any, args: Any, dtype: Any, *rest: Any) -> None:
        shapes = tuple(x.shape if isinstance(x, np.ndarray) else None for x in args)
        copies = copied(args)
        launcher.launch(source, kernel, grid, block, args, dtype, *rest)
        for place, x in enumerate(args):  # with the integers that it writes, which a wrong kernel may read too early
            if isinstance(x, np.ndarray) and x.dtype.kind in "iu":
                copies[place][...] = x
        launch = Launch(kernel, grid, block, tuple(copies), dtype, *rest)
        launches.setdefault(source, {}).setdefault((kernel, grid, block, shapes, *rest), launch)

    before = device._device
    launcher.host_backend(np)
    plain = replace(device._current(), launch=keep)
    for op in OPS:
        if not hasattr(accel.cuda, op.name) or (names and op.name not in names):
            continue
        device.use(plain)
        run_cases(op)
        for multiprocessors, shared in FAST_DEVICES if op.name in forms.FAST else ():
            device.use(replace(plain, multiprocessors=multiprocessors, shared_limit=shared))
            with forms.use(forms.Forms("fast")):
                run_cases(op)
        if op.name == "sparse_attention":
            device.use(plain)
            with forms.use(forms.Forms("fast", "bf16")):
                run_cases(op, np.float32)
    device.use(plain)
    if not names or "charts" in names:
        both_passes(accel.cuda, MANY, 2, dropout=0.3)
        for multiprocessors, shared in FAST_DEVICES[:2]:
            device.use(replace(plain, multiprocessors=multiprocessors, shared_limit=shared))
            with forms.use(forms.Forms("fast")):
                both_passes(accel.cuda, MANY, 2, dropout=0.3, detached=True)
        device.use(plain)
    if not names or "chart_queries" in names:
        for form in (forms.Forms(), forms.Forms("fast")):
            with forms.use(form):
                queried_charts(accel.cuda, LENGTHS, WIDTH, 3)
    if not names or "gpst" in names:
        config = config_of(dropout=0.3)
        loss_and_grad(accel.cuda, config, parameters_of(config), batch_of(WORDS, (2,), accel.cuda), dropout_seed=4)
    device.use(before)
    return {source: list(of_source.values()) for source, of_source in launches.items()}


def run_cases(op: Op, dtype: Any = np.float64) -> None:
    """Run an operation forward and backward, on one case and on one for every size of its tiles."""
    for case in (example_case(op), *(case for _, case in cases_at_sizes(accel.cuda, op))):
        arguments = cast(op.batched(case), dtype)
        outputs = op.call(accel.cuda, arguments)
        if op.diff:
            op.vjp(accel.cuda, arguments, np.ones_like(outputs[0]))


def outcome(barrier: Barrier, launches: list[Launch]) -> Outcome:
    """Run the kernels with one barrier deleted, until there is a race."""
    text, is_reached = without(barrier), False
    before = launcher.use(launcher.Settings(races=True))
    try:
        for launch in launches:
            was_passed = launcher.compiled(text, launch.dtype.name, launch.chunks, True, False).deleted_barrier_passed
            try:
                launch.run(text)
            except RuntimeError as error:
                if ": race at " not in str(error):
                    raise
                return Outcome(barrier, True, str(error))
            finally:
                is_reached |= bool(was_passed())
    finally:
        launcher.use(before)
    return Outcome(barrier, is_reached, "")


def rows(outcomes: list[Outcome]) -> list[str]:
    """Return the rows of the table; if a source never runs a barrier but another does, only the other has a row."""
    run_somewhere = {x.barrier.name for x in outcomes if x.reached}
    entries = [x for x in outcomes if x.reached or x.barrier.name not in run_somewhere]
    return [f"| {x.barrier.source} | {x.barrier.name} | {in_words(x)} |" for x in entries]


def in_words(x: Outcome) -> str:
    """Return the race without block, thread, place and line numbers, which differ from run to run."""
    if not x.race:
        return "**no race**" if x.reached else "**not reached**"
    kernel, place = re.match(r"(\w+): race at (?:byte \d+ of the block's )?([\w ]+)", x.race).groups()
    accesses = re.findall(r"(reads|writes) it in (\w+\.cu)", x.race)
    return f"`{kernel}`, {place}: {', '.join(f'{file} {verb}' for verb, file in accesses)}"


def page(table: list[str], digests: dict[str, str]) -> str:
    n_missed = sum("**no" in row for row in table)
    lines = [INTRODUCTION, f"{len(table)} barriers: {len(table) - n_missed} caught, {n_missed} not."]
    lines += ["", "| source | barrier: file, function, number | race without it |", "|---|---|---|", *table]
    lines += ["", "The sources, with a digest of each:", "", *(f"- {source} {digests[source]}" for source in digests)]
    return "\n".join(lines) + "\n"


def written() -> tuple[list[str], dict[str, str]]:
    """Return the rows of the present page, and the digests of its sources."""
    lines = REPORT.read_text(encoding="utf-8").splitlines() if REPORT.exists() else []
    table = [line for line in lines if line.startswith("| ") and not line.startswith("| source |")]
    return table, dict(line[2:].split(" ") for line in lines if line.startswith("- "))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="an operation, or one of " + ", ".join(STEPS))
    names = tuple(parser.parse_args().names)
    unknown = [name for name in names if name not in STEPS and not hasattr(accel.cuda, name)]
    if unknown:
        parser.error(f"{unknown[0]}: neither an operation nor one of {', '.join(STEPS)}")
    table, before = written()
    digests = {source: digest(source) for source in sources()}
    new_sources = [source for source in sources() if digests[source] != before.get(source)]
    launches = recorded(names) if new_sources else {}
    outcomes = [outcome(barrier, launches.get(source, [])) for source in new_sources for barrier in barriers(source)]
    old_rows = [row for row in table if row.split(" ")[1] in set(digests) - set(new_sources)]
    REPORT.write_text(page(sorted(old_rows + rows(outcomes)), digests), encoding="utf-8")
    print(REPORT.read_text(encoding="utf-8")[len(INTRODUCTION) + 1 :])


if __name__ == "__main__":
    main()
