"""What GPST's passes over the charts of a batch read, compute and return: arrays on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.pair_layers import Drop, Saved

ALIGNED = 4  # numbers: 16 bytes of float32


class Maps(NamedTuple):
    """The m MLPs out(dropout(gelu(in(x)))) of every node, whose outputs score pairs; a matrix is [inputs, outputs]."""

    inner: Array  # [m, d, d]
    inner_bias: Array  # [m, d]
    outer: Array  # [m, d, s]
    outer_bias: Array  # [m, s]


class Step(NamedTuple):
    """A step: nodes begin..end - 1, pairs first..last - 1, and the place of its first seed in `Chart.drop`.

    `is_read` says whether the pairs of later steps read these nodes: then their `firsts` and maps are computed.
    """

    begin: int
    end: int
    first: int = 0
    last: int = 0
    seed: int = 0
    is_read: bool = True


@dataclass(frozen=True)
class Chart:
    """The M nodes and P pairs of a pass, on the device. Steps are in the order of the pass; the first has no pairs.

    With `bounds` all steps run in one launch, and `steps` is not read; the arrays may then have room for more nodes and
    pairs than there are.
    """

    steps: list[Step]
    n_roles: int
    shift: int  # the first node with pairs
    n_heads: int
    uses: list[tuple[Array, Array]]  # per kind of nodes: offsets [M + 1] int64; rows [*] int32 of pairs that read one
    drop: Drop  # seeds of all steps
    rows: Array  # [2 P] int32 the row of the vectors that each row of a pair reads
    roles: Array  # [2 P] int32
    left: Array  # [P] int32 the score of a pair is the product of a row of the first table
    right: Array  # [P] int32 and a row of the second table
    offsets: Array  # [nodes with pairs + 1] int64 where the pairs of a node begin
    roots: Array | None = None  # [B] int32
    is_root: Array | None = None  # [M] int32
    bounds: Array | None = None  # [3, T + 1] int64 where nodes and pairs of steps begin: `chart_plan.Plan.steps`

    @property
    def n_nodes(self) -> int:
        return len(self.uses[0][0]) - 1

    def seeded(self, start: int) -> Drop:
        """Return the dropout with the seeds from number `start` on."""
        return self.drop._replace(seeds=self.drop.seeds[start:])


def room(shapes: Sequence[tuple[int, ...]], dtype: Any, zero: bool, times: int = 1) -> tuple[Array, list[Array]]:
    """Return an array [times, *], of zeros or empty, whose rows have room for these shapes; and the parts of row 0."""
    sizes = [-(-prod(shape) // ALIGNED) * ALIGNED for shape in shapes]
    whole = (device.xp().zeros if zero else device.xp().empty)((times, sum(sizes)), dtype)
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    parts = [whole[0, i : i + prod(shape)].reshape(shape) for i, shape in zip(begins, shapes, strict=True)]
    return whole, parts


class Nodes(NamedTuple):
    """What a pass computes for its nodes, each of which has m maps."""

    vectors: Array  # [M, d]
    firsts: Array  # [M, 3 d] queries, keys and values of the first layer
    rstds: Array  # [M] reciprocal standard deviations, in the inside pass
    heights: Array  # [M]
    befores: Array  # [m, M, d] in the maps, before bias and GELU
    hiddens: Array  # [m, M, d] in the maps, after GELU and dropout
    sides: Array  # [m, M, s] outputs of the maps; the product of two is a score


class Pairs(NamedTuple):
    """What a pass computes for its pairs."""

    scores: Array  # [P]
    weights: Array  # [P] softmax of the scores of a node's pairs
    saved: Saved


class NodeGradients(NamedTuple):
    """The gradients of the firsts, sides and befores of nodes, and of their weighted sums or their source."""

    firsts: Array
    sides: Array
    befores: Array
    sums: Array  # [M, d]


class Part(NamedTuple):
    """What a backward pass reads and writes for one kind of nodes: those without pairs, or the others."""

    nodes: Nodes
    maps: Maps  # transposed
    gradients: NodeGradients
    uses: tuple[Array, Array]
    given_rows: int  # the vectors of nodes 0..given_rows - 1 have given gradients


class Passes(NamedTuple):
    """One or two backward passes that run at once."""

    given: list[tuple[Array, Array]]  # of each pass: the given gradients of vectors and heights
    pitch: int  # numbers from the gradients of the first pass to those of the second
    attached: int  # 0 or 1: how many of them, from the first on, compute the gradients of maps


class Inside(NamedTuple):
    """The inside pass."""

    nodes: Nodes
    pairs: Pairs


class Outside(NamedTuple):
    """The outside pass; both tables have the rows of contexts (outside), then those of inner nodes (inside)."""

    vectors: Array  # [2 M, d]
    firsts: Array  # [2 M, 3 d]
    inner: Nodes
    contexts: Nodes
    pairs: Pairs
