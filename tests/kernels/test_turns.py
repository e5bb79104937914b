"""A team of threads works in phases: a phase waits for the one before, in whatever order the threads run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from accel.cpu.support.team import share, team_kernel
from accel.cpu.support.turns import ENDED, TAKEN, counters, end, take, wait

PRIME = 1009


@team_kernel()
def run_phases(part, table, counts, workers):
    """Set every element of a row from all elements of the row before."""
    for _ in share(part, workers):
        first, turn = 0, take(counts)
        for phase in range(1, len(table)):
            while turn < first + table.shape[1]:
                wait(counts, first)
                table[phase, turn - first] = (table[phase - 1].sum() + turn - first) % PRIME
                end(counts)
                turn = take(counts)
            first += table.shape[1]


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_a_phase_waits_for_the_one_before(workers: int) -> None:
    """If there are fewer threads than workers, some workers start after all work is done, and find none left."""
    check_phases(workers)


def check_phases(workers: int) -> None:
    table, width = np.zeros((300, 5), np.int64), np.arange(5)
    run_phases(table, counts := counters(), workers)
    for row, before in zip(table[1:], table, strict=False):
        np.testing.assert_array_equal(row, (before.sum() + width) % PRIME)
    assert counts[ENDED] == 299 * 5 and counts[TAKEN] == 299 * 5 + workers


def test_phases_wait_for_each_other_in_four_threads() -> None:
    """With one thread, as other tests have, nobody ever waits. Without waiting, three of a hundred calls are wrong."""
    program = "from tests.kernels.test_turns import check_phases\nfor k in range(600): check_phases((4, 7)[k % 2])"
    environment = os.environ | {"NUMBA_NUM_THREADS": "4"}
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], env=environment, check=True)


TRACED = """
import tracemalloc
import numpy as np
from accel import cpu
tracemalloc.start()
offsets = np.arange(9) * 4
for _ in range(20):
    cpu.pruned_chart(np.linspace(0.0, 1.0, 24), offsets, window=2)
"""


def test_threads_allocate_while_memory_is_traced() -> None:
    """tracemalloc takes the interpreter's lock, so the thread that starts the team must not hold it."""
    environment = os.environ | {"NUMBA_NUM_THREADS": "4"}
    subprocess.run([sys.executable, "-c", TRACED], env=environment, timeout=120, check=True)


BESIDE = """
import threading
import numpy as np
from accel import cpu
def work():
    for _ in range(2000):
        cpu.cumax(np.zeros((64, 64)))
work()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_two_threads_use_kernels_at_a_time() -> None:
    """Batches are made while a step runs, but Numba's "workqueue" allows only one thread at a time.

    Some machines have no other threading layer.
    """
    environment = os.environ | {"NUMBA_NUM_THREADS": "2", "NUMBA_THREADING_LAYER": "workqueue"}
    subprocess.run([sys.executable, "-c", BESIDE], env=environment, timeout=120, check=True)
