"""Micro-batches: the gradient is that of the whole batch, for every model; runs resume bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import accel
from accel.data.batches.trees import Batches
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import gradient, loop
from accel.training.checkpoint import read_state
from accel.training.communicator import Communicator, serial
from accel.training.run import TrainingError, start
from tests.fixtures.snapshot_jobs import batches_of, folder, job_of
from tests.fixtures.toy_run import CONFIG, CORPUS, TRAINING, VOCABULARY, metrics
from tests.fixtures.toy_run import run as train_toy
from tests.house.snapshot_cases import TRAININGS

__all__ = ["folder"]

MICRO = {  # models and kinds of batches: the rows of a micro-batch, or their size
    "tg": 2, "txl_cc": 4, "words": 4, "lm_fasttrees": 4, "lm_conv_fasttrees": 2, "lm_faster_fasttrees": 5,
    "lm_on_lstm": 1, "logic": 20, "sentiment": 7, "sentiment_treeformer": 4, "agreement": 20, "arithmetic": 200,
    "cogs": 70, "translation_treeformer": 300, "gpst": 1, "gpst_words": 4, "gpt2": 2, "tuned_pairs": 2,
    "tuned_gpt2": 30, "summaries": 4, "parser": 60,
    "masked_words": 90, "tuned_albert": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", MICRO)
def test_gradients_add_up_to_those_of_the_whole_batch(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are compared without dropout, in float64; the second batch reads the memory of the first."""
    jobs = job_of(folder, name), job_of(folder, name, "--micro-batch", str(MICRO[name]))
    draw, results = np.random.default_rng(5), []
    initial = {
        key: x + 0.1 * draw.standard_normal(x.shape) for key, x in jobs[0].model.initialise(jobs[0].config, 3).items()
    }
    monkeypatch.setattr(gradient, "mix", lambda seed, number: None)  # no dropout
    for job in jobs:
        assert job.config == jobs[0].config
        monkeypatch.setattr(job.model, "initialise", lambda config, seed: initial)
        run, steps = start(accel.load("cpu"), job.model, job.config, job.training, serial(), ""), []
        for batch in batches_of(job, 2):
            parts = batch if isinstance(batch, list) else [batch]
            steps.append((gradient.differentiate(run, parts), run.gradient.copy(), len(parts)))
        results.append(steps)
    for (whole, gradients, n_whole), (parts, summed, _) in zip(*results, strict=True):
        assert gradients.dtype == np.float64 and n_whole == 1
        assert parts == pytest.approx(whole, rel=1e-10)
        np.testing.assert_allclose(summed, gradients, rtol=0, atol=1e-10 * abs(gradients).max())
    assert results[1][0][2] > 1


def test_validation_in_parts_is_that_of_the_whole(folder: Path) -> None:
    for name in ("tg", "lm_fasttrees", "gpst", "translation_treeformer", "masked_words"):
        jobs = job_of(folder, name), job_of(folder, name, "--micro-batch", str(MICRO[name]))
        p, ops = jobs[0].model.initialise(jobs[0].config, 3), accel.load("cpu")
        one, other = (loop.evaluate(ops, job.model, job.config, p, job.validation()) for job in jobs)
        assert other == pytest.approx(one, rel=1e-5)


def test_batches_come_in_parts_of_at_most_so_many_rows(folder: Path) -> None:
    whole, parts = (batches_of(job_of(folder, "gpst_words", *more), 1)[0] for more in ((), ("--micro-batch", "4")))
    assert [len(part.contexts) - 1 for part in parts] == [4, 4, 1]
    assert np.concatenate([part.ids for part in parts]).tolist() == whole.ids.tolist()
    whole, parts = (batches_of(job_of(folder, "arithmetic", *more), 1)[0] for more in ((), ("--micro-batch", "200")))
    assert all(len(part.ids) + len(part.source_ids) <= 200 for part in parts) and len(parts) > 1
    assert sum(part.n_labels for part in parts) == whole.n_labels
    (largest,) = batches_of(job_of(folder, "arithmetic", "--micro-batch", "1"), 1)
    assert all(part.n_labels and len(part.source_offsets) == 2 for part in largest)


