"""Treeformer's chart, forward and backward: beside two plain forms in PyTorch, over length, and within an encoder."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from accel import cpu
from accel.autodiff.arrays import on_device
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.data.batches.sentences import SentenceBatch
from accel.models.encoder_decoder import model
from accel.models.encoder_decoder.model import Config
from accel.models.treeformer import chart
from benchmarks.products import products_alone
from benchmarks.timing import Clock, Row

HEIGHT, BATCH = 10, 16
WITHOUT = Config(
    1000, n_classes=2, d_model=512, d_ff=1024, n_layers=6, n_heads=8,
    dropout=0, attention_dropout=0, relu_dropout=0, label_smoothing=0,
)  # fmt: skip
WITH = replace(WITHOUT, chart="paper", max_height=HEIGHT)
FORMS = {"all pairs composed": 5.0, "projections precomputed": 1.3}
"""The forms in PyTorch, and the goals: times as fast as each."""
TOKENS = 4096
"""Tokens of a call, where time is measured over length."""


class Pass:
    """One run forward and backward, to tokens and parameters, on any backend."""

    def __init__(self, lengths: list[int], config: Config = WITH, ops: ModuleType = cpu) -> None:
        draw, n, xp, self.ops = np.random.default_rng(0), sum(lengths), ops.xp, ops
        parameters = model.initialise(config, 0)
        self.parameters = {name: xp.asarray(x) for name, x in parameters.items() if name.startswith("chart.")}
        self.gradients = {name: xp.empty_like(x) for name, x in self.parameters.items()}
        offsets = np.cumsum([0, *lengths])
        rows = n, int(chart.node_offsets(np, offsets, HEIGHT)[-1])
        arrays = [draw.standard_normal((count, config.d_model), np.float32) for count in rows]
        self.offsets = on_device(ops, {"offsets": offsets})["offsets"]
        self.tokens, self.d_nodes = map(xp.asarray, arrays)

    def __call__(self) -> tuple[Any, Any]:
        tape, tokens = Tape(self.ops), Variable(self.tokens)
        p = {name: Variable(x, buffer=self.gradients[name]) for name, x in self.parameters.items()}
        nodes, _ = chart.build(tape, p, "paper", 1, tokens, self.offsets, HEIGHT)
        tape.backward(nodes, self.d_nodes)
        return nodes.value, tokens.gradient


def charts(clock: Clock) -> Iterator[Row]:
    """The chart beside the forms in PyTorch."""
    for n in (25, 50, 100):
        step, *others = calls(n)
        ours, alone, *peers = clock.times(step, products_alone(step), *others)
        for peer, (form, goal) in zip(peers, FORMS.items(), strict=True):
            ratio = peer.median / ours.median
            name = f"Treeformer's chart, d 512, H {HEIGHT}, {BATCH} sentences of {n} tokens; peer: {form}"
            yield Row(name, ours, peer, f"{ratio:.2f} times as fast", f">= {goal:g} times", ratio >= goal, alone, 1.6)


def calls(n: int) -> list[Callable[[], Any]]:
    """Return our run and those of the forms in PyTorch, after a comparison of all."""
    import torch

    from benchmarks.peers_treeformer_torch import Chart, PrecomputedChart

    ours = Pass([n] * BATCH)
    nodes, d_tokens = ours()
    x = torch.from_numpy(ours.tokens).view(BATCH, n, -1).requires_grad_()
    d_rows = torch.from_numpy(ours.d_nodes).view(BATCH, -1, x.shape[-1])
    peers = [form(ours.parameters, HEIGHT) for form in (Chart, PrecomputedChart)]

    def run(peer: Chart) -> Any:
        x.grad = None
        peer.zero_grad(set_to_none=True)
        out = torch.cat(peer(x), dim=1)
        out.backward(d_rows)
        return out

    for peer in peers:
        pairs = [(nodes, run(peer).detach()), (d_tokens, x.grad)]
        pairs += [(ours.gradients[f"chart.{name}"], y.grad.numpy().T) for name, y in peer.named_parameters()]
        for mine, other in pairs:
            other = np.asarray(other).reshape(mine.shape)
            np.testing.assert_allclose(mine, other, rtol=0, atol=1e-4 * abs(other).max())
    return [ours, *(partial(run, peer) for peer in peers)]


def growth(clock: Clock) -> Iterator[Row]:
    """Time and memory of the chart a token, for the same number of tokens cut into ever longer sentences."""
    lengths = (100, 512, 4096)
    passes = [Pass([n] * (TOKENS // n)) for n in lengths]
    first_time = first_peak = 0.0
    for n, run, ours in zip(lengths, passes, clock.times(*passes), strict=True):
        tracemalloc.start()
        run()
        peak = tracemalloc.get_traced_memory()[1] / len(run.tokens) / 2**10
        tracemalloc.stop()
        token = 1e6 * ours.median / len(run.tokens)
        first_time, first_peak = first_time or token, first_peak or peak
        name = f"Treeformer's chart, d 512, H {HEIGHT}, {len(run.offsets) - 1} x {n} tokens"
        figure = f"{token:.0f} us a token, {token / first_time:.2f} of the shortest; "
        figure += f"at most {peak:.0f} KiB a token, {peak / first_peak:.2f} of the shortest"
        flat = max(abs(token / first_time - 1), abs(peak / first_peak - 1)) <= 0.2
        yield Row(name, ours, None, figure, "both within 20 %", flat)


def encoder(clock: Clock) -> Iterator[Row]:
    """A step of a classifier, forward and backward, with the chart and without."""
    for n in (25, 50, 100):
        ids = np.random.default_rng(0).integers(0, WITH.vocabulary_size, BATCH * n, np.int32)
        batch = SentenceBatch(ids, np.arange(BATCH + 1) * n, np.zeros(BATCH, np.int32), BATCH)
        steps = []
        for config in (WITH, WITHOUT):
            parameters = model.initialise(config, 0)
            gradients = {name: np.empty_like(x) for name, x in parameters.items()}
            steps.append(partial(model.loss_and_grad, cpu, config, parameters, batch, gradients=gradients))
        ours, alone = clock.times(*steps)
        ratio = ours.median / alone.median
        name = f"encoder of 6 layers 512-1024 with Treeformer's chart, H {HEIGHT}, {BATCH} sentences of {n} tokens"
        figure = f"{ratio:.2f} times the {alone} without (paper: 1.7 to 2)"
        yield Row(name, ours, None, figure, "<= 1.6 times", ratio <= 1.6)
