"""Communication of the processes that train one model: sums over all ranks, and broadcasts from rank 0.

There are three transports: none (one process), MPI (mpi4py with NumPy buffers) and NCCL (one GPU a process). Every rank
makes the same calls in the same order. NCCL has a separate CUDA stream, so that a GPU computes while it communicates.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array

_MEETING = "CUPYX_DISTRIBUTED_HOST", "CUPYX_DISTRIBUTED_PORT"  # where the ranks of NCCL meet, as CuPy names them


@dataclass(frozen=True)
class Communicator:
    """One process's view of the group."""

    rank: int
    size: int
    all_reduce_sum: Callable[[Array], None]  # replaces the array, in place, by its sum over all ranks
    broadcast: Callable[[Array], None]  # replaces the array, in place, by the array of rank 0
    begin_sum: Callable[[Array], Callable[[], None]] | None = None  # see the function of this name


def serial() -> Communicator:
    """Return a group of one."""
    return Communicator(0, 1, lambda array: None, lambda array: None)


def begin_sum(communicator: Communicator, array: Array) -> Callable[[], None]:
    """Begin to replace the array, in place, by its sum over all ranks; return a function that waits for the sum.

    Until that function has been called nobody may read or write the array. A communicator without `begin_sum`, and MPI
    with an array of a GPU, sum only when it is called.
    """
    if communicator.begin_sum is None:
        return partial(communicator.all_reduce_sum, array)
    return communicator.begin_sum(array)


def mpi() -> Communicator:
    """Return the group that `mpirun` or `srun` started; arrays of a GPU pass through the host's memory.

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

    def all_reduce_sum(array: Array) -> None:
        on_host(lambda host: world.Allreduce(MPI.IN_PLACE, host), array)

    def begin(array: Array) -> Callable[[], None]:
        if not isinstance(array, np.ndarray):
            return partial(all_reduce_sum, array)
        return world.Iallreduce(MPI.IN_PLACE, array).Wait  # type: ignore[no-any-return]

    return Communicator(
        world.rank,
        world.size,
        all_reduce_sum,
        lambda array: on_host(lambda host: world.Bcast(host, root=0), array),
        begin,
    )


def nccl(rank: int, size: int) -> Communicator:
    """Return a group of `size` processes with one GPU each, which meet at a port of rank 0's machine.

    CUPYX_DISTRIBUTED_HOST and CUPYX_DISTRIBUTED_PORT name it; without them it is 127.0.0.1 and 13333.

    Raises
    ------
    ImportError
        If CuPy or NCCL is not installed.
    ValueError
        If rank 0 cannot listen there: another training may do so.
    """
    from cupyx.distributed import init_process_group

    from accel.cuda import device
    from accel.cuda.support.streams import Beside

    if not device.xp().cuda.nccl.available:
        raise ImportError("NCCL is missing")
    host, port = (os.environ.get(name, place) for name, place in zip(_MEETING, ("127.0.0.1", "13333"), strict=True))
    if rank == 0 or not port.isdecimal():
        _check_free(host, port)
    group = init_process_group(size, rank, backend="nccl", host=host, port=int(port))
    beside = Beside()

    def begin(array: Array) -> Callable[[], None]:
        return beside.run(lambda stream: group.all_reduce(array, array, op="sum", stream=stream))

    return Communicator(
        rank,
        size,
        lambda array: begin(array)(),
        lambda array: beside.run(lambda stream: group.broadcast(array, root=0, stream=stream))(),
        begin,
    )


def _check_free(host: str, port: str) -> None:
    """Raise ValueError if this process cannot listen at the port, where the ranks of another training would meet it."""
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, int(port)))
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        advice = f"set {_MEETING[1]} to a free port, and {_MEETING[0]} to the name of rank 0's machine"
        raise ValueError(f"--communicator nccl: rank 0 cannot listen at {host}:{port} ({reason}): {advice}") from error


def all_gather(communicator: Communicator, xp: ModuleType, array: Array) -> list[Array]:
    """Return every rank's [rows, ...] array, in the order of the ranks; only the numbers of rows may differ."""
    if communicator.size == 1:
        return [array]
    counts = xp.zeros(communicator.size, dtype=np.int64)
    counts[communicator.rank] = array.shape[0]
    communicator.all_reduce_sum(counts)
    stops = [int(stop) for stop in counts.cumsum()]
    starts = [0, *stops[:-1]]
    all_rows = xp.zeros((stops[-1], *array.shape[1:]), dtype=array.dtype)
    all_rows[starts[communicator.rank] : stops[communicator.rank]] = array
    communicator.all_reduce_sum(all_rows)
    return [all_rows[start:stop] for start, stop in zip(starts, stops, strict=True)]
