"""The rank and the GPU of a process, as MPICH, Open MPI and Slurm give them, and what is said if there is no group."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from accel.commands import processes
from accel.commands.processes import launched, open_group
from accel.training import communicator
from tests.fixtures.stand_in_gpu import gpu

__all__ = ["gpu"]

PMI2 = {"PMI_RANK": "9", "PMI_SIZE": "16", "SLURM_PROCID": "9", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1"}
BATCH = {"SLURM_JOB_ID": "3", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_ID": "0"}
RANKS = {
    "nothing": ({}, (0, 1, 0)),
    "MPICH": ({"PMI_RANK": "9", "PMI_SIZE": "16", "MPI_LOCALRANKID": "1", "SLURM_LOCALID": "0"}, (9, 16, 1)),
    "MPICH of old": ({"PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4, 3)),
    "PMI-2 of Slurm": (PMI2, (9, 16, 1)),
    "PMIx of Slurm": ({name: x for name, x in PMI2.items() if "PMI" not in name}, (9, 16, 1)),
    "a batch script of Slurm": (BATCH, (0, 1, 0)),
    "srun -n 1": (BATCH | {"SLURM_STEP_NUM_TASKS": "1"}, (0, 1, 0)),
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A change of the environment, in which no launcher has set a variable."""
    of_launchers = [name for names in processes._LAUNCHERS for name in names]
    for name in (*of_launchers, *PMI2, *BATCH, "CUDA_VISIBLE_DEVICES", *communicator._MEETING):
        monkeypatch.setenv(name, "")  # so that what a test sets is taken back
        monkeypatch.delenv(name)
    return monkeypatch


def put(environment: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)


@pytest.mark.parametrize("launcher", RANKS)
def test_ranks_of_launchers(environment: pytest.MonkeyPatch, launcher: str) -> None:
    """What runs in a batch script of Slurm, beside `srun`, is one process, whatever the number of the job's tasks."""
    variables, ranks = RANKS[launcher]
    put(environment, variables)
    assert launched() == ranks


@pytest.mark.parametrize(
    ("visible", "local_rank", "expected"),
    [(None, 1, "1"), ("4,5", 0, "4"), ("4, 5", 1, "5"), ("7", 1, "7"), ("", 1, ""), ("GPU-a,GPU-b", 1, "GPU-b")],
)
def test_each_process_has_its_gpu(
    environment: pytest.MonkeyPatch, visible: str | None, local_rank: int, expected: str
) -> None:
    """A launcher that gives every process one GPU of its own is not corrected."""
    put(environment, {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": str(local_rank)})
    if visible is not None:
        environment.setenv("CUDA_VISIBLE_DEVICES", visible)
    environment.setattr(communicator, "mpi", lambda: SimpleNamespace(size=8))
    for _ in range(2):
        open_group(None)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == expected


def test_processes_that_mpi_does_not_find_are_refused(environment: pytest.MonkeyPatch) -> None:
    """Each of them would train alone."""
    put(environment, {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "1"})
    environment.setattr(communicator, "mpi", communicator.serial)
    with pytest.raises(ValueError, match="^--communicator mpi: 2 processes were started, but MPI finds 1: start them "):
        open_group(None)


def test_nccl_that_is_missing_is_named(environment: pytest.MonkeyPatch, gpu: ModuleType) -> None:
    peers = SimpleNamespace(init_process_group=None)
    environment.setitem(sys.modules, "cupyx", SimpleNamespace(distributed=peers))
    environment.setitem(sys.modules, "cupyx.distributed", peers)
    environment.setattr(gpu.xp.cuda, "nccl", SimpleNamespace(available=False), raising=False)
    message = r"^--communicator nccl: NCCL is missing \(pip install 'grove-lm\[cuda12\]' or '\[cuda13\]'\)$"
    with pytest.raises(ValueError, match=message):
        open_group("nccl")
