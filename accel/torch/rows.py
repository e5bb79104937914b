"""The two forms of a batch: padded [B, T, ...] with lengths; ragged [N, ...] with offsets, in which Grove computes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """The steps of all sequences one after another.

    values : [N, ...]; offsets : [B+1] int64
    steps : the first axes of the input, (B, T) or (N,); mask : [B, T] bool, the steps that exist; None if all do
    """

    values: Tensor
    offsets: Tensor
    steps: tuple[int, ...]
    mask: Tensor | None = None

    def read(self, name: str, x: Tensor) -> Tensor:
        """Return the rows [N, ...] of a tensor whose first axes are the steps of the input."""
        if x.shape[: len(self.steps)] != self.steps:
            raise ValueError(f"{name}: shape {tuple(x.shape)}, expected {tuple(self.steps)} first, as x has")
        return x.flatten(0, len(self.steps) - 1) if self.mask is None else x[self.mask]

    def write(self, values: Tensor) -> Tensor:
        """Return results [N, ...] in the form of the input; 0 at pads."""
        if self.mask is None:
            return values.unflatten(0, self.steps)
        return values.new_zeros(*self.steps, *values.shape[1:]).index_put((self.mask,), values)


def rows_of(x: Tensor, lengths: Tensor | None, offsets: Tensor | None) -> Rows:
    """Return the steps of x [B, T, D] with lengths [B] (None: all T), or of x [N, D] with offsets [B+1].

    Raises ValueError for other axes, both of lengths and offsets, or a length above T.
    """
    if x.ndim == 2 and lengths is None and offsets is not None:
        return Rows(x, offsets.to(torch.int64), x.shape[:1])
    if x.ndim != 3 or offsets is not None:
        raise ValueError(f"x: shape {tuple(x.shape)}: give [B, T, D] with lengths [B], or [N, D] with offsets [B+1]")
    n, most = x.shape[:2]
    if lengths is None:
        return Rows(x.flatten(0, 1), torch.arange(n + 1, device=x.device) * most, (n, most))
    if lengths.shape != (n,) or (not torch.compiler.is_compiling() and bool((lengths > most).any())):
        raise ValueError(f"lengths: {lengths.tolist()}, expected {n}, each at most {most}, as x has")
    mask = torch.arange(most, device=x.device) < lengths[:, None]
    return Rows(x[mask], offsets_of(lengths), (n, most), mask)


def offsets_of(lengths: Tensor) -> Tensor:
    """Return where consecutive rows of these lengths begin, and the end of the last [B+1] int64."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int64)
