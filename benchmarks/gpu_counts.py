"""What a training step asks of a GPU: the kernels that it starts, the bytes that they move and their products.

The strict stand-in for CuPy counts them, at real sizes, without a GPU. A kernel moves each of its arrays once: what
it reads again comes from a cache. If several launches of one of our kernels get the same array, as the steps of a
recurrence do, each moves an equal share. Products are counted by their shapes; the arithmetic of other kernels is not.
"""

from __future__ import annotations

import json
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from accel.cuda import device
from accel.cuda.support import cublaslt
from accel.verify.cuda_host import cupy_array, cupy_stand_in, launcher
from benchmarks.gpu_flops import of_launch, of_product

COUNTS = Path(__file__).parent / "results" / "gpu-counts.json"
"""The counts of all steps, as benchmarks.gpu_model stores them."""
SMALL_BYTES, SMALL_FLOPS = 2**20, 10**8
"""Kernels below both limits are counted by name only, with their mean size: each takes less time than its launch."""
PRODUCTS = ("dot", "matmul", "__matmul__")  # of the array module
GATHERS = ("__getitem__", "take")
QUIET = {"__init__", "__len__", "__iter__", "__repr__", "__array__", "__array_function__"}
"""Methods of an array that launch no kernel themselves."""


@dataclass(frozen=True)
class Kernel:
    """Kernels of one name and size: how many a step starts, the bytes and floating-point operations of each."""

    name: str
    count: int
    bytes: int
    flops: int


@dataclass(frozen=True)
class StepCounts:
    """What one step asks of a GPU."""

    kernels: tuple[Kernel, ...]
    copies: int
    synchronisations: int

    @property
    def launches(self) -> int:
        return sum(kernel.count for kernel in self.kernels)

    @property
    def bytes(self) -> int:
        return sum(kernel.count * kernel.bytes for kernel in self.kernels)

    @property
    def flops(self) -> int:
        return sum(kernel.count * kernel.flops for kernel in self.kernels)

    def stored(self) -> dict[str, Any]:
        """Return the counts as JSON takes them."""
        rows = [list(asdict(kernel).values()) for kernel in self.kernels]
        return {"kernels": rows, "copies": self.copies, "synchronisations": self.synchronisations}


def restored(stored: dict[str, Any]) -> StepCounts:
    kernels = tuple(Kernel(*row) for row in stored["kernels"])
    return StepCounts(kernels, stored["copies"], stored["synchronisations"])


