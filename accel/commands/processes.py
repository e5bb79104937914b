"""The processes that train together: the rank of this one among those of `mpirun`, and their communicator."""

from __future__ import annotations

import os
import sys
import time

from accel.training import communicator
from accel.training.communicator import Communicator

COMMUNICATORS = ("serial", "mpi", "nccl")
_LAUNCHERS = (  # rank, size and rank on this machine, as MPICH and Open MPI name them
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
)


def launched() -> tuple[int, int, int]:
    """Return rank, number of processes and rank on this machine."""
    for names in _LAUNCHERS:
        if names[0] in os.environ and names[1] in os.environ:
            rank = int(os.environ[names[0]])
            return rank, int(os.environ[names[1]]), int(os.environ.get(names[2], rank))
    return 0, 1, 0


def open_group(name: str | None) -> Communicator:
    """Return the communicator of this process; without a name that of MPI if `mpirun` started several, else "serial".

    Each process on a machine gets a different GPU, unless CUDA_VISIBLE_DEVICES is set.
    """
    rank, size, local_rank = launched()
    name = name or ("mpi" if size > 1 else "serial")
    if name == "serial":
        if size > 1:
            raise ValueError(f"--communicator serial: {size} processes need mpi or nccl to train one model")
        return communicator.serial()
    if size > 1:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", str(local_rank))
    try:
        return communicator.mpi() if name == "mpi" else communicator.nccl(rank, size)
    except ImportError as error:
        extra = "mpi" if name == "mpi" else "cuda12"
        raise ValueError(f"--communicator {name}: {error} (pip install 'grove-lm[{extra}]')") from error


def stop_all(status: int) -> None:
    """End the other processes of a failed run, which would otherwise wait for this one for ever."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.COMM_WORLD.size > 1:
        if mpi.COMM_WORLD.rank > 0:
            time.sleep(2)  # lets rank 0 print its message first if all processes fail
        sys.stderr.flush()
        mpi.COMM_WORLD.Abort(status)
