"""Several processes that share a model: the order of the results, errors, and processes that are killed or stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from numba import config, get_num_threads

import accel
from accel.cpu.support import threads
from accel.data.files.lines import LineError
from accel.models.gpst import model as gpst
from accel.models.gpst.config import Config as Gpst
from accel.models.transformer_grammars import model as transformer_grammar
from accel.parsing.gpst import left_to_right_spans
from accel.parsing.labelled import labelled_trees
from accel.scoring.surprisals import bits_of_words
from accel.search.word_level import limits_of
from accel.trained import processes
from accel.trained.opening import Model
from accel.trained.processes import results
from refimpl.trees import words
from tests.fixtures.toy_run import CONFIG, TREES, VOCABULARY

CPU = accel.load("cpu")
PARAMETERS = transformer_grammar.initialise(CONFIG, 0)
MODEL = Model(Path("run"), CONFIG, PARAMETERS, VOCABULARY, None, transformer_grammar)
SENTENCES = [list(words(tree)) for tree in TREES[:6]]


several_processes = pytest.mark.skipif(not processes.CAN_FORK, reason="this system cannot fork safely")


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """After every test, all child processes have ended, or they end within 10 seconds without a signal."""
    yield
    for process in active_children():
        process.join(10)
        assert not process.is_alive()


@several_processes
def test_results_come_in_order_and_from_several_processes() -> None:
    pairs = list(results(lambda n: (n * n, os.getpid()), range(20), CPU, 3))
    assert [square for square, _ in pairs] == [n * n for n in range(20)]
    assert pairs[0][1] == os.getpid() and len({process for _, process in pairs}) == 4


POOL = """
import multiprocessing, sys
import numpy as np
from accel import cpu

def total(x):
    return float(cpu.cumax(x)[0].sum())

x = np.random.default_rng(0).standard_normal((2000, 20))
expected = [total(x)] * 3
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map_async(total, [x] * 3).get(timeout=60) == expected
"""


@several_processes
def test_other_pools_may_fork_after_the_threads_of_kernels_began(tmp_path: Path) -> None:
    """GNU's OpenMP would end each of their processes when it starts a team."""
    (tmp_path / "pool.py").write_text(POOL, encoding="utf-8")
    settings = os.environ | {"NUMBA_NUM_THREADS": "2", "PYTHONPATH": str(Path(accel.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "pool.py"], cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0 and "Terminating" not in run.stderr, run.stderr


def test_a_system_that_cannot_fork_safely_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CAN_FORK", False)
    assert list(results(lambda _: os.getpid(), range(9), CPU, 2)) == [os.getpid()] * 9


@pytest.mark.parametrize(("name", "n_items"), [("cpu", 0), ("cpu", 1), ("cuda", 9)])
def test_a_single_item_or_another_backend_needs_no_process(name: str, n_items: int) -> None:
    """Processes could not share the memory of a GPU."""
    backend: Any = SimpleNamespace(name=name)
    assert list(results(lambda _: os.getpid(), range(n_items), backend, 2)) == [os.getpid()] * n_items


@several_processes
def test_items_are_taken_as_they_are_needed_and_processes_end_when_nobody_asks() -> None:
    items: list[int] = []
    stream = results(lambda n: n, map(lambda n: items.append(n) or n, count()), CPU, 2)  # type: ignore[func-returns-value]
    assert next(stream) == 0 and items == [0, 1]
    assert [next(stream) for _ in range(4)] == [1, 2, 3, 4]
    stream.close()  # type: ignore[attr-defined]


@several_processes
def test_processes_that_wait_end_well() -> None:
    stream = results(lambda n: n, range(6), CPU, 2)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    children = active_children()
    assert list(stream) == [3, 4, 5]
    for child in children:
        child.join(10)
    assert [child.exitcode for child in children] == [0, 0]


@several_processes
def test_every_process_computes_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, too, is set to one thread until the last result is there."""
    thread_counts: list[int] = []
    monkeypatch.setattr(threads, "use_threads", thread_counts.append)
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", 5)
    available = list(results(lambda n: threads.available_threads(), range(4), CPU, 2))
    assert available == [5, 1, 1, 1] and thread_counts == [1, get_num_threads()]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("line 3: no tree"), ValueError, "line 3: no tree"),
        (LineError("a.txt", 3, "no words"), ValueError, "a.txt:3: no words"),  # it takes more than its text
        (MemoryError("much"), MemoryError, "much"),
        (KeyError("x"), RuntimeError, "KeyError: 'x'"),
    ],
)
def test_an_error_is_raised_here(error: Exception, kind: type[Exception], text: str) -> None:
    def fail(number: int) -> int:
        if number < 5:
            return number
        raise error

    with pytest.raises(kind, match=text):
        list(results(fail, range(9), CPU, 2))


@several_processes
def test_a_killed_process_is_an_error() -> None:
    """The operating system may kill a process when memory is short."""
    kill: Callable[[int], int] = lambda n: n if n < 4 else os.kill(os.getpid(), signal.SIGKILL) or n  # noqa: E731
    with pytest.raises(ChildProcessError, match="was killed: try --threads 1"):
        list(results(kill, range(9), CPU, 2))


def test_surprisals_are_the_same() -> None:
    alone, together = (list(bits_of_words(CPU, MODEL, SENTENCES, batch_size=2, beam=4, processes=n)) for n in (1, 2))
    assert alone == together


def test_parses_are_the_same() -> None:
    """Two processes find the trees of one: GPST's search, which batches sentences of one length, and a grammar's."""
    config = Gpst(12, d_model=8, n_heads=2, type_layers=1, token_layers=1, d_compose=8, dropout=0, network_dropout=0)
    model = Model(Path("run"), config, gpst.initialise(config, 0), None, None, gpst)
    texts = [[[word % 12] for word in range(n, 2 * n)] for n in (5, 2, 3, 6, 2, 4, 1, 3, 5, 4, 2, 3, 4, 6, 5, 2, 3, 4)]
    alone, together = (list(left_to_right_spans(CPU, model, texts, beam=3, batch_size=2, processes=n)) for n in (1, 2))
    assert alone == together and [len(spans) for spans in alone] == [len(words) - 1 for words in texts]
    labelled = [list(labelled_trees(CPU, MODEL, SENTENCES, limits_of(4), batch_size=2, processes=n)) for n in (1, 2)]
    assert labelled[0] == labelled[1] and any(labelled[0])
