"""Parts of a Transformer Grammar: structure, attention, a training step, and time over the length of a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from types import ModuleType
from typing import Any

import numba
import numpy as np

from accel import cpu as ops
from accel.autodiff.arrays import multiple_of, named_views, packed
from accel.data.batches.assemble import assemble, encode_sequences, sequence_lengths, to_backend
from accel.data.corpora.treebank import Corpus, encode_trees
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.models.transformer_grammars import model
from accel.models.transformer_grammars.model import Config
from accel.tasks.trees import CONFIGURATIONS
from accel.training.memory import peak
from accel.training.optimizer import clipped, start, update
from benchmarks.products import products_alone
from benchmarks.timing import Clock, Row
from refimpl.trees import Tree

GATHERS, READINGS = 6, 20
"""Rows that sparse attention gathers for each edge (forward k, v; backward k, v, q, d_out), and how often the keys are
read in order."""


def structure(corpus: Corpus, vocabulary: Vocabulary, clock: Clock) -> Iterator[Row]:
    """Types, attend sets, relative positions and memory moves of the corpus, by one thread."""
    offsets = np.asarray(corpus.offsets) + np.arange(len(corpus) + 1)  # a start symbol before every tree
    types = np.zeros(offsets[-1], np.int8)
    inside = np.ones(offsets[-1], bool)
    inside[offsets[:-1]] = False
    types[inside] = vocabulary.type_of[np.asarray(corpus.actions)]

    def run() -> None:
        doubled, _, ends = ops.double_closing(types, offsets)
        ops.segments(doubled, ends, 192, 192)

    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    (ours,) = clock.times(run)
    numba.set_num_threads(threads)
    speed = types.size / ours.median / 1e6
    name = f"structure of {len(corpus)} trees, {types.size} actions, one core"
    yield Row(name, ours, None, f"{speed:.1f} M actions/s", ">= 5 M actions/s", speed >= 5)


def attention(n_keys: int, goal: float, clock: Clock) -> Row:
    """Sparse attention forward and backward: 8 sequences, 8 heads of 64, 256 queries, 12 keys for each."""
    import torch

    from benchmarks.peers_torch import masked_attention

    b, h, t, d, n_visible = 8, 8, 256, 64, 12
    draw = np.random.default_rng(0)
    q, d_out = (draw.standard_normal((b * t, h, d), np.float32) for _ in range(2))
    k, v = (draw.standard_normal((b * n_keys, h, d), np.float32) for _ in range(2))
    r, bias = np.zeros((64, h, d), np.float32), np.zeros((h, d), np.float32)
    columns = np.stack([np.sort(draw.choice(n_keys, n_visible, replace=False)) for _ in range(b * t)])
    keys = (columns + np.arange(b * t)[:, None] // t * n_keys).astype(np.int32).ravel()
    relative = draw.integers(0, 12, keys.size, dtype=np.int32)  # a dozen keys lie at most a dozen levels apart
    inputs = (q, k, v, r, bias, bias, np.arange(b * t + 1) * n_visible, keys, relative)
    mask = torch.zeros(b * t, n_keys, dtype=torch.bool)
    mask = mask.scatter_(1, torch.from_numpy(columns), True).view(b, 1, t, n_keys)
    dense = [torch.tensor(x.reshape(b, -1, h, d)).transpose(1, 2).contiguous() for x in (q, k, v, d_out)]
    for x in dense[:3]:
        x.requires_grad_()

    def ours() -> tuple[np.ndarray, ...]:
        outputs = ops.sparse_attention(*inputs)
        return outputs[0], *ops.sparse_attention_vjp(d_out, outputs, *inputs)

    def peer() -> Any:
        return masked_attention(*dense[:3], mask, dense[3])

    mine, theirs = ours(), [peer().detach(), *(x.grad for x in dense[:3])]
    for x, y in zip(mine, theirs, strict=False):
        np.testing.assert_allclose(x.reshape(b, -1, h, d), y.transpose(1, 2).numpy(), rtol=0, atol=1e-4)
    table = k[:n_keys].ravel()
    mine, theirs, in_order = clock.times(ours, peer, lambda: [np.dot(table, table) for _ in range(READINGS)])
    ratio, gather_rate = theirs.median / mine.median, GATHERS * keys.size * h * d * k.itemsize / mine.median
    read_rate = READINGS * table.nbytes / in_order.median
    name = f"sparse attention, forward and backward, {n_visible} of {n_keys} keys (peer without relative positions)"
    figure = (
        f"{ratio:.1f} times as fast, gathers {gather_rate / 1e9:.0f} GB/s "
        f"(keys of a sequence in order {read_rate / 1e9:.0f})"
    )
    return Row(name, mine, theirs, figure, f">= {goal:g} times", ratio >= goal)


class Step:
    """A training step of the ptb TG: 8 sentences, all dropouts, clipping and Adam; batches take turns.

    L = M = 192, and random trees that fit; or another L, and the trees that fill at least three quarters of it. Any
    backend, and other sizes by the names of the configuration.
    """

    def __init__(
        self, corpus: Corpus, vocabulary: Vocabulary, n_batches: int, filled: int = 0, backend: ModuleType = ops,
        **sizes: int,
    ) -> None:  # fmt: skip
        self.config, self.training = CONFIGURATIONS["ptb"]["tg"]
        self.config, self.ops = replace(self.config, **sizes), backend
        if filled:
            self.config = replace(self.config, segment_length=filled, memory_length=filled)
        lengths = sequence_lengths(corpus, "tg")
        whole = np.flatnonzero((lengths >= 3 * filled // 4) & (lengths <= self.config.segment_length))
        if len(whole) < 8 * n_batches:
            raise SystemExit(f"--data: {len(whole)} trees of suitable length, {8 * n_batches} are needed: give more")
        trees = np.random.default_rng(0).permutation(whole)[: 8 * n_batches].reshape(-1, 8)
        self.batches = [batch_of(corpus, vocabulary, self.config, group) for group in trees]
        self.on_device = [to_backend(backend, batch) for batch in self.batches]
        self.initial = model.initialise(self.config, 0)
        shapes, multiple = model.parameter_shapes(self.config), multiple_of(backend, np.dtype(np.float32).itemsize)
        self.vector = backend.xp.asarray(packed(self.initial, shapes, multiple))
        self.gradient, self.moments = backend.xp.empty_like(self.vector), start(backend, self.training, self.vector)
        self.parameters, self.gradients = (named_views(x, shapes, multiple) for x in (self.vector, self.gradient))
        self.turn = 0

    def loss(self, config: Config) -> Any:
        """Set the gradients, and return the loss of the next batch, which the device may still be computing."""
        batch, seed = self.on_device[self.turn % len(self.batches)], self.turn + 1
        return model.loss_and_grad(
            self.ops, config, self.parameters, batch, dropout_seed=seed, gradients=self.gradients, wait=False
        )[0]  # fmt: skip

    def __call__(self) -> None:
        self.loss(self.config)
        n_labels = self.batches[self.turn % len(self.batches)].n_labels
        _, factor = clipped(self.ops, self.gradient, n_labels, 3.0)
        update(self.ops, self.moments, self.vector, self.gradient, self.training.maximum_rate, factor)
        self.turn += 1


def steps(corpus: Corpus, vocabulary: Vocabulary, clock: Clock) -> Iterator[Row]:
    """The training step beside PyTorch's, of random trees and of long ones, which the peer pads little.

    The peer pads random trees to the longest of their batch, as the goal wants it, or to L, as models of fixed shapes.
    """
    yield step(corpus, vocabulary, clock, 0, 4.0, 1.8)
    yield step(corpus, vocabulary, clock, 0, 0.0, 1.8, to_longest=False)
    yield step(corpus, vocabulary, clock, 80, 0.0, 1.6)


def step(
    corpus: Corpus, vocabulary: Vocabulary, clock: Clock, filled: int, goal: float, most: float,
    to_longest: bool = True,
) -> Row:  # fmt: skip
    """The training step beside PyTorch's: `goal` is in times of its speed (0: none), `most` of the products' time."""
    import torch

    from benchmarks.peers_torch import TransformerGrammar, dense

    ours = Step(corpus, vocabulary, clock.repeats, filled)
    config, batches = ours.config, ours.batches
    padded = [dense(batch, 0 if to_longest else config.segment_length) for batch in batches]
    peer = TransformerGrammar(config, ours.initial)
    optimizer = torch.optim.Adam(peer.parameters(), lr=ours.training.maximum_rate)

    loss = ours.loss(replace(config, embedding_dropout=0.0, core_dropout=0.0, output_dropout=0.0))
    with torch.no_grad():
        np.testing.assert_allclose(loss, peer.eval()(padded[0]).item(), rtol=1e-5)  # the same arithmetic
    peer.train()
    turn = cycle(padded)

    def theirs() -> None:
        batch = next(turn)
        optimizer.zero_grad()
        (peer(batch) / (batch.labels >= 0).sum()).backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 3.0)
        optimizer.step()

    alone = one_after_another([products_alone(ours) for _ in batches])
    ours.turn = 0
    mine, other, products = clock.times(ours, theirs, alone)
    ratio = other.median / mine.median
    positions = sum(len(batch.ids) for batch in batches) // (8 * len(batches))
    kind, length = "long sentences" if filled else "sentences", "the longest" if to_longest else config.segment_length
    name = f"training step of the ptb TG, 8 {kind} of {positions} positions on average, padded to {length} by the peer"
    goal_text = f">= {goal:g} times" if goal else ""
    return Row(name, mine, other, f"{ratio:.1f} times as fast", goal_text, ratio >= goal, products, most)


def one_after_another(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Return a function that makes the next of these calls each time, in turn."""
    turn = cycle(calls)
    return lambda: next(turn)()


