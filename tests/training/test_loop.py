"""The training loop: the loss falls, the best parameters and the last checkpoints are kept, and it ends in time."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import accel
from accel.data.batches.trees import Batches
from accel.models.transformer_grammars import model as transformer_grammar
from accel.training import checkpoint, optimizer, schedule
from accel.training import loop as train
from tests.fixtures.finished_runs import finished
from tests.fixtures.toy_run import CONFIG, CORPUS, SHAPES, TRAINING, VOCABULARY, metrics, run

__all__ = ["finished"]


def test_metrics_have_one_line_a_step(finished: Path) -> None:
    lines = [json.loads(line) for line in (finished / train.METRICS).read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, TRAINING.steps + 1))
    validated = [line["step"] for line in lines if "validation_loss" in line]
    assert validated == [3, 6, 9, 12, 14]
    names = {"step", "loss", "learning_rate", "gradient_norm", "tokens_per_second", "seconds"}
    assert all(line.keys() - {"validation_loss"} == names for line in lines)
    assert all(line["seconds"] > 0 and line["tokens_per_second"] > 0 for line in lines)
    assert any(line["tokens_per_second"] % 1 for line in lines)
    assert lines[0]["learning_rate"] == TRAINING.initial_rate and lines[-1]["learning_rate"] == TRAINING.final_rate


def test_the_loss_is_that_of_a_label(finished: Path) -> None:
    """Before the first update, the loss is the logarithm of the vocabulary size in nats, within 50 %."""
    assert metrics(finished)[0]["loss"] == pytest.approx(log(len(VOCABULARY)), rel=0.5)


def test_the_rate_falls_when_validations_get_worse(tmp_path: Path) -> None:
    f1, falling = iter([50.0, 40.0, 30.0, 20.0, 10.0]), replace(TRAINING, schedule="plateau", select="f1", patience=0)
    run(tmp_path, training=falling, measure=train.Measure("f1", lambda parameters: next(f1)))
    rates = [line["learning_rate"] / TRAINING.maximum_rate for line in metrics(tmp_path)]
    assert rates == [1.0] * 6 + [0.5] * 3 + [0.25] * 3 + [0.125] * 2


def test_the_loss_falls_and_the_best_parameters_are_kept(finished: Path) -> None:
    losses = [line["validation_loss"] for line in metrics(finished) if "validation_loss" in line]
    assert losses[-1] < losses[0] - 0.1
    best = checkpoint.load(finished / train.BEST, SHAPES)
    assert best.state["validation_loss"] == min(losses) and not best.optimizer and not best.memory
    assert best.state["config"]["d_model"] == CONFIG.d_model and best.state["model"] == "transformer_grammar"


def test_an_average_begins_anew_and_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NT-ASGD averages from validation 2 on, restarts the average at validation 3, and ends when it stalls."""
    losses = iter([2.0, 3.0, 2.5, 2.0, 2.1])
    monkeypatch.setattr(train, "evaluate", lambda *_: {"loss": next(losses)})
    rules = {"optimizer": "nt_asgd", "schedule": "constant", "nonmonotone": 0, "restart_after": 3, "validate_every": 2}
    training = replace(TRAINING, **rules)
    run(tmp_path, training=replace(training, steps=6))
    assert run(tmp_path, training=training, resume=True)["step"] == 10
    assert checkpoint.read_state(tmp_path / train.NEWEST)["averaged"] == 10 - 3 * 2
    assert run(tmp_path, training=training, resume=True) == {}


