"""The same arithmetic as one would plainly write it in PyTorch: padded, with dense masks and dense logits.

The peers that `benchmarks.run` times. They are written for clarity, and yet to be fast: dense attention is
`scaled_dot_product_attention` where that can express it, and a batch is prepared before the clock starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accel.data.batches.assemble import Batch
from accel.models.transformer_grammars.config import Config


def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, d_out: Tensor) -> Tensor:
    """Return the attention [B, H, T, D] under a bool mask, and leave the gradients in the inputs."""
    for x in (q, k, v):
        x.grad = None
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    out.backward(d_out)
    return out


@dataclass(frozen=True)
class DenseBatch:
    """A batch padded to L positions."""

    ids: Tensor  # [B, L]
    labels: Tensor  # [B, L], -1 for none
    mask: Tensor  # [B, 1, L, M+L] bool
    relative: Tensor  # [B, 1, L, M+L] row of the relative table


def dense(batch: Batch, length: int = 0) -> DenseBatch:
    """Return the batch as dense arrays, padded to a length, or to that of the longest sequence.

    Every sequence begins in the batch, so that there is no memory.
    """
    if batch.key_order is not None:
        raise ValueError("a plain batch has no memory to read")
    n_rows, length = len(batch.query_offsets) - 1, length or int(np.diff(batch.query_offsets).max())
    ids, labels = np.zeros((n_rows, length), np.int64), np.full((n_rows, length), -1, np.int64)
    mask, relative = np.zeros((n_rows, length, length), bool), np.zeros((n_rows, length, length), np.int64)
    for b in range(n_rows):
        first, last = batch.query_offsets[b], batch.query_offsets[b + 1]
        ids[b, : last - first], labels[b, : last - first] = batch.ids[first:last], batch.labels[first:last]
        edges = slice(batch.row_offsets[first], batch.row_offsets[last])
        rows = np.repeat(np.arange(last - first), np.diff(batch.row_offsets[first : last + 1]))
        here = batch.keys[edges] - first
        mask[b, rows, here], relative[b, rows, here] = True, batch.relative[edges]
    return DenseBatch(*map(torch.from_numpy, (ids, labels, mask[:, None], relative[:, None])))


class TransformerGrammar(nn.Module):
    """A Transformer Grammar with relative positions by depth, of padded sequences without a memory."""

    def __init__(self, config: Config, parameters: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.config = config
        self.names = {name: name.replace(".", "_") for name in parameters}
        self.weights = nn.ParameterDict({self.names[n]: nn.Parameter(torch.tensor(x)) for n, x in parameters.items()})
        d = config.d_model
        positions = torch.arange(config.relative_min, config.relative_max + 1, dtype=torch.float64)
        angle = positions[:, None] * 1e4 ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
        self.register_buffer("sinusoids", torch.cat([angle.sin(), angle.cos()], 1).float())

    def forward(self, batch: DenseBatch) -> Tensor:
        """Return the sum of -log p over the labels."""
        c, p = self.config, lambda name: self.weights[self.names[name]]
        h = F.embedding(batch.ids, p("embedding"))
        h = self._drop(self._drop(h, c.embedding_dropout), c.core_dropout)
        for layer in range(c.n_layers):
            name = f"layers.{layer}."
            attended = self._attention(name + "attention", h, batch)
            h = self._norm(name + "attention_norm", h + self._drop(attended, c.core_dropout))
            inner = F.gelu(h @ p(name + "feed_forward.in") + p(name + "feed_forward.in_bias"), approximate="tanh")
            y = self._drop(inner, c.core_dropout) @ p(name + "feed_forward.out") + p(name + "feed_forward.out_bias")
            h = self._norm(name + "feed_forward_norm", h + self._drop(y, c.core_dropout))
        logits = self._drop(h, c.output_dropout) @ p("embedding").T + p("output_bias")
        return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=-1, reduction="sum")

    def _attention(self, name: str, h: Tensor, batch: DenseBatch) -> Tensor:
        c, p = self.config, lambda part: self.weights[self.names[f"{name}.{part}"]]

        def heads(x: Tensor) -> Tensor:
            return x.unflatten(-1, (c.n_heads, c.d_head)).transpose(-2, -3)  # [..., H, T, D]

        q, k, v = (heads(h @ p(part)) for part in ("query", "key", "value"))
        r = heads(self._drop(self.sinusoids, c.core_dropout) @ p("relative"))  # [H, P, D]
        content = (q + p("content_bias")[:, None]) @ k.mT
        position = (q + p("position_bias")[:, None]) @ r.mT  # [B, H, L, P]
        position = position.gather(3, batch.relative.expand(-1, c.n_heads, -1, -1))
        scores = (content + position) * c.d_head**-0.5
        scores = scores.masked_fill(~batch.mask, torch.finfo(scores.dtype).min)  # a row of padding becomes uniform
        out = self._drop(scores.softmax(-1), c.core_dropout) @ v
        return out.transpose(1, 2).flatten(2) @ p("output") + p("output_bias")

    def _norm(self, name: str, x: Tensor) -> Tensor:
        scale, bias = (self.weights[self.names[f"{name}.{part}"]] for part in ("scale", "bias"))
        return F.layer_norm(x, (x.shape[-1],), scale, bias, eps=1e-5)

    def _drop(self, x: Tensor, rate: float) -> Tensor:
        return F.dropout(x, rate, self.training)
