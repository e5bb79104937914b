"""SyntaxGym's suites: the fields of a file, sums of regions, and errors that name the wrong field."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel.data.files.lines import LineError
from accel.data.published.region_formula import Chain, Region
from accel.data.published.syntax_suites import outcomes, read_suite, region_sums, suite_files
from tests.fixtures.syntax_suites import condition, suite


def test_a_suite_is_read(tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text(json.dumps(suite(), indent=1))
    toy = read_suite(tmp_path / "toy.json")
    assert toy.name == "number_toy" and toy.regions == {1: "subject", 2: "modifier", 3: "verb"}
    assert toy.predictions == (Chain(Region("match", 3), (("<", Region("mismatch", 3)),)),)
    assert [item.number for item in toy.items] == [1, 4]
    match, mismatch = toy.items[0].conditions.values()
    assert match == {1: ("the", "dog"), 2: ("near", "it"), 3: ("sees", "me")}
    assert mismatch == {1: ("the", "dog"), 2: (), 3: ("see", "me")}


def test_sums_of_regions(tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text(json.dumps(suite()))
    toy = read_suite(tmp_path / "toy.json")
    match, mismatch = toy.items[0].conditions.values()
    sums = {"match": region_sums(match, [1, 2, 4, 8, 16, 32]), "mismatch": region_sums(mismatch, [1, 2, 16, 33])}
    assert sums == {"match": {1: 3, 2: 12, 3: 48}, "mismatch": {1: 3, 2: 0, 3: 49}}
    assert outcomes(toy, sums) == (True,)
    assert outcomes(toy, {**sums, "match": {3: 49.0}}) == (False,)
    with pytest.raises(ValueError, match="5 surprisals for 6 words"):
        region_sums(match, [1] * 5)


def test_folders_and_archives(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps(suite(name)))
    (tmp_path / "README").write_text("read me")
    assert suite_files(tmp_path) == [tmp_path / "a.json", tmp_path / "b.json"]
    assert suite_files(tmp_path / "b.json") == [tmp_path / "b.json"]
    with gzip.open(tmp_path / "c.json.gz", "wb") as packed_suite:
        packed_suite.write((tmp_path / "a.json").read_bytes())
    assert suite_files(tmp_path)[2:] == [tmp_path / "c.json.gz"] and read_suite(tmp_path / "c.json.gz").name == "a"
    (tmp_path / "c.json.gz").unlink()
    with tarfile.open(tmp_path / "packed.tar.xz", "w:xz") as packed:
        for path in suite_files(tmp_path):
            packed.add(path, f"json/{path.name}")
    assert [read_suite(path).name for path in suite_files(tmp_path / "packed.tar.xz")] == ["a", "b"]
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"none: no \.json files in it"):
        suite_files(tmp_path / "none")
    with pytest.raises(ValueError, match=r"README: neither a \.json file, a folder nor an archive"):
        suite_files(tmp_path / "README")
    with tarfile.open(tmp_path / "other.tar", "w") as packed:
        packed.addfile(tarfile.TarInfo("x"), io.BytesIO())
    with pytest.raises(ValueError, match=r"other\.tar: no \.json files in it"):
        suite_files(tmp_path / "other.tar")


def first_regions(content: dict[str, Any]) -> list[dict[str, Any]]:
    regions: list[dict[str, Any]] = content["items"][0]["conditions"][0]["regions"]
    return regions


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.pop("meta"), "the suite: 'meta' is missing"),
        (lambda s: s["meta"].update(metric="mean"), "the metric is 'mean': only sum is supported"),
        (lambda s: s["region_meta"].update(x=""), "region_meta: 'x' is no number of a region"),
        (lambda s: s.update(predictions=[]), "the suite: 'predictions' is empty"),
        (lambda s: s["predictions"][0].update(type="code"), "prediction 1: of type 'code', not formula"),
        (
            lambda s: s["predictions"][0].update(formula="1 <"),
            "prediction 1: '1 <': character 4: the formula ends where a region, a number or a bracket is due",
        ),
        (
            lambda s: s["predictions"].append({"type": "formula", "formula": "(9;%match%) > 1"}),
            "prediction 2: unknown region 9 in item 1, condition 'match'",
        ),
        (
            lambda s: s["predictions"][0].update(formula="(*;%matches%) > 1"),
            "prediction 1: unknown condition 'matches' in item 1",
        ),
        (lambda s: s.update(items={}), "the suite: 'items' is of type dict, not list"),
        (lambda s: s["items"][1].update(item_number="4"), "the item at place 2: 'item_number' is of type str, not int"),
        (lambda s: s["items"][1].update(item_number=1), "item 1 twice"),
        (lambda s: s["items"][1].pop("conditions"), "item 4: 'conditions' is missing"),
        (lambda s: s["items"][1]["conditions"].pop(), "prediction 1: unknown condition 'mismatch' in item 4"),
        (lambda s: s["items"][0]["conditions"].append(condition("match", "x")), "item 1: condition 'match' twice"),
        (
            lambda s: s["items"][0]["conditions"].append(condition("third", "", " ")),
            "item 1, condition 'third': a sentence without words",
        ),
        (
            lambda s: first_regions(s)[1].update(region_number=7),
            "item 1, condition 'match': unknown region 7: region_meta has 1, 2, 3",
        ),
        (lambda s: first_regions(s)[1].update(region_number=1), "item 1, condition 'match': region 1 twice"),
        (lambda s: first_regions(s).pop(), "prediction 1: unknown region 3 in item 1, condition 'match'"),
        (
            lambda s: first_regions(s)[0].update(content=None),
            "item 1, condition 'match', region 1: 'content' is of type NoneType, not str",
        ),
        (lambda s: first_regions(s).insert(0, "x"), "item 1, condition 'match': 'region_number' is missing"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, spoil: Callable[[dict[str, Any]], object], message: str) -> None:
    content, path = suite(), tmp_path / "toy.json"
    spoil(content)
    path.write_text(json.dumps(content))
    with pytest.raises(LineError) as error:
        read_suite(path)
    assert str(error.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty file"),
        ("[]", "the suite: 'meta' is missing"),
        ("[" * 99999, "not a suite: too many brackets within one another"),
    ],
)
def test_files_that_are_no_suites(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "toy.json").write_text(text)
    with pytest.raises(LineError) as error:
        read_suite(tmp_path / "toy.json")
    assert str(error.value) == f"{tmp_path / 'toy.json'}: {message}"


def test_broken_json_has_a_line(tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text('{"meta":\n{}\n"items": []}')
    with pytest.raises(LineError, match="toy.json:3: not JSON: Expecting ',' delimiter"):
        read_suite(tmp_path / "toy.json")


def test_half_of_a_character_has_a_line(tmp_path: Path) -> None:
    """Whole characters, and a backslash before what looks like a half, are no halves."""
    content, path = suite(), tmp_path / "toy.json"
    first_regions(content)[0]["content"] = "the \U0001f415 \\ud83d"
    path.write_text(json.dumps(content, indent=1))
    assert read_suite(path).items[0].conditions["match"][1] == ("the", "\U0001f415", "\\ud83d")
    first_regions(content)[2]["content"] = "sees \ud83d"
    text = json.dumps(content, indent=1)
    path.write_text(text)
    line = text[: text.index('"sees ')].count("\n") + 1
    with pytest.raises(LineError) as error:
        read_suite(path)
    assert str(error.value) == f"{path}:{line}: \\ud83d is half of a character: write both halves, or leave it out"


def test_published_suites(data_dir: Path) -> None:
    """There are 34 suites, 842 items and 3304 sentences; a formula of three parts is computed by hand."""
    suites = {path: read_suite(path) for path in suite_files(data_dir / "syntaxgym" / "test_suites_json.tar.xz")}
    assert len(suites) == 34 and all(path.stem == one.name for path, one in suites.items())
    items = [item for one in suites.values() for item in one.items]
    assert len(items) == 842 and sum(len(item.conditions) for item in items) == 3304
    two = {one.name for one in suites.values() if len(one.predictions) > 1}
    assert two == {"fgd_hierarchy", "nn-nv-rpl"}
    (mvrr,) = (one for one in suites.values() if one.name == "mvrr")
    bits = {"reduced_ambig": 9.0, "unreduced_ambig": 5.0, "reduced_unambig": 6.0, "unreduced_unambig": 4.0}
    assert outcomes(mvrr, {name: {5: value} for name, value in bits.items()}) == (True,)  # 9 > 5, 9 > 6, 4 > 2
    assert outcomes(mvrr, {name: {5: value} for name, value in {**bits, "unreduced_unambig": 1.0}.items()}) == (False,)
    assert outcomes(mvrr, {name: {5: value} for name, value in {**bits, "unreduced_ambig": 9.5}.items()}) == (False,)
