"""LSTM, ON-LSTM and FastTrees cells as one would plainly write them in PyTorch: one step after another, in chunks.

The peers that `benchmarks.fasttrees` times. As in the released code of both papers, the inputs of all steps go through
one product before the loop, and the cell state is viewed as [batch, chunks, units of a chunk].
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn


def cumax(logits: Tensor) -> Tensor:
    return logits.softmax(-1).cumsum(-1)


class Cell(nn.Module):
    """One layer of cell type "on_lstm", "fasttrees", "conv_fasttrees" or "faster_fasttrees".

    Conv. FastTrees reads each input with the one before it, ahead of the loop, for its master gates.
    """

    def __init__(self, cell_type: str, input_size: int, hidden_size: int, chunk_size: int) -> None:
        super().__init__()
        self.cell_type, self.hidden_size, self.chunk_size = cell_type, hidden_size, chunk_size
        self.n_chunks = hidden_size // chunk_size
        self.ih = nn.Linear(input_size, 4 * hidden_size + 2 * self.n_chunks)
        recurrent = {"on_lstm": self.ih.out_features, "fasttrees": 4 * hidden_size, "conv_fasttrees": 4 * hidden_size}
        if cell_type == "conv_fasttrees":
            self.conv = nn.Conv1d(input_size, input_size, 2)
        if cell_type in recurrent:
            self.hh = nn.Linear(hidden_size, recurrent[cell_type])

    def step(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return h [B, H], c [B, n, C] and the distance [B] after one step."""
        n = self.n_chunks
        if self.cell_type == "on_lstm":
            projected = projected + self.hh(h)
        master, rest = projected[:, : 2 * n], projected[:, 2 * n :]
        if self.cell_type in ("fasttrees", "conv_fasttrees"):
            rest = rest + self.hh(h)
        master_in, master_forget = master.chunk(2, 1)
        master_in, master_forget = 1 - cumax(master_in), cumax(master_forget)
        distance = 1 - master_forget.mean(-1)
        out, cell, in_gate, forget = rest.view(-1, 4 * n, self.chunk_size).chunk(4, 1)
        out, cell, in_gate, forget = out.sigmoid(), cell.tanh(), in_gate.sigmoid(), forget.sigmoid()
        master_in, master_forget = master_in[:, :, None], master_forget[:, :, None]
        overlap = master_in * master_forget
        forget = forget * overlap + (master_forget - overlap)
        in_gate = in_gate * overlap + (master_in - overlap)
        c = forget * c + in_gate * cell
        return (out * c.tanh()).view(-1, self.hidden_size), c, distance

    def project(self, x: Tensor) -> Tensor:
        """Return the inputs' part [T, B, R] of the logits of all gates, from the inputs [T, B, D]."""
        if self.cell_type != "conv_fasttrees":
            return self.ih(x)
        n, padded = 2 * self.n_chunks, nn.functional.pad(x.permute(1, 2, 0), (1, 0))
        local = self.conv(padded).permute(2, 0, 1).relu()
        weight, bias = self.ih.weight, self.ih.bias
        sides = (local, weight[:n], bias[:n]), (x, weight[n:], bias[n:])
        return torch.cat([nn.functional.linear(*side) for side in sides], -1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs [T, B, H] and distances [T, B] of inputs [T, B, D], from a state of zeros."""
        h = x.new_zeros(x.shape[1], self.hidden_size)
        c = h.view(-1, self.n_chunks, self.chunk_size)
        outputs, distances = [], []
        for projected in self.project(x):
            h, c, distance = self.step(projected, h, c)
            outputs.append(h)
            distances.append(distance)
        return torch.stack(outputs), torch.stack(distances)


class Stack(nn.Module):
    """Layers one above the other, without dropout; `torch.nn.LSTM` for cell type "lstm"."""

    def __init__(
        self, cell_type: str, sizes: tuple[int, ...], chunk_size: int, parameters: dict[str, np.ndarray]
    ) -> None:
        super().__init__()
        pairs = list(pairwise(sizes))
        if cell_type == "lstm":
            self.cells = nn.ModuleList(nn.LSTM(below, above) for below, above in pairs)
            return
        self.cells = nn.ModuleList(Cell(cell_type, below, above, chunk_size) for below, above in pairs)
        with torch.no_grad():
            for name, value in self.named_parameters():
                value.copy_(torch.from_numpy(parameters[name]))

    def forward(self, x: Tensor) -> Tensor:
        for cell in self.cells:
            x, _ = cell(x)
        return x
