"""Texts from files with a JSON object in every line; each text is the value of one field, given by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.data.files.lines import LineError, read_lines


@dataclass(frozen=True)
class Field:
    """One field of all objects of a file; messages name the file."""

    path: Path
    name: str

    def __str__(self) -> str:
        return str(self.path)


def json_value(path: str | Path, number: int, line: str) -> Any:
    """Return the value of a line of JSON; LineError if it is not JSON, or has half of a surrogate pair."""
    try:
        value = json.loads(line)
        if "\\ud" in line.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise LineError(path, number, f"not JSON: {error.msg}", error.colno) from error
    except RecursionError as error:
        raise LineError(path, number, "not JSON: too many brackets within one another") from error
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise LineError(path, number, f"{half} is half of a character: write both halves, or leave it out") from error
    return value


def read_texts(source: str | Path | Field) -> Iterator[tuple[int, str]]:
    """Yield the number of every line, and its text or, for a `Field`, the text of that field.

    Raises
    ------
    LineError
        At the faulty line: no JSON object, no such field, no text in it; as `json_value` and `read_lines` do.
    """
    if not isinstance(source, Field):
        yield from read_lines(source)
        return
    for number, line in read_lines(source.path):
        values = json_value(source.path, number, line)
        if not isinstance(values, dict):
            raise LineError(source.path, number, 'no object: every line is one, such as {"' + source.name + '": "..."}')
        if not isinstance(values.get(source.name), str):
            texts = [name for name, value in values.items() if isinstance(value, str)]
            has = f"those with text are {', '.join(texts)}" if texts else "no field has text"
            raise LineError(source.path, number, f"no text in a field {source.name}: {has}")
        yield number, values[source.name]
