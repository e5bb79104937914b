"""SyntaxGym's test suites (Hu et al., 2020): JSON files of items, whose conditions are sentences cut into regions.

The words of a sentence are those of its regions, in the order of the file, between blanks: marks of punctuation and 's
stand by themselves there, and the first word of a sentence is a capital one. A region may be without words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import fsum
from pathlib import Path
from typing import Any

from accel.data.files import archive
from accel.data.files.lines import LineError, read_lines
from accel.data.published.region_formula import Chain, Sums, holds, parse_formula, regions_of

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
        What is expected of the surprisals of every item.
    items : tuple of Item
        One or more, in each of which all regions are that the predictions name.
    """

    name: str
    regions: Mapping[int, str]
    predictions: tuple[Chain, ...]
    items: tuple[Item, ...]


def suite_files(path: str | Path) -> list[Path]:
    """Return the suites of a folder or an archive, by name; or the file, if it is one.

    Raises
    ------
    ValueError
        If the folder has no .json files; if the archive has none or is broken.
    """
    path = Path(path)
    if path.is_dir():
        found = sorted(path.glob("*.json"))
    elif ".json" in path.suffixes:
        return [path]
    else:
        try:
            found = sorted(path / name for name in archive.members(path) if name.endswith(".json"))
        except (*archive.BROKEN, EOFError) as error:
            raise ValueError(f"{path}: neither a .json file, a folder nor an archive: {error}") from error
    if not found:
        raise ValueError(f"{path}: no .json files in it")
    return found


def read_suite(path: str | Path) -> Suite:
    """Return the suite of a file, plain, .gz, .xz or in an archive.

    Raises
    ------
    LineError
        No JSON, with the line; with the item, the condition or the prediction: a field that is missing or of another
        kind, a metric other than the sum, a formula that does not parse, a region that the suite or an item does not
        have, an item, a condition or a region that is there twice, a sentence without words.
    """
    text = "\n".join(line for _, line in read_lines(path))
    try:
        return _suite(json.loads(text))
    except json.JSONDecodeError as error:
        raise LineError(path, error.lineno, f"not JSON: {error.msg}") from error
    except ValueError as error:
        raise LineError(path, 0, str(error)) from error
    except RecursionError as error:
        raise LineError(path, 0, "not a suite: too many brackets within one another") from error


def region_sums(regions: Regions, bits: Sequence[float]) -> dict[int, float]:
    """Return the sum of every region from the surprisals of all words of the sentence; 0 without words."""
    if len(bits) != sum(map(len, regions.values())):
        raise ValueError(f"{len(bits)} surprisals for {sum(map(len, regions.values()))} words")
    rest = iter(bits)
    return {number: fsum(islice(rest, len(words))) for number, words in regions.items()}


def outcomes(suite: Suite, sums: Sums) -> tuple[bool, ...]:
    """Return which predictions hold for an item with such sums of its regions."""
    return tuple(holds(formula, sums) for formula in suite.predictions)


def _suite(content: Any) -> Suite:
    meta = _field("the suite", content, "meta", dict)
    name, metric = _field("meta", meta, "name", str), _field("meta", meta, "metric", str)
    if metric != "sum":
        raise ValueError(f"the metric is {metric!r}: only the sum over a region is known")
    names = _field("the suite", content, "region_meta", dict)
    for number in names:
        if not number.isdecimal():
            raise ValueError(f"region_meta: {number!r} is no number of a region")
    regions = {int(number): str(region) for number, region in names.items()}
    predictions = tuple(
        _prediction(f"prediction {n}", one) for n, one in enumerate(_some("the suite", content, "predictions"), 1)
    )
    items = tuple(_item(one, n, regions) for n, one in enumerate(_some("the suite", content, "items"), 1))
    if repeated := [number for number, count in Counter(item.number for item in items).items() if count > 1]:
        raise ValueError(f"item {repeated[0]} twice")
    for n, formula in enumerate(predictions, 1):
        for item in items:
            _check_regions(f"prediction {n}", formula, item)
    return Suite(name, regions, predictions, items)


def _prediction(where: str, content: Any) -> Chain:
    kind, formula = _field(where, content, "type", str), _field(where, content, "formula", str)
    if kind != "formula":
        raise ValueError(f"{where}: of type {kind!r}, not formula")
    try:
        return parse_formula(formula)
    except ValueError as error:
        raise ValueError(f"{where}: {formula!r}: {error}") from error


def _item(content: Any, n: int, known: Mapping[int, str]) -> Item:
    number = _field(f"the item at place {n}", content, "item_number", int)
    where = f"item {number}"
    conditions: dict[str, Regions] = {}
    for one in _some(where, content, "conditions"):
        condition = _field(where, one, "condition_name", str)
        if condition in conditions:
            raise ValueError(f"{where}: condition {condition!r} twice")
        conditions[condition] = _regions(f"{where}, condition {condition!r}", one, known)
    return Item(number, conditions)


def _regions(where: str, content: Any, known: Mapping[int, str]) -> Regions:
    found: dict[int, tuple[str, ...]] = {}
    for one in _some(where, content, "regions"):
        number = _field(where, one, "region_number", int)
        if number not in known:
            raise ValueError(f"{where}: unknown region {number}: region_meta has {', '.join(map(str, known))}")
        if number in found:
            raise ValueError(f"{where}: region {number} twice")
        found[number] = tuple(_field(f"{where}, region {number}", one, "content", str).split())
    if not any(found.values()):
        raise ValueError(f"{where}: a sentence without words")
    return found


def _check_regions(where: str, formula: Chain, item: Item) -> None:
    """Raise ValueError if the item lacks a region that the formula names."""
    for region in regions_of(formula):
        if region.condition not in item.conditions:
            raise ValueError(f"{where}: unknown condition {region.condition!r} in item {item.number}")
        if region.number is not None and region.number not in item.conditions[region.condition]:
            of = f"item {item.number}, condition {region.condition!r}"
            raise ValueError(f"{where}: unknown region {region.number} in {of}")


def _field(where: str, content: Any, name: str, kind: type) -> Any:
    """Return what has such a name, of such a kind."""
    if type(content) is not dict or name not in content:
        raise ValueError(f"{where}: {name!r} is missing")
    if type(content[name]) is not kind:
        raise ValueError(f"{where}: {name!r} is of type {type(content[name]).__name__}, not {kind.__name__}")
    return content[name]


def _some(where: str, content: Any, name: str) -> list[Any]:
    found: list[Any] = _field(where, content, name, list)
    if not found:
        raise ValueError(f"{where}: {name!r} is empty")
    return found
