"""Layers that the backward pass computes again: the same gradients bit for bit, in less memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accel
from accel import cli
from accel.autodiff.arrays import named_views
from accel.autodiff.recomputation import saved_bytes
from accel.autodiff.tape import Tape
from tests.fixtures.snapshot_jobs import batches_of, folder, job_of
from tests.house.snapshot_cases import TRAININGS

__all__ = ["folder"]

MODELS = (
    "tg", "lm_fasttrees", "lm_conv_fasttrees", "lm_faster_fasttrees", "translation_treeformer", "cogs", "parser",
    "gpst_words", "gpt2", "sentiment", "masked_words", "tuned_albert",
)  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_the_same_bit_for_bit(folder: Path, name: str) -> None:
    """It holds with dropout, and for GPST, which runs backwards over its record twice."""
    job, ops = job_of(folder, name), accel.load("cpu")
    (batch,), p = batches_of(job, 1), job.model.initialise(job.config, 3)
    saved: list[int] = []
    results = [
        job.model.loss_and_grad(
            ops, job.config, p, batch, dropout_seed=7, **options, watch=lambda x: saved.append(saved_bytes(x))
        )
        for options in ({}, {"recompute": True})
    ]
    assert results[0][0] == results[1][0]
    for key in p:
        assert (results[0][1][key] == results[1][1][key]).all(), key
    assert saved[1] < 0.7 * saved[0]


@pytest.mark.parametrize("options", [{}, {"recompute": True}], ids=["kept", "again"])
@pytest.mark.parametrize(
    ("name", "constants"),
    [("translation_treeformer", ("embedding",)), ("sentiment", ("embedding",)),
     ("gpst_words", ("embedding", "down", "down_bias", "parser.embedding"))],
)  # fmt: skip
def test_what_reads_constants_is_learned(
    folder: Path, name: str, constants: tuple[str, ...], options: dict[str, Any]
) -> None:
    """A parameter without an array for its gradient is a constant; the gradients of all others stay the same."""
    job, ops = job_of(folder, name), accel.load("cpu")
    (batch,), p = batches_of(job, 1), job.model.initialise(job.config, 3)
    assert p.keys() & set(constants)
    results = []
    for names in (p.keys(), p.keys() - set(constants)):
        gradients = {key: np.zeros_like(p[key]) for key in names}
        job.model.loss_and_grad(ops, job.config, p, batch, dropout_seed=7, gradients=gradients, **options)
        results.append(gradients)
    for key, gradient in results[1].items():
        assert (gradient == results[0][key]).all(), key


@pytest.mark.parametrize("name", ["gpt2", "gpst_words", "translation_treeformer"])
def test_saved_bytes_are_those_that_numpy_holds(folder: Path, name: str) -> None:
    """They are at least seven eighths of all traced memory; the rest is Python's."""
    job, ops = job_of(folder, name), accel.load("cpu")
    (batch,), p = batches_of(job, 1), job.model.initialise(job.config, 3)
    gradients, sizes = job.model.loss_and_grad(ops, job.config, p, batch)[1], []

    def watch(tape: Tape) -> None:
        sizes.append((saved_bytes(tape), tracemalloc.get_traced_memory()[0]))

    tracemalloc.start()
    job.model.loss_and_grad(ops, job.config, p, batch, gradients=gradients, watch=watch)
    tracemalloc.stop()
    ((ours, theirs),) = sizes
    assert 0.875 * theirs < ours <= theirs


def test_training_says_what_memory_it_takes(folder: Path, tmp_path: Path, capfd: Any) -> None:
    arguments = [x.replace("@/", f"{folder}/") for x in TRAININGS["gpt2"]]
    lines = {}
    for name, options in (("kept", ()), ("again", ("--recompute", "--micro-batch", "2"))):
        assert cli.main([*arguments, "--out", str(tmp_path / name), *options]) == 0
        lines[name] = [line for line in capfd.readouterr().err.splitlines() if line.startswith("memory: ")]
    before, after = lines["kept"]
    assert " a token for the backward pass, " in before and " for the first batch of " in before
    assert "; parameters, gradient and optimizer " in before and after.endswith(" in this process")
    assert " for the first micro-batch of " in lines["again"][0]


def test_parameters_are_not_counted(folder: Path) -> None:
    """Parameters are views of one vector, as in training."""
    job, ops = job_of(folder, "gpt2"), accel.load("cpu")
    (batch,), p = batches_of(job, 1), job.model.initialise(job.config, 3)
    vector = np.concatenate([x.ravel() for x in p.values()])
    views = named_views(vector, {name: x.shape for name, x in p.items()})
    sizes: list[int] = []

    def watch(tape: Tape) -> None:
        sizes.extend((saved_bytes(tape), saved_bytes(tape, [vector])))

    job.model.loss_and_grad(ops, job.config, views, batch, watch=watch)
    assert sizes[0] - sizes[1] == vector.nbytes