def length(clock: Clock) -> Iterator[Row]:
    """Loss and gradient of a small TG over 65,536 positions, cut into ever longer trees."""
    config = Config("tg", 512, 64, 256, 2, 4, segment_length=2**17, memory_length=0)
    parameters = model.initialise(config, 0)
    vocabulary = Vocabulary("words", tuple(f"w{i:02}" for i in range(99)), ("X",))
    first = 0.0
    for positions in (2**8, 2**10, 2**12, 2**14, 2**16):
        trees = [long_tree(positions, seed) for seed in range(2**16 // positions)]
        batch = batch_of(encode_trees(trees, vocabulary), vocabulary, config, np.arange(len(trees)))
        (ours,) = clock.times(partial(model.loss_and_grad, ops, config, parameters, batch))
        token = 1e6 * ours.median / len(batch.ids)
        first = first or token
        rows = np.diff(batch.row_offsets)
        name = f"small TG, trees of {positions} positions, {rows.mean():.1f} keys each on average, {rows.max()} at most"
        figure = f"{token:.2f} us a token, {token / first:.2f} of the shortest"
        figure += f", peak of the process {peak() / 2**30:.2f} GiB"
        yield Row(name, ours, None, figure, "within 20 %", abs(token / first - 1) <= 0.2)


def long_tree(positions: int, seed: int) -> Tree:
    """Return a random tree of about that many positions; with 55 or more all have a stack of the same depth."""
    draw = np.random.default_rng(seed)

    def grow(n_words: int) -> Tree:
        if n_words <= 3:
            return Tree("X", tuple(f"w{draw.integers(99):02}" for _ in range(n_words)))
        left = int(n_words * draw.uniform(0.35, 0.65))
        return Tree("X", (grow(left), grow(n_words - left)))

    spine = min(int(np.log2(2**16 / positions)), positions // 5)
    tree = grow(max(1, (positions - 4 * spine) * 2 // 5))
    for _ in range(spine):
        tree = Tree("X", (f"w{draw.integers(99):02}", tree))
    return tree


def batch_of(corpus: Corpus, vocabulary: Vocabulary, config: Config, trees: np.ndarray) -> Any:
    """Return the first segments of these trees as a batch."""
    sequences = encode_sequences(corpus, vocabulary, config, ops, trees.tolist())
    return assemble(sequences, trees.astype(np.int32), np.zeros(len(trees), np.int32), config)
