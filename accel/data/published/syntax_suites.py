"""SyntaxGym's test suites (Hu et al., 2020): JSON files of items, whose conditions are sentences cut into regions.

The words of a sentence are those of its regions, in the order of the file, between blanks: punctuation marks and 's are
separate words, and the first word of a sentence is capitalised. A region may have no words.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import fsum
from pathlib import Path
from typing import Any

from accel.data.files import archive
from accel.data.files.json_lines import json_value
from accel.data.files.lines import LineError, files_of, read_lines
from accel.data.published.region_formula import Chain, Sums, holds, parse_formula, regions_of

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')  # a text in JSON, which ends in the line where it begins

Regions = Mapping[int, tuple[str, ...]]
"""The words of every region, by its number."""


@dataclass(frozen=True)
class Item:
    """The sentences that a prediction compares."""

    number: int
    conditions: Mapping[str, Regions]


@dataclass(frozen=True)
class Suite:
    """A test suite.

    Attributes
    ----------
    name : str
    regions : mapping of int to str
        The names of the regions.
    predictions : tuple of Chain
        The formulas that the surprisals of every item should satisfy.
    items : tuple of Item
        One or more; each has all regions that the predictions name.
    """

    name: str
    regions: Mapping[int, str]
    predictions: tuple[Chain, ...]
    items: tuple[Item, ...]


def suite_files(path: str | Path) -> list[Path]:
    """Return the files of the suites of a folder or an archive, by name; or the file itself.

    Raises
    ------
    ValueError
        If the folder has no .json files; if the archive has none or is broken.
    """
    path = Path(path)
    if path.is_dir():
        files = files_of(path, ".json")
    elif ".json" in path.suffixes:
        return [path]
    else:
        names = archive.names_in(path, "a .json file, a folder")
        files = sorted(path / name for name in names if name.endswith(".json"))
    if not files:
        raise ValueError(f"{path}: no .json files in it")
    return files


def read_suite(path: str | Path) -> Suite:
    """Return the suite of a file, plain, .gz, .xz or in an archive.

    Raises
    ------
    LineError
        The file is not JSON, or has half of a surrogate pair; this error has the line. Other errors name the item, the
        condition or the prediction: a field is missing or of another type, the metric is not the sum, a formula is
        ill-formed, the suite or an item lacks a region, an item, a condition or a region is repeated, a sentence has no
        words.
    """
    lines = list(read_lines(path))
    try:
        content = json.loads("\n".join(line for _, line in lines))
        for number, line in lines:
            for text in _STRING.findall(line) if "\\u" in line else ():
                json_value(path, number, text)
        return _suite(content)
    except LineError:
        raise
    except json.JSONDecodeError as error:
        raise LineError(path, error.lineno, f"not JSON: {error.msg}") from error
    except ValueError as error:
        raise LineError(path, 0, str(error)) from error
    except RecursionError as error:
        raise LineError(path, 0, "not a suite: too many brackets within one another") from error


def region_sums(regions: Regions, bits: Sequence[float]) -> dict[int, float]:
    """Return the sum of every region from the surprisals, in bits, of all words of the sentence. Spec: SYN-1.

    The sum of a region without words is 0.
    """
    if len(bits) != sum(map(len, regions.values())):
        raise ValueError(f"{len(bits)} surprisals for {sum(map(len, regions.values()))} words")
    remaining = iter(bits)
    return {number: fsum(islice(remaining, len(words))) for number, words in regions.items()}


def outcomes(suite: Suite, sums: Sums) -> tuple[bool, ...]:
    """Return whether each prediction holds for an item with these sums of its regions. Spec: SYN-1."""
    return tuple(holds(formula, sums) for formula in suite.predictions)


def _suite(content: Any) -> Suite:
    meta = _field("the suite", content, "meta", dict)
    name, metric = _field("meta", meta, "name", str), _field("meta", meta, "metric", str)
    if metric != "sum":
        raise ValueError(f"the metric is {metric!r}: only sum is supported")
    names = _field("the suite", content, "region_meta", dict)
    for number in names:
        if not number.isdecimal():
            raise ValueError(f"region_meta: {number!r} is no number of a region")
    regions = {int(number): str(region) for number, region in names.items()}
    predictions = tuple(
        _prediction(f"prediction {n}", part)
        for n, part in enumerate(_non_empty("the suite", content, "predictions"), 1)
    )
    items = tuple(_item(part, n, regions) for n, part in enumerate(_non_empty("the suite", content, "items"), 1))
    if repeated := [number for number, count in Counter(item.number for item in items).items() if count > 1]:
        raise ValueError(f"item {repeated[0]} twice")
    for n, formula in enumerate(predictions, 1):
        for item in items:
            _check_regions(f"prediction {n}", formula, item)
    return Suite(name, regions, predictions, items)


def _prediction(place: str, content: Any) -> Chain:
    kind, formula = _field(place, content, "type", str), _field(place, content, "formula", str)
    if kind != "formula":
        raise ValueError(f"{place}: of type {kind!r}, not formula")
    try:
        return parse_formula(formula)
    except ValueError as error:
        raise ValueError(f"{place}: {formula!r}: {error}") from error


def _item(content: Any, n: int, names: Mapping[int, str]) -> Item:
    number = _field(f"the item at place {n}", content, "item_number", int)
    place = f"item {number}"
    conditions: dict[str, Regions] = {}
    for part in _non_empty(place, content, "conditions"):
        condition = _field(place, part, "condition_name", str)
        if condition in conditions:
            raise ValueError(f"{place}: condition {condition!r} twice")
        conditions[condition] = _regions(f"{place}, condition {condition!r}", part, names)
    return Item(number, conditions)


def _regions(place: str, content: Any, names: Mapping[int, str]) -> Regions:
    regions: dict[int, tuple[str, ...]] = {}
    for part in _non_empty(place, content, "regions"):
        number = _field(place, part, "region_number", int)
        if number not in names:
            raise ValueError(f"{place}: unknown region {number}: region_meta has {', '.join(map(str, names))}")
        if number in regions:
            raise ValueError(f"{place}: region {number} twice")
        regions[number] = tuple(_field(f"{place}, region {number}", part, "content", str).split())
    if not any(regions.values()):
        raise ValueError(f"{place}: a sentence without words")
    return regions


def _check_regions(place: str, formula: Chain, item: Item) -> None:
    """Raise ValueError if the item lacks a region that the formula names."""
    for region in regions_of(formula):
        if region.condition not in item.conditions:
            raise ValueError(f"{place}: unknown condition {region.condition!r} in item {item.number}")
        if region.number is not None and region.number not in item.conditions[region.condition]:
            owner = f"item {item.number}, condition {region.condition!r}"
            raise ValueError(f"{place}: unknown region {region.number} in {owner}")


def _field(place: str, content: Any, name: str, kind: type) -> Any:
    """Return the field of that name, which must be of that type."""
    if type(content) is not dict or name not in content:
        raise ValueError(f"{place}: {name!r} is missing")
    if type(content[name]) is not kind:
        raise ValueError(f"{place}: {name!r} is of type {type(content[name]).__name__}, not {kind.__name__}")
    return content[name]


def _non_empty(place: str, content: Any, name: str) -> list[Any]:
    parts: list[Any] = _field(place, content, name, list)
    if not parts:
        raise ValueError(f"{place}: {name!r} is empty")
    return parts
