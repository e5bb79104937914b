"""Learning rates that depend on validations, and optimisers, against literal transcriptions of their definitions."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import accel
from accel.autodiff.arrays import host, places
from accel.training import optimizer
from accel.training.schedule import ends_after_restart, noam, plateau, restarts, stalled
from accel.training.settings import TrainingConfig


class ReduceOnPlateau:
    """PyTorch's ReduceLROnPlateau with threshold 0, transcribed."""

    def __init__(self, lr: float, mode: str, factor: float, patience: int, min_lr: float) -> None:
        self.lr, self.mode, self.factor, self.patience, self.min_lr = lr, mode, factor, patience, min_lr
        self.best = float("inf") if mode == "min" else -float("inf")
        self.num_bad_epochs = 0

    def step(self, metrics: float) -> None:
        if self.mode == "min":
            better = metrics < self.best * (1.0 - 0)
        else:
            better = metrics > self.best * (0 + 1.0)
        if better:
            self.best = metrics
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.lr = max(self.lr * self.factor, self.min_lr)
            self.num_bad_epochs = 0


def walk(seed: int, n: int = 40) -> list[float]:
    """Return validation results that rise and fall; some are equal."""
    random = np.random.default_rng(seed)
    return np.round(1.0 + np.cumsum(random.standard_normal(n)) * 0.01 + random.random(n) * 0.02, 3).tolist()


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize(("seed", "patience", "least"), [*((seed, 2, 0.0) for seed in range(5)), (5, 0, 0.2)])
def test_the_rate_falls_on_a_plateau_as_pytorch_s_does(mode: str, seed: int, patience: int, least: float) -> None:
    results, factors = walk(seed), set()
    theirs = ReduceOnPlateau(1.0, mode, 0.5, patience, least)
    for n, result in enumerate(results, 1):
        theirs.step(result)
        factors.add(theirs.lr)
        assert plateau(results[:n], factor=0.5, patience=patience, highest=mode == "max", least=least) == theirs.lr
    assert len(factors) > 2
    assert plateau([], factor=0.5, patience=2, highest=True) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_averaging_begins_where_the_awd_lstm_begins(seed: int) -> None:
    results, best_val_loss = walk(seed), []
    begins = []
    for n, val_loss in enumerate(results, 1):
        if len(best_val_loss) > 5 and val_loss > min(best_val_loss[:-5]):
            begins.append(n)
        best_val_loss.append(val_loss)
    assert [n for n in range(1, len(results) + 1) if stalled(results[:n], 5)] == begins and begins
    assert not stalled([1.0], 0) and stalled([1.0, 2.0], 0) and not stalled([], 5)


@pytest.mark.parametrize("seed", range(5))
def test_the_second_average_ends_where_the_awd_lstm_s_fine_tuning_ends(seed: int) -> None:
    """The ends are those of the loop of the released code, in which the list of losses also grows after the restart."""
    at, losses, has_begun, ends = 30, list[float](), False, list[int]()
    results = walk(seed, 120)
    for n, loss in enumerate(results, 1):
        is_worse = len(losses) > 5 and loss > min(losses[:-5])
        if n == at and has_begun:
            losses = []
            continue
        if n > at and has_begun and is_worse:
            ends.append(n)
        has_begun = has_begun or is_worse
        losses.append(loss)
    numbers = range(1, len(results) + 1)
    assert [n for n in numbers if ends_after_restart(results[:n], nonmonotone=5, at=at)] == ends and ends
    assert [n for n in numbers if restarts(results[:n], nonmonotone=5, at=at)] == [at]
    assert not any(ends_after_restart(results[:n], nonmonotone=5, at=0) for n in numbers)


@pytest.mark.parametrize(("schedule", "steps", "warmup"), [("linear", 9, 0), ("cosine", 25, 2), ("noam", 9, 30)])
def test_a_warm_up_shrinks_where_the_rate_falls_and_has_no_room_for_it(schedule: str, steps: int, warmup: int) -> None:
    settings = TrainingConfig(schedule=schedule, warmup_steps=30, maximum_rate=2.0, initial_rate=0.0, steps=steps)
    rates = [settings.rate(step) for step in range(steps)]
    assert settings.warmup == warmup and settings.warmup_steps == 30
    if schedule != "noam":
        assert (
            rates.index(max(rates)) == warmup and max(rates) == 2.0 and rates[-1] == pytest.approx(settings.final_rate)
        )


