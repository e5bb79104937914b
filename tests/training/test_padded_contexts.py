"""Batches of contexts that are padded for CUDA graphs: the numbers are the same, and few graphs are needed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import offsets_of
from accel.cuda import forms
from accel.cuda.support import known
from accel.data.batches.contexts import ContextBatches
from accel.data.corpora.documents import Documents
from accel.models.gpst import model as gpst
from accel.training.communicator import serial
from accel.training.graphs import new_graphs
from accel.training.run import start, tokens_of
from accel.training.settings import TrainingConfig
from accel.training.step import make_step
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gpst_batches import V, config_of, parameters_of
from tests.fixtures.stand_in_gpu import gpu

FAST, GRAPHS = forms.Forms("fast"), forms.Forms("fast", graphs=True)


__all__ = ["gpu"]


def batches_of(gpu: ModuleType, lengths: list[int], size: int, shares_graphs: bool = True) -> ContextBatches:
    """Return batches of random sentences of these lengths; a batch has `size` contexts of up to 30 words each."""
    offsets, draw = offsets_of(lengths), np.random.default_rng(1)
    ids = draw.integers(0, V, offsets[-1]).astype(np.int32)
    bounds, begins_word = np.array([0, len(lengths)]), draw.random(offsets[-1]) < 0.7
    text = Documents(Path("text"), ids, begins_word, offsets, bounds, np.arange(len(lengths)) + 1)
    return ContextBatches(text, size, ops=gpu, max_tokens=30, shares_graphs=shares_graphs)


def drawn(count: int) -> list[int]:
    return np.random.default_rng(0).integers(1, 12, count).tolist()


@pytest.mark.parametrize("changes", [{}, {"whole_words": True, "height_norm": "excess"}, {"surrogate": False}], ids=str)
def test_padding_changes_no_number(gpu: ModuleType, changes: dict[str, Any]) -> None:
    """Loss and gradients are equal up to the order of sums in products, with noise, and dropout outside of charts."""
    config = config_of(network_dropout=0.3, **changes)
    parameters, results = on_device(gpu, parameters_of(config)), []
    for form in (FAST, GRAPHS):
        with forms.use(form):
            batches = list(batches_of(gpu, drawn(20), 2))
            results.append([(x, *gpst.loss_and_grad(gpu, config, parameters, x, dropout_seed=4)) for x in batches])
    for (plain, loss, gradients, _), (padded, *others) in zip(*results, strict=True):
        assert len(padded.ids) > len(plain.ids) == tokens_of(padded) == tokens_of(plain) == padded.n_labels
        assert others[0] == pytest.approx(loss, rel=1e-13)
        for name, x in gradients.items():
            np.testing.assert_allclose(others[1][name].get(), x.get(), rtol=0, atol=1e-12, err_msg=name)


def test_batches_that_are_made_before_the_training_are_padded_in_it(gpu: ModuleType) -> None:
    """`grove train` makes a job first, and asks for graphs when the training begins."""
    batches = batches_of(gpu, drawn(9), 2)
    with forms.use(GRAPHS):
        batch = next(iter(batches))
    assert batch.sizes is not None and len(batch.ids) > batch.n_labels


def test_batches_without_graphs_are_not_padded(gpu: ModuleType) -> None:
    """Neither are those of a validation, which do not set `shares_graphs`."""
    for form, shares in ((FAST, True), (GRAPHS, False)):
        with forms.use(form):
            batch = next(iter(batches_of(gpu, drawn(9), 2, shares)))
            assert batch.sizes is None and len(batch.ids) == batch.n_labels


def test_many_batches_of_contexts_need_few_graphs(gpu: ModuleType) -> None:
    """Batches have eight contexts of up to 30 words each."""
    layouts = []
    for form in (FAST, GRAPHS):
        with forms.use(form):
            blocks = [known.place_of(x.ids)[1].layout for x in batches_of(gpu, drawn(2000), 8)]
            layouts.append(set(blocks))
    assert len(layouts[0]) > 40 and len(layouts[1]) <= 8, [len(x) for x in layouts]


def test_a_training_by_few_graphs_is_the_training(gpu: ModuleType) -> None:
    results = []
    for form in (FAST, GRAPHS):
        with forms.use(form):
            config, training = config_of(network_dropout=0.1), TrainingConfig(steps=20, warmup_steps=2, seed=7)
            run = start(gpu, gpst, config, training, serial(), "", gpst.initialise(config, 3))
            run.graphs = new_graphs(run) if form.graphs else None
            results.append(([make_step(run, batch) for batch in batches_of(gpu, drawn(60), 2)], run))
    (plain, _), (replayed, run) = results
    assert 1 <= len(run.graphs.graphs) <= 3 and len(plain) > 5
    for one, other in zip(replayed, plain, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)
