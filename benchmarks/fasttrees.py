"""Stacks of ON-LSTM and the FastTrees cells, forward and backward, beside per-step PyTorch and `torch.nn.LSTM`.

The products alone (`benchmarks/products.py`) compute all steps in one product: no float32 implementation of the same
computation can be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from accel import cpu
from accel.autodiff.arrays import on_device
from accel.autodiff.layers import DropoutSites
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.cpu.support import bfloat16
from accel.models.fasttrees.stack import StackConfig, initialise, parameter_shapes, run_stack
from benchmarks.products import products_alone
from benchmarks.timing import Clock, Row, Times

NAMES = {
    "on_lstm": "ON-LSTM", "fasttrees": "FastTrees", "conv_fasttrees": "Conv. FastTrees",
    "faster_fasttrees": "Faster FastTrees",
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Sizes, goals, and the per cent of ON-LSTM's time that the paper saves, by cell type.

    `goals` by cell type and `lstm_goal` are least speeds, as multiples of the PyTorch peer's and of `torch.nn.LSTM`'s
    (0: none). `most` are greatest times by cell type, as multiples of the products alone. `chunk_size` units share a
    master gate.
    """

    name: str
    sizes: tuple[int, ...]
    steps: int
    columns: int
    goals: dict[str, float]
    lstm_goal: float
    paper: dict[str, int]
    chunk_size: int = 10
    most: Mapping[str, float] = field(default_factory=dict)


LANGUAGE_MODEL = Setting(
    "language model 400-1150-1150-400, 70 steps, batch 20", (400, 1150, 1150, 400), 70, 20,
    {"on_lstm": 2.3, "fasttrees": 2.3, "conv_fasttrees": 0, "faster_fasttrees": 1.3}, 1,
    {"fasttrees": 29, "conv_fasttrees": 31, "faster_fasttrees": 42},
    most={"on_lstm": 1.3, "fasttrees": 1.3, "faster_fasttrees": 1.4},
)  # fmt: skip
LOGIC = Setting(
    "logical inference 128-400, 20 steps, 256 clauses", (128, 400), 20, 256,
    {"on_lstm": 2.5, "fasttrees": 2.5, "conv_fasttrees": 0, "faster_fasttrees": 4}, 1,
    {"fasttrees": 11, "conv_fasttrees": 32, "faster_fasttrees": 42},
    most={"on_lstm": 1.3, "fasttrees": 1.3, "faster_fasttrees": 2.0},
)  # fmt: skip
SENTIMENT = Setting(
    "sentiment 256-512, 20 steps, 64 sentences", (256, 512), 20, 64, dict.fromkeys(NAMES, 0.0), 0,
    {"fasttrees": 30, "conv_fasttrees": 21, "faster_fasttrees": 42}, 16,
)  # fmt: skip
INFERENCE = Setting(
    "inference 256-512, 12 steps, 128 sentences", (256, 512), 12, 128, dict.fromkeys(NAMES, 0.0), 0,
    {"fasttrees": 21, "conv_fasttrees": 22, "faster_fasttrees": 37}, 16,
)  # fmt: skip
"""The sentences of SST and SNLI have 19 and 11 words on average; Tables 1 to 4 have the paper's times."""


def stacks(setting: Setting, clock: Clock) -> Iterator[Row]:
    """Every cell type beside its peer and `torch.nn.LSTM`, then beside ON-LSTM."""
    pairs = {cell_type: calls(cell_type, setting) for cell_type in NAMES}
    all_calls = [call for pair in pairs.values() for call in (*pair, products_alone(pair[0]))]
    narrow = [cell_type for cell_type in ("on_lstm", "fasttrees") if bfloat16.AVAILABLE]
    lstm = calls("lstm", setting)[1]
    times = clock.times(*all_calls, lstm, *(in_bfloat16(pairs[cell_type][0]) for cell_type in narrow))
    lstm_times, *narrow_times = times[len(all_calls) :]
    ours, peers, alone = (dict(zip(NAMES, times[first::3], strict=False)) for first in range(3))
    for cell_type, goal in setting.goals.items():
        row = faster(f"{NAMES[cell_type]} stack, {setting.name}", ours[cell_type], peers[cell_type], goal)
        yield replace(row, alone=alone[cell_type], most=setting.most.get(cell_type, 0.0))
    for cell_type in ("on_lstm", "fasttrees"):
        name = f"{NAMES[cell_type]} stack beside torch.nn.LSTM, {setting.name}"
        yield faster(name, ours[cell_type], lstm_times, setting.lstm_goal)
    for cell_type, narrow_time in zip(narrow, narrow_times, strict=True):
        figure = f"{ours[cell_type].median / narrow_time.median:.2f} times as fast as in float32"
        yield Row(f"{NAMES[cell_type]} stack in bf16, {setting.name}", narrow_time, None, figure, "", True)
    for cell_type, paper in setting.paper.items():
        saved, by_peer = (100 * (1 - side[cell_type].median / side["on_lstm"].median) for side in (ours, peers))
        less = 100 * (1 - arithmetic(cell_type, setting) / arithmetic("on_lstm", setting))
        figure = f"{saved:.0f} % less time (PyTorch {by_peer:.0f} %, paper {paper} %) for {less:.0f} % less arithmetic"
        yield Row(
            f"{NAMES[cell_type]} beside ON-LSTM, {setting.name}", ours[cell_type], peers[cell_type], figure, "", True
        )


