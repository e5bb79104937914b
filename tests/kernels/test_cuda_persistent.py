"""The persistent form of a recurrence, in one cooperative launch, computes what the plain form computes.

NumPy takes CuPy's place, and blocks are few: three, of which each has the shared memory that the test gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import ref
from accel.cuda import device, forms
from accel.cuda.support import persistent
from accel.cuda.support.cublaslt import Epilogue
from accel.verify.cuda_host import cublaslt as cublaslt_stand_in
from accel.verify.cuda_host import launcher
from accel.verify.cuda_host.launcher import Settings
from accel.verify.gradients import check_gradients, gentle
from accel.verify.op import example_case
from accel.verify.ops.table import OPS
from accel.verify.values import check_values
from tests.fixtures.comparisons import same
from tests.fixtures.stand_in_gpu import draw, host_backend, launched

__all__ = ["host_backend", "launched"]

recurrence = import_module("accel.cuda.recurrence")  # the package has the function under this name

LENGTHS = [3, 1, 2, 3, 1, 3, 2, 3, 3, 2, 1]  # more sequences than blocks, and than are multiplied at a time
KINDS = ("lstm", "on_lstm", "fasttrees")
SIZES = [(1, 1, 2000), (6, 3, 3500), (40, 8, 16500), (66, 2, 37000)]  # units, gates, bytes of shared memory


@pytest.fixture
def launched_fast(launched: list[str]) -> Iterator[list[str]]:
    """Use the fast form; the list has the names of the kernels that are launched."""
    with forms.use(forms.Forms("fast")):
        yield launched


def arguments(kind: str, n_units: int, n: int, lengths: list[int], dtype: type = np.float64) -> list[Any]:
    n_gates, n_sequences = 4 * n_units + (0 if kind == "lstm" else 2 * n), len(lengths)
    n_rows = 4 * n_units if kind == "fasttrees" else n_gates
    shapes = (sum(lengths), n_gates), (n_rows, n_units), (n_rows,), *[(n_sequences, n_units)] * 2
    gates, weight, bias, h0, c0 = (x.astype(dtype) for x in draw(*shapes))
    return [gates, weight / dtype(np.sqrt(n_units)), bias, np.tanh(h0), c0, np.cumsum([0, *lengths])]


def test_blocks_of_two_streams_count_apart(host_backend: ModuleType) -> None:
    """Two kernels on two streams may run at once, and wait for their own blocks only."""
    words = []
    for number, stream in ((0, 16), (0, 32), (1, 16), (0, 16)):
        device.use(replace(device._current(), number=lambda number=number: number, stream=lambda stream=stream: stream))
        words.append(persistent.word())
    assert len({id(word) for word in words}) == 3 and words[0] is words[3]


def test_many_sequences_are_multiplied_by_products(host_backend: ModuleType, launched_fast: list[str]) -> None:
    for n_sequences, kernels in ((persistent.FEW, {"persistent_forward"}), (persistent.FEW + 1, {"step_forward"})):
        args = arguments("fasttrees", 128, 2, [1] * n_sequences, np.float32)  # a weight that no block keeps
        launched_fast.clear()
        host_backend.recurrence(*args, kind="fasttrees")
        assert set(launched_fast) == kernels


def gradients(backend: ModuleType, kind: str, args: list[Any]) -> tuple[np.ndarray, ...]:
    outputs = backend.recurrence(*args, kind=kind)
    (d_h,) = draw(outputs[0].shape)
    return *outputs, *backend.recurrence_vjp(d_h.astype(outputs[0].dtype), outputs, *args, kind=kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_units", "n", "limit"), SIZES)
def test_it_computes_what_the_plain_form_does(
    host_backend: ModuleType, launched_fast: list[str], kind: str, n_units: int, n: int, limit: int
) -> None:
    """States are in several parts, rows in several passes, columns in slices; no race in two orders."""
    args = arguments(kind, n_units, n, LENGTHS)
    with forms.use(forms.Forms("plain")):
        plain = gradients(host_backend, kind, args)
    same(plain[:4], ref.recurrence(*args, kind=kind))
    here = device._current()
    for multiprocessors, bytes_of_block, order in ((3, here.shared_limit, 1), (7, limit, 2)):
        device.use(replace(here, shared_limit=bytes_of_block, multiprocessors=multiprocessors))
        launcher.use(Settings(races=True, order=order))
        launched_fast.clear()
        fast = gradients(host_backend, kind, args)
        assert [name for name in launched_fast if name.startswith(("persistent", "step", "walk"))] == [
            "persistent_forward", "persistent_backward",
        ]  # fmt: skip
        same(fast, plain)


def test_the_sizes_take_every_path(launched_fast: list[str]) -> None:
    """These tests' sizes need several parts of states, passes over the rows, and slices of the columns."""
    plans = []
    for kind in KINDS:
        for n_units, n, limit in SIZES:
            weight = arguments(kind, n_units, n, LENGTHS)[1]
            n_masters = 0 if kind == "lstm" else n
            for multiprocessors, most in ((3, 227 * 1024), (7, limit)):
                device.use(replace(device._current(), shared_limit=most, multiprocessors=multiprocessors))
                for matrix, scratch in ((weight, 2 * n_masters), (weight.T, 6 * n_masters + 2 * n_units)):
                    plan = persistent.plan(matrix, scratch)
                    assert plan and plan.shared <= most and plan.blocks <= multiprocessors
                    plans.append((plan, matrix))
    assert any(plan.chunk < matrix.shape[1] for plan, matrix in plans)
    assert any(plan.rows > plan.groups * persistent.ROWS for plan, _ in plans)
    assert any(plan.rows > persistent.WARPS * persistent.ROWS for plan, _ in plans)
    assert all(plan.chunk >= min(persistent.LEAST_CHUNK, matrix.shape[1]) for plan, matrix in plans)
    assert len(LENGTHS) > persistent.TOGETHER
    assert any(plan.warps > plan.groups for plan, _ in plans)
    assert any(len(LENGTHS) > plan.blocks and matrix.shape[0] % plan.rows for plan, matrix in plans)


