"""The reference agrees with enumeration: of trees of few words, of small segments, of orders of few distances."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import action_sequences, floats, seeds, trees
from refimpl import brute
from refimpl.fasttrees.distance_trees import distance_trees
from refimpl.gpst import inside_outside, pruned_chart
from refimpl.transformer_grammars import segments, stack_compose
from refimpl.treeformer import cky_pooling
from refimpl.trees import START, ActionType, Tree, actions, double_closing, spans, tree_from_actions

SMALL = [tree for n in range(1, 6) for tree in brute.all_trees([f"w{i}" for i in range(n)])]


def doubled_types(tree: Tree) -> list[int]:
    return [int(t) for t in double_closing([START, *actions(tree)])[1]]


def test_all_trees_are_counted() -> None:
    """BF-1: there are as many as the little Schroeder numbers, and no tree twice."""
    counts = [len(list(brute.all_trees(["w"] * n))) for n in range(1, 7)]
    assert counts == [1, 1, 3, 11, 45, 197]
    assert len(set(map(str, SMALL))) == len(SMALL)


@pytest.mark.parametrize("n_words", range(1, 6))
def test_attend_sets_by_definition(n_words: int) -> None:
    """SC-1 holds for every tree, and for every prefix of its actions."""
    for tree in brute.all_trees(["w"] * n_words):
        types = doubled_types(tree)
        for n in range(1, len(types) + 1):
            assert stack_compose.attend_sets(types[:n]) == brute.attend_sets(types[:n]), tree


@given(tree=trees())
def test_a_word_attends_to_the_children_of_what_is_around_it(tree: Tree) -> None:
    """SC-1 L5: a word sees the word children of all constituents around it, not only its siblings."""
    types = doubled_types(tree)
    open_now, around = [], dict[int, tuple[int, ...]]()  # the constituents around a word, the innermost last
    for i, action_type in enumerate(types):
        if action_type == ActionType.ONT:
            open_now.append(i)
        elif action_type == ActionType.T:
            around[i] = tuple(open_now)
        elif action_type == ActionType.CNT1:
            open_now.pop()
    for i, row in enumerate(stack_compose.attend_sets(types)):
        if i in around:
            assert [j for j in row if j in around] == [j for j in around if j <= i and around[j][-1] in around[i]]


@given(sequence=action_sequences(6))
def test_attend_sets_of_drawn_sequences(sequence: list[str]) -> None:
    """SC-1 holds with unary chains, several roots and unfinished trees, which small trees do not have."""
    types = double_closing(sequence)[1]
    assert stack_compose.attend_sets(types) == brute.attend_sets(types)


@given(sequence=action_sequences(5))
def test_memory_by_definition(sequence: list[str]) -> None:
    """SEG-1 and SEG-2: the mask's columns are the positions in memory; the moves fill the next memory."""
    types = double_closing(sequence)[1]
    sets, depth = brute.attend_sets(types), stack_compose.depths(types)
    for length, size in product((1, 2, 3, 5), (0, 1, 2, 4, 6)):
        memories = brute.memories(types, length, size)
        before = [-1] * size
        for tau, segment in enumerate(segments.segments(types, length, size)):
            inside = list(range(tau * length, min((tau + 1) * length, len(types))))
            assert [j for j in before if j >= 0] == memories[tau]
            columns = before + inside + [-1] * (length - len(inside))
            for x, i in enumerate(inside):
                positions = {columns[c] for c in np.flatnonzero(segment.mask[x])}
                assert positions == set(sets[i]) & set(memories[tau] + inside)
                for c in np.flatnonzero(segment.mask[x]):
                    assert segment.relative[x, c] == depth[i] - depth[columns[c]]
            assert not segment.mask[len(inside) :].any()
            update = np.concatenate([segment.memory_to_memory, segment.seq_to_memory], axis=1)
            before = [columns[int(row.argmax())] if row.any() else -1 for row in update]


@given(st.lists(trees(), min_size=2, max_size=4))
def test_the_order_of_the_sentences_of_a_document_is_lost(sentences: list[Tree]) -> None:
    """SC-4 L2."""
    types = doubled_types(Tree("DOC", (*sentences, "w")))  # after the start symbol and (DOC the sentences, then a word
    sizes = [len(doubled_types(sentence)) - 1 for sentence in sentences]
    composed = np.cumsum(sizes).tolist()  # the CNT1 of every sentence: its last position but one
    word = 2 + sum(sizes)
    assert types[word] == ActionType.T and all(types[i] == ActionType.CNT1 for i in composed)
    assert stack_compose.attend_sets(types)[word] == [0, 1, *composed, word]
    assert stack_compose.relative_positions(types)[word, composed].tolist() == [0] * len(sentences)


