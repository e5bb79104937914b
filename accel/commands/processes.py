"""The processes that train together: the rank of this one among those of `mpirun` or `srun`, and their communicator."""

from __future__ import annotations

import os
import sys
import time

from accel.training import communicator
from accel.training.communicator import Communicator

COMMUNICATORS = ("serial", "mpi", "nccl")
_LAUNCHERS = (  # rank, size and rank on this machine, as MPICH, Open MPI and Slurm name them
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),  # a script of sbatch has all of srun's but the second
)


def launched() -> tuple[int, int, int]:
    """Return rank, number of processes and rank on this machine."""
    for names in _LAUNCHERS:
        if names[0] in os.environ and names[1] in os.environ:
            rank, local_ranks = os.environ[names[0]], (names[2], "SLURM_LOCALID")  # srun may set none of MPI
            local_rank = next((os.environ[name] for name in local_ranks if name in os.environ), rank)
            return int(rank), int(os.environ[names[1]]), int(local_rank)
    return 0, 1, 0


def open_group(name: str | None) -> Communicator:
    """Return the communicator of this process; without a name that of MPI if several were started, else "serial".

    Each process on a machine gets a different GPU, of those that CUDA_VISIBLE_DEVICES lists if it is set.
    """
    rank, size, local_rank = launched()
    name = name or ("mpi" if size > 1 else "serial")
    if name == "serial":
        if size > 1:
            raise ValueError(f"--communicator serial: {size} processes need mpi or nccl to train one model")
        return communicator.serial()
    if size > 1:
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", str(local_rank)).split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[local_rank % len(gpus)].strip()  # srun may list one's own GPU only
    try:
        group = communicator.mpi() if name == "mpi" else communicator.nccl(rank, size)
    except ImportError as error:
        extras = "'grove-lm[mpi]'" if name == "mpi" else "'grove-lm[cuda12]' or '[cuda13]'"
        raise ValueError(f"--communicator {name}: {error} (pip install {extras})") from error
    if group.size < size:
        raise ValueError(
            f"--communicator mpi: {size} processes were started, but MPI finds {group.size}: "
            "start them with this MPI's mpirun or with srun --mpi=pmi2 or pmix, or use srun -n 1 for one process"
        )
    return group


def stop_all(status: int) -> None:
    """End the other processes of a failed run, which would otherwise wait for this one for ever."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.COMM_WORLD.size > 1:
        if mpi.COMM_WORLD.rank > 0:
            time.sleep(2)  # lets rank 0 print its message first if all processes fail
        sys.stderr.flush()
        mpi.COMM_WORLD.Abort(status)
