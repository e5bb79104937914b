"""A Transformer Grammar in PyTorch whose attention is FlexAttention: blocks without an allowed pair are not computed.

Beside the dense peer of `benchmarks.peers_torch`, it has no dropout on the weights of attention, which FlexAttention
lacks. For a GPU, `torch.compile` makes one kernel of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from accel.models.transformer_grammars.config import Config
from benchmarks.peers_torch import DenseBatch, TransformerGrammar


@dataclass(frozen=True)
class FlexBatch:
    """A dense batch with its list of blocks."""

    ids: Tensor
    labels: Tensor
    relative: Tensor
    blocks: BlockMask


def flex(batch: DenseBatch) -> FlexBatch:
    """Return the batch with the blocks of its mask."""
    mask = batch.mask[:, 0].contiguous()
    blocks = create_block_mask(
        lambda b, h, q, k: mask[b, q, k], len(mask), None, *mask.shape[1:], device=str(mask.device)
    )
    return FlexBatch(batch.ids, batch.labels, batch.relative[:, 0].contiguous(), blocks)


class FlexTransformerGrammar(TransformerGrammar):
    """The same parameters; `compiled` makes one kernel of the attention."""

    def __init__(self, config: Config, parameters: dict[str, Any], compiled: bool) -> None:
        super().__init__(config, parameters)
        self.attend: Callable[..., Any] = torch.compile(flex_attention) if compiled else flex_attention

    def _attention(self, name: str, h: Tensor, batch: Any) -> Tensor:
        c, p = self.config, lambda part: self.weights[self.names[f"{name}.{part}"]]

        def heads(x: Tensor) -> Tensor:
            return x.unflatten(-1, (c.n_heads, c.d_head)).transpose(-2, -3)  # [..., H, T, D]

        q, k, v = (heads(h @ p(part)) for part in ("query", "key", "value"))
        r = heads(self._drop(self.sinusoids, c.core_dropout) @ p("relative"))  # [H, P, D]
        position = (q + p("position_bias")[:, None]) @ r.mT * c.d_head**-0.5  # [B, H, L, P]
        score = partial(_with_position, position, batch.relative)
        out = self.attend(q + p("content_bias")[:, None], k, v, score_mod=score, block_mask=batch.blocks)
        return out.transpose(1, 2).flatten(2) @ p("output") + p("output_bias")


def _with_position(
    position: Tensor, relative: Tensor, score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor
) -> Tensor:
    return score + position[b, h, q, relative[b, q, k]]