def load(path: Path) -> dict[str, StepCounts]:
    """Return the stored counts of all steps; none if there is no file."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: restored(counts) for name, counts in content.items()}


def count_step(step: Callable[[], Any]) -> StepCounts:
    """Return the counts of a step that works on the stand-in for CuPy."""
    recorded: Counter[tuple[str, int, int]] = Counter()
    with _recording(recorded), cupy_array.counted() as counts:
        step()
    totals = cupy_array.totals(counts)
    if sum(recorded.values()) != totals[cupy_array.KERNELS]:
        raise RuntimeError(
            f"{sum(recorded.values())} kernels have sizes, but {totals[cupy_array.KERNELS]} were started"
        )
    return StepCounts(_grouped(recorded), totals[cupy_array.COPIES], totals[cupy_array.SYNCHRONISATIONS])


def _grouped(recorded: Counter[tuple[str, int, int]]) -> tuple[Kernel, ...]:
    """Return large kernels by size, and the small ones of each name with their mean."""
    large: Counter[tuple[str, int, int]] = Counter()
    small: dict[tuple[str, bool], list[int]] = {}
    for (name, n_bytes, flops), count in recorded.items():
        if n_bytes >= SMALL_BYTES or flops >= SMALL_FLOPS:
            large[name, n_bytes, flops] += count
        else:
            total = small.setdefault((name, flops > 0), [0, 0, 0])
            for i, x in enumerate((count, count * n_bytes, count * flops)):
                total[i] += x
    for (name, _), (count, n_bytes, flops) in small.items():
        large[name, n_bytes // count, flops // count] += count
    kernels = [Kernel(name, count, n_bytes, flops) for (name, n_bytes, flops), count in large.items()]
    return tuple(sorted(kernels, key=lambda kernel: (-kernel.count * (kernel.bytes + SMALL_BYTES), kernel.name)))


@contextmanager
def _recording(recorded: Counter[tuple[str, int, int]]) -> Iterator[None]:
    """Record every kernel inside by name, bytes and operations; those that a function starts bear its name."""
    depth = 0

    def watched(name_of: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal depth
            before, depth = _started(), depth + 1
            try:
                result = function(*args, **options)
            finally:
                depth -= 1
            n_kernels = _started() - before
            if n_kernels and not depth:
                name = args[1].__name__ if name_of == "__array_ufunc__" else name_of
                n_bytes = _moved(name, args, options, result)
                flops = _flops(args, result) if name in PRODUCTS else 0
                recorded[name, n_bytes, flops] += 1
                recorded["more of " + name, 0, 0] += n_kernels - 1  # such as the parts of a sort
            return result

        return call

    current, launches = device._current(), Launches()

    fast = cublaslt.Library.multiply

    def multiply(problem: Any, *args: Any) -> None:
        recorded["gemm", *of_product(problem, args[-1])] += 1
        current.multiply(problem, *args)

    def multiply_fast(library: Any, problem: Any, *args: Any, add: bool, **options: Any) -> None:
        recorded["gemm", *of_product(problem, add)] += 1
        fast(library, problem, *args, add=add, **options)

    recorder = replace(
        current, launch=launches.noted(current.launch, 1), each=launches.noted(current.each, 0), multiply=multiply
    )
    array, module = cupy_array.ndarray, cupy_stand_in.MODULE
    with ExitStack() as patches:
        patches.enter_context(patch.object(cublaslt.Library, "multiply", multiply_fast))
        for owner in (array, module):
            for name, value in list(vars(owner).items()):
                if callable(value) and not isinstance(value, type) and name not in QUIET:
                    patches.enter_context(patch.object(owner, name, watched(name, value)))
        device.use(recorder)
        try:
            yield
        finally:
            device.use(current)
    recorded.update(launches.sizes())
    for name in [key for key, count in recorded.items() if not count]:
        del recorded[name]


class Launches:
    """The launches of our own kernels, each with its arrays; a new array may reuse the id of one that is gone."""

    def __init__(self) -> None:
        self.given: list[tuple[str, dict[tuple[int, int], int], int]] = []  # name, arrays, operations of products
        self.owners: dict[int, tuple[Any, int]] = {}

    def noted(self, launch: Callable[..., None], place: int) -> Callable[..., None]:
        """Return a function that notes and makes a launch; its argument number `place` is the kernel or its name."""

        def call(*args: Any, **options: Any) -> None:
            name = args[place] if isinstance(args[place], str) else args[place].__name__
            self.given.append((name, self._arrays(args), of_launch(name, args)))
            launch(*args, **options)

        return call

    def _arrays(self, args: Any) -> dict[tuple[int, int], int]:
        """Return the bytes of every array, by the memory that it is part of and its place there."""
        sizes: dict[tuple[int, int], int] = {}
        for x in (y for arg in args for y in (arg if isinstance(arg, tuple) else (arg,))):
            if isinstance(x, cupy_array.ndarray):
                x = x.on_device
            if isinstance(x, np.ndarray):
                owner = x
                while isinstance(owner.base, np.ndarray):
                    owner = owner.base
                entry = self.owners.get(id(owner))
                if entry is None or entry[0]() is not owner:
                    entry = self.owners[id(owner)] = weakref.ref(owner), len(self.given) * 100 + len(sizes)
                sizes[entry[1], x.ctypes.data] = x.nbytes
        return sizes

    def sizes(self) -> Counter[tuple[str, int, int]]:
        """Count launches by kernel, bytes and operations; if n launches of a kernel get an array, each moves 1 / n."""
        uses = Counter((name, array) for name, arrays, _ in self.given for array in arrays)
        return Counter(
            (name, round(sum(size / uses[name, array] for array, size in arrays.items())), flops)
            for name, arrays, flops in self.given
        )


def _started() -> int:
    return sum(count for (kind, _), count in cupy_array._counts.items() if kind == cupy_array.KERNELS)


def _moved(name: str, args: Any, options: Any, result: Any) -> int:
    """Return the bytes that a call reads and writes; a gather reads what it returns."""
    outputs = _sizes(result, {})
    if name in GATHERS:
        indices = _sizes(args[1:], {})
        return 2 * sum(outputs.values()) + sum(indices.values())
    if name == "__setitem__":
        values = _sizes(args[1:], {})
        return 2 * sum(values.values())
    if name == "fill":
        return sum(_sizes(args, {}).values())
    inputs = _sizes((args, tuple(options.values())), {})
    return sum(inputs.values()) + sum(outputs.values())


def _sizes(x: Any, sizes: dict[int, int]) -> dict[int, int]:
    """Return the bytes of every array in a nest of tuples, each once."""
    if isinstance(x, cupy_array.ndarray):
        sizes[x.on_device.__array_interface__["data"][0], x.nbytes] = x.nbytes  # type: ignore[index]
    elif isinstance(x, np.ndarray):
        sizes[x.__array_interface__["data"][0], x.nbytes] = x.nbytes  # type: ignore[index]
    elif isinstance(x, (tuple, list)):
        for y in x:
            _sizes(y, sizes)
    return sizes


def _flops(args: Any, result: Any) -> int:
    """Return two operations an element of the result and of the axis that is summed over."""
    return 2 * prod(result.shape) * args[0].shape[-1]


def stand_in() -> Any:
    """Return `accel.cuda` on the strict stand-in for CuPy."""
    return launcher.host_backend()