def test_released_convolution_is_refused(mistake: Callable[..., str], folder: Path) -> None:
    arguments = [x.replace("@/", f"{folder}/") for x in TRAININGS["lm_released"]]
    wrong = mistake(*arguments, "--micro-batch", "2", "--out", folder / "released")
    assert "micro_batch: 2, but the released convolution reads the other sequences of its batch" in wrong
    job, two = job_of(folder, "lm_released"), replace(serial(), size=2)
    with pytest.raises(TrainingError, match=r"^variant: released, but .*; use one process, or variant paper$"):
        loop.train(accel.load("cpu"), job.model, job.config, job.training, job.batches, folder / "two",
                   communicator=two)  # fmt: skip


def test_a_run_resumes_bit_for_bit_with_the_memory_of_every_part(tmp_path: Path) -> None:
    """Batches of five rows are cut into parts of two, with dropout; a run of six steps is resumed to the end."""
    training = replace(TRAINING, schedule="constant", micro_batch=2, checkpoint_every=3)
    train_toy(tmp_path / "whole", training=training)
    train_toy(tmp_path / "cut", training=replace(training, steps=6))
    rows = read_state(tmp_path / "cut" / loop.NEWEST)["memory_rows"]
    assert len(rows) == 1 and len(rows[0]) == 3
    train_toy(tmp_path / "cut", training=training, resume=True)
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    for name in (loop.NEWEST, loop.BEST):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_one_part_is_the_whole_batch_bit_for_bit(tmp_path: Path) -> None:
    for name, micro_batch in (("one", 5), ("none", None)):
        train_toy(tmp_path / name, training=replace(TRAINING, steps=4, micro_batch=micro_batch))
    assert metrics(tmp_path / "one") == metrics(tmp_path / "none")


def test_batches_that_come_whole_are_refused(tmp_path: Path) -> None:
    ops, training = accel.load("cpu"), replace(TRAINING, micro_batch=2)
    with Batches(CORPUS, VOCABULARY, CONFIG, 5, ops=ops, prefetch=0) as batches:
        with pytest.raises(loop.TrainingError, match="micro_batch: 2, but these batches are not cut; leave it out"):
            loop.train(ops, transformer_grammar, CONFIG, training, batches, tmp_path / "run", progress=False)


def test_every_part_of_every_process_draws_its_own_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Part k of process r of 2 has the seed of process r + 2 k of 4; another step has new seeds."""
    seeds: dict[tuple[int, int], list[int]] = {}
    right = transformer_grammar.loss_and_grad
    for rank, ranks in ((0, 2), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4)):
        rank_seeds = seeds.setdefault((rank, ranks), [])

        def recorded(*arguments: object, rank_seeds: list[int] = rank_seeds, **options: object) -> tuple:
            rank_seeds.append(options["dropout_seed"])
            return right(*arguments, **options)

        monkeypatch.setattr(transformer_grammar, "loss_and_grad", recorded)
        ops, group = accel.load("cpu"), Communicator(rank, ranks, lambda array: None, lambda array: None)
        run = start(ops, transformer_grammar, CONFIG, TRAINING, group, "")
        with Batches(CORPUS, VOCABULARY, CONFIG, 2, ops=ops, prefetch=0) as batches:
            parts = [next(iter(batches))] * (2 if ranks == 2 else 1)
        gradient.differentiate(run, parts)
        run.optimizer.step += 1
        gradient.differentiate(run, parts)
    assert len({seed for rank_seeds in seeds.values() for seed in rank_seeds}) == 2 * 4
    for rank, k in ((0, 0), (1, 0), (0, 1), (1, 1)):
        assert seeds[rank, 2][k] == seeds[rank + 2 * k, 4][0]
        assert seeds[rank, 2][2 + k] == seeds[rank + 2 * k, 4][1]
