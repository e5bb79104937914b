"""Pretrained word vectors in the text format of GloVe and fastText: a word and its numbers on each line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accel.data.files.lines import LineError, read_lines
from accel.data.vocabularies.vocabulary import UNKNOWN
from accel.data.vocabularies.words import Words


def read_vectors(path: str | Path, words: Words, table: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a copy of a table [V, d] with the vectors of the words that the file has, and the number of these words.

    A first line of two numbers, as fastText writes it, is skipped. If a word comes twice, its first vector counts.

    Raises
    ------
    LineError
        At the faulty line: not d numbers after the word, a NaN or an infinity; as `read_lines` does.
    """
    table, size, rows_read = table.copy(), table.shape[1], set()
    for number, line in read_lines(path):
        word, *values = line.rstrip(" ").rsplit(" ", size)
        if number == 1 and len(values) == 1 and word.isdigit() and values[0].isdigit():
            continue
        if len(values) != size:
            raise LineError(path, number, f"{len(values)} number(s) after the word, not {size}")
        row = words.ids.get(word)
        if row is None or row in rows_read:
            continue
        table[row] = _vector(path, number, values, size)
        rows_read.add(row)
    return table, len(rows_read)


def read_tables(paths: Sequence[str | Path], most: int | None = None) -> tuple[Words, list[np.ndarray]]:
    """Return the vocabulary of all words that have a vector in a file, and the table [V, d] of each file.

    The first word is the unknown one. If a file has no vector of a word, its table has the vector of the lower-case
    form, or zeros. A word outside the vocabulary is read in lower case. Memory: 4 d bytes a word and file.

    Parameters
    ----------
    most : int or None
        How many words of each file to read: published files begin with the most frequent ones.

    Raises
    ------
    LineError
        At the faulty line: another number of values than in the first file; as `read_vectors` does.
    """
    files: list[dict[str, np.ndarray]] = []
    size = None
    for path in paths:
        files.append(_read_all(path, size, most))
        size = len(next(iter(files[-1].values())))
    words = Words((UNKNOWN, *dict.fromkeys(word for file in files for word in file if word != UNKNOWN)), UNKNOWN, True)
    zero = np.zeros(size or 0, np.float32)
    return words, [np.stack([file.get(w, file.get(w.lower(), zero)) for w in words.words]) for file in files]


def _read_all(path: str | Path, size: int | None, most: int | None) -> dict[str, np.ndarray]:
    """Return the vector of each word; the first one says how many numbers each has, if `size` does not."""
    vectors: dict[str, np.ndarray] = {}
    for number, line in read_lines(path):
        if len(vectors) == most:
            break
        cells = line.rstrip(" ").split(" ")
        if number == 1 and len(cells) == 2 and cells[0].isdigit() and cells[1].isdigit():
            continue
        size = len(cells) - 1 if size is None else size
        word, *values = line.rstrip(" ").rsplit(" ", size)
        vector = _vector(path, number, values, size)
        vectors.setdefault(word, vector)
    if not vectors:
        raise LineError(path, 0, "no vectors in this file")
    return vectors


def _vector(path: str | Path, number: int, values: list[str], size: int) -> np.ndarray:
    """Return the numbers of a line; raise LineError if they are not `size` finite ones."""
    if not size or len(values) != size:
        raise LineError(path, number, f"{len(values)} number(s) after the word, not {size or 'one or more'}")
    try:
        vector = np.array(values, np.float32)
    except ValueError as error:
        raise LineError(path, number, f"not a number: {error}") from error
    if not np.isfinite(vector).all():
        raise LineError(path, number, "a NaN or an infinity")
    return vector
