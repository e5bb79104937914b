"""Natural language inference: a premise, a hypothesis, and whether the one entails or contradicts the other.

The first line shows which of three layouts a file has: SNLI's .jsonl (an object per line); SNLI's .txt (a header with
the same names); or SICK with parses (label, parse and parse between tabs, perhaps more columns after them, and perhaps
headers that begin with %). Of SNLI's fields, `gold_label`, `sentence1_binary_parse` and `sentence2_binary_parse` are
read. Words are the tokens of the parses without the brackets.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from accel.data.batches.sentences import Example
from accel.data.files.json_lines import json_value
from accel.data.files.lines import LineError, errors_at, read_lines

CLASSES = ("entailment", "neutral", "contradiction")
FIELDS = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse")
UNLABELLED = "-"


def read_inference(path: str | Path) -> tuple[list[Example], int]:
    """Return the pairs of a file, and the number left out because annotators did not agree (label ``-``).

    Raises
    ------
    LineError
        At the faulty line: a missing column or field, an unknown label, a parse without words or with unbalanced
        brackets.
    """
    examples, n_unlabelled = [], 0
    columns_of: Callable[[str], list[str]] = _positional
    for number, line in read_lines(path):
        if number == 1:
            columns_of, is_header = _layout(line)
            if is_header:
                continue
        if line.startswith("%") and columns_of is _positional:
            continue
        with errors_at(path, number):
            label, *parses = columns_of(line)
            label = label.lower()
            if label not in CLASSES and label != UNLABELLED:
                raise ValueError(f"unknown label {label!r}: it must be one of {' '.join(CLASSES)}, or -")
            sides = tuple(_words(*side) for side in zip(("first", "second"), parses, strict=True))
        if label == UNLABELLED:
            n_unlabelled += 1
        else:
            examples.append(Example(label, sides, number))
    if not examples:
        raise LineError(path, 0, "no labelled pairs in this file")
    return examples, n_unlabelled


def _layout(first_line: str) -> tuple[Callable[[str], list[str]], bool]:
    """Return how label and parses are read from a line, and whether the first line is a header."""
    if first_line.lstrip().startswith("{"):
        return _fields, False
    names = first_line.split("\t")
    if not set(FIELDS) <= set(names):
        return _positional, False

    def columns_of(line: str) -> list[str]:
        values = line.split("\t")
        if len(values) != len(names):
            raise ValueError(f"{len(values)} column(s), the header has {len(names)}")
        return [values[names.index(name)] for name in FIELDS]

    return columns_of, True


def _positional(line: str) -> list[str]:
    values = line.split("\t")
    if len(values) < 3:
        raise ValueError(f"{len(values)} column(s), not label, parse and parse between tabs")
    return values[:3]


def _fields(line: str) -> list[str]:
    try:
        values = json_value("", 0, line)
    except LineError as error:
        raise ValueError(error.reason) from error
    for name in FIELDS:
        if not isinstance(values, dict) or not isinstance(values.get(name), str):
            raise ValueError(f"no text for {name!r}")
    return [values[name] for name in FIELDS]


def _words(side: str, parse: str) -> list[str]:
    tokens = parse.split()
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if depth < 0:
            break
    if depth:
        raise ValueError(f"{side} sentence: unbalanced brackets")
    words = [token for token in tokens if token not in "()"]
    if not words:
        raise ValueError(f"{side} sentence: no words")
    return words
