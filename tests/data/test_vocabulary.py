"""Vocabularies: the order of ids, unknown classes, pieces, and errors of a closed vocabulary."""

from __future__ import annotations

import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.files.brackets import read_trees
from accel.data.vocabularies import terminals
from accel.data.vocabularies.building import build, build_of_words
from accel.data.vocabularies.terminals import train_pieces, unknown_class, words_and_classes
from accel.data.vocabularies.vocabulary import END, KINDS, Vocabulary, VocabularyError
from refimpl.trees import START, ActionType, Tree, action_type, actions, words

SENTENCES = [
    "(S (NP The bird) (VP sings (PP in (NP the garden))))",
    "(S (NP the birds) (VP sing (PP in (NP 1984))))",
    "(S (NP the bird) (VP walked))",
    "(SBAR that (S (NP the birds) (VP walked)))",
]
TREES = list(read_trees(SENTENCES))
SIZES = {"words": None, "unknown_classes": None, "sentencepiece": 290}


def test_ids_are_reserved_terminals_opening_closing_each_sorted() -> None:
    vocabulary = build(TREES)
    symbols = vocabulary.symbols
    terminals = sorted({word for tree in TREES for word in words(tree)})
    labels = ["NP", "PP", "S", "SBAR", "VP"]
    assert symbols == (START, END, *terminals, *(f"({x}" for x in labels), *(f"{x})" for x in labels))
    assert len(vocabulary) == len(symbols) == len(vocabulary.type_of)
    assert vocabulary.type_of.dtype == np.int8
    assert vocabulary.type_of.tolist() == [int(action_type(s)) if s != END else ActionType.T for s in symbols]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_survives_json(kind: str) -> None:
    vocabulary = build(TREES, kind, SIZES[kind])
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again == vocabulary
    assert [again.encode(tree) for tree in TREES] == [vocabulary.encode(tree) for tree in TREES]


@pytest.mark.parametrize("kind", KINDS)
def test_brackets_never_become_terminals(kind: str) -> None:
    vocabulary = build(TREES, kind, SIZES[kind])
    for tree in TREES:
        ids = vocabulary.encode(tree)
        brackets = [vocabulary.symbols[i] for i in ids if vocabulary.type_of[i] != ActionType.T]
        assert brackets == [a for a in actions(tree) if action_type(a) != ActionType.T]


@pytest.mark.parametrize("kind", ["words", "sentencepiece"])
def test_decoding_gives_the_actions_back(kind: str) -> None:
    vocabulary = build(TREES, kind, SIZES[kind])
    for tree in TREES:
        assert vocabulary.decode(vocabulary.encode(tree)) == actions(tree)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("NATO", "UNK-CAPS"),
        ("3M", "UNK-CAPS-NUM"),
        ("Garden", "UNK-INITC-KNOWNLC"),
        ("Kyoto", "UNK-INITC"),
        ("Gardens", "UNK-INITC-s"),
        ("quickly", "UNK-LC-ly"),
        ("gas", "UNK-LC-s"),
        ("glass", "UNK-LC"),
        ("bus", "UNK-LC"),
        ("is", "UNK-LC"),
        ("running", "UNK-LC-ing"),
        ("nation", "UNK-LC-ion"),
        ("capacity", "UNK-LC-ity"),
        ("happy", "UNK-LC-y"),
        ("formal", "UNK-LC-al"),
        ("ally", "UNK-LC"),
        ("well-known", "UNK-LC-DASH"),
        ("1990", "UNK-NUM"),
        ("10-year", "UNK-LC-NUM-DASH"),
        ("--", "UNK-DASH"),
        ("...", "UNK"),
        ("Ünlü", "UNK-INITC"),
    ],
)
def test_unknown_classes(word: str, expected: str) -> None:
    assert unknown_class(word, {"garden"}) == expected


def test_words_that_occur_once_become_their_class() -> None:
    vocabulary = build(TREES, "unknown_classes")
    assert "garden" not in vocabulary.terminals
    assert set(vocabulary.terminals) == {
        "the", "bird", "birds", "in", "walked", "UNK", "UNK-INITC-KNOWNLC", "UNK-LC", "UNK-LC-s", "UNK-NUM"
    }  # fmt: skip
    spoken = [vocabulary.symbols[i] for i in vocabulary.encode(TREES[0]) if vocabulary.type_of[i] == ActionType.T]
    assert spoken == ["UNK-INITC-KNOWNLC", "bird", "UNK-LC-s", "in", "the", "UNK-LC"]


@pytest.mark.parametrize("words", ["cab", "bac"])
def test_of_equally_frequent_words_the_first_by_letters_stay(words: str) -> None:
    """The order of the words in the training data does not matter."""
    assert words_and_classes(dict.fromkeys(words, 2), 3) == ("UNK", "UNK-LC", "a")


def test_a_class_unseen_in_training_loses_its_last_parts() -> None:
    vocabulary = build(TREES, "unknown_classes")

    def read(word: str) -> str:
        return vocabulary.symbols[vocabulary.encode(Tree("S", (word,)))[1]]

    assert unknown_class("jumping", ()) == "UNK-LC-ing" and read("jumping") == "UNK-LC"
    assert unknown_class("NATO-led", ()) == "UNK-CAPS-DASH" and read("NATO-led") == "UNK"
    assert read("?") == "UNK"


def test_the_rarest_words_give_way_to_the_size() -> None:
    everything = build(TREES, "unknown_classes")
    smaller = build(TREES, "unknown_classes", len(everything) - 2)
    assert len(smaller) <= len(everything) - 2
    assert "the" in smaller.terminals and "walked" not in smaller.terminals