@given(tree=trees())
def test_actions_round_trip(tree: Tree) -> None:
    """TREE-2."""
    assert tree_from_actions(actions(tree)) == tree


def binary_trees(n: int) -> list[Tree]:
    """Return all binary trees over n >= 2 words; their numbers are the Catalan numbers 1, 2, 5, 14, ..."""
    every = brute.all_trees([f"w{i}" for i in range(n)])
    return [tree for tree in every if len(spans(tree)) == n - 1]


def splits(tree: Tree) -> list[tuple[int, int, int]]:
    """Return (first word, first word of the right child, last word) of every node with two children."""
    nodes = [(i, j) for _, i, j in spans(tree)]
    inside = {*nodes, *((i, i) for i in range(len(nodes) + 1))}
    return [(i, k, j) for i, j in nodes for k in range(i + 1, j + 1) if {(i, k - 1), (k, j)} <= inside]


@pytest.mark.parametrize("n", range(2, 6))
def test_unbiased_tree_is_the_only_consistent_one(n: int) -> None:
    """FT-8 L2 and L4: they hold for all orders of distances, ties included."""
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
        assert consistent == [distance_trees(words, distances, "unbiased")]
        assert consistent == [distance_trees(words, [99, *distances[1:]], "unbiased")]


@given(distances=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_spans_end_at_greater_distances(distances: list[int]) -> None:
    """FT-8: the spans follow directly from the distances.

    A word's node ends before the next greater distance, and begins after the last one that is as great.
    """
    n = len(distances)
    expected: dict[str, set[tuple[int, int]]] = {"biased": set(), "unbiased": set()}
    for i, d in enumerate(distances):
        end = next((t for t in range(i + 1, n) if distances[t] > d), n) - 1
        start = next((t for t in range(i - 1, -1, -1) if distances[t] >= d), -1) + 1
        expected["biased"] |= {(start, end), (i, end)}
        first = next((t for t in range(i - 1, 0, -1) if distances[t] >= d), 0)
        expected["unbiased"] |= {(first, end)} if i else set()
    words = [f"w{i}" for i in range(n)]
    for split, pairs in expected.items():
        tree = distance_trees(words, distances, split)
        assert {(i, j) for _, i, j in spans(tree) if i < j} == {(i, j) for i, j in pairs if i < j}
        stretched = distance_trees(words, [math.exp(d) - 50 for d in distances], split)
        assert tree == stretched


@pytest.mark.parametrize("split", ["biased", "unbiased"])
def test_equal_distances_branch_to_the_right(split: str) -> None:
    """FT-8 L3."""
    tree = distance_trees(["a", "b", "c", "d"], [1, 1, 1, 1], split)
    assert str(tree) == "(X a (X b (X c d)))"


@pytest.mark.parametrize("n", range(1, 7))
def test_binary_trees_are_counted(n: int) -> None:
    """BF-4 L1; they are the trees of BF-1 in which all nodes have two children."""
    node_sets = [frozenset(tree) for tree in brute.binary_trees(0, n - 1)]
    assert len(set(node_sets)) == len(node_sets) == math.comb(2 * n - 2, n - 1) // n
    if n > 1:
        assert set(node_sets) == {frozenset((i, k - 1, j) for i, k, j in splits(tree)) for tree in binary_trees(n)}


def chart_parameters(seed: int, d: int, sharpness: float) -> dict[str, np.ndarray]:
    shapes = cky_pooling.parameter_shapes(d)
    parameters = {name: floats("unit", seed + k, *shape) for k, (name, shape) in enumerate(shapes.items())}
    return parameters | {"w": sharpness * parameters["w"]}


drawn_charts = given(
    seed=seeds, n=st.integers(1, 6), d=st.integers(1, 3), sharpness=st.sampled_from([0.0, 0.1, 1.0, 30.0])
)


@drawn_charts
def test_chart_by_algorithm_1(seed: int, n: int, d: int, sharpness: float) -> None:
    """CKY-3 L6, BF-4 L2."""
    tokens, parameters = floats("unit", seed, n, d), chart_parameters(seed, d, sharpness)
    for (i, j), r in cky_pooling.cky_pool(tokens, parameters).vectors.items():
        np.testing.assert_allclose(r, brute.phrase(tokens, parameters, i, j), rtol=1e-7, atol=1e-8)


@drawn_charts
def test_chart_is_a_sum_over_trees(seed: int, n: int, d: int, sharpness: float) -> None:
    """CKY-3 L5: the root is a sum over trees, each composed without pooling, times its splits' weights.

    CKY-2 L2: if w = 0, the weights of a node's splits are equal.
    """
    tokens, parameters = floats("unit", seed, n, d), chart_parameters(seed, d, sharpness)
    chart = cky_pooling.cky_pool(tokens, parameters)
    expected, total = np.zeros(d), 0.0
    for tree in brute.binary_trees(0, n - 1):
        share = math.prod(float(chart.weights[i, j][k - i]) for i, k, j in tree)
        if sharpness == 0:
            assert share == pytest.approx(math.prod(1 / (j - i) for i, _, j in tree))
        total += share
        for t in range(n):
            x = tokens[t]
            for i, k, j in sorted(tree, key=lambda split: split[2] - split[0]):  # from the token up to the root
                if i <= t <= j:
                    x = x @ (parameters["compose"][:d] if t <= k else parameters["compose"][d:])
            expected += share * x
    assert total == pytest.approx(1)
    np.testing.assert_allclose(chart.vectors[0, n - 1], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("n", range(1, 6))
def test_parse_is_the_only_consistent_tree(n: int) -> None:
    """CKY-4 L2 to L4: ties are included; only the order of the weights matters."""
    draw = np.random.default_rng(n)
    for _ in range(40):
        phrases = [(i, i + h) for h in range(1, n) for i in range(n - h)]
        weights = {(i, j): draw.integers(0, 3, j - i).astype(float) for i, j in phrases}
        consistent = [
            tree
            for tree in brute.binary_trees(0, n - 1)
            if all(list(weights[i, j]).index(max(weights[i, j])) == k - i for i, k, j in tree)
        ]
        parse = cky_pooling.chart_trees(cky_pooling.Chart(n, {}, weights))
        nodes = {(i, j) for _, i, j in spans(parse) if i < j}
        assert [{(i, j) for i, _, j in tree} for tree in consistent] == [nodes]
        stretched = {span: np.exp(9 * of_span) - 5 for span, of_span in weights.items()}
        assert cky_pooling.chart_trees(cky_pooling.Chart(n, {}, stretched)) == parse
    equal = cky_pooling.Chart(n, {}, {(i, j): np.ones(j - i) for i, j in phrases})
    assert [(i, j) for _, i, j in spans(cky_pooling.chart_trees(equal)) if i < j] == [(i, n - 1) for i in range(n - 1)]


def cells_from_the_root(merge_order: tuple[int, ...] | list[int], n: int, window: int) -> dict[tuple[int, int], list]:
    """Return the cells of a pruned chart, top-down: a cell may split at its points that are merged last."""
    agenda, cells = [(0, n - 1)], {}
    while agenda:
        i, j = agenda.pop()
        if i < j and (i, j) not in cells:
            cells[i, j] = sorted(sorted(range(i, j), key=merge_order.index)[-window:])
            agenda += [part for k in cells[i, j] for part in ((i, k), (k + 1, j))]
    return cells


@pytest.mark.parametrize("n", range(1, 7))
def test_pruned_chart_from_the_root(n: int) -> None:
    """PC-2 L4: it holds for all orders of few words, and for all windows."""
    for order, window in product(permutations(range(n - 1)), range(1, n + 1)):
        assert pruned_chart.pruned_chart(order, n, window).cells == cells_from_the_root(order, n, window)


@given(order=st.integers(7, 30).flatmap(lambda n: st.permutations(range(n - 1))), window=st.integers(1, 8))
def test_longer_pruned_chart_from_the_root(order: list[int], window: int) -> None:
    """PC-2 L4: it holds for longer sentences."""
    n = len(order) + 1
    assert pruned_chart.pruned_chart(order, n, window).cells == cells_from_the_root(order, n, window)


@given(seed=seeds, n=st.integers(1, 6), window=st.integers(1, 6))
def test_induced_tree_is_the_only_consistent_one(seed: int, n: int, window: int) -> None:
    """IO-5 L1: of all binary trees only one has the best split everywhere, ties included."""
    draw = np.random.default_rng(seed)
    chart = pruned_chart.pruned_chart(draw.permutation(n - 1).tolist(), n, window)
    scores = {span: draw.integers(0, 3, len(splits)).astype(float) for span, splits in chart.cells.items()}
    best = {span: splits[int(np.argmax(scores[span]))] for span, splits in chart.cells.items()}
    consistent = [tree for tree in brute.binary_trees(0, n - 1) if all(best.get((i, j)) == k for i, k, j in tree)]
    assert consistent == [inside_outside.induced_tree(chart, scores)]
