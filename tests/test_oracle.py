"""The reference against enumeration: all trees of few words, all small segments, all orders of few distances."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl import brute, fasttrees, segments, stack_compose
from refimpl.trees import START, Tree, actions, double_closing, spans, tree_from_actions
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


def binary_trees(n: int) -> list[Tree]:
    """Return all binary trees over n words, n >= 2: the Catalan numbers 1, 2, 5, 14, ..."""
    every = brute.all_trees([f"w{i}" for i in range(n)])
    return [tree for tree in every if len(spans(tree)) == n - 1]


def splits(tree: Tree) -> list[tuple[int, int, int]]:
    """Return (first word, first word of the right child, last word) of every node."""
    nodes = [(i, j) for _, i, j in spans(tree)]
    inside = {*nodes, *((i, i) for i in range(len(nodes) + 1))}
    return [(i, k, j) for i, j in nodes for k in range(i + 1, j + 1) if {(i, k - 1), (k, j)} <= inside]


@pytest.mark.parametrize("n", range(2, 6))
def test_unbiased_tree_is_the_only_consistent_one(n: int) -> None:
    """FT-8 L2 and L4, with all orders of distances, ties included."""
    trees = binary_trees(n)
    assert len(trees) == math.comb(2 * n - 2, n - 1) // n
    for distances in product(range(3), repeat=n) if n < 5 else permutations(range(n)):
        consistent = [
            tree
            for tree in trees
            if all(distances[a] < distances[k] for i, k, j in splits(tree) for a in range(i + 1, k))
            and all(distances[a] <= distances[k] for i, k, j in splits(tree) for a in range(k, j + 1))
        ]
        words = [f"w{i}" for i in range(n)]
        assert consistent == [fasttrees.tree_from_distances(words, distances, "unbiased")]
        assert consistent == [fasttrees.tree_from_distances(words, [99, *distances[1:]], "unbiased")]


@given(distances=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_spans_end_at_greater_distances(distances: list[int]) -> None:
    """FT-8: without recursion, a word's node reaches to the next greater distance, and back to one as great."""
    n = len(distances)
    expected: dict[str, set[tuple[int, int]]] = {"biased": set(), "unbiased": set()}
    for i, d in enumerate(distances):
        end = next((t for t in range(i + 1, n) if distances[t] > d), n) - 1
        start = next((t for t in range(i - 1, -1, -1) if distances[t] >= d), -1) + 1
        expected["biased"] |= {(start, end), (i, end)}
        cut = next((t for t in range(i - 1, 0, -1) if distances[t] >= d), 0)
        expected["unbiased"] |= {(cut, end)} if i else set()
    words = [f"w{i}" for i in range(n)]
    for split, wanted in expected.items():
        tree = fasttrees.tree_from_distances(words, distances, split)
        assert {(i, j) for _, i, j in spans(tree) if i < j} == {(i, j) for i, j in wanted if i < j}
        stretched = fasttrees.tree_from_distances(words, [math.exp(d) - 50 for d in distances], split)
        assert tree == stretched


@pytest.mark.parametrize("split", ["biased", "unbiased"])
def test_equal_distances_branch_to_the_right(split: str) -> None:
    """FT-8 L3."""
    tree = fasttrees.tree_from_distances(["a", "b", "c", "d"], [1, 1, 1, 1], split)
    assert str(tree) == "(X a (X b (X c d)))"
