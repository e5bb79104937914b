"""Text as one stream of words: its vocabulary, its columns, the lengths of its batches, and exact counts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.batches.text import (
    EOS,
    TextBatch,
    TextBatches,
    build_text_words,
    encode_lines,
    encode_text,
    read_sentences,
    read_text,
)
from accel.data.files.lines import LineError
from accel.data.vocabularies.vocabulary import VocabularyError
from accel.data.vocabularies.words import Words
from tests.fixtures.comparisons import are_equal

NUMPY = SimpleNamespace(xp=np)
IDS = np.arange(1000, 2003, dtype=np.int32)  # an id tells the position of its word


def batches(columns: int = 4, ids: np.ndarray = IDS, **options: Any) -> TextBatches:
    return TextBatches(ids, columns, **{"ops": NUMPY, "length": 20} | options)


def columns_of(batch: TextBatch) -> list[np.ndarray]:
    assert batch.offsets[-1] == len(batch.ids) == len(batch.labels) == batch.n_labels
    assert np.array_equal(batch.labels, batch.ids + 1)
    return [batch.ids[a:b] for a, b in zip(batch.offsets, batch.offsets[1:], strict=False)]


@given(st.integers(2, 90), st.integers(1, 12), st.integers(1, 9), st.none() | st.integers(0, 99))
def test_every_word_but_the_first_is_predicted_once(n: int, columns: int, length: int, seed: int | None) -> None:
    columns = min(columns, n - 1)
    ids = np.arange(n, dtype=np.int32)
    all_batches = list(batches(columns, ids, length=length, seed=seed))
    assert sorted(label for batch in all_batches for label in batch.labels.tolist()) == list(range(1, n))
    parts = [np.concatenate(parts) for parts in zip(*map(columns_of, all_batches), strict=True)]
    assert len(parts) == columns and np.array_equal(np.concatenate(parts), ids[:-1])  # columns continue
    assert all(len(part) for batch in all_batches for part in columns_of(batch))
    assert [batch.fresh for batch in all_batches] == [True] + [False] * (len(all_batches) - 1)
    if seed is None:
        assert all(len(column) == length for batch in all_batches[:-1] for column in columns_of(batch))


def test_lengths_are_jittered() -> None:
    stream = batches(1, np.arange(600_000, dtype=np.int32), length=70, seed=1)
    lengths = np.array([len(batch.ids) for batch in stream])[:-1]
    usual = lengths[lengths > 52]
    assert abs(np.mean(lengths <= 52) - 0.05) < 4 * np.sqrt(0.05 * 0.95 / len(lengths))
    assert abs(usual.mean() - 69.5) < 0.3 and 4.5 < usual.std() < 5.5 and abs(lengths.min() - 35) < 20
    short = list(batches(1, np.arange(4000, dtype=np.int32), length=3, seed=2))
    assert min(len(batch.ids) for batch in short[:-1]) == 5
    assert all(batch.rate_scale == len(batch.ids) / 3 for batch in short)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_restored_position_gives_the_same_batches(seed: int | None) -> None:
    stream, every, states = batches(seed=seed, epochs=2), [], []
    for batch in stream:
        every.append(batch)
        states.append(json.dumps(stream.state()))
    assert sum(batch.fresh for batch in every) == 2
    for k in (0, len(every) // 2 - 1, len(every) // 2, len(every) - 1):
        resumed = batches(seed=seed, epochs=2)
        resumed.restore(json.loads(states[k]))
        assert all(are_equal(a, b) for a, b in zip(resumed, every[k + 1 :], strict=True))


def test_lengths_differ_by_epoch_and_seed() -> None:
    def lengths(seed: int) -> list[int]:
        return [int(batch.offsets[1]) for batch in batches(seed=seed, epochs=2)]

    assert lengths(1) == lengths(1) != lengths(2)
    first, second = ([int(b.offsets[1]) for b in epoch] for epoch in split(list(batches(seed=1, epochs=2))))
    assert first != second


def split(read: list[TextBatch]) -> tuple[list[TextBatch], list[TextBatch]]:
    second = [i for i, batch in enumerate(read) if batch.fresh][1]
    return read[:second], read[second:]


def test_ranks_share_the_columns() -> None:
    shares = [list(batches(5, seed=4, rank=r, ranks=3)) for r in range(3)]
    for whole, *parts in zip(batches(5, seed=4), *shares, strict=True):
        columns = [columns_of(part) for part in parts]
        expected = columns_of(whole)
        for rank in range(3):
            assert all(map(np.array_equal, columns[rank], expected[rank::3]))
        assert {(part.rate_scale, part.fresh) for part in parts} == {(whole.rate_scale, whole.fresh)}
    idle = next(batches(1, rank=1, ranks=2))
    assert idle.n_labels == 0 and idle.offsets.tolist() == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": 0}, "columns must be at least 1, not 0"),
        ({"length": 0}, "length must be at least 1, not 0"),
        ({"rank": 1}, "rank must be in 0..0, not 1"),
        ({"ids": IDS[:4]}, r"is too short: at least 5 are needed for 4 columns \(--batch-size\)$"),
        ({"ids": IDS[:1], "columns": 1}, "a text of 1 words and ends of lines is too short: at least 2 are needed$"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(**options)


def test_a_position_of_other_data_is_refused() -> None:
    stream = batches(seed=3)
    for change, message in (
        ({"seed": 8}, "taken with seed 8, this has 3"),
        ({"data": [1003, 5, 20]}, r"taken with data \[1003, 5, 20\], this has \[1003, 4, 20\]"),
        ({"extra": 1}, "not a position in the data"),
    ):
        with pytest.raises(ValueError, match=message):
            stream.restore(stream.state() | change)


def test_text_becomes_ids(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b" a bird sings \r\n\nthe bird <unk>\n")
    words = build_text_words(path)
    assert words.words == ("a", "bird", "sings", EOS, "the", "<unk>") and words.unknown == "<unk>"
    assert encode_text(path, words).tolist() == [0, 1, 2, 3, 3, 4, 1, 5, 3]
    assert list(read_text(path))[1] == (2, [EOS])
    assert list(read_sentences(path)) == [(1, ["a", "bird", "sings"]), (3, ["the", "bird", "<unk>"])]


def test_words_that_training_text_does_not_have(tmp_path: Path) -> None:
    train, valid = tmp_path / "train.txt", tmp_path / "valid.txt"
    valid.write_text("a b\na z\n")
    train.write_text("a b\n")
    with pytest.raises(LineError) as error:
        encode_text(valid, build_text_words(train, 1))
    assert str(error.value) == f"{valid}:2: the word 'z' is not in the closed vocabulary of 3 words"
    train.write_text("a b <unk>\n")
    assert encode_text(valid, build_text_words(train, 1)).tolist() == [0, 1, 3, 0, 2, 3]
    train.write_bytes(b"a b\n\xff\n")
    with pytest.raises(LineError, match="train.txt:2:1: not UTF-8: 0xff"):
        build_text_words(train, 1)
    train.write_bytes(b"")
    with pytest.raises(LineError, match="train.txt: an empty file"):
        build_text_words(train, 1)


@pytest.mark.parametrize(
    ("text", "place"), [("a b <eos>\nb a\n", "1:5"), ("a\n\nx<eos> <eos> b\n", "3:8"), ("<eos>\n", "1:1")]
)
def test_the_end_of_a_line_is_refused_where_it_would_count_twice(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "train.txt"
    path.write_text(text)
    with pytest.raises(LineError) as error:
        build_text_words(path)
    command = r"""awk '{sub(/ *<eos> *$/, ""); gsub(/ *<eos> */, "\n")} 1' FILE > NEW"""
    reason = f"<eos> is the end of a line, which is added here: remove it: {command}"
    assert str(error.value) == f"{path}:{place}: {reason}"


def test_the_end_of_a_line_is_added_to_lines_without_one(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a<eos> b\n")
    assert list(read_text(tmp_path / "text")) == [(1, ["a<eos>", "b", EOS])]
    words = Words(("a", EOS))
    assert encode_lines([["a", "a"], []], words).tolist() == [0, 0, 1, 1]
    with pytest.raises(VocabularyError, match="^<eos> is the end of a line, which is added here: remove it$"):
        encode_lines([["a"], ["a", EOS]], words)


def test_the_penn_treebank(data_dir: Path) -> None:
    train, valid, test = (data_dir / "ptb_lm" / f"ptb.{part}.txt.xz" for part in ("train", "valid", "test"))
    words = build_text_words(train)
    assert len(words) == 10_000 and words.unknown == "<unk>"
    sizes = [len(encode_text(path, words)) for path in (train, valid, test)]
    assert sizes == [887_521 + 42_068, 70_390 + 3370, 78_669 + 3761]
    known_words = set(words.words)
    assert all(word in known_words for path in (valid, test) for _, line in read_text(path) for word in line)
    ids = encode_text(test, words)
    assert sum(batch.n_labels for batch in TextBatches(ids, 10, ops=NUMPY)) == len(ids) - 1
