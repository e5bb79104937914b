"""Batches of trees that are padded for CUDA graphs: the numbers are the same, and few graphs are needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.cuda import forms
from accel.cuda.support import known
from accel.data.batches import trees
from accel.data.batches.trees import Batches
from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.building import build
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import loop
from accel.training.checkpoint import read_state
from accel.training.communicator import serial
from accel.training.graphs import new_graphs
from accel.training.run import Run, start, tokens_of
from accel.training.settings import TrainingConfig
from accel.training.step import make_step
from accel.verify.strategies import make_tree
from tests.fixtures import toy_run
from tests.fixtures.device_parameters import on_device
from tests.fixtures.stand_in_gpu import gpu
from tests.fixtures.transformer_grammar_models import CORPUS, VARIANTS, VOCABULARY, parameters_of

FAST, GRAPHS = forms.Forms("fast"), forms.Forms("fast", graphs=True)


__all__ = ["gpu"]


def batches_of(gpu: ModuleType, n_trees: int, longest: int, rows: int) -> tuple[transformer_grammar.Config, Batches]:
    """Return a small model, and batches of random trees of up to `longest` words, each in one segment."""
    lengths = np.random.default_rng(0).integers(longest // 4, longest + 1, n_trees)
    examples = [make_tree("random", int(length), seed) for seed, length in enumerate(lengths)]
    vocabulary = build(examples)
    config = transformer_grammar.Config(
        model="tg", vocabulary_size=len(vocabulary), d_model=4, d_ff=6, n_layers=1, n_heads=2, segment_length=500,
        memory_length=500, core_dropout=0.2,
    )  # fmt: skip
    return config, Batches(encode_trees(examples, vocabulary), vocabulary, config, rows, ops=gpu, seed=3, prefetch=0)


@pytest.mark.parametrize("name", ["tg", "tg-no-memory", "distinct", "txl-memory"])
def test_padding_changes_no_number(gpu: ModuleType, name: str) -> None:
    """Loss, gradients and memory of every segment are equal up to the order of sums in products."""
    config = replace(VARIANTS[name], embedding_dropout=0.1, core_dropout=0.2, output_dropout=0.3)
    parameters, results = on_device(gpu, parameters_of(config)), []
    for form in (FAST, GRAPHS):
        with forms.use(form):
            memory, steps = None, []
            for batch in Batches(CORPUS, VOCABULARY, config, 3, ops=gpu, prefetch=0):
                logps, _ = transformer_grammar.token_logps(gpu, config, parameters, batch, memory)
                loss, gradients, memory = transformer_grammar.loss_and_grad(
                    gpu, config, parameters, batch, memory, dropout_seed=5
                )
                steps.append((batch, loss, gradients, memory, logps))
            results.append(steps)
    for plain, padded in zip(*results, strict=True):
        n = len(plain[0].ids)
        assert len(padded[0].ids) > n == tokens_of(padded[0]) == tokens_of(plain[0])
        assert padded[1] == pytest.approx(plain[1], rel=1e-13)
        for key, gradient in plain[2].items():
            np.testing.assert_allclose(padded[2][key].get(), gradient.get(), rtol=0, atol=1e-12, err_msg=key)
        for rows, expected in zip(padded[3], plain[3], strict=True):
            np.testing.assert_allclose(rows.get()[: len(expected)], expected.get(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(padded[4].get()[:n], plain[4].get(), rtol=0, atol=1e-12)
        assert not padded[4].get()[n:].any()


def test_fifty_batches_of_trees_need_few_graphs(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches have eight trees of 10 to 40 words: without padding each needs a graph, with padding a few are enough."""
    counts = []
    with forms.use(GRAPHS):
        for padded in (trees.padded, lambda batch, *_: batch):
            monkeypatch.setattr(trees, "padded", padded)
            layouts = [known.place_of(batch.ids)[1].layout for batch in batches_of(gpu, 400, 40, 8)[1]]
            assert len(layouts) == 50
            counts.append(len(set(layouts)))
    assert counts[1] == 50 and counts[0] <= 12, counts


def test_a_training_by_few_graphs_is_the_training(gpu: ModuleType) -> None:
    results: list[tuple[list[dict[str, Any]], Run]] = []
    for form in (FAST, GRAPHS):
        with forms.use(form):
            config, batches = batches_of(gpu, 48, 12, 4)
            training = TrainingConfig(steps=20, warmup_steps=2, seed=7)
            initial = transformer_grammar.initialise(config, 3)
            run = start(gpu, transformer_grammar, config, training, serial(), "", initial)
            run.graphs = new_graphs(run) if form.graphs else None
            results.append(([make_step(run, batch) for batch in batches], run))
    (plain, _), (replayed, run) = results
    assert 1 <= len(run.graphs.graphs) <= 4 and len(plain) == 12
    for one, other in zip(replayed, plain, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)


@pytest.mark.parametrize("first", [FAST, GRAPHS], ids=["plain-then-graphs", "graphs-then-plain"])
def test_a_training_goes_on_with_and_without_graphs(gpu: ModuleType, tmp_path: Path, first: forms.Forms) -> None:
    """After the third step, the rows of the batch are in the middle of their trees."""
    config, training = VARIANTS["tg"], TrainingConfig(steps=8, warmup_steps=2, schedule="constant", seed=7)
    second = GRAPHS if first is FAST else FAST
    for name, parts in (("whole", [(FAST, 8)]), ("resumed", [(first, 3), (second, 8)])):
        for form, n_steps in parts:
            with forms.use(form), Batches(CORPUS, VOCABULARY, config, 3, ops=gpu, epochs=None, prefetch=0) as batches:
                loop.train(
                    gpu, transformer_grammar, config, replace(training, steps=n_steps), batches, tmp_path / name,
                    progress=False, resume=n_steps == 8,
                )  # fmt: skip
    assert read_state(tmp_path / "resumed" / loop.NEWEST)["step"] == 8
    whole, resumed = (toy_run.metrics(tmp_path / name) for name in ("whole", "resumed"))
    assert len(resumed) == 8
    for one, other in zip(resumed, whole, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)
