"""The reference against enumeration: every tree of up to five words, every segment and memory length up to six."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from refimpl import brute, segments, stack_compose
from refimpl.trees import START, Tree, actions, double_closing, tree_from_actions
from tests.strategies import action_sequences, trees

SMALL = [tree for n in range(1, 6) for tree in brute.all_trees([f"w{i}" for i in range(n)])]


def doubled_types(tree: Tree) -> list[int]:
    return [int(t) for t in double_closing([START, *actions(tree)])[1]]


def test_all_trees_are_counted() -> None:
    """BF-1: the little Schroeder numbers, and no tree twice."""
    counts = [len(list(brute.all_trees(["w"] * n))) for n in range(1, 7)]
    assert counts == [1, 1, 3, 11, 45, 197]
    assert len(set(map(str, SMALL))) == len(SMALL)


@pytest.mark.parametrize("n_words", range(1, 6))
def test_attend_sets_by_definition(n_words: int) -> None:
    """SC-1 on every tree, and on every prefix of it."""
    for tree in brute.all_trees(["w"] * n_words):
        types = doubled_types(tree)
        for n in range(1, len(types) + 1):
            assert stack_compose.attend_sets(types[:n]) == brute.attend_sets(types[:n]), tree


@given(sequence=action_sequences(6))
def test_attend_sets_of_drawn_sequences(sequence: list[str]) -> None:
    """SC-1 with unary chains, several roots and unfinished trees, which the list of small trees lacks."""
    types = double_closing(sequence)[1]
    assert stack_compose.attend_sets(types) == brute.attend_sets(types)


@given(sequence=action_sequences(5))
def test_memory_by_definition(sequence: list[str]) -> None:
    """SEG-1 and SEG-2: the columns of the masks point at what the memory holds, and the moves fill it."""
    types = double_closing(sequence)[1]
    sets, depth = brute.attend_sets(types), stack_compose.depths(types)
    for length, size in product((1, 2, 3, 5), (0, 1, 2, 4, 6)):
        held = brute.memories(types, length, size)
        before = [-1] * size
        for tau, segment in enumerate(segments.segments(types, length, size)):
            inside = list(range(tau * length, min((tau + 1) * length, len(types))))
            assert [j for j in before if j >= 0] == held[tau]
            columns = before + inside + [-1] * (length - len(inside))
            for x, i in enumerate(inside):
                seen = {columns[c] for c in np.flatnonzero(segment.mask[x])}
                assert seen == set(sets[i]) & set(held[tau] + inside)
                for c in np.flatnonzero(segment.mask[x]):
                    assert segment.relative[x, c] == depth[i] - depth[columns[c]]
            assert not segment.mask[len(inside) :].any()
            update = np.concatenate([segment.memory_to_memory, segment.seq_to_memory], axis=1)
            before = [columns[int(row.argmax())] if row.any() else -1 for row in update]


@given(tree=trees())
def test_actions_round_trip(tree: Tree) -> None:
    """TREE-2."""
    assert tree_from_actions(actions(tree)) == tree
