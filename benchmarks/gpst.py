"""GPST: the pruned charts of a batch, by number of sentences and over length; training steps beside PyTorch's."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from accel import cpu as ops
from accel.autodiff.arrays import host, multiple_of, named_views, packed
from accel.autodiff.layers import DropoutSites, embedding, linear
from accel.autodiff.learned import learned
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.data.batches.contexts import SentencesBatch, sent
from accel.models.gpst import composition, generator
from accel.models.gpst import model as gpst
from accel.models.gpst import parser as split_parser
from accel.models.gpst.config import SMALL, Config, initialise, parameter_shapes
from accel.models.gpst.structure import Structure, structure_of
from accel.models.passes import Pass, scoring
from accel.training.optimizer import start, update
from accel.training.settings import TrainingConfig
from benchmarks.products import products_alone
from benchmarks.timing import Clock, Row

WINDOW = 2
WORDS = 2**15
"""Words of each call that compares the time for short and long sentences."""
SENTENCES = 8
RATE = 0.0
"""The learning rate: with other weights the parser would merge in another order, and the products would differ."""
GOALS = {64: (4.0, 3.0), 256: (2.0, 2.0)}
"""For each width: how many times as fast as PyTorch the composition step and the full step should be."""
MOST = {(64, n, False): 2.0 for n in (16, 32, 64, 128)} | {(256, 128, False): 1.4, (64, 128, True): 1.8}
"""The most time of a step, divided by that of its products alone; by width, words, and whether it is the full step."""


def pruned_chart(clock: Clock) -> Iterator[Row]:
    """1,000 sentences; then the same number of words in longer and longer ones, merged at random or from one end."""
    (ours,) = clock.times(partial(ops.pruned_chart, *batch(1000, 32, "at random"), window=WINDOW))
    figure = f"{1e3 * ours.median:.1f} ms"
    name = f"GPST's pruned charts, window {WINDOW}, 1,000 sentences of 32 words"
    yield Row(name, ours, None, figure, "< 30 ms", ours.median < 0.03)
    lengths = ((32, "at random"), (256, "at random"), (1024, "at random"), (1024, "left to right"))
    calls = [partial(ops.pruned_chart, *batch(WORDS // n, n, merged), window=WINDOW) for n, merged in lengths]
    first_time = 0.0
    for (n, merged), call, ours in zip(lengths, calls, clock.times(*calls), strict=True):
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1] / WORDS
        tracemalloc.stop()
        word = 1e9 * ours.median / WORDS
        first_time = first_time or word
        name = f"GPST's pruned charts, window {WINDOW}, {WORDS // n} x {n} words merged {merged}"
        figure = f"{word:.0f} ns a word, {word / first_time:.2f} of the shortest; at most {peak:.0f} bytes a word"
        yield Row(name, ours, None, figure, "<= 1.3 of the shortest", word <= 1.3 * first_time)


def batch(sentences: int, n: int, merged: str) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and offsets."""
    scores = np.random.default_rng(0).standard_normal((sentences, n - 1)).astype(np.float32)
    if merged == "left to right":
        scores.sort(axis=1)
    return scores.ravel(), np.arange(sentences + 1) * n


def config_of(d: int) -> Config:
    """Return a GPST of 4 layers in every part, all of width d and without dropout."""
    return Config(
        1000, d_model=d, n_heads=d // 32, type_layers=1, token_layers=3, d_compose=d, compose_heads=d // 32,
        compose_layers=4, d_score=d // 2, d_parser=d, parser_heads=d // 32, parser_layers=4, parser_feed_forward=4 * d,
        dropout=0, network_dropout=0,
    )  # fmt: skip


