"""Work with a trained model by several processes of one thread each.

The products and kernels of a search take a few microseconds each, less than a team of threads takes to wake. The
processes share the parameters and everything else that was in memory when they began.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
CAN_FORK = "fork" in get_all_start_methods() and sys.platform != "darwin"
"""Whether processes can begin with the memory of this one: macOS's BLAS may hang in them."""


def results(function: Callable[[T], R], items: Iterable[T], ops: ModuleType, count: int) -> Iterator[R]:
    """Yield what a function returns for every item, in order; if `count` is above 1, that many processes compute.

    Items and results are pickled. The first item is computed before the other processes begin, so that they find its
    kernels compiled. An error in a process is raised here.

    Raises
    ------
    ChildProcessError
        If a process was killed.
    """
    items = iter(items)
    two = list(islice(items, 2)) if count > 1 else []
    if len(two) < 2 or ops.name != "cpu" or not CAN_FORK:
        yield from map(function, chain(two, items))
        return
    with _one_thread():
        yield function(two[0])
        yield from _forked(function, chain(two[1:], items), count)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread inside the context, and afterwards with as many as before."""
    from numba import get_num_threads

    from accel.cpu.support.threads import use_threads

    before = get_num_threads()
    use_threads(1)
    try:
        yield
    finally:
        use_threads(before)


def _forked(function: Callable[[T], R], items: Iterable[T], count: int) -> Iterator[R]:
    """Yield the results of the items in order, computed by `count` processes, each of which has one item at a time."""
    context, links = get_context("fork"), list[Connection]()
    waiting, finished, queue, number = dict[Connection, int](), dict[int, R](), enumerate(items), 0

    def give(link: Connection) -> None:
        for place, item in islice(queue, 1):
            link.send(item)
            waiting[link] = place

    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            links.append(ours)
            process = context.Process(target=_work, args=(function, theirs, links), daemon=True)
            with warnings.catch_warnings():  # the threads of NumPy end at a fork, those of Numba are not used after it
                warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)
                process.start()
            theirs.close()
            give(ours)
        while waiting:
            for link in wait(list(waiting)):
                assert isinstance(link, Connection)
                try:
                    result, error = link.recv()
                except (EOFError, ConnectionError):
                    raise ChildProcessError("a worker process was killed: try --threads 1") from None
                if error is not None:
                    raise error
                finished[waiting.pop(link)] = result
                give(link)
            while number in finished:
                yield finished.pop(number)
                number += 1
    finally:
        for link in links:
            link.close()  # this ends its process


def _work(function: Callable[[T], R], link: Connection, of_parent: list[Connection]) -> None:
    """Compute items and send their results, until the process that sends them closes the link, or is killed."""
    from accel.cpu.support.threads import use_one_thread

    use_one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that began this one stops it
    for other in of_parent:
        other.close()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (its progress is part of a progress that is shown)
    while True:
        try:
            item = link.recv()
        except (EOFError, ConnectionError):
            return
        try:
            link.send((function(item), None))
        except (ValueError, MemoryError) as error:
            kind = MemoryError if isinstance(error, MemoryError) else ValueError
            link.send((None, kind(str(error))))
        except Exception:
            link.send((None, RuntimeError(traceback.format_exc())))
