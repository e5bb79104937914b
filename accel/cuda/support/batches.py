"""The arrays of a batch, copied to the device together with what operations derive from them on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from accel.cuda.cky_pooling import charts_between
from accel.cuda.device import Array
from accel.cuda.layers import labelled_of
from accel.cuda.support import known
from accel.cuda.support.cell import steps_between
from accel.cuda.support.scatter import groups_of
from accel.cuda.support.tiles import tiles_between


def from_host(
    arrays: Mapping[str, np.ndarray],
    *,
    attention: Sequence[tuple[str, str]] = (),
    recurrence: Sequence[str] = (),
    groups: Sequence[str] = (),
    labels: Sequence[str] = (),
    charts: Sequence[tuple[str, int | None]] = (),
) -> dict[str, Array]:
    """Return the arrays by name on the device, after one copy; nobody may change them.

    The copy also holds what operations derive from the arrays that are named here. attention: query and key offsets,
    for tiles; recurrence: offsets, for steps; groups: indices of rows, for the gradients of gathers; labels: for the
    rows that have one; charts: offsets and the maximum height, for the places of nodes. If an array is not named, an
    operation derives what it needs when it first gets the array.
    """
    facts = [
        *((tiles_between, names) for names in attention),
        *((steps_between, (name,)) for name in recurrence),
        *((groups_of, (name,)) for name in groups),
        *((labelled_of, (name,)) for name in labels),
        *((charts_between(height), (name,)) for name, height in charts),
    ]
    return known.sent(arrays, facts)
