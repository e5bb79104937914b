"""Stacks of LSTM, ON-LSTM, FastTrees, Conv. FastTrees and Faster FastTrees layers, for ragged batches.

Mirrors `refimpl.fasttrees.stack` (clauses FT-*): the same parameters by the same names. The steps of all sequences of
a batch lie one after another, so that nothing is padded. All input projections of a layer are one matrix product, and
the rest of the layer is one op of the backend. Memory: O(N R) floats a layer saved for the backward pass,
R = 2 n + 4 H.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array
from accel.autodiff.layers import DropoutSites, dropout, locked_dropout, weight_drop
from accel.autodiff.recomputation import recomputed
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant
from accel.models.checks import RATE, Allowed, at_least, check, chunk_size, one_of, refusal
from accel.models.passes import Pass

KINDS = ("lstm", "on_lstm", "fasttrees", "conv_fasttrees", "faster_fasttrees")
VARIANTS = ("paper", "released")
CONVOLVED = ("gates", "inputs")
FORMER = {"convolved": "inputs"}
"""Settings that older runs do not store, with the values that these runs had."""


def _are_sizes(sizes: object) -> bool:
    return isinstance(sizes, tuple | list) and bool(sizes) and all(map(at_least(1).holds, sizes))


@dataclass(frozen=True)
class StackConfig:
    """One stack of layers of one kind.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    kind: str
    input_size: int
    hidden_sizes: tuple[int, ...]
    chunk_size: int = 10  # units that share a master gate value
    kernel_size: int = 2  # of Conv. FastTrees, in steps of time
    dilation: int = 1
    conv_dropout: float = 0.2
    variant: str = "paper"  # "released": Conv. FastTrees slides over the sequences of a batch, as in the authors' code
    weight_drop: float = 0.0  # of the hidden-to-hidden weights, if the kind has them
    layer_dropout: float = 0.0  # between layers, the same features at all steps
    convolved: str = "gates"  # Conv. FastTrees convolves the first 2n features of a layer's inputs; "inputs": all

    def __post_init__(self) -> None:
        one = at_least(1)
        sizes = Allowed(_are_sizes, "every layer has a size of at least 1", "1 or more")
        check(
            self, kind=one_of(KINDS), input_size=one, hidden_sizes=sizes, chunk_size=one, kernel_size=one, dilation=one,
            conv_dropout=RATE, variant=one_of(VARIANTS), weight_drop=RATE, layer_dropout=RATE,
            convolved=one_of(CONVOLVED),
        )  # fmt: skip
        for layer, (size, hidden) in enumerate(pairwise((self.input_size, *self.hidden_sizes))):
            if self.kind != "lstm" and hidden % self.chunk_size:
                fitting = chunk_size(self.chunk_size, *self.hidden_sizes)
                but = f"it does not divide {hidden}, the size of layer {layer}"
                raise refusal("chunk_size", self.chunk_size, but, str(fitting))
            if self.kind == "conv_fasttrees" and self.convolution_width(layer) > size:
                but = f"its convolution needs {self.convolution_width(layer)} inputs, and layer {layer} has {size}"
                name, use = ("variant", "paper") if self.released else ("convolved", "inputs")
                raise refusal(name, getattr(self, name), but, f"{use}, or a larger chunk_size")

    @property
    def released(self) -> bool:
        """Whether the convolution slides over the sequences of a batch."""
        return self.kind == "conv_fasttrees" and self.variant == "released"

    @property
    def reach(self) -> int:
        """How many earlier inputs the convolution over time sees."""
        over_time = self.kind == "conv_fasttrees" and not self.released
        return (self.kernel_size - 1) * self.dilation if over_time else 0

    def convolution_width(self, layer: int) -> int:
        """Return how many of a layer's inputs Conv. FastTrees convolves: the first ones."""
        inputs = (self.input_size, *self.hidden_sizes)[layer]
        return inputs if self.convolved == "inputs" and not self.released else 2 * self.n_masters(layer)

    def n_masters(self, layer: int) -> int:
        """Return n: how many master gates of each type a layer has."""
        return 0 if self.kind == "lstm" else self.hidden_sizes[layer] // self.chunk_size

    def state_widths(self) -> list[int]:
        """Return the widths of the arrays [B, width] of a stack's state: h, c and the window of every layer."""
        widths = []
        for layer, hidden in enumerate(self.hidden_sizes):
            widths += [hidden] if self.kind == "faster_fasttrees" else [hidden, hidden]
            widths += [self.reach * self.convolution_width(layer)] if self.reach else []
        return widths


