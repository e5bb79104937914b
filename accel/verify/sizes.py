"""The sizes at which an operation is tested: below, at and above the tile sizes of its kernels.

A backend may declare them, `tiles = {"layer_norm": {"rows": (128,), "width": (32, 1024)}}`: where the kernel begins
another tile, chunk, block or vector, or takes another path. An operation that a backend does not declare is tested at
the tile sizes of `accel.cpu` and `accel.cuda` together; along axes for which these have none, a user's own module is
tested around a tile of 16. `tiles = {}` says that no operation has any. The axes of an operation are the parameters
with integer defaults of the functions in its row's `sized`. One axis is varied at a time, the others stay small; then
every two axes together are larger than their tiles of up to TOGETHER. A function without such parameters makes one case
more. A softmax is also tested with a largest score at either end, see `accel/verify/peaks.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import combinations
from types import ModuleType
from typing import Any

import accel.cpu
import accel.cuda
from accel.verify.op import Case, Op
from accel.verify.ops.table import OPS
from accel.verify.own_backend import meant

Tiles = dict[str, tuple[int, ...]]
UNKNOWN = (16,)
"""The tiles of an axis at which a user's kernel is tested, if neither it nor our kernels declare any for the axis."""
THIRD_TILE, TOGETHER, LARGE = 64, 128, 2**16
"""Tiles up to THIRD_TILE are also tested at the size that begins a third tile, those up to TOGETHER with those of other
axes, and tiles from LARGE on only at tile + 1."""


def axes(op: Op) -> dict[str, list[Any]]:
    """Return the axes of an operation, each with the functions that make cases of a given size."""
    of_axis: dict[str, list[Any]] = {}
    for builder in op.sized:
        for name, parameter in inspect.signature(builder).parameters.items():
            if type(parameter.default) is int:
                of_axis.setdefault(name, []).append(builder)
    return of_axis


def tiles_of(backend: ModuleType, op: Op) -> Tiles:
    """Return the tile sizes of every axis at which this backend's operation is tested.

    Raises ValueError if the backend's tiles are no dict of dicts, or if it declares tiles of an operation that is not
    in the table, of an axis that this one does not have, or of a size that is no positive number.
    """
    declared = getattr(backend, "tiles", None)
    if declared == {}:
        return {}
    if not isinstance(declared, dict | None) or any(not isinstance(axis, dict) for axis in (declared or {}).values()):
        raise ValueError(f'tiles: {declared!r} is no dict of dicts: an example is {{"layer_norm": {{"rows": (128,)}}}}')
    names = [row.name for row in OPS]
    for name in declared or {}:
        if name not in names:
            choice = meant(name, names) or "grove verify --describe lists them"
            raise ValueError(f"tiles: no operation {name!r}: {choice}")
    if declared is None or op.name not in declared:
        ours = [ops.tiles.get(op.name, {}) for ops in (accel.cpu, accel.cuda)]
        union = {axis: tuple(sorted({x for tiles in ours for x in tiles.get(axis, ())})) for axis in ours[0] | ours[1]}
        others = () if getattr(backend, "__name__", "accel.").startswith("accel.") else axes(op)
        return union | {axis: UNKNOWN for axis in others if not union.get(axis)}
    for axis, sizes in declared[op.name].items():
        if axis not in axes(op):
            choice = meant(axis, axes(op)) or f"its axes are {', '.join(axes(op))}"
            raise ValueError(f"tiles: {op.name} has no axis {axis!r}: {choice}")
        if not isinstance(sizes, tuple) or any(type(size) is not int or size < 1 for size in sizes):
            raise ValueError(f"tiles: {op.name}, {axis}: {sizes!r} is no tuple of positive numbers")
    tiles: Tiles = declared[op.name]
    return tiles


def sizes_around(tiles: tuple[int, ...]) -> list[int]:
    """Return the sizes below, at and above the tiles; for small tiles also the first size with a third tile.

    >>> sizes_around((4, 256))
    [3, 4, 5, 9, 255, 256, 257]
    """
    around = {tile + step for tile in tiles for step in ((-1, 0, 1) if tile < LARGE else (1,))}
    return sorted((around | {2 * tile + 1 for tile in tiles if tile <= THIRD_TILE}) - {0})


def cases_at_sizes(backend: ModuleType, op: Op) -> Iterator[tuple[str, Case]]:
    """Yield the cases at the sizes of a backend's tiles, each with its axis and size in words."""
    builders = axes(op)
    for axis, tiles in tiles_of(backend, op).items():
        for size in sizes_around(tiles):
            for builder in builders[axis]:
                yield f"{axis} = {size}", builder(**{axis: size})
    above = {
        axis: max(small) + 1
        for axis, tiles in tiles_of(backend, op).items()
        if (small := [tile for tile in tiles if tile <= TOGETHER])
    }
    for builder in op.sized:
        for pair in combinations([axis for axis in above if builder in builders[axis]], 2):
            sizes = {axis: above[axis] for axis in pair}
            yield ", ".join(f"{axis} = {size}" for axis, size in sizes.items()), builder(**sizes)
        if not any(builder in others for others in builders.values()):
            yield builder.__name__.replace("_", " "), builder()