def in_bfloat16(run: Run) -> Callable[[], Any]:
    """Return a call of a run that multiplies hidden states in bfloat16."""

    def call() -> Any:
        with bfloat16.use():
            return run()

    return call


def faster(name: str, ours: Times, peer: Times, goal: float) -> Row:
    ratio = peer.median / ours.median
    return Row(name, ours, peer, f"{ratio:.2f} times as fast", f">= {goal:g} times" if goal else "", ratio >= goal)


def weights(cell_type: str, setting: Setting) -> list[tuple[int, ...]]:
    shapes = parameter_shapes(config_of(cell_type, setting))
    return [(shape[0], prod(shape[1:])) for name, shape in shapes.items() if name.endswith("weight")]


def config_of(cell_type: str, setting: Setting) -> StackConfig:
    """Return the stack of a setting; the convolution is that of all features of a step and the one before."""
    return StackConfig(cell_type, setting.sizes[0], setting.sizes[1:], setting.chunk_size, convolved="inputs")


def arithmetic(cell_type: str, setting: Setting) -> int:
    """Return the multiplications of weights in one step."""
    return sum(rows * columns for rows, columns in weights(cell_type, setting))


class Run:
    """One run of a stack forward and backward, to weights and inputs, on any backend."""

    def __init__(self, cell_type: str, setting: Setting, dtype: type = np.float32, ops: ModuleType = cpu) -> None:
        draw, rows, xp = np.random.default_rng(0), setting.steps * setting.columns, ops.xp
        self.ops, self.config = ops, config_of(cell_type, setting)
        initial = initialise(self.config, draw)
        self.parameters = {name: xp.asarray(value.astype(dtype)) for name, value in initial.items()}
        self.gradients = {name: xp.empty_like(value) for name, value in self.parameters.items()}
        widths = setting.sizes[0], setting.sizes[-1]
        arrays = [draw.standard_normal((rows, width), np.float32).astype(dtype) for width in widths]
        self.x, self.d_out = map(xp.asarray, arrays)
        offsets = {"offsets": np.arange(setting.columns + 1) * setting.steps}
        self.offsets = on_device(ops, offsets, recurrence=["offsets"])["offsets"]

    def __call__(self) -> tuple[Any, Any]:
        tape, inputs = Tape(self.ops), Variable(self.x)
        p = {name: Variable(value, buffer=self.gradients[name]) for name, value in self.parameters.items()}
        out = run_stack(tape, self.config, p, inputs, self.offsets, None, DropoutSites(None))[0]
        tape.backward(out, self.d_out)
        return out.value, inputs.gradient


class Peer:
    """The same run by the per-step modules in PyTorch, or by `torch.nn.LSTM`: inputs and outputs are [steps, batch]."""

    def __init__(self, cell_type: str, setting: Setting, ours: Run) -> None:
        import torch

        from benchmarks.peers_fasttrees_torch import Stack

        shape = setting.columns, setting.steps, -1
        self.x, self.d_out = (
            torch.from_numpy(y.reshape(shape)).transpose(0, 1).contiguous() for y in (ours.x, ours.d_out)
        )
        self.x.requires_grad_()
        self.stack = Stack(cell_type, setting.sizes, setting.chunk_size, ours.parameters).to(self.x.dtype)

    def __call__(self) -> Any:
        self.stack.zero_grad(set_to_none=True)
        self.x.grad = None
        out = self.stack(self.x)
        out.backward(self.d_out)
        return out


def calls(cell_type: str, setting: Setting) -> tuple[Run, Peer]:
    """Return our run and that of PyTorch, after a comparison of both.

    The gradients of Conv. FastTrees are compared in float64: where rounding moves an input of its ReLU across 0, the
    gradients of both sides differ by 1, and among millions of inputs in float32 some are that near to 0.
    """
    ours = Run(cell_type, setting)
    peer = Peer(cell_type, setting, ours)
    if cell_type != "lstm":
        compare(ours, peer, 1e-5, 1e-4, with_gradients=cell_type != "conv_fasttrees")
    if cell_type == "conv_fasttrees":
        exact = Run(cell_type, setting, np.float64)
        compare(exact, Peer(cell_type, setting, exact), 1e-13, 1e-12, with_gradients=True)
    return ours, peer


def compare(ours: Run, peer: Peer, bound: float, weight_bound: float, *, with_gradients: bool) -> None:
    """Raise AssertionError unless both sides agree: in outputs and, `with_gradients`, in those of inputs and weights.

    The bounds are multiples of the greatest element; for outputs and gradients of inputs, of 1 if that is greater.
    """
    results = zip(ours(), (peer().detach(), peer.x.grad), ("outputs", "inputs"), strict=True)
    for mine, other, name in list(results)[: 1 + with_gradients]:
        other = other.transpose(0, 1).reshape(mine.shape).numpy()
        np.testing.assert_allclose(mine, other, rtol=0, atol=bound * max(1, abs(other).max()), err_msg=name)
    for name, value in peer.stack.named_parameters() if with_gradients else ():
        most = float(value.grad.abs().max())
        np.testing.assert_allclose(
            ours.gradients[name], value.grad.numpy(), rtol=0, atol=weight_bound * most, err_msg=name
        )
