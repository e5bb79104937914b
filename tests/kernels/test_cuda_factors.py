"""Factors narrowed to bf16 on the GPU, several or all parameters at once, have the bits of each narrowed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import accel.cuda
from accel.autodiff.arrays import Array
from accel.cuda import device, forms
from accel.cuda.support import factors as narrowing
from accel.cuda.support.factors import factor, factors, narrowed_once
from accel.data.batches.text import TextBatches
from accel.models.fasttrees import language_model
from accel.training.communicator import serial
from accel.training.graphs import new_graphs
from accel.training.run import start
from accel.training.settings import TrainingConfig
from accel.training.step import make_step
from accel.verify.cuda_host import cupy_array
from tests.fixtures.stand_in_gpu import gpu
from tests.fixtures.toy_text import VOCABULARY
from tests.fixtures.training_steps import STEPS

BF16 = forms.Forms("fast", "bf16")
WITH_GRAPHS = forms.Forms("fast", "bf16", graphs=True)
TRAINING = TrainingConfig(seed=1, maximum_rate=0.1, warmup_steps=0)


__all__ = ["gpu"]


def drawn(gpu: ModuleType, *shape: int) -> Array:
    return gpu.xp.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def launches(counts: Any) -> int:
    return sum(n for (_, name), n in counts.items() if name.startswith("narrow_"))


def assert_narrowed(values: Sequence[Array], of: Sequence[Array]) -> None:
    """Check that each array has the bits of its own narrowing, and that rows begin at multiples of 16 bytes."""
    for value, x in zip(values, of, strict=True):
        assert value.dtype == np.uint16 and value.shape == x.shape
        np.testing.assert_array_equal(value.get(), factor(x.copy()).get())
        assert device.address(value) % 16 == 0 and max(value.strides) % 16 == 0


@pytest.mark.parametrize("columns", [7, 16])
def test_neighbours_are_narrowed_by_one_kernel(gpu: ModuleType, columns: int) -> None:
    """Neighbouring arrays take one kernel, also transposed ones and repeated ones; other arrays take a kernel each."""
    block = list(drawn(gpu, 3, 5, columns))
    cases = [
        (block, 1), ([x.T for x in block], 1), ([block[0], *block], 1), (block[1:], 1), (block[:1] * 2, 1),
        (block[::-1], 3), ([block[0], block[2]], 2), ([block[0], block[1].copy()], 2), ([block[0], block[1][:4]], 2),
    ]  # fmt: skip
    with forms.use(BF16):
        for arrays, expected in cases:
            with cupy_array.counted() as counts:
                values = factors(arrays)
            assert launches(counts) == expected
            assert_narrowed(values, arrays)
            assert all(x is y for x, y in zip(factors(values), values, strict=True))
    with forms.use(forms.Forms("fast")):
        assert all(x is y for x, y in zip(factors(block), block, strict=True))


def test_parameters_are_narrowed_once(gpu: ModuleType) -> None:
    """Aligned parts of the parameter vector need no kernel of their own, transposed or not; others do."""
    vector = drawn(gpu, 400)
    rows, narrow, next_to_rows = (
        vector[i : i + 80].reshape(shape) for i, shape in ((64, (5, 16)), (160, (16, 5)), (144, (5, 16)))
    )
    with forms.use(BF16):
        with cupy_array.counted() as counts, narrowed_once(vector):
            assert launches(counts) == 0
            values = [*factors([rows, next_to_rows]), factor(rows.T), factor(rows[1:3]), factor(rows[None])]
        assert launches(counts) == 1
        assert_narrowed(values, [rows, next_to_rows, rows.T, rows[1:3], rows[None]])
        others = [narrow, vector[4:84].reshape(5, 16), rows[:, :8], rows.copy(), drawn(gpu, 5, 16)]
        with narrowed_once(vector), cupy_array.counted() as counts:
            values = [factor(x) for x in others]
        assert launches(counts) == len(others)
        assert_narrowed(values, others)


def test_changed_parameters_are_narrowed_anew(gpu: ModuleType) -> None:
    """The narrowed copy is used only inside the block, which may raise; other forms and types have no such copy."""
    vector = drawn(gpu, 64)
    weight = vector.reshape(4, 16)
    with forms.use(BF16):
        for _ in range(2):
            with narrowed_once(vector):
                assert_narrowed([factor(weight)], [weight])
            vector *= 3
            assert_narrowed([factor(weight)], [weight])
        with pytest.raises(KeyError), narrowed_once(vector):
            raise KeyError
        vector *= 3
        assert_narrowed([factor(weight)], [weight])
    for form, of_type in ((forms.Forms("fast", "tf32"), vector), (forms.Forms("plain", "bf16"), vector),
                          (BF16, vector.astype(np.float64)), (BF16, vector[:63])):  # fmt: skip
        with forms.use(form), cupy_array.counted() as counts, narrowed_once(of_type):
            pass
        assert launches(counts) == 0


@contextmanager
def one_by_one(vector: Array) -> Iterator[None]:
    yield


def results(gpu: ModuleType, name: str) -> tuple[list[float], np.ndarray]:
    model, config, next_batch = STEPS[name](gpu)
    with forms.use(BF16):
        run = start(gpu, model, config, TRAINING, serial(), "", model.initialise(config, 3))
        losses = [make_step(run, next_batch())["loss"] for _ in range(3)]
    return losses, run.vector.get()


@pytest.mark.parametrize("name", ["transformer_grammar", "treeformer", "gpst"])
def test_a_training_has_the_bits_of_one_by_one(gpu: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over steps that change all parameters much, the bits are those of weights narrowed one by one."""
    losses, vector = results(gpu, name)
    monkeypatch.setattr(accel.cuda, "narrowed_once", one_by_one)
    monkeypatch.setattr(narrowing, "_lie_one_after_another", lambda arrays: False)
    other_losses, other_vector = results(gpu, name)
    assert losses == other_losses and len(set(losses)) == 3
    np.testing.assert_array_equal(vector, other_vector)


def test_a_graph_narrows_in_each_replay(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits are those of steps without a graph, and of steps that narrow weights one by one."""
    config = language_model.Config(VOCABULARY, "fasttrees", embedding_size=8, hidden_size=16, n_layers=2, chunk_size=2)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, 4 * 6 * 5 + 1).astype(np.int32)
    curves, vectors = [], []
    for form, narrowed in ((WITH_GRAPHS, narrowed_once), (BF16, narrowed_once), (BF16, one_by_one)):
        monkeypatch.setattr(accel.cuda, "narrowed_once", narrowed)
        with forms.use(form):
            run = start(gpu, language_model, config, TRAINING, serial(), "", language_model.initialise(config, 3))
            run.graphs = new_graphs(run) if form.graphs else None
            batches = TextBatches(ids, 4, length=6, ops=gpu, seed=None, epochs=None)
            curves.append([make_step(run, next(batches))["loss"] for _ in range(5)])
            assert not form.graphs or len(run.graphs.graphs) == 1
        vectors.append(run.vector.get())
    assert curves[0] == curves[1] == curves[2] and len(set(curves[0])) == 5
    assert all(np.array_equal(vectors[0], vector) for vector in vectors[1:])
