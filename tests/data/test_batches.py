"""Batches agree with the segments of the reference, and are sent to a GPU in one copy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.cuda import device
from accel.data.batches.assemble import Batch, sequence_lengths
from accel.verify.arrays import to_numpy
from accel.verify.cuda_host import cupy_array, launcher
from refimpl.transformer_grammars.segments import segments
from refimpl.trees import START, ActionType, Tree, actions, double_closing, words
from tests.fixtures.tree_batches import CONFIGS, CORPUS, TREES, TXL_CONFIGS, VOCABULARY, Config, batches, rows_of


def key_contents(batch: Batch, memory: np.ndarray) -> np.ndarray:
    """Return the contents of the keys, if every position holds (tree, segment, position)."""
    here = np.array(
        [(t, s, x) for t, s, q, _ in rows_of(batch) for x in range(q.stop - q.start)], dtype=np.int64
    ).reshape(-1, 3)
    return here if batch.key_order is None else np.concatenate([memory, here])[to_numpy(batch.key_order)]


def reference_rows(tree: Tree, config: Config) -> dict[tuple[int, int], dict[tuple[int, int], int]]:
    """Return for every (segment, row) the (segment, row) that it sees, and for each its row of the relative table."""
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
    """The memory holds positions instead of vectors, so that every key shows which column of the reference it is."""
    expected = [reference_rows(tree, config) for tree in TREES]
    queries: set[tuple[int, int, int]] = set()
    memory = np.zeros((0, 3), np.int64)
    for batch in batches(config, seed=5, ops=backend):
        contents = key_contents(batch, memory)
        for t, s, q, k in rows_of(batch):
            for x, i in enumerate(range(q.start, q.stop)):
                pairs = slice(int(batch.row_offsets[i]), int(batch.row_offsets[i + 1]))
                keys, relative = to_numpy(batch.keys[pairs]), to_numpy(batch.relative[pairs])
                assert np.all((k.start <= keys) & (keys < k.stop))
                allowed_keys = {
                    (int(contents[key, 1]), int(contents[key, 2])): int(r)
                    for key, r in zip(keys, relative, strict=True)
                }
                assert np.all(contents[keys, 0] == t)
                assert allowed_keys == expected[t][s, x]
                queries.add((t, s, x))
        memory = contents[to_numpy(batch.next_memory)]
    assert queries == {(t, *place) for t, places in enumerate(expected) for place in places}


@pytest.mark.parametrize("config", TXL_CONFIGS, ids=str)
def test_transformer_xl_sees_the_last_positions(config: Config) -> None:
    memory = np.zeros((0, 3), np.int64)
    for batch in batches(config, seed=5):
        contents = key_contents(batch, memory)
        assert batch.row_offsets is batch.keys is batch.relative is None
        for t, s, q, k in rows_of(batch):
            positions = contents[k]
            end = s * config.segment_length + q.stop - q.start
            begin = max(0, s * config.segment_length - config.memory_length)
            assert np.all(positions[:, 0] == t)
            assert np.array_equal(positions[:, 1] * config.segment_length + positions[:, 2], np.arange(begin, end))
        memory = contents[to_numpy(batch.next_memory)]


@pytest.mark.parametrize("config", [*CONFIGS, *TXL_CONFIGS], ids=str)
def test_ids_labels_and_types(config: Config) -> None:
    tokens: dict[int, list[tuple[int, int, bool]]] = {}
    for batch in batches(config, rows=4, seed=2):
        for t, s, q, _ in rows_of(batch):
            assert len(tokens.setdefault(t, [])) == s * config.segment_length
            tokens[t] += zip(batch.ids[q].tolist(), batch.labels[q].tolist(), batch.compose[q].tolist(), strict=True)
        assert batch.n_labels == np.sum(batch.labels >= 0)
    lengths = sequence_lengths(CORPUS, config.model)
    symbols = VOCABULARY.symbols
    for t, tree in enumerate(TREES):
        assert len(tokens[t]) == lengths[t]
        names = [symbols[i] for i, _, _ in tokens[t]]
        targets = [symbols[i] for _, i, _ in tokens[t] if i >= 0]
        if config.model == "txl_terminals":
            assert names == [START, *words(tree)] and targets == [*words(tree), "</s>"]
            continue
        assert targets == actions(tree)
        if config.model == "txl_cc":
            assert names == [START, *actions(tree)]
            assert [c for _, _, c in tokens[t]] == [n.endswith(")") for n in names]
        else:
            doubled, types = double_closing([START, *actions(tree)])
            assert names == doubled
            assert [c for _, _, c in tokens[t]] == [kind == ActionType.CNT1 for kind in types]
            assert all(label == -1 for _, label, composes in tokens[t] if composes)


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
