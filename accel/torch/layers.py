"""ON-LSTM and FastTrees layers (FT-*) and the attention of Transformer Grammars (SC-*) as modules.

Mirrors `accel.models.fasttrees.stack` and `accel.models.transformer_grammars.model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from accel.autodiff.layers import sinusoids
from accel.models.fasttrees.stack import StackConfig, initialise
from accel.models.transformer_grammars import config as transformer_grammar
from accel.torch import ops
from accel.torch.rows import integers, rows_of
from accel.torch.weights import hold, new_seed


class Recurrent(NamedTuple):
    """The results of a stack of layers for B sequences.

    output : [B, T, H] or [N, H] of the last layer; 0 at pads
    state : the last h [B, H] and c [B, H] of every layer, for the next call; for "faster_fasttrees" only c
    distances : the syntactic distances [B, T] or [N] of every layer; none for "lstm"
    """

    output: Tensor
    state: list[Tensor]
    distances: list[Tensor]


class OnLstm(nn.Module):
    """A stack of ON-LSTM layers, or of another kind, for ragged or padded input.

    Parameters
    ----------
    input_size : int
    hidden_sizes : int or sequence of int
        The units of every layer.
    chunk_size : int
        Units that share a master gate; it divides every hidden size.
    kind : "on_lstm", "lstm", "fasttrees" or "faster_fasttrees"
    layer_dropout, weight_drop : float
        Rates of dropout: of features between layers, the same at all steps of a sequence; of hidden-to-hidden weights.

    Raises ValueError if an option is out of its range.
    """

    def __init__(
        self, input_size: int, hidden_sizes: int | Sequence[int], chunk_size: int = 10, *, kind: str = "on_lstm",
        layer_dropout: float = 0.0, weight_drop: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        if kind == "conv_fasttrees":
            raise ValueError("kind: conv_fasttrees is not for PyTorch: use on_lstm, lstm, fasttrees, faster_fasttrees")
        sizes = (hidden_sizes,) if isinstance(hidden_sizes, int) else tuple(hidden_sizes)
        rates: Any = {"layer_dropout": layer_dropout, "weight_drop": weight_drop}
        self.config = StackConfig(kind, input_size, sizes, chunk_size, **rates)
        hold(self, initialise(self.config, np.random.default_rng(new_seed())), "cells.")

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: Sequence[Tensor] | None = None, *,
        offsets: Tensor | None = None,
    ) -> Recurrent:  # fmt: skip
        """Return outputs, the next state and distances of x [B, T, D] with lengths [B], or [N, D] with offsets [B+1].

        No gradient flows into the state; None is a state of zeros. Raises ValueError if shapes do not fit, or a
        sequence is empty.
        """
        rows, p = rows_of(x, self.config.input_size, lengths, offsets), dict(self.named_parameters())
        bounds, h, n, config = rows.offsets, rows.values, len(rows.offsets) - 1, self.config
        shapes = [(n, width) for width in config.state_widths()]
        state = [h.new_zeros(shape) for shape in shapes] if state is None else state
        if [tuple(s.shape) for s in state] != shapes:
            raise ValueError(f"state: shapes {[tuple(s.shape) for s in state]}, expected {shapes}")
        before, after, distances = iter(state), [], []
        for layer in range(len(config.hidden_sizes)):
            if layer and config.layer_dropout:
                keep = nn.functional.dropout(h.new_ones(n, h.shape[1]), config.layer_dropout, self.training)
                h = h * torch.repeat_interleave(keep, bounds.diff(), dim=0, output_size=len(h))
            gates = nn.functional.linear(h, p[f"{layer}.ih.weight"], p[f"{layer}.ih.bias"])
            if config.kind == "faster_fasttrees":
                h, c, _, distance = ops.linear_recurrence(gates, next(before).detach(), bounds)
            else:
                weight, bias, rate = p[f"{layer}.hh.weight"], p[f"{layer}.hh.bias"], config.weight_drop
                weight = weight * (torch.rand_like(weight) >= rate if rate and self.training else 1 - rate)
                h0, c0 = next(before).detach(), next(before).detach()
                h, c, _, distance = ops.recurrence(gates, weight, bias, h0, c0, bounds, kind=config.kind)
                after.append(h[bounds[1:] - 1])
            after.append(c[bounds[1:] - 1])
            distances += [rows.write(distance[:, 0])] if config.kind != "lstm" else []
        return Recurrent(rows.write(h), after, distances)


class FastTrees(OnLstm):
    """`OnLstm` of kind "fasttrees", or "faster_fasttrees"."""

    def __init__(self, *sizes: Any, kind: str = "fasttrees", **options: Any) -> None:
        if kind not in ("fasttrees", "faster_fasttrees"):
            raise ValueError(f"kind: {kind} is not for FastTrees: use fasttrees, faster_fasttrees, or OnLstm")
        super().__init__(*sizes, kind=kind, **options)


class StackComposeAttention(nn.Module):
    """Attention of the positions of a linearised tree under the STACK and COMPOSE rules, with relative depths.

    Parameters
    ----------
    d_model, n_heads : int
        The width of the rows, even, and the number of heads, which divides it.
    relative_min, relative_max : int
        The least and the greatest relative position (depth difference); others are clamped to this range.
    n_layers : int
        The number of layers of the network; the variance of the initial weights is divided by it.
    dropout : float
        The rate of dropout of the attention weights, in training.

    Raises ValueError if an option is out of its range.
    """

    def __init__(
        self, d_model: int, n_heads: int, *, relative_min: int = -1, relative_max: int = 62, n_layers: int = 1,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.config = transformer_grammar.Config(
            "tg", 1, d_model, 1, n_layers, n_heads, 1, 0, relative_min=relative_min, relative_max=relative_max,
            core_dropout=dropout,
        )  # fmt: skip
        hold(self, transformer_grammar.initialise(self.config, new_seed()), "layers.0.attention.")
        table = sinusoids(np, relative_max - relative_min + 1, d_model, np.float64, relative_min)
        self.depths = torch.from_numpy(table)  # no buffer: .half() and .to_empty() would change it for good

    def forward(
        self, x: Tensor, types: Tensor, lengths: Tensor | None = None, *, offsets: Tensor | None = None
    ) -> Tensor:
        """Return the attention [B, T, d] of x [B, T, d] with lengths [B], or [N, d] of [N, d] with offsets [B+1].

        `types` [B, T] or [N] are 0 (open non-terminal, or the start symbol), 1 (terminal), 2 and 3 (the first and the
        second of a doubled closing non-terminal; `double_closing` doubles them). Every sequence is the start symbol and
        the actions of trees; it may end inside a tree.
        Raises ValueError, naming sequence and position, if the types are ill-formed.
        """
        config, p = self.config, dict(self.named_parameters())
        rows = rows_of(x, config.d_model, lengths, offsets)
        actions = integers("types", rows.read("types", types)).clamp(-1, 4).to(torch.int8)  # a wrong type stays wrong
        row_offsets, keys, relative, _ = ops.attend_sets(actions, rows.offsets)
        n_keys = row_offsets[rows.offsets].diff()
        keys = keys + torch.repeat_interleave(rows.offsets[:-1], n_keys, output_size=len(keys)).to(torch.int32)
        relative = relative.clamp(config.relative_min, config.relative_max) - config.relative_min
        q, k, v = ((rows.values @ p[name]).unflatten(1, (config.n_heads, -1)) for name in ("query", "key", "value"))
        r = (self.depths.to(x) @ p["relative"]).unflatten(1, (config.n_heads, -1))
        rate = config.core_dropout if self.training else 0.0
        biases, sets = (p["content_bias"], p["position_bias"]), (row_offsets, keys, relative)
        out = ops.sparse_attention(q, k, v, r, *biases, *sets, rate=rate, seed=new_seed() if rate else 0)[0]
        return rows.write(out.flatten(1) @ p["output"] + p["output_bias"])
