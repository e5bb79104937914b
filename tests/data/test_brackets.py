"""Brackets: any text either parses and round-trips or is refused by name, at any depth; tags and traces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.files.brackets import read_trees, without_function_tags, without_preterminals, without_traces
from accel.verify.strategies import trees
from refimpl.trees import ActionType, Tree, TreeError, action_type, actions, spans, tree_from_actions, words

WRITTEN = ["(", ")", "(S", "(NP-SBJ", "(-NONE-", "bird", "*T*", " ", "\n", "\t", "\u00a0", "ü", "(S bird)"]
PIECES = st.sampled_from(WRITTEN)
TEXTS = st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=20).map("".join))


@given(text=TEXTS)
def test_any_text(text: str) -> None:
    """TREE-4 L1."""
    lines = text.split("\n")
    try:
        result = list(read_trees(lines))
    except TreeError as error:
        assert 1 <= error.line <= len(lines) and error.column >= 1 and error.reason
    else:
        assert list(read_trees(map(str, result))) == result
        for tree in result:
            assert tree_from_actions(actions(tree)) == tree


@given(text=TEXTS)
def test_any_text_with_everything_dropped(text: str) -> None:
    """TREE-4 L1 with all switches that drop parts of a tree."""
    switches = {"drop_traces": True, "drop_function_tags": True, "drop_preterminals": True}
    try:
        result = list(read_trees(text.split("\n"), **switches))
    except TreeError:
        return
    assert list(read_trees(map(str, result))) == result


@given(tree=trees())
def test_what_is_left(tree: Tree) -> None:
    """TREE-6 L1 and L2."""
    for change in (without_preterminals, without_traces, without_function_tags):
        once = change(tree)
        assert once is not None and words(once) == words(tree)
    assert without_preterminals(tagged_words(tree)) == tree
    tagged = Tree("S-X", (Tree("-NONE-", ("*",)), tree, Tree("NN=2", ("bird",))))
    assert words(without_traces(tagged) or tagged) == [*words(tree), "bird"]
    assert without_traces(Tree("S", (Tree("-NONE-", ("*",)),))) is None
    assert [label for label, _, _ in spans(without_function_tags(tagged))][0] == "S"
    assert without_function_tags(without_function_tags(tagged)) == without_function_tags(tagged)


def tagged_words(tree: Tree) -> Tree:
    """Return the tree with a tag over every word."""
    sequence = [b for a in actions(tree) for b in (["(TAG", a, "TAG)"] if action_type(a) == ActionType.T else [a])]
    return tree_from_actions(sequence)


def test_deep_trees() -> None:
    """TREE-4 L2: a deep tree needs no recursion."""
    depth = 100_000
    (tree,) = read_trees(["(S " * depth + "bird" + ")" * depth])
    assert len(spans(tree)) == depth and str(tree).count("(") == depth
    assert without_preterminals(tree) != tree and without_traces(tree) == tree == without_function_tags(tree)


def test_a_tree_may_run_over_several_lines() -> None:
    """TREE-4."""
    lines = ["(S (NP the", "bird)", "", " (VP sings))", "(X y)"]
    assert [str(t) for t in read_trees(lines)] == ["(S (NP the bird) (VP sings))", "(X y)"]
    with pytest.raises(TreeError, match=r"line 2, column 1: unclosed bracket: \(S"):
        list(read_trees(["(S a)", "(S (NP a)", "(S b)"]))
