"""Treebank files: the trees that are read, errors with their lines, and the corpora that they become."""

from __future__ import annotations

import gzip
import lzma
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.data.corpora import treebank
from accel.data.corpora.sequences import read_treebank
from accel.data.corpora.treebank import (
    Corpus,
    Reading,
    encode_trees,
    load_corpus,
    read_sentences,
)
from accel.data.files import encoded
from accel.data.files.lines import LineError
from accel.data.vocabularies.building import build
from refimpl.trees import Tree, actions, words

TEXT = "(S (NP the bird) (VP sings))\n(S (NP it)\n   (VP flies))\n\n(S (NP birds) (VP sing))\n"
GOLD = "( (S (NP-SBJ-1 (DT the) (NN bird)) (VP (VBZ seems) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB sing)))))) )\n"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | bytes, name: str = "trees.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_archives_read_like_plain_files(write: Any) -> None:
    plain = list(read_treebank(write(TEXT)))
    assert [str(tree) for tree in plain][1] == "(S (NP it) (VP flies))"
    assert list(read_treebank(write(lzma.compress(TEXT.encode()), "trees.xz"))) == plain
    assert list(read_treebank(write(gzip.compress(TEXT.encode()), "trees.gz"))) == plain


def test_normalisation_is_switched_on_by_name(write: Any) -> None:
    path = write(GOLD)
    assert "-NONE-" in str(next(read_treebank(path)))
    everything = Reading(drop_traces=True, drop_function_tags=True, drop_preterminals=True)
    assert str(next(read_treebank(path, everything))) == "(S (NP the bird) (VP seems (S (VP to (VP sing)))))"


def test_every_tree_knows_the_line_where_it_starts(write: Any) -> None:
    assert [s.line for s in read_sentences(write(TEXT))] == [1, 2, 5]


def test_a_blank_line_ends_a_document(write: Any) -> None:
    first, second = read_treebank(write("\n\n" + TEXT + "\n\n"), Reading(documents="blank"))
    assert [len(tree.children) for tree in (first, second)] == [2, 1]
    assert first.label == "DOC" and words(second) == ["birds", "sing"]


def test_a_blank_line_inside_a_tree_ends_nothing(write: Any) -> None:
    (only,) = read_treebank(write("(S a\n\nb)\n(S c)\n"), Reading(documents="blank"))
    assert words(only) == ["a", "b", "c"]


def test_a_column_names_the_document(write: Any) -> None:
    text = "x\t(S a)\nx\t(S b\n  c)\ny\t(S d)\nx\t(S e)\n"
    documents = list(read_treebank(write(text), Reading(documents="column")))
    assert [words(tree) for tree in documents] == [["a", "b", "c"], ["d"], ["e"]]


@pytest.mark.parametrize("documents", ["none", "blank", "column"])
def test_a_line_may_hold_several_trees(write: Any, documents: str) -> None:
    lines = ["(S a) ( (S b) )(S", " c)", "", "(S d)(S e) "]
    text = "".join(f"{'xxyy'[k]}\t{line}\n" if line and k != 1 else f"{line}\n" for k, line in enumerate(lines))
    sentences = list(
        read_sentences(write(text if documents == "column" else "\n".join(lines)), Reading(documents=documents))
    )
    assert [(words(s.tree), s.line) for s in sentences] == [(["a"], 1), (["b"], 1), (["c"], 1), (["d"], 4), (["e"], 4)]
    assert [s.document for s in sentences] == ([0, 1, 2, 3, 4] if documents == "none" else [0, 0, 0, 1, 1])


def test_a_byte_order_mark_is_skipped(write: Any) -> None:
    (first, *_) = read_sentences(write(TEXT.encode("utf-8-sig")))
    assert first.tree.label == "S"
    with pytest.raises(LineError, match="trees.txt:1:3: empty label"):
        list(read_sentences(write("(S()".encode("utf-8-sig"))))


COLUMN = Reading(documents="column")


