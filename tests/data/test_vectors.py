"""Word vectors trained elsewhere, in the text format of GloVe and fastText."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel.data.files.lines import LineError
from accel.data.vocabularies.vectors import read_tables, read_vectors
from accel.data.vocabularies.words import Words

WORDS = Words(("<unk>", "dog", ". .", "The", "2"), "<unk>")


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_words_of_the_file_get_their_vectors(tmp_path: Path) -> None:
    """The first vector of a word counts; a word may have blanks, as in GloVe; other words keep the table's numbers."""
    table = np.full((5, 2), 9.0, np.float32)
    path = written(tmp_path / "a", "dog 1 2 ", "cat 3 4", ". . 5 -6e-1", "dog 7 8", "the 7 8", "2 0 1")
    vectors, count = read_vectors(path, WORDS, table)
    assert vectors.tolist() == np.array([[9, 9], [1, 2], [5, -0.6], [9, 9], [0, 1]], np.float32).tolist() and count == 3
    assert (table == 9).all(), "it is a copy"


def test_a_first_line_of_two_numbers_is_no_word(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "2 2", "dog 1 2", "2 3 4")
    assert read_vectors(path, WORDS, np.zeros((5, 2)))[1] == 2
    words, _ = read_tables([path], most=1)
    assert words.words == ("<unk>", "dog")
    with pytest.raises(LineError, match=f"^{path}:2: 1 number"):
        read_tables([written(path, "dog 1 2", "2 2")])


def test_so_many_words_of_every_file_are_read(tmp_path: Path) -> None:
    """A word has its vector in the file, or that of its lower-case form, or 0; the first vector of a word counts."""
    a = written(tmp_path / "a", "dog 1 2", "dog 5 5", "the 3 4", "left 1 1")
    b = written(tmp_path / "b", "The 6 7", "<unk> 8 8", "dog 9 9")
    words, tables = read_tables([a, b], most=2)
    assert words == Words(("<unk>", "dog", "the", "The"), "<unk>", lower=True)
    assert [x.tolist() for x in tables] == [[[0, 0], [1, 2], [3, 4], [3, 4]], [[8, 8], [0, 0], [0, 0], [6, 7]]]
    assert {x.dtype.name for x in tables} == {"float32"}


@pytest.mark.parametrize(
    "read", [lambda path: read_vectors(path, WORDS, np.zeros((5, 2))), lambda path: read_tables([path])]
)
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("The 1", "1 number(s) after the word, not 2"),
        ("The 1 x", "not a number: could not convert string to float: 'x'"),
        ("The 1 nan", "a NaN or an infinity"),
        ("The inf 1", "a NaN or an infinity"),
    ],
)
def test_wrong_vectors_are_named(tmp_path: Path, read: Callable[[Path], object], line: str, message: str) -> None:
    path = written(tmp_path / "a", "dog 1 2", line)
    with pytest.raises(LineError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}:2: {message}")


def test_files_of_vectors_fit(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a", "dog 1 2"), written(tmp_path / "b", "the 1")
    with pytest.raises(LineError, match=r"b:1: 1 number\(s\) after the word, not 2"):
        read_tables([a, b])
    with pytest.raises(LineError, match="a: no vectors in this file"):
        read_tables([written(a, "1 2")])
