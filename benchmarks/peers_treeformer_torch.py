"""Treeformer's chart as one would plainly write it in PyTorch, row by row, for sentences of one length.

The peers that `benchmarks.treeformer` times: the equations as they are printed, and with the projections of every node
computed once. Both take tokens [B, n, d] and return the rows of the chart, [B, n - h + 1, d] for phrases of h tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn


class Chart(nn.Module):
    """The parameters of a chart; the rows as the equations are printed: every pair is composed, then scored."""

    def __init__(self, parameters: Mapping[str, np.ndarray], max_height: int) -> None:
        super().__init__()
        self.max_height = max_height
        self.compose, self.key, self.query, self.w = (
            nn.Parameter(torch.from_numpy(parameters[f"chart.{name}"].T.copy()))
            for name in ("compose", "key", "query", "w")
        )

    def forward(self, tokens: Tensor) -> list[Tensor]:
        query = self.query @ self.w / self.w.numel() ** 0.5
        rows = [tokens]
        for h in range(2, min(self.max_height, tokens.shape[1]) + 1):
            pairs = torch.cat([lefts(rows, h), rights(rows, h)], dim=-1)  # [B, n - h + 1, h - 1, 2d]
            composed = nn.functional.linear(pairs, self.compose)
            scores = nn.functional.linear(composed, self.key) @ query
            rows.append(pool(composed, scores))
        return rows


class PrecomputedChart(Chart):
    """The same, with the two projections and the two halves of the score of every node computed once."""

    def forward(self, tokens: Tensor) -> list[Tensor]:
        d = tokens.shape[-1]
        direction = self.key.T @ (self.query @ self.w) / d**0.5
        rows, children, scores = [tokens], [], []
        for h in range(2, min(self.max_height, tokens.shape[1]) + 1):
            both = rows[-1] @ torch.cat([self.compose[:, :d].T, self.compose[:, d:].T], dim=1)
            children.append(both.unflatten(-1, (2, d)))
            scores.append(children[-1] @ direction)  # [B, nodes, 2]
            left, right = ([x[..., side, :] for x in children] for side in (0, 1))
            left_scores, right_scores = ([x[..., side, None] for x in scores] for side in (0, 1))
            composed = lefts(left, h) + rights(right, h)  # [B, n - h + 1, h - 1, d]
            rows.append(pool(composed, (lefts(left_scores, h) + rights(right_scores, h)).squeeze(-1)))
        return rows


def lefts(rows: list[Tensor], h: int) -> Tensor:
    """Return the first parts of all phrases of h tokens, by split."""
    n = rows[0].shape[1]
    return torch.stack([row[:, : n - h + 1] for row in rows[: h - 1]], dim=2)


def rights(rows: list[Tensor], h: int) -> Tensor:
    """Return the second parts."""
    return torch.stack([rows[h - m - 1][:, m:] for m in range(1, h)], dim=2)


def pool(pairs: Tensor, scores: Tensor) -> Tensor:
    """Return the sums of the pairs [B, nodes, splits, d], weighted by the softmax of their scores."""
    return (scores.softmax(-1).unsqueeze(-1) * pairs).sum(-2)