@pytest.mark.parametrize(
    ("text", "reading", "line", "column", "reason"),
    [
        ("(S a)\n(S (NP a)\n", Reading(), 2, 1, "unclosed"),
        ("(S a)\n\n  (S a))\n", Reading(), 3, 8, "extra closing"),
        ("(S (NP ))", Reading(), 1, 8, "empty constituent"),
        ("(S a)\nb (S c)\n", Reading(), 2, 1, "terminal outside the root"),
        ("(S a)\n(S a (X <s>))\n", Reading(), 2, 6, "<s> begins the actions of every tree, and is no word"),
        ("id\t(S ())\n", COLUMN, 1, 7, r"empty label: write one after the bracket, such as \(-LRB- -LRB-\)$"),
        ("id\t(S a)\n(S b)\n", COLUMN, 2, 1, "no name of a document"),
        ("(S a)\n(S ä)\n".encode("latin-1"), Reading(), 2, 4, "not UTF-8: 0xe4: convert the file"),
        ("(S a)\n(S ä ".encode() + b"\xff)", Reading(), 2, 6, "not UTF-8: 0xff"),
        ("(S a)".encode("utf-16"), Reading(), 1, 1, "not UTF-8, but UTF-16 by its byte-order mark"),
        ("", Reading(), 0, 0, "an empty file"),
        ("\n \n", Reading(), 0, 0, "no trees in this file"),
    ],
)
def test_bad_files_are_refused_by_line_and_column(
    write: Any, text: str | bytes, reading: Reading, line: int, column: int, reason: str
) -> None:
    path = write(text)
    with pytest.raises(LineError, match=reason) as error:
        list(read_sentences(path, reading))
    assert (error.value.line, error.value.column) == (line, column)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["trees.xz", "trees.gz"])