def test_a_lengthened_training_is_that_of_so_many_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A last step is validated even if `validate_every` does not divide it; that validation counts only at the end."""
    losses = {2: 2.0, 4: 3.0, 5: 9.0, 6: 1.5, 8: 2.0}
    rules = {"optimizer": "nt_asgd", "schedule": "constant", "nonmonotone": 0, "validate_every": 2, "steps": 8}
    for name, steps in (("whole", [8]), ("parts", [3, 5, 8])):
        step = iter([2, 4, 6, 8] if name == "whole" else [2, 3, 4, 5, 6, 8])
        monkeypatch.setattr(train, "evaluate", lambda *_, step=step: {"loss": losses.get(next(step), 9.0)})
        for n in steps:
            run(tmp_path / name, training=replace(TRAINING, **rules | {"steps": n}), resume=(tmp_path / name).exists())
    whole, parts = (checkpoint.load(tmp_path / name / train.NEWEST, SHAPES) for name in ("whole", "parts"))
    for state in ("results", "averaged", "step"):
        assert whole.state[state] == parts.state[state]
    for name, value in whole.optimizer["average"].items():
        np.testing.assert_array_equal(value, parts.optimizer["average"][name])


@pytest.mark.parametrize("rule", ["adam", "nt_asgd"])
def test_the_best_checkpoint_holds_what_was_validated(tmp_path: Path, rule: str) -> None:
    """It holds the parameters at the best validation, not those of the end; with NT-ASGD, the averages."""
    training = replace(TRAINING, optimizer=rule, schedule="constant", nonmonotone=0, maximum_rate=0.02, steps=9)
    ops, validated = accel.load("cpu"), []
    right = train.evaluate

    def worst_last(*arguments: object) -> dict[str, float]:
        validated.append(right(*arguments)["loss"])
        return {"loss": [3.0, 3.1, 2.0, 4.0][len(validated) - 1]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "evaluate", worst_last)
        run(tmp_path, training=replace(training, validate_every=2, steps=8))
    best, newest = (checkpoint.load(tmp_path / name, SHAPES) for name in (train.BEST, train.NEWEST))
    assert best.state["step"] == 6 and ("average" in newest.optimizer) == (rule == "nt_asgd")
    with Batches(CORPUS, VOCABULARY, CONFIG, TRAINING.batch_size, ops=ops, prefetch=0) as batches:
        loss = right(ops, transformer_grammar, CONFIG, best.parameters, batches)["loss"]
    assert loss == validated[2] and len(set(validated)) == 4


def test_training_ends_when_validations_are_not_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has ended by this rule does nothing when it is resumed, until the rule is changed."""
    losses = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    monkeypatch.setattr(train, "evaluate", lambda *_: {"loss": next(losses)})
    short = replace(TRAINING, stop_after=2)
    assert run(tmp_path, training=short)["step"] == 12 and len(metrics(tmp_path)) == 12
    saved = checkpoint.read_state(tmp_path / train.NEWEST)
    assert saved["step"] == 12 and saved["results"] == [3.0, 2.0, 2.5, 2.0]
    assert checkpoint.read_state(tmp_path / train.BEST)["step"] == 6
    assert run(tmp_path, training=short, resume=True) == {}
    assert run(tmp_path, training=replace(short, stop_after=0), resume=True)["step"] == TRAINING.steps


