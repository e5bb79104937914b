"""The sheet on which people judge two translations without knowing which system wrote which, and its key.

A sheet is a table with tabs between the columns. Its key is a JSON file beside it. An item's id is the digest of its
number and of its texts in their order, so that no key fits another sheet by chance.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accel.data.files.lines import LineError, read_lines
from accel.evaluation.error_analysis import judgement

COLUMNS = ("id", "source", "reference", "output A", "output B", "errors A", "errors B")
KEY = ".key.json"
"""The ending of a key, instead of the sheet's .tsv."""


class Item(NamedTuple):
    """A sentence of a sheet: its id, its source, its reference and the outputs A and B."""

    id: str
    source: str
    reference: str
    outputs: tuple[str, str]


class Judged(NamedTuple):
    """A sentence whose outputs are judged: its item, and the categories of outputs A and B."""

    item: Item
    errors: tuple[frozenset[str], frozenset[str]]


class Key(NamedTuple):
    """The names of both systems, the letter of the first system's output by id, and the other fields of the file."""

    names: tuple[str, str]
    first: dict[str, str]
    about: dict[str, Any]


def item(number: int, source: str, reference: str, outputs: tuple[str, str]) -> Item:
    """Return an item with its id, which no spreadsheet takes for a number."""
    text = "\t".join((str(number), source, reference, *outputs))
    return Item(f"s{hashlib.sha256(text.encode()).hexdigest()[:11]}", source, reference, outputs)


def sheet_text(items: Sequence[Item]) -> str:
    """Return the text of a sheet without judgements."""
    text = io.StringIO()
    writer = csv.writer(text, "excel-tab", lineterminator="\n")
    writer.writerows([COLUMNS, *((*texts, *outputs, "", "") for *texts, outputs in items)])
    return text.getvalue()


def key_text(key: Key) -> str:
    """Return the text of a key's file."""
    return json.dumps({"names": key.names, **key.about, "first": key.first}, indent=1, ensure_ascii=False) + "\n"


def key_of(sheet: Path) -> Path:
    """Return the path of the key beside a sheet."""
    return sheet.with_name(sheet.name.removesuffix(".tsv") + KEY)


def read_key(path: Path) -> Key:
    """Return the key that a file holds; raises LineError if the file is no key."""
    text = "\n".join(line for _, line in read_lines(path))
    try:
        content = json.loads(text)
        names, first = content.pop("names"), content.pop("first")
        one, other = names
        if not (isinstance(first, dict) and set(first.values()) <= {"A", "B"}):
            raise TypeError
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise LineError(path, 0, f"not a key: name the *{KEY} that was written beside the sheet") from error
    return Key((str(one), str(other)), first, content)


def read_sheet(path: Path, key: Key) -> list[Judged]:
    """Return the judged sentences; the first system's outputs and categories come before those of the second.

    Raises
    ------
    LineError
        With the line: wrong columns, an id that the key does not have or that comes twice, a cell that is empty or
        names an unknown category, equal outputs with different errors. Without a line: an id of the key is missing.
    """
    rows: dict[str, Judged] = {}
    for number, line in read_lines(path):
        try:
            cells = next(csv.reader([line], "excel-tab"), [])
        except csv.Error as error:
            reason = f"{error}: save the sheet as text between tabs, with line feeds at the ends of lines"
            raise LineError(path, number, reason) from error
        if number == 1:
            _check_columns(path, cells)
        elif any(cells):
            name, *_ = cells
            if len(cells) != len(COLUMNS):
                raise LineError(path, number, f"{len(cells)} cells, but a sheet has {len(COLUMNS)}: between tabs")
            if name not in key.first:
                raise LineError(path, number, f"id {name}: is not in the key: give the sheet's own with --key")
            if name in rows:
                raise LineError(path, number, f"id {name}: comes twice: keep one of the lines")
            rows[name] = _judged(path, number, cells, key.first[name] == "A")
    gaps = [name for name in key.first if name not in rows]
    if gaps:
        raise LineError(path, 0, f"{len(gaps)} of the key's {len(key.first)} ids are missing, such as {gaps[0]}")
    return list(rows.values())


def _check_columns(path: Path, cells: Sequence[str]) -> None:
    if tuple(cells) != COLUMNS:
        page = "; this is a page: open it in a browser, and save the sheet there" if "<" in "".join(cells) else ""
        raise LineError(path, 1, f"the columns are not {', '.join(COLUMNS)}{page}")


def _judged(path: Path, number: int, cells: Sequence[str], first_is_a: bool) -> Judged:
    name, source, reference, a, b, *texts = cells
    errors = []
    for column, text in zip(COLUMNS[-2:], texts, strict=True):
        try:
            errors.append(judgement(text))
        except ValueError as error:
            separator = " " if str(error).startswith("is ") else ": "
            raise LineError(path, number, f"{column}{separator}{error}") from error
    if a == b and errors[0] != errors[1]:
        raise LineError(path, number, "errors A and errors B differ, but the outputs are the same: make them equal")
    if not first_is_a:
        (a, b), errors = (b, a), errors[::-1]
    return Judged(Item(name, source, reference, (a, b)), (errors[0], errors[1]))
