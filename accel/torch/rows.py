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


def rows_of(x: Tensor, width: int, lengths: Tensor | None, offsets: Tensor | None) -> Rows:
    """Return the steps of x [B, T, D] with lengths [B] (None: all T), or of x [N, D] with offsets [B+1]; D is `width`.

    Raises ValueError for other shapes, both of lengths and offsets, or lengths or offsets that x does not have.
    """
    if x.ndim != 2 + (offsets is None) or x.shape[-1] != width or not (lengths is None or offsets is None):
        raise ValueError(f"x: shape {tuple(x.shape)}: give [B, T, {width}] with lengths, or [N, {width}] with offsets")
    if offsets is not None:
        offsets = integers("offsets", offsets)
        if not torch.compiler.is_compiling() and offsets[-1:].tolist() != [len(x)]:
            raise ValueError(f"offsets: end with {offsets[-1:].tolist()}, expected [{len(x)}], the rows of x")
        return Rows(x, offsets, x.shape[:1])
    n, most = x.shape[:2]
    if lengths is None:
        return Rows(x.flatten(0, 1), torch.arange(n + 1, device=x.device) * most, (n, most))
    lengths = integers("lengths", lengths)
    if lengths.shape != (n,) or not (torch.compiler.is_compiling() or lengths.equal(lengths.clamp(0, most))):
        raise ValueError(f"lengths: {lengths.tolist()}, expected {n}, each at least 0 and at most {most}")
    mask = torch.arange(most, device=x.device) < lengths[:, None]
    return Rows(x[mask], offsets_of(lengths), (n, most), mask)


def integers(name: str, x: Tensor) -> Tensor:
    """Return x as int64. Raises ValueError if its type is not one of whole numbers."""
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        raise ValueError(f"{name}: {x.dtype}, expected whole numbers: call .long()")
    return x.to(torch.int64)


def offsets_of(lengths: Tensor) -> Tensor:
    """Return where consecutive rows of these lengths begin, and the end of the last [B+1] int64."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int64)
