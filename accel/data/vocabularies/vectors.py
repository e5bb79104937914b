"""Word vectors trained elsewhere, in the text format of GloVe and fastText: a word and its numbers a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accel.data.files.lines import LineError, read_lines
from accel.data.vocabularies.words import Words


def read_vectors(path: str | Path, words: Words, table: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a copy of a table [V, d] with the rows of the words that the file has, and how many these are.

    A first line of two numbers, as fastText writes it, is passed over. Of a word that comes twice the first vector
    counts.

    Raises
    ------
    LineError
        At its line: not d numbers behind the word, a NaN or an infinity; as `read_lines` does.
    """
    table, size, found = table.copy(), table.shape[1], set()
    for number, line in read_lines(path):
        word, *values = line.rstrip(" ").rsplit(" ", size)
        if number == 1 and len(values) == 1 and word.isdigit() and values[0].isdigit():
            continue
        if len(values) != size:
            raise LineError(path, number, f"{len(values)} number(s) behind the word, not {size}")
        row = words.ids.get(word)
        if row is None or row in found:
            continue
        try:
            table[row] = values
        except ValueError as error:
            raise LineError(path, number, f"not a number: {error}") from error
        if not np.isfinite(table[row]).all():
            raise LineError(path, number, "a NaN or an infinity")
        found.add(row)
    return table, len(found)
