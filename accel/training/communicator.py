"""Communication of the processes that train one model: sums over all ranks, and broadcasts from rank 0.

There are three transports: none (one process), MPI (mpi4py with NumPy buffers) and NCCL (one GPU a process). Every rank
makes the same calls in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array


@dataclass(frozen=True)
class Communicator:
    """One process's view of the group."""

    rank: int
    size: int
    all_reduce_sum: Callable[[Array], None]  # replaces the array, in place, by its sum over all ranks
    broadcast: Callable[[Array], None]  # replaces the array, in place, by that of rank 0


def serial() -> Communicator:
    """Return a group of one."""
    return Communicator(0, 1, lambda array: None, lambda array: None)


def mpi() -> Communicator:
    """Return the group that `mpirun` started; arrays of a GPU pass through the host's memory.

    Raises
    ------
    ImportError
        If mpi4py is not installed.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD

    def on_host(call: Callable[[np.ndarray], None], array: Array) -> None:
        if not array.flags.c_contiguous:
            raise ValueError("array: must be contiguous")
        if isinstance(array, np.ndarray):
            call(array)
        else:
            host = array.get()
            call(host)
            array.set(host)

    return Communicator(
        world.rank,
        world.size,
        lambda array: on_host(lambda host: world.Allreduce(MPI.IN_PLACE, host), array),
        lambda array: on_host(lambda host: world.Bcast(host, root=0), array),
    )


def nccl(rank: int, size: int, host: str = "127.0.0.1", port: int = 13333) -> Communicator:
    """Return a group of `size` processes with one GPU each, which meet at rank 0's `host` and `port`.

    Raises
    ------
    ImportError
        If CuPy is not installed.
    """
    from cupyx.distributed import init_process_group

    group = init_process_group(size, rank, backend="nccl", host=host, port=port)
    return Communicator(
        rank, size, lambda array: group.all_reduce(array, array, op="sum"), lambda array: group.broadcast(array, root=0)
    )


def all_gather(communicator: Communicator, xp: ModuleType, array: Array) -> list[Array]:
    """Return every rank's [rows, ...] array, in the order of the ranks; only the numbers of rows may differ."""
    if communicator.size == 1:
        return [array]
    counts = xp.zeros(communicator.size, dtype=np.int64)
    counts[communicator.rank] = array.shape[0]
    communicator.all_reduce_sum(counts)
    stops = [int(stop) for stop in counts.cumsum()]
    starts = [0, *stops[:-1]]
    joined = xp.zeros((stops[-1], *array.shape[1:]), dtype=array.dtype)
    joined[starts[communicator.rank] : stops[communicator.rank]] = array
    communicator.all_reduce_sum(joined)
    return [joined[start:stop] for start, stop in zip(starts, stops, strict=True)]
