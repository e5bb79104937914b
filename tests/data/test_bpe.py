"""Byte-pair encoding: merges and pieces by hand, against a slow search for the most frequent pair, and bad words."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from accel.data.vocabularies.bpe import characters, cut, joined, learn
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.byte_pairs import ranks_of
from accel.data.vocabularies.vocabulary import UNKNOWN, Vocabulary, VocabularyError

PAPER = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def slowly(words: dict[str, int], n_merges: int) -> list[str]:
    """Return the merges; before each merge, all pairs are counted anew."""
    spelled, merges = {word: characters(word) for word in words}, list[str]()
    for _ in range(n_merges):
        counts = Counter[tuple[str, str]]()
        for word, symbols in spelled.items():
            for pair in zip(symbols[:-1], symbols[1:], strict=True):
                counts[pair] += words[word]
        pair, n = max(counts.items(), key=lambda item: (item[1], item[0]), default=(("", ""), 0))
        if n < 2:
            break
        merges.append(" ".join(pair))
        for word, symbols in spelled.items():
            text = f" {' '.join(symbols)} "
            while f" {' '.join(pair)} " in text:
                text = text.replace(f" {' '.join(pair)} ", f" {''.join(pair)} ", 1)
            spelled[word] = text.split()
    return merges


def test_the_paper_s_words() -> None:
    """The words of Sennrich et al.'s Figure 1. Of equally frequent pairs, the last in the alphabet is merged."""
    pieces, merges = learn(PAPER, 30)
    assert merges == slowly(PAPER, len(merges)) and merges[:3] == ["s t</w>", "e st</w>", "l o"]
    assert len(pieces) == 30 == 2 * len(set("".join(PAPER))) + len(merges)
    assert {"est", "low", "lo@@", "l"} <= {*learn(PAPER, 40)[0]}


@pytest.mark.parametrize("seed", range(4))
def test_merges_are_those_of_a_slow_search(seed: int) -> None:
    draw = np.random.default_rng(seed)
    words = {"".join(draw.choice(list("abc"), draw.integers(1, 9))): int(draw.integers(1, 9)) for _ in range(60)}
    pieces, merges = learn(words, 60)
    assert merges == slowly(words, len(merges)) and len(merges) > 30
    for word in words:
        assert joined(cut(word, ranks_of(merges))) == [word] and {*cut(word, ranks_of(merges))} <= {*pieces}
    all_merges = learn(words, 10**6)[1]
    assert all_merges == slowly(words, 10**6)  # down to pairs that occur once


def test_a_vocabulary_of_bpe() -> None:
    sentences = [["the", "newest", "low"], ["lower", "the", "low"], ["the", "widest", "newest"]]
    vocabulary = build_of_words(sentences, "bpe", 60, fit=True)
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary and vocabulary.model.startswith(b"#version: 0.2\n")
    for sentence in [*sentences, ["west", "lo", "t"]]:
        assert vocabulary.decode(vocabulary.encode_words(sentence)) == sentence
    ids = vocabulary.encode_words(["the", "xenon", UNKNOWN])
    assert [vocabulary.symbols[i] for i in ids] == ["the", UNKNOWN, UNKNOWN]
    assert vocabulary.decode(vocabulary.encode_words(["wet"])[:1]) == ["we"]  # a target cut within a word
    assert len(build_of_words(sentences, "bpe", 30)) == 30
    with pytest.raises(VocabularyError, match="the word 'a@@' ends with the mark '@@' of pieces"):
        vocabulary.encode_words(["a@@"])
    assert build_of_words([*sentences, ["lo@@", "@@"]], "bpe", 60, fit=True) == vocabulary
    with pytest.raises(VocabularyError, match="bpe is for pairs of sequences; use sentencepiece"):
        _ = vocabulary.begins_word
    for size, words in ((9, "22 characters, within and at the end of words, do not fit into 6 pieces"), (999, "fewer")):
        with pytest.raises(ValueError, match=words):
            build_of_words(sentences, "bpe", size)
    with pytest.raises(ValueError, match="needs a size"):
        build_of_words(sentences, "bpe")