def test_noam_rises_and_falls() -> None:
    rates = [noam(step, warmup=100, maximum=2.0) for step in range(400)]
    assert max(rates) == rates[99] == 2.0 and rates[399] == 1.0 and rates[49] == 1.0
    settings = TrainingConfig(schedule="noam", warmup_steps=100, maximum_rate=2.0, steps=10)
    assert [settings.rate(step) for step in range(5)] == rates[:5]


@pytest.mark.parametrize("warmup", [0, 3])
def test_a_line_up_and_a_line_down(warmup: int) -> None:
    """The rates are those of get_linear_schedule_with_warmup, whose last step is one step above zero."""
    steps = 20
    settings = TrainingConfig(
        schedule="linear",
        steps=steps,
        warmup_steps=warmup,
        initial_rate=0.0,
        maximum_rate=2.0,
        final_rate=2.0 / (steps - warmup),
    )
    for step in range(steps):
        theirs = step / max(1, warmup) if step < warmup else (steps - step) / max(1, steps - warmup)
        assert settings.rate(step) == pytest.approx(2.0 * theirs, rel=1e-12)


PLACES = places({"parser.a": (2,), "b": (1, 1), "parser.c": (1, 2), "parsed": (2,)})[0]


@pytest.mark.parametrize("decay", ["penalty", "decoupled"])
@pytest.mark.parametrize("name", ["adam", "sgd", "nt_asgd"])
def test_a_group_of_parameters_has_a_rate_of_its_own(name: str, decay: str, backend: ModuleType) -> None:
    """Each group of parameters is the same as if all parameters had its rate."""
    rates = {"maximum_rate": 0.2, "own_rate_of": "parser.", "own_rate": 0.5}
    options: dict[str, object] = {"optimizer": name, "weight_decay": 0.3, "decay": decay}
    average_from = 4 if name == "nt_asgd" else None
    both, _, averages = trained(backend, TrainingConfig(**options, **rates), average_from)
    slow, _, slow_averages = trained(backend, TrainingConfig(**options), average_from)
    quick, _, quick_averages = trained(backend, TrainingConfig(**options), average_from, factor=0.5 / 0.2)
    in_group = np.array([True, True, False, True, True, False, False])
    for x, y, z in ((both, slow, quick), (averages, slow_averages, quick_averages)):
        np.testing.assert_allclose(x, np.where(in_group, z, y), rtol=1e-12)


def test_a_group_without_parameters_is_named() -> None:
    settings = TrainingConfig(own_rate_of="pasrer.", own_rate=1.0)
    for layout in (None, PLACES):
        with pytest.raises(ValueError, match="own_rate_of: no parameter has a name that begins with 'pasrer.'"):
            optimizer.start(accel.load("cpu"), settings, np.zeros(7), layout)


def trained(
    ops: ModuleType, settings: TrainingConfig, average_from: int | None = None, factor: float = 1.0
) -> tuple[list[np.ndarray], ...]:
    """Return the parameters (start first), gradients and averages of ten updates at changing rates."""
    random = np.random.default_rng(0)
    vector = random.standard_normal(7)
    gradients = [random.standard_normal(7) for _ in range(10)]
    on_it = ops.xp.asarray(vector.copy())
    state = optimizer.start(ops, settings, on_it, PLACES)
    vectors, averages = [vector], []
    for step, gradient in enumerate(gradients):
        if step == average_from:
            optimizer.start_average(state, on_it)
        optimizer.update(ops, state, on_it, ops.xp.asarray(gradient.copy()), factor * (0.1 + 0.01 * step), 0.5)
        vectors.append(host(on_it).copy())
        averages.append(host(state.vectors.get("average", on_it)).copy())
    return vectors, gradients, averages


