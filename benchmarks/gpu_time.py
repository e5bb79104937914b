"""The time of a training step on a GPU, predicted from its kernels, their bytes and their operations.

On the device a kernel takes the longest of three times: that of its start, of its bytes, of its operations. Meanwhile
the host calls the next ones. The step takes the longer time of device and host, and that of every synchronisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.gpu_counts import Kernel, StepCounts

FLOAT32_BYTES = 4
STEPS = 20
"""At least this many equal products are taken for those of a recurrence, one for each of its steps."""
NARROW = {"float32": 1.0, "tf32": 1.0, "bf16": 0.5}
"""The bytes of the factors of a product, divided by their bytes in float32."""


@dataclass(frozen=True)
class Figure:
    """A figure of a machine, its unit and where it comes from."""

    value: float
    unit: str
    source: str


H200 = {
    "bytes": Figure(4.3e12, "bytes/s", "measured on one H200: a copy of 8.6 GB on the device, bytes read and written"),
    "bf16": Figure(790e12, "FLOP/s", "measured on one H200: a product of 8192^3, random numbers, float32 sums"),
    "tf32": Figure(395e12, "FLOP/s", "assumed: half of bf16, as in the vendor's data sheet"),
    "float32": Figure(67e12, "FLOP/s", "the vendor's data sheet, without tensor cores"),
    "launch": Figure(3e-6, "s a kernel", "assumed: the least time of a kernel after another one"),
    "call": Figure(8e-6, "s a call", "assumed: the host's time for a call of CuPy or of our launcher, in Python"),
    "synchronisation": Figure(10e-6, "s", "assumed: until the host has its answer, and the device the next kernel"),
    "turn": Figure(2e-6, "s", "assumed: a barrier of all blocks of a persistent kernel"),
    "network": Figure(50e9, "bytes/s a GPU", "given: 400 Gb/s"),
}  # fmt: skip
"""As they were before a GPU had run Grove; what the first report measured is in gpu_measured.py."""
Figures = Mapping[str, Figure]


@dataclass(frozen=True)
class Predicted:
    """Seconds of a step, and their parts: starts, bytes and products on the device, calls and waiting on the host."""

    starts: float
    bytes: float
    products: float
    calls: float
    waiting: float

    @property
    def device(self) -> float:
        return self.starts + self.bytes + self.products

    @property
    def step(self) -> float:
        return max(self.device, self.calls) + self.waiting

    @property
    def bound(self) -> str:
        """Return what takes most of the time."""
        if self.calls > self.device:
            return "calls of the host"
        parts = {"starts of kernels": self.starts, "bytes": self.bytes, "products": self.products}
        return max(parts, key=parts.__getitem__)


def work(kernel: Kernel, precision: str, figures: Figures = H200) -> tuple[float, bool]:
    """Return the seconds of a kernel's bytes or operations, and whether the operations take longer."""
    memory_seconds = kernel.bytes * (NARROW[precision] if kernel.flops else 1) / figures["bytes"].value
    arithmetic_seconds = kernel.flops / figures[precision].value
    return max(memory_seconds, arithmetic_seconds), arithmetic_seconds > memory_seconds


def as_it_is(counts: StepCounts, precision: str = "float32", figures: Figures = H200) -> Predicted:
    """Return the time of a step whose kernels are started one by one."""
    launch, parts = figures["launch"].value, [0.0, 0.0, 0.0]
    for kernel in counts.kernels:
        seconds, is_product = work(kernel, precision, figures)
        parts[0 if seconds <= launch else 2 if is_product else 1] += kernel.count * max(launch, seconds)
    calls = (counts.launches + counts.copies) * figures["call"].value
    return Predicted(*parts, calls, counts.synchronisations * figures["synchronisation"].value)


def as_a_graph(counts: StepCounts, figures: Figures = H200) -> Predicted:
    """Return the time of a step with the same kernels in a CUDA graph, which the host starts by one call.

    Two more calls of the host copy the batch to where the graph reads it, and the step's numbers.
    """
    calls, waiting = 3 * figures["call"].value, figures["synchronisation"].value
    return replace(as_it_is(counts, figures=figures), calls=calls, waiting=waiting)


def as_designed(
    counts: StepCounts, launches: int, precision: str, *, is_graph: bool, is_persistent: bool = False
) -> Predicted:
    """Return the time of a step that does the same work in `launches` kernels, in a graph or started one by one.

    Kernels whose work takes longer than their start remain; the rest of the `launches` do the work of all others. The
    bytes are those of now: what fused kernels no longer move is not subtracted, so that this is an upper bound. In a
    persistent kernel a product of a recurrence reads no weights, and takes a turn in the place of a start. The step has
    one copy and one synchronisation.
    """
    launch, parts, n_large = H200["launch"].value, [0.0, 0.0], 0
    turns = 0.0
    for kernel in counts.kernels:
        seconds, is_product = work(kernel, precision)
        if is_persistent and kernel.flops and kernel.count >= STEPS:
            turns += kernel.count * H200["turn"].value
            seconds, is_product = kernel.flops / H200[precision].value, True
        elif seconds > launch:
            n_large += kernel.count
        parts[is_product] += kernel.count * seconds
    calls = (2 if is_graph else launches + 1) * H200["call"].value
    starts = max(0, launches - n_large) * launch + turns
    return Predicted(starts, *parts, calls, H200["synchronisation"].value)


def all_reduce(n_parameters: int, gpus: int) -> float:
    """Return the seconds of adding up float32 gradients by a ring: each GPU sends and gets nearly all twice."""
    return 2 * (gpus - 1) / gpus * FLOAT32_BYTES * n_parameters / H200["network"].value