def test_broken_archives_are_named(write: Any, name: str) -> None:
    pack = {"trees.xz": lzma.compress, "trees.gz": gzip.compress}[name]
    whole = pack((TEXT * 2000).encode())
    for broken in (b"not an archive", whole[: len(whole) // 2]):
        with pytest.raises(LineError, match=f"{name}.*broken archive"):
            list(read_sentences(write(broken, name)))


def test_an_encrypted_archive_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as packed:
        packed.writestr("trees", TEXT)
    content = (tmp_path / "data.zip").read_bytes()
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # bit 0 says that the file is encrypted
        at = content.index(header) + flags
        content = content[:at] + bytes([content[at] | 1]) + content[at + 1 :]
    (tmp_path / "data.zip").write_bytes(content)
    with pytest.raises(LineError, match="data.zip/trees: broken archive, or none at all: .*encrypted"):
        list(read_sentences(tmp_path / "data.zip" / "trees"))


def test_unknown_grouping_is_refused() -> None:
    with pytest.raises(ValueError, match='documents must be "none", "blank" or "column", not \'line\''):
        Reading(documents="line")


def check(corpus: Corpus, trees: list[Tree], vocabulary: Any) -> None:
    assert len(corpus) == len(trees)
    for i, tree in enumerate(trees):
        assert vocabulary.decode(corpus[i]) == actions(tree)
        assert corpus.words[i] == corpus.terminals[i] == len(words(tree))


@pytest.mark.parametrize("documents", ["none", "blank"])
def test_a_corpus_spells_the_trees_of_its_file(write: Any, tmp_path: Path, documents: str) -> None:
    path, reading = write(TEXT), Reading(documents=documents)
    trees = list(read_treebank(path, reading))
    vocabulary = build(trees)
    corpus = load_corpus(path, vocabulary, tmp_path / "cache", reading)
    check(corpus, trees, vocabulary)
    check(encode_trees(trees, vocabulary), trees, vocabulary)
    assert isinstance(corpus.actions, np.memmap)
    assert (corpus.actions.dtype, corpus.offsets.dtype) == (np.int32, np.int64)


def test_a_corpus_is_encoded_once_and_again_when_anything_changes(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = write(TEXT), tmp_path / "cache"
    vocabulary = build(read_treebank(path), extra=["DOC"])
    calls = []
    encode = treebank._encode
    monkeypatch.setattr(treebank, "_encode", lambda *args: calls.append(args) or encode(*args))
    for _ in range(3):
        load_corpus(path, vocabulary, cache)
    assert len(calls) == 1
    load_corpus(path, vocabulary, cache, Reading(documents="blank"))
    load_corpus(path, build(read_treebank(path), "unknown_classes"), cache)
    assert len(calls) == 3
    write(TEXT + "(S (NP it) (VP sings))\n")
    assert len(load_corpus(path, vocabulary, cache)) == 4
    assert len(calls) == 4
    for folder in cache.iterdir():
        (folder / "actions.npy").write_bytes(b"")
    with pytest.raises(ValueError, match="damaged: .*; remove this folder, and it is written again"):
        load_corpus(path, vocabulary, cache)


def test_a_file_in_an_archive_is_encoded(tmp_path: Path) -> None:
    path, cache = tmp_path / "data.zip" / "raw" / "trees", tmp_path / "cache"
    for n_copies in (1, 2):
        with zipfile.ZipFile(tmp_path / "data.zip", "w") as packed:
            packed.writestr("raw/trees", TEXT * n_copies)
        assert len(load_corpus(path, build(read_treebank(path)), cache)) == 3 * n_copies
    assert len(list(cache.iterdir())) == 2


def test_nothing_is_left_of_a_failed_encoding(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = write(TEXT + "(S (NP it)\n"), tmp_path / "cache"
    vocabulary = build(read_treebank(write(TEXT, "good.txt")))
    with pytest.raises(LineError, match="unclosed"):
        load_corpus(path, vocabulary, cache)
    assert list(cache.iterdir()) == []

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(encoded.Growing, "append", full)
    with pytest.raises(OSError, match="No space left"):
        load_corpus(tmp_path / "good.txt", vocabulary, cache)
    assert list(cache.iterdir()) == []


def test_two_encodings_at_once_leave_one_corpus(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = write(TEXT), tmp_path / "cache"
    vocabulary = build(read_treebank(path))
    both = threading.Barrier(2)
    replace = os.replace
    monkeypatch.setattr(encoded.os, "replace", lambda *args: (both.wait(5), replace(*args)))
    corpora: list[Corpus] = []
    threads = [threading.Thread(target=lambda: corpora.append(load_corpus(path, vocabulary, cache))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(corpora) == 2 and len(list(cache.iterdir())) == 1
    check(corpora[0], list(read_treebank(path)), vocabulary)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP the bird)\n (VP sings))\n(S (NP the\nfish) (VP sings))\n", "bad.txt:3: the word 'fish' is not"),
        ("(S (NP the bird))\n(SBAR it)\n", "bad.txt:2: the label 'SBAR' is not in the vocabulary"),
    ],
)
def test_symbols_outside_the_vocabulary_are_named_with_their_line(
    write: Any, tmp_path: Path, text: str, message: str
) -> None:
    vocabulary = build(read_treebank(write(TEXT)))
    with pytest.raises(LineError, match=message):
        load_corpus(write(text, "bad.txt"), vocabulary, tmp_path / "cache")


def test_documents_need_their_label(write: Any, tmp_path: Path) -> None:
    path = write(TEXT)
    with pytest.raises(LineError, match="the label 'DOC' is not in the vocabulary"):
        load_corpus(path, build(read_treebank(path)), tmp_path / "cache", Reading(documents="blank"))


def test_the_depth_of_a_tree_is_no_limit(write: Any, tmp_path: Path) -> None:
    depth = 100_000
    path = write("(NP " * depth + "a" + ")" * depth + "\n")
    vocabulary = build(read_treebank(path))
    corpus = load_corpus(path, vocabulary, tmp_path / "cache")
    assert corpus.actions.size == 2 * depth + 1


@pytest.mark.parametrize(
    ("file", "n_trees", "n_words"),
    [
        ("tg_example/valid.txt.xz", 346, 5690),
        ("craft/dev.mrg.xz", 2780, 67652),
        ("ptb_sample/wsj_sample.mrg.xz", 3914, 94084),
    ],
)
def test_real_treebanks(data_dir: Path, tmp_path: Path, file: str, n_trees: int, n_words: int) -> None:
    """The numbers of trees and words (without traces) are those that the treebanks' owners give."""
    reading = Reading(drop_traces=True, drop_function_tags=True, drop_preterminals=True)
    vocabulary = build(read_treebank(data_dir / file, reading))
    corpus = load_corpus(data_dir / file, vocabulary, tmp_path, reading)
    assert (len(corpus), int(corpus.words.sum())) == (n_trees, n_words)
    for i, tree in zip(range(300), read_treebank(data_dir / file, reading), strict=False):
        assert vocabulary.decode(corpus[i]) == actions(tree)


def test_trees_without_tags_are_refused_or_left_out(write: Any, tmp_path: Path) -> None:
    """A tag over two words, or a word without one, would lose a constituent if tags were dropped."""
    text = "(S (NN a) (VB b))\n(S (NN a c) (VB b))\n(S (NN a) b)\n(S (NN b))\n"
    path, drop = write(text), Reading(drop_preterminals=True)
    with pytest.raises(LineError, match=r":2: .*--leave-out-untagged.*--keep-tags"):
        list(read_sentences(path, drop))
    lines: list[int] = []
    leave_out = Reading(drop_preterminals=True, leave_out_untagged=True)
    assert [str(s.tree) for s in read_sentences(path, leave_out, lines)] == ["(S a b)", "(S b)"] and lines == [2, 3]
    vocabulary = build(read_treebank(path, leave_out))
    assert len(load_corpus(path, vocabulary, tmp_path / "cache", leave_out)) == 2
