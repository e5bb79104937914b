"""Running text: where documents and sentences end, errors with their lines, and the ids of texts."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.corpora import documents
from accel.data.corpora.documents import Documents, load_documents, read_documents, split_sentences
from accel.data.files.lines import LineError
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import Vocabulary
from tests.fixtures.text_files import read_running_text

TEXT = """It was dark. The birds
slept! “Do they?”
she asked Dr. Jones.

\t
CHAPTER I

He said no more, i.e. nothing... And then
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | bytes, name: str = "text.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


SENTENCES = [
    ("It was dark.", 1, 0),
    ("The birds slept!", 1, 0),
    ("“Do they?” she asked Dr. Jones.", 2, 0),
    ("CHAPTER I", 6, 1),
    ("He said no more, i.e. nothing...", 8, 2),
    ("And then", 8, 2),
]


@pytest.mark.parametrize(("name", "pack"), [("a.txt", bytes), ("a.xz", lzma.compress), ("a.gz", gzip.compress)])
def test_blank_lines_end_documents_and_marks_end_sentences(write: Any, name: str, pack: Any) -> None:
    assert read_running_text(write(pack(TEXT.encode()), name)) == SENTENCES


def test_every_line_can_be_a_sentence(write: Any) -> None:
    sentences = read_running_text(write("no mr. jones He\r\n  said no .\n\n \nmore\n"), sentence_a_line=True)
    assert sentences == [("no mr. jones He", 1, 0), ("said no .", 2, 0), ("more", 5, 1)]


@pytest.mark.parametrize(
    ("text", "n_sentences"),
    [
        ("He came . ( He left )", 2),
        ("He came . ( and left )", 2),
        ('" Is it ? " " It is . " They slept', 3),
        ("'' Is it ? '' She slept", 2),
        ("She came.’”) “‘They slept", 2),
        ("Was it 3.5 Meters", 1),
        ("Was it 3 . 5 metres", 1),
        ("It cost 5. 6 more came", 1),
        ("Ask J. R. R. Tolkien, Mrs. Dalloway and “St. Clair", 1),
        ("In the U.S. Senate", 1),
        ("Is Žižka there?! Écoutez", 2),
        ("…! ? . A", 2),
        ("why? because", 1),
        (".", 1),
    ],
)
def test_where_sentences_end(text: str, n_sentences: int) -> None:
    assert len(list(split_sentences(enumerate(text.split())))) == n_sentences


@given(st.lists(st.sampled_from(["A", "a", ".", "a.", "Mr.", "”", '"', "“", "B.”", "(C"]), max_size=12))
def test_no_word_is_lost(words: list[str]) -> None:
    sentences = list(split_sentences(enumerate(words)))
    assert [word for _, sentence in sentences for word in sentence] == words
    assert all(sentence and sentence[0] is words[number] for number, sentence in sentences)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "text.txt: an empty file"),
        (" \n\n", "text.txt: no sentence in this file"),
        (b"A dog.\n\xc3(\n", r"text.txt:2:1: not UTF-8: 0xc3"),
        (lzma.compress(b"A dog. " * 9999)[:60], "text.xz.*broken archive"),
    ],
)
def test_bad_files_are_named(write: Any, text: str | bytes, reason: str) -> None:
    path = write(text, "text.xz" if "xz" in reason else "text.txt")
    with pytest.raises(LineError, match=reason):
        list(read_documents(path))


def check(text: Documents, vocabulary: Vocabulary, sentences: list[tuple[str, int, int]]) -> None:
    assert {a.dtype for a in (text.sentences, text.documents, text.lines)} == {np.dtype(np.int64)}
    assert text.ids.dtype == np.int32 and text.begins_word.dtype == bool and isinstance(text.ids, np.memmap)
    assert text.sentences[-1] == len(text.ids) == len(text.begins_word)
    assert text.documents[-1] == len(text.lines) == len(text.sentences) - 1
    document = np.repeat(np.arange(len(text.documents) - 1), np.diff(text.documents)).tolist()
    spelled = [
        " ".join(vocabulary.decode(text.ids[a:b].tolist()))
        for a, b in zip(text.sentences, text.sentences[1:], strict=False)
    ]
    assert list(zip(spelled, text.lines.tolist(), document, strict=True)) == sentences
    words = np.split(text.ids, np.flatnonzero(text.begins_word))[1:]
    assert [vocabulary.decode(ids.tolist()) for ids in words] == [[w] for s, *_ in sentences for w in s.split()]


