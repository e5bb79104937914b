"""Pretrained word vectors in the text format of GloVe and fastText: a word and its numbers on each line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accel.data.files.lines import LineError, read_lines
from accel.data.vocabularies.words import Words


def read_vectors(path: str | Path, words: Words, table: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a copy of a table [V, d] with the vectors of the words that the file has, and the number of these words.

    A first line of two numbers, as fastText writes it, is skipped. If a word comes twice, its first vector counts.

    Raises
    ------
    LineError
        At its line: not d numbers after the word, a NaN or an infinity; as `read_lines` does.
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
        try:
            table[row] = values
        except ValueError as error:
            raise LineError(path, number, f"not a number: {error}") from error
        if not np.isfinite(table[row]).all():
            raise LineError(path, number, "a NaN or an infinity")
        rows_read.add(row)
    return table, len(rows_read)
