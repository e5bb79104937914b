"""Plain vocabularies of words."""

from __future__ import annotations

import pytest

from accel.data.vocabularies.vocabulary import VocabularyError
from accel.data.vocabularies.words import Words, build_words

SENTENCES = [["b", "a", "b"], ["c", "a", "b"], ["d"]]


def test_ids_follow_the_symbols_in_order_of_appearance() -> None:
    assert build_words(SENTENCES) == Words(("b", "a", "c", "d"))
    assert build_words(SENTENCES, extra=("<unk>", "c")) == Words(("<unk>", "c", "b", "a", "d"), "<unk>")


def test_an_unknown_word_of_the_text_is_the_unknown_word() -> None:
    assert build_words([["a", "<unk>"]]).unknown == "<unk>"


def test_rare_words_give_way() -> None:
    assert build_words(SENTENCES, least=2).words == ("b", "a")
    assert build_words(SENTENCES, size=3).words == ("b", "a", "c")
    assert build_words(SENTENCES, size=2, extra=("<s>",)).words == ("<s>", "b")


def test_encoding_of_known_and_unknown_words() -> None:
    words = build_words(SENTENCES)
    assert words.encode("a b d".split()) == [1, 0, 3] and words.decode([1, 0, 3]) == ["a", "b", "d"]
    with pytest.raises(VocabularyError, match="the word 'x' is not in the closed vocabulary of 4 words"):
        words.encode(["a", "x"])
    assert build_words(SENTENCES, extra=("<unk>",)).encode(["x", "b"]) == [0, 1]


@pytest.mark.parametrize("words", [Words(("ä", "b")), Words(("b", "<unk>"), "<unk>"), Words(("b",), lower=True)])
def test_a_vocabulary_survives_json(words: Words) -> None:
    assert Words.from_json(words.to_json()) == words and "\n" not in words.to_json()


def test_the_text_of_a_vocabulary_is_always_the_same() -> None:
    """A resumed run compares the digest of this text."""
    assert Words(("ä", "b")).to_json() == '{"unknown": null, "words": ["ä", "b"]}'
    assert Words(("a",), "a", lower=True).to_json() == '{"unknown": "a", "lower": true, "words": ["a"]}'


def test_words_outside_are_read_in_lower_case_where_asked() -> None:
    words = ("the", "Dog", "<unk>")
    for lower, ids in ((False, [2, 1, 2, 2]), (True, [0, 1, 2, 2])):
        assert Words(words, "<unk>", lower).encode(["The", "Dog", "dog", "<UNK"]) == ids


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"words": ["a", "a"], "unknown": null}', '{"words": 3}'])
def test_a_broken_vocabulary_file_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a vocabulary of words: "):
        Words.from_json(text)


def test_vocabularies_that_cannot_be_had() -> None:
    with pytest.raises(ValueError, match="no words to build a vocabulary from"):
        build_words([[]])
    with pytest.raises(ValueError, match="vocabulary size 1 leaves no room for words beside 1 symbols"):
        build_words(SENTENCES, size=1, extra=("<s>",))
    with pytest.raises(ValueError, match="the unknown word '<unk>' is not in its vocabulary"):
        Words(("a",), "<unk>")
    with pytest.raises(ValueError, match="the word 'a' is in a vocabulary twice"):
        Words(("a", "b", "a"))
