"""The page of predicted times is what its program writes, and its counts are right where they can be computed."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from accel.cuda import device
from benchmarks import gpu_counts, gpu_model, gpu_steps
from benchmarks.gpu_counts import Kernel, StepCounts, count_step, restored
from benchmarks.gpu_measured import FAST, GRAPH, PLAIN, REPORT, Report, load_report, milliseconds
from benchmarks.gpu_time import H200, all_reduce, as_designed, as_it_is

SECOND = REPORT.parents[1] / "h200_second" / REPORT.name
"""The newer report, which has the plain kernels and each kernel of a step."""


@pytest.fixture
def stand_in() -> Iterator[ModuleType]:
    before = device._device
    yield gpu_counts.stand_in()
    device.use(before)


def test_the_page_is_what_the_program_writes() -> None:
    counts = (gpu_counts.load(path) for path in (gpu_model.BEFORE, gpu_counts.COUNTS, gpu_model.FAST))
    assert gpu_model.PAGE.read_text(encoding="utf-8") == gpu_model.page(*counts), "python -m benchmarks.gpu_model"


def test_the_tables_of_the_readme_are_those_of_the_reports() -> None:
    """The tables have the times of the second report and of the first one.

    From the second: plain kernels and PyTorch. From the first: plain, fast, with a graph, in bf16; PyTorch; the CPU.
    """
    text = (gpu_model.FOLDER / "README.md").read_text(encoding="utf-8").partition("\n## On a GPU\n")[2]
    lines = (line.strip("| ").split(" | ") for line in text.partition("\n## ")[0].splitlines())
    rows = [row for row in lines if row[0] in gpu_steps.table()]
    assert {len(row) for row in rows} == {4, 7}
    for name, *cells in rows:
        report = load_report(SECOND if len(cells) == 3 else REPORT)
        peer = fastest_peer(report, name)
        if len(cells) == 3:
            plain = milliseconds(report, name, PLAIN)
            of_peer = ["–", "–"] if peer is None else [f"{peer:.2f}", f"{peer / plain:.1f}"]
            assert cells == [f"{plain:.2f}", *of_peer]
        else:
            forms = (PLAIN, FAST, GRAPH, GRAPH.replace("float32", "bf16"))
            times = [milliseconds(report, name, form) for form in forms]
            assert cells == [f"{x:.2f}" for x in (*times, peer, milliseconds(report, name, "CPU"))]


def fastest_peer(report: Report, name: str) -> float | None:
    """Return the milliseconds of PyTorch's fastest form of the step; None if none was timed."""
    peers = {row: peer for row, peer in report["peers"].items() if row.startswith(f"{name} | ") and "float32" in row}
    same = [1e3 * peer["step"] for row, peer in peers.items() if "nn.LSTM" not in row and "step" in peer]
    return min(same, default=None)


def test_every_step_is_counted() -> None:
    for path in (gpu_model.BEFORE, gpu_counts.COUNTS):
        assert {*gpu_steps.table(), *gpu_model.LARGE} <= set(gpu_counts.load(path))


def test_the_counts_are_those_of_a_small_program(stand_in: ModuleType) -> None:
    xp = stand_in.xp
    x, y = xp.zeros((512, 600), np.float32), xp.zeros((600, 8), np.float32)

    def step() -> None:
        z = x + 1  # reads x, writes z
        z += x  # reads both, writes one
        xp.dot(z, y)
        xp.dot(z, y)
        z[:2].argsort()  # eight kernels
        assert float(y.sum()) == 0  # waits

    counts = count_step(step)
    large, small = x.nbytes, y.nbytes
    kernels = {(k.name, k.bytes): (k.count, k.flops) for k in counts.kernels}
    assert kernels["__add__", 2 * large] == kernels["__iadd__", 3 * large] == (1, 0)
    assert kernels["dot", large + small + 512 * 8 * 4] == (2, 2 * 512 * 8 * 600)
    assert kernels["argsort", 2 * 600 * (4 + 8)][0] == 1 and kernels["more of argsort", 0][0] == 7
    assert (counts.launches, counts.copies, counts.synchronisations) == (4 + 8 + 1, 0, 1)
    assert restored(counts.stored()) == counts


def test_the_products_of_a_grammar_are_those_of_its_shapes(stand_in: ModuleType) -> None:
    """They are three times those of the layers' weights, plus relative positions and vocabulary.

    A layer has four weights of d x d and two of d x d_ff.
    """
    step = gpu_steps.grammar(0, stand_in, True)
    config, batch = step.config, step.batches[0]
    d, n, positions = config.d_model, len(batch.ids), int(np.diff(batch.key_offsets).max())
    forward = config.n_layers * n * (4 * d * d + 2 * d * config.d_ff)
    relative = [k * config.n_layers * rows * d * d for k in (1, 2) for rows in (positions, 64)]
    vocabulary = [k * batch.n_labels * config.vocabulary_size * d for k in (3, 4)]  # computed twice, or kept
    flops = count_step(step).flops - 2 * 3 * forward
    assert 2 * min(vocabulary) < flops <= 2 * (max(vocabulary) + 2 * max(relative))


def test_a_kernel_takes_the_longest_of_three_times() -> None:
    launch, bandwidth, throughput = H200["launch"].value, H200["bytes"].value, H200["float32"].value
    kernels = Kernel("tiny", 10, 8, 0), Kernel("copy", 1, int(bandwidth), 0), Kernel("dot", 1, 8, int(2 * throughput))
    counts = StepCounts(kernels, 1, 2)
    now = as_it_is(counts)
    assert (
        now.step == pytest.approx(10 * launch + 1 + 2 + 2 * H200["synchronisation"].value) and now.bound == "products"
    )
    narrow = as_designed(counts, 5, "bf16", is_graph=True)
    assert narrow.starts == pytest.approx(3 * launch) and narrow.bound == "bytes"
    assert as_it_is(StepCounts((Kernel("tiny", 10, 8, 0),), 0, 0)).bound == "calls of the host"
    steps = StepCounts((Kernel("dot", 20, int(bandwidth), 1),), 0, 0)
    assert as_designed(steps, 60, "float32", is_graph=True, is_persistent=True).device < 1e-3


def test_a_ring_sends_all_but_one_share_twice() -> None:
    assert all_reduce(10**9, 1) == 0 and all_reduce(10**9, 2) == pytest.approx(4e9 / 50e9)