def test_the_best_parameters_of_a_killed_process_stay_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed after its best validation, at step 9, and before it saves the run; then it gets more steps.

    Later validations are compared with that one, although the lengthened run does not make it again.
    """
    losses = iter([3.0, 2.0, 1.0, 1.5, 1.2, 1.1])
    monkeypatch.setattr(train, "evaluate", lambda *_: {"loss": next(losses)})
    run(tmp_path, training=replace(TRAINING, steps=6))
    saved = (tmp_path / train.NEWEST).read_bytes()
    run(tmp_path, training=replace(TRAINING, steps=9), resume=True)
    (tmp_path / train.NEWEST).write_bytes(saved)
    assert run(tmp_path, training=replace(TRAINING, steps=14), resume=True)["step"] == 14
    assert checkpoint.read_state(tmp_path / train.NEWEST)["best"] == 1.0
    best = checkpoint.read_state(tmp_path / train.BEST)
    assert (best["step"], best["validation_loss"]) == (9, 1.0)


def test_the_last_checkpoints_are_kept(finished: Path, tmp_path: Path) -> None:
    run(tmp_path, training=replace(TRAINING, keep_checkpoints=2))
    names = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
    assert names == ["checkpoint-00000012.safetensors", "checkpoint-00000014.safetensors"]
    last = checkpoint.load(tmp_path / names[1], SHAPES)
    assert last.state["step"] == 14 and not last.optimizer
    for name, value in checkpoint.load(finished / train.NEWEST, SHAPES).parameters.items():
        np.testing.assert_array_equal(last.parameters[name], value)


def test_another_result_selects_the_best_parameters(tmp_path: Path) -> None:
    """The highest result is selected, and of equal results the first."""
    f1 = iter([10.0, 30.0, 20.0, 30.0, 5.0])
    run(tmp_path, training=replace(TRAINING, select="f1"), measure=train.Measure("f1", lambda parameters: next(f1)))
    lines = [(line["step"], line["validation_f1"]) for line in metrics(tmp_path) if "validation_f1" in line]
    assert lines == [(3, 10.0), (6, 30.0), (9, 20.0), (12, 30.0), (14, 5.0)]
    best = checkpoint.load(tmp_path / train.BEST, SHAPES).state
    assert (best["step"], best["validation_f1"]) == (6, 30.0) and best["validation_loss"] > 0
    with pytest.raises(train.TrainingError, match="select: f1, but no gold trees are parsed in a validation"):
        run(tmp_path / "none", training=replace(TRAINING, select="f1"))


def test_a_result_of_another_name_is_not_selected(tmp_path: Path) -> None:
    with pytest.raises(train.TrainingError, match="^select: matthews is the correlation of CoLA"):
        measure = train.Measure("f1", lambda parameters: 0.0)
        run(tmp_path, training=replace(TRAINING, select="matthews"), measure=measure)


def test_a_model_without_accuracy_is_not_selected_by_it(tmp_path: Path) -> None:
    with pytest.raises(train.TrainingError, match="^select: accuracy, but transformer_grammar has none; use loss"):
        run(tmp_path, training=replace(TRAINING, select="accuracy"))


def test_an_evaluation_adds_up_all_parts_and_hands_their_memories_on() -> None:
    """Results are means per label over batches and parts; part k reads the memory of part k of the previous batch."""
    memories = []

    def scores(ops: object, config: object, parameters: object, part: SimpleNamespace, memory: object) -> tuple:
        memories.append(memory)
        return np.array(part.logp), np.array(part.right), part.name

    def part(name: str, logp: list[float], right: list[bool], n_labels: int) -> SimpleNamespace:
        return SimpleNamespace(name=name, logp=logp, right=right, n_labels=n_labels)

    batches = [[part("a", [-1.0, -2.0], [True, False], 2), part("b", [-4.0], [True], 1)],
               [part("c", [-0.5], [False], 1), part("d", [-2.5], [True], 4)]]  # fmt: skip
    results = train.evaluate(accel.load("cpu"), SimpleNamespace(scores=scores), None, {}, batches)
    assert results == {"loss": 10.0 / 8, "accuracy": 3 / 8} and memories == [None, None, "a", "b"]


def test_data_that_end_are_named(tmp_path: Path) -> None:
    class Nothing:
        def __iter__(self) -> object:
            return iter(())

    ops = accel.load("cpu")
    with pytest.raises(train.TrainingError, match="^step 1: the data ended before the last step, 14$"):
        train.train(ops, transformer_grammar, CONFIG, TRAINING, Nothing(), tmp_path, progress=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 0}, "steps: 0, but the least whole number is 1; use 1 or more"),
        ({"warmup_steps": -1}, "warmup_steps: -1, but the least whole number is 0"),
        ({"least_rate": 0.1}, "least_rate: 0.1, but maximum_rate is less; use at most 0.005"),
        ({"seed": 2**64}, f"seed: {2**64}, but it has more than 64 bits; use a number below"),
        ({"seed": -1}, "seed: -1, but the least whole number is 0; use 0 or more"),
        ({"clip_norm": 0.0}, "clip_norm: 0.0, but it must be above 0 and finite; use a number above 0, or none"),
    ],
)
def test_impossible_trainings_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(TRAINING, **change)


def test_learning_rate_rises_in_a_line_and_falls_in_half_a_cosine() -> None:
    figures = {"steps": 101, "warmup": 20, "initial": 1.0, "maximum": 3.0, "final": 0.5}
    rates = [schedule.learning_rate(step, **figures) for step in range(101)]
    np.testing.assert_allclose(np.diff(rates[:21]), 0.1)
    assert rates[20] == 3.0 and rates[60] == pytest.approx(1.75) and rates[100] == 0.5
    assert all(a > b for a, b in zip(rates[20:], rates[21:], strict=False))
    assert schedule.learning_rate(0, steps=1, warmup=0, initial=1.0, maximum=3.0, final=0.5) == 3.0
    for step in (101, -1):
        with pytest.raises(ValueError, match=f"^step: {step} is not one of 0..100$"):
            schedule.learning_rate(step, **figures)


def test_clipping_brings_long_gradients_to_the_norm_and_leaves_short_ones() -> None:
    gradient = np.array([3.0, 4.0])
    assert optimizer.norm(gradient) == 5.0
    assert optimizer.clip_factor(5.0, 3.0) == pytest.approx(0.6, rel=1e-6)
    assert optimizer.clip_factor(2.0, 3.0) == optimizer.clip_factor(5.0, None) == 1.0


def test_the_norm_of_many_numbers_is_as_exact_as_that_of_one_part() -> None:
    """One float32 sum of twenty million equal squares is off by a thousandth."""
    x = np.full(5 * optimizer.SUMMED, np.float32(0.1))

    def error(n: int) -> float:
        return abs(float(optimizer.norm(x[:n])) / (float(x[0]) * n**0.5) - 1)

    assert error(len(x)) <= error(optimizer.SUMMED) + 1e-12


def test_clipping_is_applied(tmp_path: Path) -> None:
    """Adam's first step does not depend on the scale of the gradient; later steps do, and show the clipping."""
    for name, clip in (("clipped", 0.01), ("free", None)):
        run(tmp_path / name, training=replace(TRAINING, clip_norm=clip))
    losses = {name: [line["loss"] for line in metrics(tmp_path / name)] for name in ("clipped", "free")}
    assert losses["clipped"][0] == losses["free"][0] and losses["clipped"][-1] != losses["free"][-1]
