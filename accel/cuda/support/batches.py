"""The arrays of a batch on the device, with what the operations will ask of them."""

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

    What follows from them is computed here, once, for the operations that read it: attention between rows with these
    offsets, recurrences over rows with these offsets, gradients of rows that these indices name, losses of these
    labels, charts over rows with these offsets up to a height. An operation that is not listed computes it when it
    first meets the array.
    """
    facts = [
        *((tiles_between, names) for names in attention),
        *((steps_between, (name,)) for name in recurrence),
        *((groups_of, (name,)) for name in groups),
        *((labelled_of, (name,)) for name in labels),
        *((charts_between(height), (name,)) for name, height in charts),
    ]
    return known.sent(arrays, facts)