def test_a_weight_that_does_not_fit_takes_the_plain_form(host_backend: ModuleType, launched_fast: list[str]) -> None:
    args = arguments("on_lstm", 20, 5, LENGTHS)
    device.use(replace(device._current(), shared_limit=6000))
    outputs = host_backend.recurrence(*args, kind="on_lstm")
    assert "walk_forward" in launched_fast and "persistent_forward" not in launched_fast
    same(outputs, ref.recurrence(*args, kind="on_lstm"))


def test_the_paper_s_weight_fits_an_h100(launched_fast: list[str]) -> None:
    """The ON-LSTM of FastTrees has 1,150 units and 115 gates of each sort, in float32.

    A block keeps 37 of the weight's 4,830 rows.
    """
    device.use(replace(device._current(), multiprocessors=132))
    weight = np.zeros((4830, 1150), np.float32)
    forward, backward = persistent.plan(weight, 230), persistent.plan(weight.T, 2990)
    assert forward and backward
    assert (forward.blocks, forward.rows, forward.chunk) == (131, 37, 1150)
    assert (backward.blocks, backward.rows) == (128, 9)
    assert persistent.plan(weight.astype(np.float64), 230) is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_product_for_the_weight_sums_the_gradients_of_the_bias(
    host_backend: ModuleType, launched_fast: list[str], kind: str
) -> None:
    """In float32 one product gives the gradients of the weight and of the bias.

    The bias's are sums over all gates, or over the last gates of each row.
    """
    args = arguments(kind, 6, 3, LENGTHS, np.float32)
    fast = gradients(host_backend, kind, args)
    assert cublaslt_stand_in.functions().products[-1].epilogue == Epilogue.SUMS_OF_B
    with forms.use(forms.Forms("fast", "bf16")):
        narrowed = gradients(host_backend, kind, args)
    assert cublaslt_stand_in.functions().products[-1].epilogue == Epilogue.SUMS_OF_B
    for x, y in zip(narrowed, fast, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=2.0**-5 * abs(y).max(initial=0.0))
    with forms.use(forms.Forms("plain")):
        plain = gradients(host_backend, kind, args)
    for x, y in zip(fast, plain, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-5)


def test_the_harness_sees_no_difference(host_backend: ModuleType, launched_fast: list[str]) -> None:
    """Values and gradients of the operation's own cases pass, in both float types."""
    (op,) = (op for op in OPS if op.name == "recurrence")
    case = example_case(op)
    check_values(host_backend, op, case)
    check_gradients(host_backend, op, gentle(case), 0)
    assert {"persistent_forward", "persistent_backward"} <= set(launched_fast)
    assert recurrence.WALK_BYTES > 0 and not {"walk_forward", "step_forward"} & set(launched_fast)
