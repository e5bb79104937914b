"""Trees and proposals in memory are read in the same way as those in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.data.corpora.gathered import given_proposals
from accel.data.corpora.sequences import read_given, read_whole
from accel.data.corpora.treebank import Reading
from accel.data.files.lines import LineError
from refimpl.trees import Tree

TAGGED = ["(S (NP-SBJ (DT the) (NN dog)) (VP (-NONE- *) (VB sees)))", "(S (NP (NN dogs)))"]


@pytest.mark.parametrize(
    "reading",
    [
        Reading(),
        Reading(drop_traces=True, drop_function_tags=True, drop_preterminals=True),
        Reading(drop_preterminals=True, documents="blank"),
    ],
)
def test_trees_are_read_as_from_a_file(tmp_path: Path, reading: Reading) -> None:
    (tmp_path / "trees").write_text("\n\n".join(TAGGED))
    expected = [sentence.tree for sentence in read_whole(tmp_path / "trees", reading)]
    assert [sentence.tree for sentence in read_given(TAGGED, reading)] == expected
    whole = [next(read_given([text], Reading())).tree for text in TAGGED]
    assert [sentence.tree for sentence in read_given(whole, reading)] == expected


def test_a_tree_needs_no_list() -> None:
    """Once, a string was read letter by letter."""
    for tree in (TAGGED[0], next(read_given(TAGGED, Reading())).tree):
        [sentence] = read_given(tree, Reading())
        assert str(sentence.tree) == TAGGED[0]
    assert given_proposals(TAGGED[0], None, Reading()).n_words == given_proposals(TAGGED[:1], None, Reading()).n_words
    assert given_proposals(None, ["(S a)", ["(S a)"]], Reading()).n_words == [1, 1]


def test_documents_are_taken_whole() -> None:
    document = Tree("DOC", (Tree("S", ("a",)), Tree("S", ("b",))))
    [sentence] = read_given([document], Reading(documents="blank"))
    assert sentence.tree == document


def test_proposals_in_memory() -> None:
    trees = ["(S a (NP b))", "(S (NP a) b)"]
    sentences = given_proposals(None, [[trees[0], trees[0], trees[1]], []], Reading())
    assert [[str(x.tree) for x in group] for group in sentences.proposals] == [trees, []]
    assert sentences.n_words == [2, None] and sentences.reasons == ["", "no proposals"]
    with pytest.raises(ValueError, match="the model reads documents: give a file of proposals"):
        given_proposals(None, [trees], Reading(documents="blank"))

    for other, message in (
        ("(S a b", "trees:2:1: unclosed bracket.*, in sentence 2"),
        ("(S a b c)", "trees:2: other words than the first tree of sentence 2 has"),
    ):
        with pytest.raises(LineError, match=message):
            given_proposals(None, [trees, [trees[0], other]], Reading())


@pytest.mark.parametrize(
    ("trees", "number", "reason"),
    [
        (["(S a)", "(S (NP a)"], 2, "unclosed bracket"),
        (["(S a) (S b)"], 1, "2 trees in one string: give each by itself"),
        (["(S a)", ""], 2, "0 trees in one string"),
    ],
)
def test_wrong_trees_have_their_number(trees: list[str], number: int, reason: str) -> None:
    with pytest.raises(LineError, match=reason) as error:
        list(read_given(trees, Reading()))
    assert error.value.line == number