class Step:
    """A training step: loss, gradient and Adam, of the whole model or of composition model and parser alone."""

    def __init__(
        self, config: Config, sentences: int, n: int, generates: bool = True, order: np.ndarray | None = None,
        contexts: int | None = None, backend: ModuleType = ops,
    ) -> None:  # fmt: skip
        self.config, self.generates, self.order, self.ops = config, generates, order, backend
        ids = np.random.default_rng(0).integers(0, self.config.vocabulary_size, sentences * n, np.int32)
        offsets = np.arange(sentences + 1) * n
        starts = np.linspace(0, sentences, (contexts or sentences) + 1).astype(np.int64)
        arrays = {"ids": ids, "begins_word": np.ones(len(ids), bool), "offsets": offsets, "contexts": starts}
        self.batch = SentencesBatch(**sent(backend, arrays), n_labels=len(ids))
        shapes, multiple = parameter_shapes(self.config), multiple_of(backend, np.dtype(np.float32).itemsize)
        self.vector = backend.xp.asarray(packed(initialise(self.config, 0), shapes, multiple))
        self.gradient = backend.xp.zeros_like(self.vector)
        self.parameters, self.gradients = (named_views(x, shapes, multiple) for x in (self.vector, self.gradient))
        self.moments = start(backend, TrainingConfig(), self.vector)

    def __call__(self) -> None:
        self.losses()
        update(self.ops, self.moments, self.vector, self.gradient, RATE, 1 / len(self.batch.ids))

    def losses(self) -> Any:
        """Set the gradients, and return the loss times the number of words; the device may still be computing it."""
        if self.generates:
            return gpst.loss_and_grad(
                self.ops, self.config, self.parameters, self.batch, gradients=self.gradients, wait=False
            )[0]  # fmt: skip
        tape, offsets, n = Tape(self.ops), host(self.batch.offsets), len(self.batch.ids)
        p = {name: Variable(value, buffer=self.gradients[name]) for name, value in self.parameters.items()}
        f = Pass(tape, self.config, p, DropoutSites(None))
        words = embedding(tape, p["embedding"], self.batch.ids)
        if self.order is None:
            structure = structure_of(f, words, self.batch.ids, self.batch.offsets, self.batch.contexts, None)
        else:
            structure = self._structure_in_order(f, words, offsets)
        states = gpst._with_losses(f, self.batch, gpst._Forward(*3 * [words], structure=structure))
        total = 0.0
        for x, sign in ((states.reconstructed, -1), (states.heights, 1), (states.splits, 1)):
            total = total + sign * x.value.mean()
            if x is not states.splits:
                x.accumulate(tape.xp.full_like(x.value, sign * n / len(x.value)))
        tape.backward(states.splits, tape.xp.full_like(states.splits.value, n / len(states.splits.value)))
        return n * total

    def _structure_in_order(self, f: Pass, words: Variable, offsets: np.ndarray) -> Structure:
        """Return the structure with charts in the given order."""
        leaves = linear(f.tape, f.p, "down", words, "down_bias")
        scores = split_parser.split_scores(f.tape, f.config, f.p, self.batch.ids, self.batch.offsets, f.sites)
        charts = composition.charts_of(self.ops, self.order, self.batch.offsets, f.config.window)
        inside = composition.inside(f.tape, f.config, f.p, leaves, charts, f.sites)
        of_splits = np.concatenate([host(x.value) for x in inside.scores])
        return Structure(scores, charts, inside, composition.induced(charts, of_splits, offsets))


def steps(generates: bool, clock: Clock) -> Iterator[Row]:
    """The step beside PyTorch's, by width and length."""
    for d, goals in GOALS.items():
        for n in (16, 32, 64, 128):
            step, theirs = calls(d, n, generates)
            ours, peer, alone = clock.times(step, theirs, products_alone(step))
            ratio, goal = peer.median / ours.median, goals[generates]
            name = f"GPST's {'full' if generates else 'composition'} step, d {d}, {SENTENCES} sentences of {n} words"
            figure, most = f"{ratio:.2f} times as fast", MOST.get((d, n, generates), 0.0)
            yield Row(name, ours, peer, figure, f">= {goal:g} times", ratio >= goal, alone, most)


def calls(d: int, n: int, generates: bool) -> tuple[Step, Callable[[], None]]:
    """Return our step and that of PyTorch, after a comparison of their losses and gradients."""
    import torch

    from benchmarks.peers_gpst_torch import GPST

    ours = Step(config_of(d), SENTENCES, n, generates)
    peer, ids = GPST(ours.config, ours.parameters), torch.from_numpy(ours.batch.ids).long().view(SENTENCES, n)
    optimizer = torch.optim.AdamW(peer.parameters(), lr=RATE, weight_decay=0)

    def gradients() -> Any:
        optimizer.zero_grad()
        losses = peer.losses(ids, generates)
        peer.backward(*losses)
        return sum(loss.item() for loss in losses)

    def theirs() -> None:
        gradients()
        optimizer.step()

    np.testing.assert_allclose(ours.losses() / ids.numel(), gradients(), rtol=1e-5)
    for name, mine in ours.gradients.items():
        other = peer.p(name).grad
        if other is not None:
            other = other.numpy() * ids.numel()
            np.testing.assert_allclose(mine, other, rtol=0, atol=1e-4 * max(1, abs(other).max()), err_msg=name)
    return ours, theirs