@given(st.text(st.characters(blacklist_categories=("Cs", "Zs", "Cc"), blacklist_characters="() \u2581"), min_size=1))
def test_any_word_can_be_read(word: str) -> None:
    """Nothing is outside a vocabulary with unknown classes, and pieces spell any word."""
    tree = Tree("S", (word,))
    for vocabulary in (CLASSES, PIECES):
        vocabulary.encode(tree)
    assert PIECES.decode(PIECES.encode(tree)) == ["(S", word, "S)"]


CLASSES = build(TREES, "unknown_classes")
PIECES = build(TREES, "sentencepiece", SIZES["sentencepiece"])


def test_pieces_are_trained_the_same_every_time() -> None:
    assert build(iter(TREES), "sentencepiece", SIZES["sentencepiece"]) == PIECES
    assert len(PIECES) == SIZES["sentencepiece"]


def test_pieces_fit_the_words() -> None:
    """With `fit`, there are as many pieces as possible; the error for a larger size names this number."""
    fitting = build(TREES, "sentencepiece", 5000, fit=True)
    with pytest.raises(ValueError, match=f"use {len(fitting)} or less"):
        build(TREES, "sentencepiece", 5000)
    assert build(TREES, "sentencepiece", len(fitting)).terminals == fitting.terminals
    assert build(TREES, "sentencepiece", SIZES["sentencepiece"], fit=True) == PIECES
    assert len(build(TREES, "sentencepiece", 288)) == 288  # the error for a smaller size names it
    assert fitting.decode(fitting.encode(TREES[0])) == actions(TREES[0])


def test_a_frequent_word_is_one_piece() -> None:
    """So is a word with which no other begins; SentencePiece alone never finds it in a list of words with counts."""
    rare = {f"{begin}{vowel}{end}": 1 for begin in "bdfg" for vowel in "aeiou" for end in ("nd", "rt", "sk", "lm")}
    pieces, _ = train_pieces(rare | {"said": 60, ",": 90, "they": 40}, 256 + 40)
    assert {"\u2581said", "\u2581,", "\u2581they"} <= set(pieces)


def test_a_text_of_many_words_is_cut_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"a": 60, "b": 30, "c": 9, "d": 1}
    for most, expected in ((1000, counts), (20, {"a": 12, "b": 6, "c": 1, "d": 1})):
        monkeypatch.setattr(terminals, "MOST_WORDS", most)
        assert Counter(" ".join(terminals._as_text(counts)).split()) == expected


def test_every_word_begins_with_the_mark() -> None:
    ids = PIECES.encode(Tree("S", ("bird", "sings", "zebra")))
    assert [s.startswith("\u2581") for s in (PIECES.symbols[i] for i in ids)].count(True) == 3


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("bytes", None, "unknown kind of vocabulary 'bytes': choose one of words, unknown_classes, sentencepiece, bpe"),
        ("sentencepiece", None, "a sentencepiece vocabulary needs a size"),
        ("sentencepiece", 5000, r"vocabulary size 5000, but the training data give fewer pieces; use \d+ or less"),
        ("sentencepiece", 40, "vocabulary size 40, but every character and byte is a piece; use 288 or more"),
        ("words", 14, "11 words do not fit into 2 terminals; use unknown_classes or sentencepiece, or a larger"),
        ("unknown_classes", 14, "the unknown classes alone do not fit into 2 terminals"),
        ("words", 12, "vocabulary size 12, but 5 labels leave no room; use a larger size"),
    ],
)
def test_sizes_that_cannot_be_had(kind: str, size: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        build(TREES, kind, size)
    assert "\n" not in str(error.value)


def test_no_trees_no_vocabulary() -> None:
    with pytest.raises(ValueError, match="no trees to build a vocabulary from"):
        build([])


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("(S (NP fish))", "the word 'fish' is not in the closed vocabulary of 11 words"),
        ("(S (ADJP the))", "the label 'ADJP' is not in the vocabulary of 5 labels"),
    ],
)
def test_a_closed_vocabulary_refuses(tree: str, message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        build(TREES).encode(next(read_trees([tree])))


def test_a_text_with_unknown_words_makes_others_unknown() -> None:
    vocabulary = build_of_words([["the", "<unk>", "sings"], ["a", "bird"]])
    ids = vocabulary.encode_words(["the", "fish", "sings"])
    assert vocabulary.decode(ids) == ["the", "<unk>", "sings"]


def test_the_mark_of_sentencepiece_is_not_a_letter() -> None:
    with pytest.raises(VocabularyError, match="holds SentencePiece's mark"):
        PIECES.encode(Tree("S", ("a\u2581b",)))


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"kind": "words", "terminals": ["b", "a"], "labels": [], "model": ""}', '{"kind": "x"}']
)
def test_a_broken_vocabulary_file_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a vocabulary"):
        Vocabulary.from_json(text)


def test_unknown_classes_of_real_text(data_dir: Path) -> None:
    with lzma.open(data_dir / "tg_example" / "train.txt.xz", "rt", encoding="utf-8") as file:
        trees = list(read_trees(file))
    vocabulary = build(trees, "unknown_classes")
    classes = [t for t in vocabulary.terminals if t.startswith("UNK")]
    assert 20 < len(classes) < 120 and "UNK-LC-ing" in classes
    with lzma.open(data_dir / "tg_example" / "test.txt.xz", "rt", encoding="utf-8") as file:
        for tree in read_trees(file):
            vocabulary.encode(Tree("S", tuple(words(tree))))
