"""Sentences and whether they are acceptable: the files of CoLA (Warstadt, Singh and Bowman, 2018).

A line has four columns: the source of the sentence, 1 or 0, the mark that its author gave it (``*``), and the sentence.
Blanks separate words.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from accel.data.batches.sentences import Example
from accel.data.files.lines import LineError, read_lines

CLASSES = ("unacceptable", "acceptable")
_COLUMNS = ("source", "label", "mark", "sentence")


def read_acceptability(path: str | Path) -> Iterator[Example]:
    """Yield the sentences of a file with their classes.

    Raises
    ------
    LineError
        At the faulty line: other than four columns, a label other than 0 or 1, an empty sentence; as `read_lines` does.
    """
    for number, line in read_lines(path):
        columns = line.split("\t")
        if len(columns) != len(_COLUMNS):
            raise LineError(path, number, f"{len(columns)} columns, not {len(_COLUMNS)}: {', '.join(_COLUMNS)}")
        _, label, _, sentence = columns
        if label not in ("0", "1"):
            raise LineError(path, number, f"unknown label {label!r}: it must be 0 or 1")
        if not sentence.strip():
            raise LineError(path, number, "an empty sentence")
        yield Example(CLASSES[int(label)], (sentence.split(),), number)
