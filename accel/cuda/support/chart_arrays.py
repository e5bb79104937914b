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
    """Maps of every node, out(dropout(gelu(in(x)))), the same number for all: inputs and outputs of matrices."""

    inner: Array  # [m, d, d]
    inner_bias: Array  # [m, d]
    outer: Array  # [m, d, s]
    outer_bias: Array  # [m, s]


class Step(NamedTuple):
    """One step: its nodes, its pairs, where its seeds begin, and whether later pairs read what maps make of nodes."""

    begin: int
    end: int
    first: int = 0
    last: int = 0
    seed: int = 0
    is_read: bool = True


@dataclass(frozen=True)
class Chart:
    """The M nodes and P pairs of a pass, on the device; steps in the order of the pass, the first one without pairs.

    With `bounds` all steps run in one launch, and `steps` is not read; nodes and pairs may then be fewer than there is
    room for.
    """

    steps: list[Step]
    n_roles: int
    shift: int  # the first node with pairs
    n_heads: int
    uses: list[tuple[Array, Array]]  # offsets [M + 1] int64 and [*] int32: the rows of the pairs that read each node
    drop: Drop  # seeds of all steps
    rows: Array  # [2 P] int32 rows of vectors
    roles: Array  # [2 P] int32
    left: Array  # [P] int32 what scores a pair: a row of the first table,
    right: Array  # [P] int32 and one of the second table
    offsets: Array  # [nodes with pairs + 1] int64 into the pairs
    roots: Array | None = None  # [B] int32
    is_root: Array | None = None  # [M] int32
    bounds: Array | None = None  # [3, T + 1] int64: where nodes and pairs of steps begin, as of `chart_plan.Plan`

    @property
    def n_nodes(self) -> int:
        return len(self.uses[0][0]) - 1

    def seeded(self, start: int) -> Drop:
        """Return the dropout whose seeds begin there."""
        return self.drop._replace(seeds=self.drop.seeds[start:])


def room(shapes: Sequence[tuple[int, ...]], dtype: Any, zero: bool, times: int = 1) -> tuple[Array, list[Array]]:
    """Return one array [times, *] for arrays of these shapes, and the first row's parts; of zeros, or with anything."""
    sizes = [-(-prod(shape) // ALIGNED) * ALIGNED for shape in shapes]
    whole = (device.xp().zeros if zero else device.xp().empty)((times, sum(sizes)), dtype)
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    parts = [whole[0, i : i + prod(shape)].reshape(shape) for i, shape in zip(begins, shapes, strict=True)]
    return whole, parts


class Nodes(NamedTuple):
    """What a pass computes of its nodes; befores and hiddens are of their maps."""

    vectors: Array  # [M, d]
    firsts: Array  # [M, 3 d] queries, keys and values of the first layer
    rstds: Array  # [M]
    heights: Array  # [M]
    befores: Array  # [m, M, d]
    hiddens: Array  # [m, M, d]
    sides: Array  # [m, M, s] of which products are scores


class Pairs(NamedTuple):
    """What a pass computes of its pairs."""

    scores: Array  # [P]
    weights: Array  # [P]
    saved: Saved


class NodeSlopes(NamedTuple):
    """The slopes of the firsts, the sides and the befores of nodes, and of their sums or their source."""

    firsts: Array
    sides: Array
    befores: Array
    sums: Array  # [M, d]


class Part(NamedTuple):
    """What a backward pass reads and sets of the nodes without pairs, or of the others."""

    nodes: Nodes
    maps: Maps  # transposed
    slopes: NodeSlopes
    uses: tuple[Array, Array]
    given_rows: int  # of so many the slopes of vectors are given


class Passes(NamedTuple):
    """One backward pass or two: what is given, how far apart their slopes lie, and how many reach maps, at most 1."""

    given: list[tuple[Array, Array]]  # slopes of vectors and heights
    pitch: int
    attached: int


class Inside(NamedTuple):
    """The inside pass."""

    nodes: Nodes
    pairs: Pairs


class Outside(NamedTuple):
    """The outside pass; rows of both tables are those of contexts, then those of inner nodes."""

    vectors: Array  # [2 M, d]
    firsts: Array  # [2 M, 3 d]
    inner: Nodes
    contexts: Nodes
    pairs: Pairs
