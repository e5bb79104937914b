"""Streams of batches resume where they stopped, shuffle, share batches between processes, and end."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.data.batches.order import permutation
from accel.data.batches.sized import SizedBatches
from accel.data.corpora.treebank import Corpus
from tests.fixtures.comparisons import are_equal
from tests.fixtures.tree_batches import CONFIGS, TREES, TXL_CONFIGS, Config, batches, rows_of


def test_a_restored_position_gives_the_same_batches() -> None:
    with batches(seed=3, epochs=2, prefetch=2) as stream:
        every, states = [], []
        for batch in stream:
            every.append(batch)
            states.append(json.dumps(stream.state()))
    for k in (0, 1, len(every) // 2, len(every) - 1):
        with batches(seed=3, epochs=2, prefetch=1) as resumed:
            resumed.restore(json.loads(states[k]))
            rest = list(resumed)
        assert len(rest) == len(every) - k - 1
        assert all(are_equal(a, b) for a, b in zip(rest, every[k + 1 :], strict=True))


def test_restoring_an_earlier_state_of_the_same_stream() -> None:
    with batches(seed=3, epochs=None, prefetch=3) as stream:
        state = stream.state()
        first = [next(stream) for _ in range(6)]
        stream.restore(state)
        assert all(are_equal(a, next(stream)) for a in first)


def test_every_epoch_shuffles_every_tree_once() -> None:
    orders = []
    for seed in (1, 1, 2):
        order = [t for b in batches(rows=1, seed=seed, epochs=2) for t, s, _, _ in rows_of(b) if s == 0]
        first, second = order[: len(TREES)], order[len(TREES) :]
        assert sorted(first) == sorted(second) == list(range(len(TREES)))
        assert first != second
        orders.append(order)
    assert orders[0] == orders[1] != orders[2]
    in_order = [t for b in batches(rows=1) for t, s, _, _ in rows_of(b) if s == 0]
    assert in_order == list(range(len(TREES)))


@pytest.mark.parametrize("config", [CONFIGS[0], TXL_CONFIGS[0]], ids=str)
def test_ranks_share_the_rows_of_the_whole_batch(config: Config) -> None:
    whole = list(batches(config, rows=5, seed=4))
    shares = [list(batches(config, rows=5, seed=4, rank=r, ranks=3)) for r in range(3)]
    assert {len(share) for share in shares} == {len(whole)}
    for step, batch in enumerate(whole):
        parts = [share[step] for share in shares]
        assert sum(part.n_labels for part in parts) == batch.n_labels
        pieces = {(t, s): part.ids[q].tolist() for part in parts for t, s, q, _ in rows_of(part)}
        assert pieces == {(t, s): batch.ids[q].tolist() for t, s, q, _ in rows_of(batch)}
    assert any(not len(part.ids) for share in shares for part in share)  # a rank may have no rows left


def test_all_ranks_have_one_state() -> None:
    streams = [batches(rows=4, seed=4, rank=r, ranks=2) for r in range(2)]
    for _ in range(5):
        for stream in streams:
            next(stream)
        assert streams[0].state() == streams[1].state()


def test_an_error_in_the_background_is_raised_where_batches_are_asked_for() -> None:
    broken = SimpleNamespace(xp=np, double_closing=lambda *_: 1 / 0)
    stream = batches(ops=broken, prefetch=2)
    for _ in range(2):  # every call raises it
        with pytest.raises(ZeroDivisionError):
            next(stream)
    stream.close()


def test_closing_ends_the_thread() -> None:
    before = threading.active_count()
    with batches(epochs=None, prefetch=1) as stream:
        next(stream)
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
    stream.close()


def test_a_finished_stream_stays_finished() -> None:
    with batches(prefetch=1) as stream:
        assert list(stream) and not list(stream)


def test_batches_of_a_pool_have_a_new_order_in_every_epoch() -> None:
    """Every example is a batch by itself, so that only the order of the batches is drawn."""
    stream = SizedBatches(
        6, 12, lambda i: 7 + i, lambda rows, _: rows.tolist(), names=("row", "cells"), seed=1, epochs=4
    )
    epochs = [tuple(row for [row] in islice(stream, 6)) for _ in range(4)]
    assert [sorted(epoch) for epoch in epochs] == [[*range(6)]] * 4 and len(set(epochs)) == 4


def test_a_position_beyond_the_batches_of_a_pool_is_refused() -> None:
    """This happens if sentences have become shorter since the position was saved."""

    def stream(size: int) -> SizedBatches:
        return SizedBatches(6, 4, lambda _: size, lambda rows, _: rows, names=("row", "cells"), seed=1, epochs=None)

    longer = stream(2)
    assert [len(next(longer)) for _ in range(2)] == [2, 2]
    with pytest.raises(
        ValueError, match="^batch 3: the data now give only 2 batches here, and gave more when the run began"
    ):
        stream(1).restore(longer.state())


EMPTY = Corpus(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "batch_size must be at least 1, not 0"),
        ({"rank": 2, "ranks": 2}, "rank must be in 0..1, not 2"),
        ({"corpus": EMPTY}, "an empty corpus has no batches"),
        ({"config": replace(CONFIGS[0], model="lstm")}, "unknown model 'lstm'"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(**options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 8}, "taken with seed 8, this is seed 3"),
        ({"trees": [0], "segments": [0]}, "taken with 1 rows a batch, this has 3"),
        ({"corpus": [3, 9]}, "in a corpus of 3 trees and 9 actions, this has 24 trees and "),
        ({"extra": 1}, "not a position in the data"),
    ],
)
def test_a_position_of_other_data_is_refused(change: dict[str, Any], message: str) -> None:
    stream = batches(seed=3)
    with pytest.raises(ValueError, match=message):
        stream.restore(stream.state() | change)


def test_every_seed_has_an_order_of_its_own() -> None:
    """From 2^63 on, a list of seed and epoch would become floats, which hold one of 2,048 such seeds only."""
    orders = {tuple(permutation(20, seed, 0)) for seed in (0, 2**63, 2**63 + 1, 2**63 + 2, 2**64 - 1)}
    assert len(orders) == 5
    small = np.random.Generator(np.random.Philox(key=[7, 3])).permutation(5)
    np.testing.assert_array_equal(permutation(5, 7, 3), small)
