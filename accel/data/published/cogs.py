"""COGS (Kim and Linzen, 2020): sentences and their logical forms, by category of generalisation.

A line is ``A cat slept . TAB cat ( x _ 1 ) AND sleep . agent ( x _ 2 , x _ 1 ) TAB in_distribution``. Blanks
separate words and tokens, which keep their case.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from accel.data.batches.sequence_pairs import TextPair
from accel.data.files.lines import LineError, read_lines

PARTS = ("train", "dev", "test", "gen")
STRUCTURAL = ("cp_recursion", "obj_pp_to_subj_pp", "pp_recursion")
"""The categories with a new structure; all others have a known word in a new place."""
_COLUMNS = ("sentence", "logical form", "type")


def read_cogs(path: str | Path) -> Iterator[TextPair]:
    """Yield the pairs of a file; their kind is the third column.

    Raises
    ------
    LineError
        At the faulty line: other than three columns, or an empty one; as `read_lines` does.
    """
    for number, line in read_lines(path):
        columns = line.split("\t")
        if len(columns) != len(_COLUMNS):
            raise LineError(path, number, f"{len(columns)} columns, not {len(_COLUMNS)}: {', '.join(_COLUMNS)}")
        for name, text in zip(_COLUMNS, columns, strict=True):
            if not text.strip():
                raise LineError(path, number, f"the column {name!r} is empty")
        sentence, form, category = columns
        yield TextPair(tuple(sentence.split()), tuple(form.split()), number, category.strip())
