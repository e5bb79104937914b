"""Arguments and outputs that several kinds of attention share."""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check


def checked(q: Array, k: Array, v: Array, **relative: Array) -> list[Array]:
    """Return the arrays as `check.floats` does; raise ValueError naming the array that does not fit.

    q [N, H, D]; k, v [S, H, D]; with relative positions also r [P, H, D], content_bias, position_bias [H, D].
    """
    floats = check.floats(q=q, k=k, v=v, **relative)
    check.shape("q", q, "N", "H", "D")
    heads = q.shape[1:]
    if 0 in heads:
        raise ValueError(f"q: shape {q.shape} has no heads or heads without width")
    check.shape("k", k, "S", *heads)
    check.shape("v", v, *k.shape)
    for name, array in relative.items():
        check.shape(name, array, *(("P", *heads) if name == "r" else heads))
    return floats


def empty_outputs(q: Array) -> tuple[Array, Array]:
    """Return room for out [N, H, D] and lse [N, H]."""
    return device.xp().empty(q.shape, q.dtype), device.xp().empty(q.shape[:2], q.dtype)


def gradients_of(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """Return room for the gradients of q, k and v.

    Those of one shape lie one after another in memory, so that products take them as one batch.
    """
    if len({x.shape for x in (q, k, v)}) == 1:
        return tuple(device.xp().empty((3, *q.shape), q.dtype))  # type: ignore[return-value]
    return (device.xp().empty_like(q), *device.xp().empty((2, *k.shape), k.dtype))
