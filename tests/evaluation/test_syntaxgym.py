"""Syntactic generalisation: circuits and means by hand, and on the published results of eight models exactly."""

from __future__ import annotations

import csv
import lzma
import tarfile
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest

from accel.data.files.lines import LineError
from accel.data.published.region_formula import parse_formula
from accel.data.published.syntax_suites import Item, Suite, read_suite, suite_files
from accel.evaluation.syntaxgym import (
    CIRCUITS,
    LEFT_OUT,
    Means,
    Outcome,
    accuracy,
    chance,
    circuit_of,
    means,
    read_results,
)
from examples.tables import CHANCE

EIGHT = {  # the mean over 34 suites of one training run of each, in ten thousandths
    "gpt-2-pretrained_": ("gpt-2-pretrained__0", 7808),
    "gpt-2-xl-pretrained_": ("gpt-2-xl-pretrained__0", 8311),
    "transformer-xl_": ("transformer-xl__0", 5865),
    "grnn_": ("grnn__0", 5322),
    "jrnn_": ("jrnn__0", 5873),
    "rnng_bllip-lg": ("rnng_bllip-lg_38435", 6282),
    "ordered-neurons_bllip-lg": ("ordered-neurons_bllip-lg_0111", 4797),
    "vanilla_bllip-lg": ("vanilla_bllip-lg_0111", 4116),
}


def test_means_by_hand() -> None:
    """A suite counts once in its circuit, and a circuit counts once; a suite without a circuit counts alone."""
    right = [Outcome(1, (True, False)), Outcome(2, (False, True)), Outcome(3, skipped="a word"), Outcome(4, (True,))]
    assert accuracy(right) == 2 / 3 and accuracy(right[2:3]) is None and accuracy([]) is None
    accuracies = {"number_orc": 0.5, "number_src": 1.0, "npz_obj": 0.25, "nn-nv-rpl": 1.0, "own": 0.0, "cleft": None}
    circuits = {"Agreement": 0.75, "Garden-Path Effects": 0.25}
    assert means(accuracies) == Means(5, circuits, 0.55, 0.5)
    assert means(accuracies, LEFT_OUT) == Means(4, circuits, 0.4375, 0.5)
    assert means({"cleft": None}) == Means(0, {}, None, None)


@pytest.mark.parametrize(("formula", "share"), [
    ("(1;%a%) < (1;%b%)", 1 / 2), ("[(1;%a%) < (1;%b%)] & [(1;%b%) < (2;%b%)]", 1 / 6),
    ("(*;%a%) - (*;%b%) > 1000", 0), ("(1;%a%) = (1;%a%)", 1),
])  # fmt: skip
def test_chance_is_the_share_of_orders(formula: str, share: float) -> None:
    """The bound is five standard deviations of a share of 20,000 draws, each at most 0.0036."""
    regions = {1: ("x",), 2: ("y",)}
    suite = Suite("toy", {1: "", 2: ""}, (parse_formula(formula),), (Item(1, {"a": regions, "b": regions}),))
    assert chance(suite) == chance(suite) == pytest.approx(share, abs=0.018)


def test_chance_on_the_published_suites(data_dir: Path) -> None:
    suites = [read_suite(path) for path in suite_files(data_dir / "syntaxgym" / "test_suites_json.tar.xz")]
    circuits = means({suite.name: chance(suite) for suite in suites}, LEFT_OUT).circuits
    assert {name: round(100 * share, 1) for name, share in circuits.items()} == CHANCE


def test_circuits_of_the_published_suites(data_dir: Path) -> None:
    """33 of 34 suites have a circuit; the paper's 31 suites are 3, 2, 6, 4, 10 and 6 in the six circuits."""
    names = [read_suite(path).name for path in suite_files(data_dir / "syntaxgym" / "test_suites_json.tar.xz")]
    assert [name for name in names if circuit_of(name) is None] == ["nn-nv-rpl"]
    circuits = [circuit_of(name) for name in names if name not in LEFT_OUT]
    assert [circuits.count(circuit) for circuit in CIRCUITS] == [3, 2, 6, 4, 10, 6]


@pytest.mark.parametrize("file", EIGHT)
def test_published_results(data_dir: Path, file: str) -> None:
    """The results of every model in the file are compared with fractions that are counted here."""
    archive, name = data_dir / "syntaxgym" / "published_item_results.tar.xz", f"sg_results/syntaxgym_results_{file}.csv"
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    with tarfile.open(fileobj=lzma.open(archive)) as packed:
        for row in csv.DictReader(packed.extractfile(name).read().decode().splitlines()):  # type: ignore[union-attr]
            right[row["model"], row["suite"]].append(row["correct"] == "True")
    results = read_results(archive / name)
    model, expected = EIGHT[file]
    assert model in results and set(results) == {model for model, _ in right}
    for model, of_model in results.items():
        assert len(of_model) == 34 and sum(map(len, of_model.values())) == 842
        exact = {
            suite: Fraction(sum(outcomes), len(outcomes)) for (of, suite), outcomes in right.items() if of == model
        }
        accuracies = {suite: accuracy(outcome) for suite, outcome in of_model.items()}
        assert accuracies == {suite: float(one) for suite, one in exact.items()}
        for leave_out in ((), LEFT_OUT):
            computed = means(accuracies, leave_out)
            remaining = {suite: one for suite, one in exact.items() if suite not in leave_out}
            assert computed.suites == len(remaining) == 34 - len(leave_out)
            assert computed.over_suites == pytest.approx(float(sum(remaining.values()) / len(remaining)), abs=1e-15)
            for circuit, value in computed.circuits.items():
                in_circuit = [
                    one for suite, one in remaining.items() if suite.split("_")[0].split("-")[0] in CIRCUITS[circuit]
                ]
                assert value == pytest.approx(float(sum(in_circuit) / len(in_circuit)), abs=1e-15)
            assert computed.over_circuits == pytest.approx(sum(computed.circuits.values()) / 6, abs=1e-15)
    over_suites = means({suite: accuracy(outcome) for suite, outcome in results[EIGHT[file][0]].items()}).over_suites
    assert over_suites is not None and round(10_000 * over_suites) == expected


def test_results_by_model_and_suite(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("model,suite,item,correct\ng_0,npi,1,True\ng_1,npi,1,True\ng_0,cleft,2,True\ng_0,npi,12,False\n")
    assert read_results(path) == {
        "g_0": {"npi": [Outcome(1, (True,)), Outcome(12, (False,))], "cleft": [Outcome(2, (True,))]},
        "g_1": {"npi": [Outcome(1, (True,))]},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,suite,item\n", ":1: results begin with the line model,suite,item,correct"),
        ("model,suite,item,correct\n", ": no results"),
        ("model,suite,item,correct\na,b,1\n", ":2: 3 fields, not 4"),
        ("model,suite,item,correct\na,b,x,True\n", ":2: 'x' is no item number"),
        ("model,suite,item,correct\na,b,1,true\n", ":2: 'true' is neither True nor False"),
        ("model,suite,item,correct\na,b,1,True\na,b,1,False\n", ":3: item 1 of b stands twice for model a: remove one"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(text)
    with pytest.raises(LineError) as error:
        read_results(path)
    assert str(error.value) == f"{path}{message}"
