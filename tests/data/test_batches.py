"""Batches hold what the reference's segments say, resume where they stopped, and share out over processes."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accel
from accel.autodiff.arrays import host
from accel.cuda import device
from accel.data.batches.assemble import sequence_lengths
from accel.data.batches.trees import Batch, Batches
from accel.data.corpora.treebank import Corpus, encode_trees
from accel.data.vocabularies.building import build
from accel.verify.arrays import to_numpy
from accel.verify.cuda_host import cupy_array, launcher
from refimpl.transformer_grammars.segments import segments
from refimpl.trees import START, ActionType, Tree, actions, double_closing, words


@dataclass(frozen=True)
class Config:
    model: str = "tg"
    segment_length: int = 5
    memory_length: int = 4
    memory: str = "stack"
    positions: str = "depth"
    relative_min: int = -1
    relative_max: int = 3


CONFIGS = [
    Config(),
    Config(segment_length=1, memory_length=9),
    Config(segment_length=4, memory_length=0),
    Config(segment_length=7, memory_length=2, relative_min=0, relative_max=1),
    Config(segment_length=100),
    Config(memory="shift"),
    Config(segment_length=3, memory_length=7, memory="shift", positions="linear"),
]
TXL_CONFIGS = [
    Config(model=model, segment_length=length, memory_length=depth)
    for model in ("txl_cc", "txl_terminals")
    for length, depth in ((5, 4), (3, 7), (4, 0), (100, 4))
]


def random_tree(rng: np.random.Generator, depth: int = 0) -> Tree:
    children = [
        random_tree(rng, depth + 1) if depth < 5 and rng.random() < 0.5 else str(rng.choice(list("abcde")))
        for _ in range(rng.integers(1, 4))
    ]
    return Tree(str(rng.choice(["S", "NP", "VP"])), tuple(children))


RNG = np.random.default_rng(0)
TREES = [random_tree(RNG) for _ in range(23)] + [Tree("S", ("a",))]
VOCABULARY = build([*TREES, Tree("S", (Tree("NP", ("a",)), Tree("VP", ("a",))))])
CORPUS = encode_trees(TREES, VOCABULARY)


def batches(config: Any = CONFIGS[0], rows: int = 3, corpus: Corpus = CORPUS, **options: Any) -> Batches:
    return Batches(corpus, VOCABULARY, config, rows, **{"ops": accel.load("ref"), "prefetch": 0} | options)


def rows_of(batch: Batch) -> list[tuple[int, int, slice, slice]]:
    q, k = to_numpy(batch.query_offsets).tolist(), to_numpy(batch.key_offsets).tolist()
    return [
        (int(t), int(s), slice(q[b], q[b + 1]), slice(k[b], k[b + 1]))
        for b, (t, s) in enumerate(zip(batch.trees, batch.segment, strict=True))
    ]


def key_contents(batch: Batch, memory: np.ndarray) -> np.ndarray:
    """Let every position hold (tree, position) and return the contents of the keys."""
    here = np.array(
        [(t, s, x) for t, s, q, _ in rows_of(batch) for x in range(q.stop - q.start)], dtype=np.int64
    ).reshape(-1, 3)
    return here if batch.key_order is None else np.concatenate([memory, here])[to_numpy(batch.key_order)]


def reference_rows(tree: Tree, config: Config) -> dict[tuple[int, int], dict[tuple[int, int], int]]:
    """Return for every (segment, row) the (segment, row) it sees, and the row of the relative table."""
    types = [int(kind) for kind in double_closing([START, *actions(tree)])[1]]
    length, depth = config.segment_length, config.memory_length
    memory: list[Any] = [None] * depth
    out: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    parts = segments(types, length, depth, memory=config.memory, positions=config.positions)  # type: ignore[arg-type]
    for s, part in enumerate(parts):
        columns = memory + [(s, x) for x in range(length)]
        for x in range(min(length, len(types) - s * length)):
            out[s, x] = {}
            for column in np.flatnonzero(part.mask[x]):
                relative = int(part.relative[x, column])
                if config.positions == "depth":
                    relative = min(max(relative, config.relative_min), config.relative_max) - config.relative_min
                out[s, x][columns[column]] = relative
        moves = np.concatenate([part.memory_to_memory, part.seq_to_memory], axis=1)
        memory = [columns[row.argmax()] if row.any() else None for row in moves]
    return out


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_allowed_pairs_are_those_of_the_reference(config: Config, backend: ModuleType) -> None:
    """Memory is simulated with positions as contents: every key holds the position of the reference's column."""
    expected = [reference_rows(tree, config) for tree in TREES]
    seen: set[tuple[int, int, int]] = set()
    memory = np.zeros((0, 3), np.int64)
    for batch in batches(config, seed=5, ops=backend):
        contents = key_contents(batch, memory)
        for t, s, q, k in rows_of(batch):
            for x, i in enumerate(range(q.start, q.stop)):
                pairs = slice(int(batch.row_offsets[i]), int(batch.row_offsets[i + 1]))
                keys, relative = to_numpy(batch.keys[pairs]), to_numpy(batch.relative[pairs])
                assert np.all((k.start <= keys) & (keys < k.stop))
                allowed = {
                    (int(contents[key, 1]), int(contents[key, 2])): int(r)
                    for key, r in zip(keys, relative, strict=True)
                }
                assert np.all(contents[keys, 0] == t)
                assert allowed == expected[t][s, x]
                seen.add((t, s, x))
        memory = contents[to_numpy(batch.next_memory)]
    assert seen == {(t, *place) for t, places in enumerate(expected) for place in places}


