"""Rows of the table for the structure of Transformer Grammars: doubled actions, sets of keys, segments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import laws
from accel.verify.compare import assert_offsets
from accel.verify.op import Case, Example, Op, Outputs, Spoiler, joined, lists_of, offsets_of, pieces, row_too_many
from accel.verify.strategies import action_sequences, make_tree, position_types
from refimpl import trees
from refimpl.transformer_grammars import segments as ref_segments
from refimpl.transformer_grammars import stack_compose
from refimpl.trees import ActionType


def csr(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([len(s) for s in sets]), np.array([j for s in sets for j in s], int)


def ref_double_closing(shared: Example, example: Example, start: int) -> Outputs:
    doubled, types = trees.double_closing(example["actions"])
    source = np.cumsum([t != ActionType.CNT2 for t in types]) - 1
    return np.array(types), source


def batched_actions(case: Case) -> dict[str, Any]:
    types = [[trees.action_type(a) for a in e["actions"]] for e in case.examples]
    return {"types": joined(types, np.int8), "offsets": offsets_of([len(t) for t in types])}


def split_double_closing(outputs: Outputs, case: Case) -> list[Outputs]:
    types, source, offsets = outputs
    assert_offsets(offsets, len(case.examples), len(types), "TREE-3 double_closing, output 2")
    starts, lengths = offsets_of([len(e["actions"]) for e in case.examples]), np.diff(offsets).tolist()
    parts = zip(pieces(types, lengths), pieces(source, lengths), starts[:-1], strict=True)
    return [(types_of, source_of - start) for types_of, source_of, start in parts]


def batched_types(case: Case) -> dict[str, Any]:
    parts = [e["types"] for e in case.examples]
    order = [k for k in ("segment_length", "memory_length", "memory", "positions") if k in case.shared]
    lengths = [len(p) for p in parts]
    return {"types": joined(parts, np.int8), "offsets": offsets_of(lengths), **{k: case.shared[k] for k in order}}


def ref_attend_sets(shared: Example, example: Example, start: int) -> Outputs:
    types = example["types"]
    sets, relative = stack_compose.attend_sets(types), stack_compose.relative_positions(types)
    rows = np.array([relative[i, j] for i, keys in enumerate(sets) for j in keys], int)
    return (*csr(sets), rows, np.array(stack_compose.depths(types)))


def split_rows(outputs: Outputs, lengths: list[int], what: str) -> list[list[np.ndarray]]:
    """Cut row offsets and arrays of edges into [sizes, arrays of edges ...] of every example; `what` names the op."""
    row_offsets, *per_edge = outputs
    assert_offsets(row_offsets, sum(lengths), len(per_edge[0]), f"{what}, output 0")
    sizes = pieces(np.diff(row_offsets), lengths)
    edges = [int(s.sum()) for s in sizes]
    return [list(parts) for parts in zip(sizes, *(pieces(x, edges) for x in per_edge), strict=True)]


def split_attend_sets(outputs: Outputs, case: Case) -> list[Outputs]:
    lengths = [len(e["types"]) for e in case.examples]
    rows, depths = split_rows(outputs[:3], lengths, "SC-1 attend_sets"), pieces(outputs[3], lengths)
    return [(*rows_of, depth) for rows_of, depth in zip(rows, depths, strict=True)]


def ref_segment_rows(shared: Example, example: Example, start: int) -> Outputs:
    types, length = example["types"], shared["segment_length"]
    parts = ref_segments.segments(types, length, shared["memory_length"], memory=shared["memory"],
                                  positions=shared["positions"])  # fmt: skip
    masks = np.concatenate([p.mask for p in parts])[: len(types)]
    relative = np.concatenate([p.relative for p in parts])[: len(types)]
    moves = [np.concatenate([p.memory_to_memory, p.seq_to_memory], axis=1) for p in parts]
    columns = np.array([[row.argmax() if row.any() else -1 for row in move] for move in moves], int)
    return masks.sum(axis=1), np.nonzero(masks)[1], relative[masks], columns.reshape(len(parts), -1)


def split_segments(outputs: Outputs, case: Case) -> list[Outputs]:
    lengths = [len(e["types"]) for e in case.examples]
    assert_offsets(outputs[3], len(lengths), len(outputs[4]), "SEG-1 segments, output 3")
    rows, moves = split_rows(outputs[:3], lengths, "SEG-1 segments"), pieces(outputs[4], np.diff(outputs[3]).tolist())
    return [(*rows_of, move) for rows_of, move in zip(rows, moves, strict=True)]


types_examples = position_types().map(lambda types: {"types": [int(t) for t in types]})


MEMORIES = (("stack", "depth"), ("shift", "depth"), ("shift", "linear"))


@st.composite
def segment_cases(draw: Callable) -> Case:
    memory, positions = draw(st.sampled_from(MEMORIES))
    shared = {"segment_length": draw(st.integers(1, 7)), "memory_length": draw(st.integers(0, 7)),
              "memory": memory, "positions": positions}  # fmt: skip
    return Case(shared, draw(st.lists(types_examples, min_size=1, max_size=3)))


def sequence_types(b: int, words: int) -> list[ActionType]:
    return trees.double_closing([trees.START, *trees.actions(make_tree("random", words, b))])[1]


def types_of_sizes(sequences: int = 2, words: int = 4) -> Case:
    lengths = [*(1 + b % 3 for b in range(sequences - 1)), words]
    return Case({}, [{"types": [int(t) for t in sequence_types(b, n)]} for b, n in enumerate(lengths)])


def actions_of_sizes(sequences: int = 2, words: int = 4) -> Case:
    lengths = [*(1 + b % 3 for b in range(sequences - 1)), words]
    examples = [[trees.START, *trees.actions(make_tree("random", n, b))] for b, n in enumerate(lengths)]
    return Case({}, [{"actions": actions} for actions in examples])


def segments_of_sizes(
    kind: str, positions: str, sequences: int = 2, words: int = 4, segment: int = 4, memory: int = 5
) -> Case:
    """Sequences that are longer than the segment or the memory, if these are long."""
    shared = {"segment_length": segment, "memory_length": memory, "memory": kind, "positions": positions}
    return Case(shared, types_of_sizes(sequences, max(words, segment - 4, memory - 5)).examples)


def spoiled_types(position: int, kind: int) -> Spoiler:
    def spoil(arguments: dict[str, Any]) -> dict[str, Any]:
        types = np.array([0, 0, 1, 2, 3], np.int8)
        types[position] = kind
        return arguments | {"types": types, "offsets": np.array([0, 5], np.int64)}

    return spoil


ROW_TOO_MANY = ("offsets", row_too_many("types"))
ILL_FORMED = (
    ("sequence 0|position 0", spoiled_types(0, 1)),
    ("sequence 0|position 2", spoiled_types(2, 9)),
    ("sequence 0|position 3", spoiled_types(1, 1)),
    ("sequence 0|position 4", spoiled_types(4, 1)),
    ROW_TOO_MANY,
)

STRUCTURE = (
    Op(
        "double_closing", "trees", "TREE-3",
        lists_of(action_sequences().map(lambda sequence: {"actions": sequence})),
        ref_double_closing, batched_actions, split_double_closing, exact=True, sized=(actions_of_sizes,),
        errors=(("sequence 0|position 2", spoiled_types(2, 9)), ROW_TOO_MANY),
    ),
    Op(
        "attend_sets", "stack_compose", "SC-1", lists_of(types_examples),
        ref_attend_sets, batched_types, split_attend_sets, exact=True, errors=ILL_FORMED, sized=(types_of_sizes,),
        laws=(laws.attends_to_itself, laws.attends_to_the_past, laws.composition_hides_its_parts),
    ),
    Op(
        "segments", "segments", "SEG-1", segment_cases(),
        ref_segment_rows, batched_types, split_segments, exact=True,
        laws=(laws.columns_inside,), sized=tuple(partial(segments_of_sizes, *x) for x in MEMORIES),
        errors=(
            *ILL_FORMED,
            ("segment_length", lambda a: a | {"segment_length": 0}),
            ("memory_length", lambda a: a | {"memory_length": -1}),
            ("linear", lambda a: a | {"memory": "stack", "positions": "linear"}),
        ),
    ),
)  # fmt: skip
