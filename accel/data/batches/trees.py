"""The stream of batches of trees: rows that read trees segment after segment.

A row of the batch reads one tree; each batch gives every row its next segment, and a row that has finished takes the
next tree with an empty memory. The same seed gives the same order of trees for any number of processes. The position
between two batches is a small dictionary that goes into a checkpoint.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from accel import load
from accel.data.batches.assemble import Batch, Config, Encoded, assemble, encode_sequences, sequence_lengths, to_backend
from accel.data.batches.order import State, check_rank, in_parts, permutation
from accel.data.batches.padding import padded
from accel.data.corpora.treebank import Corpus
from accel.data.vocabularies.vocabulary import Vocabulary


class Batches:
    """The batches of a corpus; iterate over it, and close it (or use `with`) to stop the thread that reads ahead.

    Parameters
    ----------
    corpus, vocabulary, config
        The trees, their vocabulary, and the configuration of the model.
    batch_size : int
        Rows of the global batch; process `rank` of `ranks` gets rows rank, rank + ranks, ..., and an empty batch if
        only other processes have rows left.
    ops : module
        The backend that holds the arrays. It also computes the structure, but for a GPU the CPU does that.
    seed : int or None
        A new order for each epoch, drawn from (seed, epoch); None keeps the corpus's order.
    epochs : int or None
        How often each tree comes; None: for ever.
    prefetch : int
        The number of batches that a background thread keeps ready; 0: no thread.
    micro_batch : int or None
        With a number, every batch is a list of micro-batches of at most so many rows, always the same ones.
    """

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        config: Config,
        batch_size: int,
        *,
        ops: ModuleType,
        seed: int | None = None,
        epochs: int | None = 1,
        rank: int = 0,
        ranks: int = 1,
        prefetch: int = 2,
        micro_batch: int | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        check_rank(rank, ranks)
        if not len(corpus):
            raise ValueError("an empty corpus has no batches")
        self._corpus, self._vocabulary, self._config, self._ops = corpus, vocabulary, config, ops
        self._seed, self._epochs, self._rank, self._ranks = seed, epochs, rank, ranks
        self._lengths = sequence_lengths(corpus, config.model)
        self._state: State = {
            "corpus": [len(corpus), int(corpus.offsets[-1])],
            "seed": seed,
            "epoch": 0,
            "position": 0,
            "trees": [-1] * batch_size,
            "segments": [0] * batch_size,
        }
        self._prefetch, self._micro_batch = prefetch, micro_batch
        self._drawn: tuple[int, np.ndarray] | None = None
        self._source: Iterator[tuple[Any, State]] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._source is None:
            batches = self._from(self._state)
            gpu = nullcontext() if self._ops.xp is np or not self._prefetch else self._ops.current_gpu()
            self._source = _ReadAhead(batches, self._prefetch, gpu) if self._prefetch else batches
        try:
            batch, self._state = next(self._source)
            if self._prefetch and self._ops.xp is not np:
                self._ops.received()  # kernels wait for the copies that the thread began
        except BaseException:  # the end, an error or an interrupt: the next call starts again from here
            self.close()
            raise
        return batch

    def state(self) -> State:
        """Return the position after the last batch given, as a JSON object."""
        return self._state

    def restore(self, state: State) -> None:
        """Continue at the position `state`.

        Raises
        ------
        ValueError
            The state is of another seed, batch size or corpus.
        """
        rows = len(self._state["trees"])
        if state.keys() != self._state.keys():
            raise ValueError(f"not a position in the data: {', '.join(map(str, state))}")
        if state["seed"] != self._seed:
            raise ValueError(f"the position was taken with seed {state['seed']}, this is seed {self._seed}")
        if len(state["trees"]) != rows or len(state["segments"]) != rows:
            raise ValueError(f"the position was taken with {len(state['trees'])} rows a batch, this has {rows}")
        if state["corpus"] != self._state["corpus"]:
            other, current = ("{} trees and {} actions".format(*s["corpus"]) for s in (state, self._state))
            raise ValueError(f"the position was taken in a corpus of {other}, this has {current}")
        self.close()
        self._state = state

    def close(self) -> None:
        """Stop the background thread; iterating again continues after the last batch given."""
        if isinstance(self._source, _ReadAhead):
            self._source.close()
        self._source = None

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _from(self, state: State) -> Iterator[tuple[Any, State]]:
        """Yield every batch after `state`, each with the state after it."""
        rows = list(range(self._rank, len(state["trees"]), self._ranks))
        sequences: dict[int, Encoded] = {}
        while True:
            state, starting_rows = self._next(state)
            if max(state["trees"]) < 0:
                return
            for row in starting_rows:
                sequences.pop(row, None)
            active = [row for row in rows if state["trees"][row] >= 0]
            new_rows = [row for row in active if row not in sequences]
            sequences |= zip(new_rows, self._encode([state["trees"][row] for row in new_rows]), strict=True)
            yield in_parts(rows, self._micro_batch, partial(self._batch, state, sequences)), state

    def _batch(self, state: State, sequences: dict[int, Encoded], rows: list[int]) -> Batch:
        active = [row for row in rows if state["trees"][row] >= 0]
        tree, segment = (np.array([state[x][row] for row in active], np.int32) for x in ("trees", "segments"))
        batch = assemble([sequences[row] for row in active], tree, segment, self._config)
        if self._ops.xp is not np and self._ops.wants_graphs():
            batch = padded(batch, self._config, self._ops.padded_size)
        return to_backend(self._ops, batch)

    def _encode(self, trees: list[int]) -> list[Encoded]:
        ops = self._ops if self._ops.xp is np else load("cpu")  # beside the training, which keeps a GPU busy
        return encode_sequences(self._corpus, self._vocabulary, self._config, ops, trees)

    def _next(self, state: State) -> tuple[State, list[int]]:
        """Return the state after one more batch, and the rows that start a tree in it."""
        epoch, position = state["epoch"], state["position"]
        trees, segments = list(state["trees"]), list(state["segments"])
        starting_rows = []
        for row, tree in enumerate(trees):
            if tree >= 0 and (segments[row] + 1) * self._config.segment_length < self._lengths[tree]:
                segments[row] += 1
                continue
            if position == len(self._corpus):
                epoch, position = epoch + 1, 0
            has_tree = self._epochs is None or epoch < self._epochs
            trees[row], segments[row] = int(self._order(epoch)[position]) if has_tree else -1, 0
            position += has_tree
            starting_rows.append(row)
        return state | {"epoch": epoch, "position": position, "trees": trees, "segments": segments}, starting_rows

    def _order(self, epoch: int) -> np.ndarray:
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = (epoch, permutation(len(self._corpus), self._seed, epoch))
        return self._drawn[1]


class _ReadAhead:
    """An iterator whose items a background thread computes in advance, on a GPU if one is given."""

    def __init__(self, items: Iterator[tuple[Any, State]], size: int, gpu: AbstractContextManager[Any]) -> None:
        self._gpu = gpu
        self._ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(size)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(items,), daemon=True, name="batches")
        self._thread.start()

    def __iter__(self) -> _ReadAhead:
        return self

    def __next__(self) -> tuple[Any, State]:
        item, error = self._ready.get()
        if error is not None:
            raise error
        return item

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self, items: Iterator[tuple[Any, State]]) -> None:
        try:
            with self._gpu:  # CUDA starts every thread on the first one
                for item in items:
                    self._put(item, None)
                    if self._stop.is_set():
                        return
            self._put(None, StopIteration())
        except Exception as error:  # raised again in the thread that reads the next item
            self._put(None, error)

    def _put(self, item: Any, error: BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                return self._ready.put((item, error), timeout=0.05)
            except queue.Full:
                continue