def reads_neighbours(config: Any) -> bool:
    """Return whether a model of any kind reads the other sequences of a batch, as the released Conv. FastTrees does."""
    return bool(getattr(getattr(config, "stack", None), "released", False))


def parameter_shapes(config: StackConfig) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every parameter: the order of rows is that of the authors' code."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (size, hidden) in enumerate(pairwise((config.input_size, *config.hidden_sizes))):
        name, masters = f"cells.{layer}.", 2 * config.n_masters(layer)
        rows = masters + 4 * hidden
        shapes |= {name + "ih.weight": (rows, size), name + "ih.bias": (rows,)}
        if config.kind != "faster_fasttrees":
            rows = rows if config.kind == "on_lstm" else 4 * hidden
            shapes |= {name + "hh.weight": (rows, hidden), name + "hh.bias": (rows,)}
        if config.kind == "conv_fasttrees":
            width, taps = config.convolution_width(layer), 2 if config.released else config.kernel_size
            shapes |= {name + "conv.weight": (width, width, taps), name + "conv.bias": (width,)}
    return shapes


def initialise(config: StackConfig, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return float32 parameters: all uniform within 1 / sqrt(fan-in), a bias as the weight that it belongs to.

    The released convolution has normal weights of standard deviation 0.01.
    """
    parameters, limit = {}, 0.0
    for name, shape in parameter_shapes(config).items():
        if name.endswith(".weight"):
            limit = float(np.prod(shape[1:])) ** -0.5
        value = random.uniform(-limit, limit, shape)
        if config.released and name.endswith("conv.weight"):
            value = 0.01 * random.standard_normal(shape)
        parameters[name] = value.astype(np.float32)
    return parameters


def run_stack(
    tape: Tape,
    config: StackConfig,
    p: Mapping[str, Variable],
    x: Variable,
    offsets: Array,
    state: Sequence[Array] | None,
    sites: DropoutSites,
) -> tuple[Variable, list[Array], Array]:
    """Return the last layer's outputs, the next state, and the distances [layers, N].

    Parameters
    ----------
    x : [N, D]
    offsets : [B + 1] int64
        Where the sequences begin and end; none is empty.
    state : list of [B, width] arrays as `StackConfig.state_widths`, or None
        The state that an earlier call returned for the same sequences; no gradient flows into it. None: all zero.
    """
    xp, n_sequences = tape.xp, len(offsets) - 1
    shapes = [(n_sequences, width) for width in config.state_widths()]
    if state is None:
        state = [xp.zeros(shape, x.value.dtype) for shape in shapes]
    elif [s.shape for s in state] != shapes:
        actual_shapes = [s.shape for s in state]
        raise ValueError(f"state: shapes {actual_shapes}, but {n_sequences} sequences in this stack need {shapes}")
    rows, next_state = iter(state), []
    owner = None  # the sequence of every step, for convolutions
    if config.kind == "conv_fasttrees":
        owner = xp.searchsorted(offsets, xp.arange(len(x.value)), side="right") - 1
    f = Pass(tape, config, p, sites)
    distances = []
    for layer in range(len(config.hidden_sizes)):
        h0 = None if config.kind == "faster_fasttrees" else next(rows)
        c0 = next(rows)
        window = next(rows) if config.reach else None
        x, (h, c, distance), window = recomputed(_layer, f, layer, x, offsets, owner, h0, c0, window)
        next_state += _last_rows(tape, [c] if h0 is None else [h, c], offsets)
        next_state += [] if window is None else [window]
        distances += [distance[:, 0]] if config.kind != "lstm" else []
    return x, next_state, xp.stack(distances) if distances else xp.zeros((0, len(x.value)), x.value.dtype)


def _last_rows(tape: Tape, arrays: list[Array], offsets: Array) -> list[Array]:
    """Return the last row of every sequence of each array. A backend may find them all at once."""
    function: Callable[..., list[Array]] | None = getattr(tape.ops, "last_rows", None)
    return function(arrays, offsets) if function else [x[offsets[1:] - 1] for x in arrays]


def _layer(
    f: Pass, layer: int, x: Variable, offsets: Array, owner: Array | None, h0: Array | None, c0: Array,
    window: Array | None,
) -> tuple[Variable, tuple[Array, Array, Array], Array | None]:  # fmt: skip
    """Return the outputs of a layer, its h, c and distances at all steps, and the next window."""
    tape, config, name = f.tape, f.config, f"cells.{layer}."
    if layer:
        x = locked_dropout(tape, x, offsets, config.layer_dropout, f.sites)
    gates, window = _gates(tape, config, f.p, layer, x, offsets, owner, window, f.sites)
    if h0 is None:
        x, (h, c, _, distance) = tape.op_and_outputs("linear_recurrence", gates, c0, offsets)
    else:
        weight = weight_drop(tape, f.p[name + "hh.weight"], config.weight_drop, f.sites)
        kind = "fasttrees" if config.kind == "conv_fasttrees" else config.kind
        bias = f.p[name + "hh.bias"]
        if kind != "fasttrees":  # all gates see the hidden state: both biases in one pass over [N, R]
            bias = tape.add(f.p[name + "ih.bias"], bias)
        x, (h, c, _, distance) = tape.op_and_outputs("recurrence", gates, weight, bias, h0, c0, offsets, kind=kind)
    return x, (h, c, distance), window


def _gates(
    tape: Tape,
    config: StackConfig,
    p: Mapping[str, Variable],
    layer: int,
    x: Variable,
    offsets: Array,
    owner: Array | None,
    window: Array | None,
    sites: DropoutSites,
) -> tuple[Variable, Array | None]:
    """Return the terms of a layer's gates that come from its inputs [N, R], and the next window.

    For the kinds "lstm" and "on_lstm" the terms do not include the bias.
    """
    name, masters = f"cells.{layer}.", 2 * config.n_masters(layer)
    weight, bias = p[name + "ih.weight"], p[name + "ih.bias"]
    if config.kind in ("lstm", "on_lstm"):
        return tape.project(x, weight), None
    if config.kind != "conv_fasttrees":
        return tape.project(x, weight, bias), None
    width, size = config.convolution_width(layer), x.value.shape[1]
    features = x if width == size else tape.part(x, 0, width, axis=1)
    if config.released:
        inputs = _neighbours(tape, features, offsets, owner)
    else:
        inputs, window = _windows(tape, config, features, offsets, owner, window)
    taps = tape.transpose(p[name + "conv.weight"], 0, 2, 1)  # [out, taps, in]
    taps = tape.reshape(taps, len(taps.value), -1)
    local = dropout(tape, tape.relu(tape.project(inputs, taps, p[name + "conv.bias"])), config.conv_dropout, sites)
    if width < size:
        local = tape.concatenate([local, tape.part(x, width, size, axis=1)], axis=1)
    if config.released:
        return tape.project(local, weight, bias), None
    parts = []
    for source, start, stop in ((local, 0, masters), (x, masters, len(weight.value))):
        parts.append(tape.project(source, tape.part(weight, start, stop), tape.part(bias, start, stop)))
    return tape.concatenate(parts, axis=1), window


def _windows(
    tape: Tape, config: StackConfig, x: Variable, offsets: Array, owner: Array, window: Array | None
) -> tuple[Variable, Array | None]:
    """Return for every step the inputs [N, taps * D] that the convolution sees, oldest first, and the next window."""
    xp, reach, (n, size) = tape.xp, config.reach, x.value.shape
    n_sequences = len(offsets) - 1
    source = x if window is None else tape.concatenate([constant(window.reshape(-1, size)), x])

    def row_of(sequence: Array, step: Array) -> Array:  # steps before 0 are the window's
        window_row = sequence * reach + reach + step
        return xp.where(step < 0, window_row, n_sequences * reach + offsets[sequence] + step)

    back = xp.arange(config.kernel_size - 1, -1, -1) * config.dilation
    rows = row_of(owner[:, None], (xp.arange(n) - offsets[owner])[:, None] - back)
    inputs = tape.op("embedding", source, rows.ravel().astype(np.int32))
    if window is not None:
        steps = (offsets[1:] - offsets[:-1])[:, None] + xp.arange(-reach, 0)
        window = source.value[row_of(xp.arange(n_sequences)[:, None], steps)].reshape(n_sequences, reach * size)
    return tape.reshape(inputs, n, len(back) * size), window


def _neighbours(tape: Tape, x: Variable, offsets: Array, owner: Array) -> Variable:
    """Return for every step the inputs of the sequences before and after it in the batch; 0 where they have none."""
    xp, (n, width) = tape.xp, x.value.shape
    step, last_sequence = xp.arange(n) - offsets[owner], len(offsets) - 2
    rows = []
    for side in (-1, 1):
        neighbour = xp.clip(owner + side, 0, last_sequence)
        exists = (neighbour != owner) & (offsets[neighbour] + step < offsets[neighbour + 1])
        rows.append(xp.where(exists, 1 + offsets[neighbour] + step, 0))
    source = tape.concatenate([constant(xp.zeros((1, width), x.value.dtype)), x])
    return tape.reshape(tape.op("embedding", source, xp.stack(rows, axis=1).ravel().astype(np.int32)), n, 2 * width)