@pytest.mark.parametrize("kind", ["words", "sentencepiece"])
def test_ids_spell_the_text(write: Any, tmp_path: Path, kind: str) -> None:
    path = write(TEXT)
    vocabulary = build_of_words((s.words for s in read_documents(path)), kind, 300 if kind == "sentencepiece" else None)
    text = load_documents(path, vocabulary, tmp_path / "cache")
    assert text.path == path and text.begins_word.all() == (kind == "words")
    check(text, vocabulary, SENTENCES)


def test_pieces_spell_any_word(write: Any, tmp_path: Path) -> None:
    vocabulary = build_of_words([["a", "bird"]], "sentencepiece", 264)
    line = "bird 鳥 \x01 \x7f\u200b \U0001f426 \ufeff"
    check(load_documents(write(line), vocabulary, tmp_path / "cache"), vocabulary, [(line, 1, 0)])


def test_a_text_is_encoded_once_and_again_when_anything_changes(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache, calls = write("A dog\nA cat. A\n"), tmp_path / "cache", []
    vocabulary, encode = build_of_words([["A", "dog", "cat."]]), documents._encode
    monkeypatch.setattr(documents, "_encode", lambda *args: calls.append(args) or encode(*args))
    assert [len(load_documents(path, vocabulary, cache).lines) for _ in range(3)] == [2, 2, 2] and len(calls) == 1
    assert len(load_documents(path, vocabulary, cache, sentence_a_line=True).lines) == 2 and len(calls) == 2
    load_documents(path, build_of_words([["A", "dog", "cat.", "rat"]]), cache)
    write("A cat. A dog A\n")
    assert len(load_documents(path, vocabulary, cache).lines) == 2 and len(calls) == 4
    assert len(list(cache.iterdir())) == 4


def test_a_word_outside_the_vocabulary_is_named_with_its_line(write: Any, tmp_path: Path) -> None:
    path, cache = write("A dog.\nA dog.\nA\ncat."), tmp_path / "cache"
    with pytest.raises(LineError) as error:
        load_documents(path, build_of_words([["A", "dog."]]), cache)
    assert str(error.value) == f"{path}:3: the word 'cat.' is not in the closed vocabulary of 2 words"
    assert list(cache.iterdir()) == []
    marked = write("A dog.\nA \u2581dog.")
    with pytest.raises(LineError, match="text.txt:2: the word '\u2581dog.' holds SentencePiece's mark"):
        load_documents(marked, build_of_words([["A", "dog."]], "sentencepiece", 264), cache)


@pytest.mark.parametrize(
    ("file", "options", "counts"),
    [
        ("public_domain_text/warandpeace.txt.xz", {}, (31294, 12174)),
        ("ptb_lm/ptb.valid.txt.xz", {"sentence_a_line": True}, (3370, 1)),
    ],
)
def test_real_text(
    data_dir: Path, tmp_path: Path, file: str, options: dict[str, bool], counts: tuple[int, int]
) -> None:
    path = data_dir / file
    sentences = list(read_documents(path, **options))
    vocabulary = build_of_words((s.words for s in sentences), "sentencepiece", 3000)
    text = load_documents(path, vocabulary, tmp_path, **options)
    assert (len(text.lines), len(text.documents) - 1) == counts
    assert text.begins_word.sum() == sum(len(s.words) for s in sentences)
    for i, sentence in list(enumerate(sentences))[2000:2050]:
        assert vocabulary.decode(text.ids[text.sentences[i] : text.sentences[i + 1]].tolist()) == sentence.words
