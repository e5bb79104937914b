"""Trees as labelled spans: a tree is the same after the way there and back; sentences left out are counted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.autodiff.arrays import host
from accel.data.batches.constituents import assemble, encode_bracketed, n_batches, parser_batches, span_number
from accel.data.corpora.constituents import Bracketed, bracketed, constituents, read_bracketed, tree_of
from accel.data.corpora.treebank import Reading
from accel.data.files.lines import LineError
from accel.data.vocabularies.affixes import AFFIXES, affixes_of
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import END_ID, START_ID, Vocabulary
from accel.verify.strategies import trees
from refimpl.trees import Tree, words
from tests.fixtures.cpu_backend import CPU

READING = Reading(drop_preterminals=True)
TREES = """(S (NP (DT the) (NN bird)) (VP (VBZ sings)))
(S (S (VP (VB go))))
(S (NP (DT the) (NN bird)) (VP (VBZ sees) (NP (PRP it))))
"""


def sentences_of(*gold: Tree) -> list[Bracketed]:
    return [Bracketed(words(tree), constituents(tree), line) for line, tree in enumerate(gold, 1)]


def vocabulary_of(sentences: list[Bracketed], kind: str = "words") -> Vocabulary:
    chains = sorted({chain for sentence in sentences for chain, _, _ in sentence.constituents})
    return build_of_words([sentence.words for sentence in sentences], kind, None, tuple(chains))


@given(trees(), st.integers(0, 99))
def test_a_tree_is_its_constituents(tree: Tree, seed: int) -> None:
    labelled_spans = constituents(tree)
    assert len({(i, j) for _, i, j in labelled_spans}) == len(labelled_spans)
    random.Random(seed).shuffle(labelled_spans)
    assert tree_of(labelled_spans, words(tree)) == tree and bracketed(labelled_spans, words(tree)) == str(tree)


def test_chains_of_any_depth() -> None:
    chain = " ".join(["S", *["U"] * 5000])
    tree = tree_of([(chain, 0, 1)], ["a", "b"])
    assert constituents(tree) == [(chain, 0, 1)] and str(tree).count("(U") == 5000


def test_spans_are_numbered_by_length_and_from_left_to_right() -> None:
    for n in range(1, 9):
        spans = [(i, i + more) for more in range(n) for i in range(n - more)]
        assert [span_number(n, i, j) for i, j in spans] == list(range(len(spans)))


def test_a_treebank_without_its_tags(tmp_path: Path) -> None:
    path = tmp_path / "trees"
    path.write_text(TREES)
    sentences, longer = read_bracketed(path, READING, 3)
    assert longer == 1 and [x.line for x in sentences] == [1, 2]
    assert sentences[0] == (["the", "bird", "sings"], [("S", 0, 2), ("NP", 0, 1), ("VP", 2, 2)], 1, None)
    assert sentences[1].constituents == [("S S VP", 0, 0)]
    tagged, _ = read_bracketed(path, Reading(), 4)
    assert tagged[0].constituents[2:] == [("DT", 0, 0), ("NN", 1, 1), ("VP VBZ", 2, 2)] and len(tagged) == 3
    both, _ = read_bracketed(path, READING, 3, with_tags=True)
    assert both[0] == (*sentences[0][:3], ["DT", "NN", "VBZ"]) and both[1][:3] == sentences[1][:3]
    path.write_text("(S (NP the bird))\n(S (NN bird))\n")
    for with_tags in (False, True):
        with pytest.raises(LineError, match=r"trees:1: not every word has a part-of-speech tag"):
            read_bracketed(path, READING, 9, with_tags=with_tags)
        left_out: list[int] = []
        others = replace(READING, leave_out_untagged=True)
        assert len(read_bracketed(path, others, 9, left_out, with_tags=with_tags)[0]) == 1 and left_out == [1]


def test_unknown_chains_are_counted_and_unknown_words_named() -> None:
    sentences = sentences_of(Tree("S", (Tree("NP", ("a", "b")), "c")))
    vocabulary = vocabulary_of(sentences)
    others = sentences_of(Tree("S", ("a", Tree("VP", ("b",)))), Tree("S", (Tree("NP", ("b", "a")), "a")))
    others = [sentence._replace(tags=["X", "Y", "X"][: len(sentence.words)]) for sentence in others]
    assert encode_bracketed("file", others, vocabulary)[0][0].tags is None
    encoded, unknown = encode_bracketed("file", others, vocabulary, ("W", "Y"))
    assert encoded[0].tags == [-1, 1, -1]
    assert unknown == 1 and len(encoded) == 1
    assert encoded[0].spans.tolist() == [5, 3] and encoded[0].labels.tolist() == [1, 0]
    with pytest.raises(LineError, match=r"file:1: the word 'zebra' is not in the closed vocabulary of 3"):
        encode_bracketed("file", sentences_of(Tree("S", ("zebra",))), vocabulary)


def test_a_batch_by_hand(backend: ModuleType) -> None:
    sentences = sentences_of(Tree("S", (Tree("NP", ("a", "b")), "c")), Tree("S", ("c",)))
    vocabulary = vocabulary_of(sentences)
    encoded, _ = encode_bracketed("file", sentences, vocabulary)
    a, b, c = (vocabulary.encode_words([word])[0] for word in "abc")
    encoded[0].pieces[1] = [b, c, c]  # as if b had three pieces
    batch = assemble(encoded, backend)
    arrays = {name: host(value).tolist() for name, value in vars(batch).items() if name not in ("n_labels", "tags")}
    affixes = np.concatenate([np.zeros((1, AFFIXES), int), affixes_of("abc")])
    assert arrays.pop("affixes") == affixes[[0, 1, 2, 2, 2, 3, 0, 0, 3, 0]].tolist()
    assert arrays == {
        "ids": [START_ID, a, b, c, c, c, END_ID, START_ID, c, END_ID],
        "words": [0, 1, 2, 2, 2, 3, 4, 0, 1, 2],
        "places": [0, 0, 0, 1, 2, 0, 0, 0, 0, 0],
        "bounds": [0, 7, 10],
        "reverse": [6, 5, 4, 3, 2, 1, 0, 9, 8, 7],
        "before": [0, 1, 4, 5, 7, 8],
        "after": [1, 2, 5, 6, 8, 9],
        "begins": [0, 1, 2, 0, 1, 0, 4],
        "ends": [1, 2, 3, 2, 3, 3, 5],
        "offsets": [0, 3, 4],
        "spans": [5, 3, 6],
        "labels": [1, 0, 1],
        "owners": [0, 0, 1],
    }
    assert batch.tags is None and batch.n_labels == 2
    assert str(batch.ids.dtype) == "int32" and str(batch.offsets.dtype) == "int64"
    tagged = [encoded[0]._replace(tags=[7, 9, 8]), encoded[1]._replace(tags=[-1])]
    assert host(assemble(tagged, backend).tags).tolist() == [-1, 7, -1, -1, 9, 8, -1, -1, -1, -1]
    empty = assemble([], backend)
    assert empty.n_labels == 0 and not len(empty.ids) and host(empty.offsets).tolist() == [0]


def test_batches_have_so_many_words_and_every_sentence_once() -> None:
    draw = np.random.default_rng(0)
    sentences = sentences_of(*(Tree("S", ("a",) * int(n)) for n in draw.integers(1, 9, 60)))
    encoded, _ = encode_bracketed("file", sentences, vocabulary_of(sentences))
    order = {"ops": CPU, "seed": 3, "epochs": 2, "pool": 25}
    batch_lengths = [np.diff(batch.offsets) for batch in parser_batches(encoded, 20, **order)]
    assert all(lengths.sum() <= 20 for lengths in batch_lengths)
    assert sorted(np.concatenate(batch_lengths)) == sorted([len(x.pieces) for x in encoded] * 2)
    first = parser_batches(encoded, 20, **order)
    for _ in range(7):
        next(first)
    second = parser_batches(encoded, 20, **order)
    second.restore(first.state())
    assert [batch.ids.tolist() for batch in first] == [batch.ids.tolist() for batch in second]
    with pytest.raises(ValueError, match="sentence 1 has 8 words, more than a batch may have, 5"):
        next(parser_batches([x for x in encoded if len(x.pieces) == 8], 5, ops=CPU))


def test_an_epoch_is_counted_in_batches() -> None:
    """Batches are never quite full: the words of all sentences, divided by those of a batch, are too few."""
    sentences = sentences_of(*(Tree("S", ("a",) * int(n)) for n in np.random.default_rng(0).integers(1, 9, 60)))
    encoded, _ = encode_bracketed("file", sentences, vocabulary_of(sentences))
    count = n_batches(encoded, 20, 3)
    assert count == sum(1 for _ in parser_batches(encoded, 20, ops=CPU, seed=3))
    assert count > -(-sum(len(x.pieces) for x in encoded) // 20)


def test_affixes_have_the_same_numbers_everywhere() -> None:
    """A stored parser has a vector for each number, 1 + CRC-32 of the place, a blank and the affix, modulo 8,191."""
    assert affixes_of(["dog"]).tolist() == [[241, 7308, 4286, 3229, 5451, 7611, 1632, 433]]


@pytest.mark.parametrize(
    ("word", "other", "is_same"),
    [
        ("NATO", "USA", True), ("Bird", "Dogs", True), ("1999", "20", True), ("re-run", "a-b", True),
        ("nato", "NATO", False), ("3rd", "rd", False), ("re-run", "rerun", False), ("a-b", "a_b", False),
    ],
)  # fmt: skip
def test_shapes_of_words(word: str, other: str, is_same: bool) -> None:
    shapes = affixes_of([word, other])[:, -1]
    assert (shapes[0] == shapes[1]) == is_same