def composition_length(clock: Clock) -> Iterator[Row]:
    """The composition step over 4,096 words on balanced trees, in ever longer sentences."""
    lengths, words = (32, 128, 512, 1024), 4096
    runs = [Step(config_of(64), words // n, n, False, balanced(words // n, n)) for n in lengths]
    first = 0.0
    for n, ours in zip(lengths, clock.times(*runs), strict=True):
        word = 1e6 * ours.median / words
        first = first or word
        name = f"GPST's composition step, d 64, {words // n} x {n} words on balanced trees"
        figure = f"{word:.1f} us a word, {word / first:.2f} of the shortest"
        yield Row(name, ours, None, figure, "within 30 %", abs(word / first - 1) <= 0.3)


def beside_gpt2(clock: Clock) -> Iterator[Row]:
    """The whole step at the paper's small size beside that of a GPT-2 of as many layers, both ours."""
    sentences, n = 16, 32
    sizes = SMALL | {"vocabulary_size": 30522, "n_positions": 1024, "dropout": 0, "network_dropout": 0}
    runs = [Step(Config(model=model, **sizes), sentences, n, contexts=1) for model in ("gpst", "gpt2")]
    ours, other = clock.times(*runs)
    ratio = ours.median / other.median
    name = f"GPST's full step, the paper's small size, {sentences} x {n} words; beside it GPT-2's"
    yield Row(name, ours, other, f"{ratio:.2f} times GPT-2's", "<= 2.5 times", ratio <= 2.5)


class Generator(Step):
    """GPST's generative model alone, on trees that the other parts compute once; or the whole GPT-2."""

    def __init__(self, config: Config, sentences: int, n: int) -> None:
        super().__init__(config, sentences, n, contexts=1)
        outputs = gpst._forward(scoring(ops, config, self.parameters), self.batch, None)
        structure = outputs.structure
        self.trees = None if structure is None else (structure.trees.nodes, structure.inside.vectors.value)

    def __call__(self) -> None:
        ids, starts = self.batch.ids, self.batch.offsets[self.batch.contexts]
        with learned(ops, self.parameters, self.gradients) as of_pass:
            p = of_pass.variables
            f = Pass(Tape(ops), self.config, p, DropoutSites(None))
            words = embedding(f.tape, p["embedding"], ids)
            if self.trees is None:
                logps, _ = generator.words_only(f, words, ids, starts)
            else:
                actions = 2 * starts - self.batch.contexts
                nodes, vectors = self.trees[0], Variable(self.trees[1])
                layout = generator.laid_out(f, nodes, len(ids), starts, actions)
                types, logps, *_ = generator.actions_and_words(f, layout, vectors, words, ids)
                types.accumulate(np.full_like(types.value, -1.0))
            f.tape.backward(logps, np.full_like(logps.value, -1.0))


def generator_beside_gpt2(clock: Clock) -> Iterator[Row]:
    """Loss and gradient of GPST's generative model at the paper's small size, beside a GPT-2 of as many layers.

    Its three type layers read 2 n - 1 actions for n words, its nine token layers the words.
    """
    sentences, n = 16, 32
    sizes = SMALL | {"vocabulary_size": 30522, "n_positions": 1024, "dropout": 0, "network_dropout": 0}
    runs = [Generator(Config(model=model, **sizes), sentences, n) for model in ("gpst", "gpt2")]
    ours, other = clock.times(*runs)
    ratio = ours.median / other.median
    name = f"GPST's generative model alone, the paper's small size, {sentences} x {n} words; beside it GPT-2's"
    yield Row(name, ours, other, f"{ratio:.2f} times GPT-2's", "<= 1.4 times", ratio <= 1.4)


def balanced(sentences: int, n: int) -> np.ndarray:
    """Return scores that split n, a power of two, words always in the middle."""
    points = np.arange(1, n)
    return np.tile(np.log2(points & -points), sentences).astype(np.float32)
