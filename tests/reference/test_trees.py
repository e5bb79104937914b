"""Trees and actions: actions build the tree that they are the actions of, or are refused by name, at any depth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import action_sequences, trees
from refimpl.trees import (
    START,
    ActionType,
    Tree,
    TreeError,
    action_type,
    actions,
    double_closing,
    spans,
    tree_from_actions,
    words,
)


def test_types() -> None:
    """TREE-1."""
    symbols = [START, "(NP", "bird", "NP)", "-LRB-", "a-b"]
    assert [action_type(a).name for a in symbols] == ["ONT", "ONT", "T", "CNT1", "T", "T"]
    assert [int(t) for t in ActionType] == [0, 1, 2, 3]


@given(sequence=st.lists(st.sampled_from(["(S", "S)", "(NP", "NP)", "bird", "(", ")", START, "a b", ""]), max_size=8))
def test_any_actions(sequence: list[str]) -> None:
    """TREE-2: a sequence is refused, or builds a tree whose actions are this sequence."""
    try:
        tree = tree_from_actions(sequence)
    except TreeError as error:
        assert error.line == 0 and 1 <= error.column <= len(sequence) + 1
    else:
        assert actions(tree) == sequence


@given(tree=trees())
def test_spans(tree: Tree) -> None:
    """TREE-5 L1."""
    labelled_spans, types = spans(tree), [action_type(action) for action in actions(tree)]
    assert len(labelled_spans) == types.count(ActionType.ONT) and len(words(tree)) == types.count(ActionType.T)
    assert labelled_spans[0] == (tree.label, 0, len(words(tree)) - 1)
    assert not any(i < a <= j < b for _, i, j in labelled_spans for _, a, b in labelled_spans)


@given(sequence=action_sequences())
def test_doubling(sequence: list[str]) -> None:
    """TREE-3 L1."""
    doubled, types = double_closing(sequence)
    assert [a for a, t in zip(doubled, types, strict=True) if t != ActionType.CNT2] == sequence


def test_deep_trees() -> None:
    """TREE-2 L2: trees of any depth work, without recursion."""
    depth = 100_000
    tree = tree_from_actions(["(S"] * depth + ["bird"] + ["S)"] * depth)
    assert tree == tree_from_actions(actions(tree)) and hash(tree) == hash(tree_from_actions(actions(tree)))
    assert len(spans(tree)) == depth and str(tree).count("(") == depth