def test_adam_decays_weights_as_pytorch_s_does() -> None:
    settings = TrainingConfig(epsilon=1e-9, weight_decay=0.3)
    vectors, gradients, _ = trained(accel.load("cpu"), settings)
    p, first, second = vectors[0].copy(), np.zeros(7), np.zeros(7)
    for step, gradient in enumerate(gradients):
        g = gradient * 0.5 + 0.3 * p
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g * g
        size = (0.1 + 0.01 * step) / (1 - 0.9 ** (step + 1))
        p = p - size * first / (np.sqrt(second) / np.sqrt(1 - 0.999 ** (step + 1)) + 1e-9)
        np.testing.assert_allclose(vectors[step + 1], p, rtol=1e-12)


def test_adam_with_decoupled_decay_is_pytorch_s_adamw(backend: ModuleType) -> None:
    """Weights shrink by rate times decay, whatever their gradient is; Adam does not divide the decay."""
    settings = TrainingConfig(epsilon=1e-9, weight_decay=0.3, decay="decoupled")
    vectors, gradients, _ = trained(backend, settings)
    p, first, second = vectors[0].copy(), np.zeros(7), np.zeros(7)
    for step, gradient in enumerate(gradients):
        rate, g = 0.1 + 0.01 * step, gradient * 0.5
        p = p * (1 - rate * 0.3)
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g * g
        p = p - rate / (1 - 0.9 ** (step + 1)) * first / (np.sqrt(second) / np.sqrt(1 - 0.999 ** (step + 1)) + 1e-9)
        np.testing.assert_allclose(vectors[step + 1], p, rtol=1e-12)


@pytest.mark.parametrize("average_from", [None, 0, 4])
def test_averaged_descent_is_pytorch_s(average_from: int | None) -> None:
    """It is ASGD with t0 = 0 and lambd = 0 at each step's own rate, after plain gradient descent."""
    settings = TrainingConfig(optimizer="nt_asgd", weight_decay=0.3)
    vectors, gradients, averages = trained(accel.load("cpu"), settings, average_from)
    p, ax, mu, step = vectors[0].copy(), np.zeros(7), 1.0, 0
    for i, gradient in enumerate(gradients):
        grad = gradient * 0.5 + 0.3 * p
        p = p - grad * (0.1 + 0.01 * i)
        np.testing.assert_allclose(vectors[i + 1], p, rtol=1e-12)
        if average_from is not None and i >= average_from:
            step += 1
            if mu != 1:
                ax = ax + (p - ax) * mu
            else:
                ax = p.copy()
            mu = 1 / max(1, step - 0)
            np.testing.assert_allclose(averages[i], ax, rtol=1e-12)


def test_an_average_of_many_updates_still_moves() -> None:
    """What an update adds after a million of them, 1e-8, is less than float32 can add to 0.5."""
    parameters, gradient = np.full(3, 0.51, np.float32), np.zeros(3, np.float32)
    ops = accel.load("cpu")
    state = optimizer.start(ops, TrainingConfig(optimizer="nt_asgd"), parameters, {"all": slice(0, 3)})
    optimizer.start_average(state, np.full(3, 0.5, np.float32))
    state.averaged = 1_000_000
    for _ in range(100):
        optimizer.update(ops, state, parameters, gradient, 0.1)
    np.testing.assert_allclose(state.vectors["average"], 0.5 + 100 * (float(parameters[0]) - 0.5) / 1e6, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 1e-50}, "epsilon: 1e-50, but float32 does not hold so small a number; use 1.2e-38 or more"),
        ({"optimizer": "lion"}, "optimizer: 'lion', but there is no such choice; use adam, sgd or nt_asgd"),
        ({"schedule": "step"}, "schedule: 'step', but there is no such choice"),
        ({"select": "bleu"}, "select: 'bleu', but there is no such choice; use loss, accuracy, f1 or matthews"),
        ({"optimizer": "nt_asgd", "select": "accuracy"}, "select: 'accuracy', but nt_asgd selects by the loss"),
        ({"own_rate": 1.0}, "own_rate_of: '', but there is an own_rate"),
        ({"own_rate_of": "a"}, "own_rate: None, but own_rate_of is 'a'"),
        (
            {"own_rate_of": "a", "own_rate": 1.0, "maximum_rate": 0.0},
            "maximum_rate: 0.0, but own_rate is a multiple of it",
        ),
        ({"weight_decay": -1.0}, "weight_decay: -1.0, but it must be at least 0 and finite"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TrainingConfig(**change)