@pytest.mark.parametrize("config", TXL_CONFIGS, ids=str)
def test_transformer_xl_sees_the_last_positions(config: Config) -> None:
    memory = np.zeros((0, 3), np.int64)
    for batch in batches(config, seed=5):
        contents = key_contents(batch, memory)
        assert batch.row_offsets is batch.keys is batch.relative is None
        for t, s, q, k in rows_of(batch):
            held = contents[k]
            end = s * config.segment_length + q.stop - q.start
            begin = max(0, s * config.segment_length - config.memory_length)
            assert np.all(held[:, 0] == t)
            assert np.array_equal(held[:, 1] * config.segment_length + held[:, 2], np.arange(begin, end))
        memory = contents[to_numpy(batch.next_memory)]


@pytest.mark.parametrize("config", [*CONFIGS, *TXL_CONFIGS], ids=str)
def test_ids_labels_and_types(config: Config) -> None:
    read: dict[int, list[tuple[int, int, bool]]] = {}
    for batch in batches(config, rows=4, seed=2):
        for t, s, q, _ in rows_of(batch):
            assert len(read.setdefault(t, [])) == s * config.segment_length
            read[t] += zip(batch.ids[q].tolist(), batch.labels[q].tolist(), batch.compose[q].tolist(), strict=True)
        assert batch.n_labels == np.sum(batch.labels >= 0)
    lengths = sequence_lengths(CORPUS, config.model)
    symbols = VOCABULARY.symbols
    for t, tree in enumerate(TREES):
        assert len(read[t]) == lengths[t]
        names = [symbols[i] for i, _, _ in read[t]]
        targets = [symbols[i] for _, i, _ in read[t] if i >= 0]
        if config.model == "txl_terminals":
            assert names == [START, *words(tree)] and targets == [*words(tree), "</s>"]
            continue
        assert targets == actions(tree)
        if config.model == "txl_cc":
            assert names == [START, *actions(tree)]
            assert [c for _, _, c in read[t]] == [n.endswith(")") for n in names]
        else:
            doubled, types = double_closing([START, *actions(tree)])
            assert names == doubled
            assert [c for _, _, c in read[t]] == [kind == ActionType.CNT1 for kind in types]
            assert all(label == -1 for _, label, composes in read[t] if composes)


def same(a: Batch, b: Batch) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))


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
        assert all(same(a, b) for a, b in zip(rest, every[k + 1 :], strict=True))


def test_restoring_an_earlier_state_of_the_same_stream() -> None:
    with batches(seed=3, epochs=None, prefetch=3) as stream:
        state = stream.state()
        first = [next(stream) for _ in range(6)]
        stream.restore(state)
        assert all(same(a, next(stream)) for a in first)


def test_every_epoch_shuffles_every_tree_once() -> None:
    orders = []
    for seed in (1, 1, 2):
        met = [t for b in batches(rows=1, seed=seed, epochs=2) for t, s, _, _ in rows_of(b) if s == 0]
        first, second = met[: len(TREES)], met[len(TREES) :]
        assert sorted(first) == sorted(second) == list(range(len(TREES)))
        assert first != second
        orders.append(met)
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
    assert any(not len(part.ids) for share in shares for part in share)  # when only other ranks have rows left


def test_all_ranks_have_one_state() -> None:
    streams = [batches(rows=4, seed=4, rank=r, ranks=2) for r in range(2)]
    for _ in range(5):
        for stream in streams:
            next(stream)
        assert streams[0].state() == streams[1].state()


def test_an_error_in_the_background_is_raised_where_batches_are_asked_for() -> None:
    broken = SimpleNamespace(xp=np, double_closing=lambda *_: 1 / 0)
    stream = batches(ops=broken, prefetch=2)
    for _ in range(2):  # and not once only
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


def test_arrays_go_to_a_gpu_in_one_copy() -> None:
    before, device_ops = device._device, launcher.host_backend()
    try:
        with cupy_array.counted() as counts:
            there = list(batches(ops=device_ops, seed=1))
            result = [{name: host(x) for name, x in vars(batch).items() if hasattr(x, "on_device")} for batch in there]
    finally:
        device.use(before)
    assert cupy_array.totals(counts) == {"kernels": 0, "copies": len(there), "synchronisations": 0}
    for batch, arrays, here in zip(there, result, batches(seed=1), strict=True):
        for name, value in vars(here).items():
            assert np.array_equal(arrays.get(name, getattr(batch, name)), value), name
        assert arrays.keys() >= {"ids", "labels", "next_memory"}
