"""SCAN (Lake and Baroni, 2018): commands and their actions.

A line is ``IN: jump twice OUT: I_JUMP I_JUMP``; a split is a file to train on and one to test on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from accel.data.batches.sequence_pairs import TextPair
from accel.data.files.lines import LineError, read_lines

SPLITS = ("simple", "length", "addprim_jump")
_SOURCE, _TARGET = "IN:", "OUT:"


def file_name(part: str, split: str) -> str:
    """Return the name of the file of a part, "train" or "test"."""
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    return f"tasks_{part}_{split}.txt"


def read_scan(path: str | Path) -> Iterator[TextPair]:
    """Yield the pairs of a file; their kind is the number of actions.

    Raises
    ------
    LineError
        At the faulty line: no ``IN:`` at its beginning, other than one ``OUT:``, nothing after one of them; as
        `read_lines`.
    """
    for number, line in read_lines(path):
        words = line.split()
        if words[:1] != [_SOURCE] or words.count(_TARGET) != 1:
            raise LineError(path, number, f"not {_SOURCE} and a command, then {_TARGET} and its actions")
        middle = words.index(_TARGET)
        source, target = tuple(words[1:middle]), tuple(words[middle + 1 :])
        for name, side in ((_SOURCE, source), (_TARGET, target)):
            if not side:
                raise LineError(path, number, f"nothing after {name}")
        yield TextPair(source, target, number, len(target))
