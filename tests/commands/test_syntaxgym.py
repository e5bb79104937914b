"""`grove syntaxgym`: sums of regions against the reference, skipped items, published results and mistakes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accel
from accel.data.batches.text import EOS, TextBatch
from accel.models.fasttrees import language_model
from accel.models.gpst import model as gpst
from accel.trained.opening import open_model
from refimpl.trees import words as words_of
from tests.fixtures.command_line import settings
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_batches import batch_with
from tests.fixtures.gpst_runs import closed, exact, pieces, text, train
from tests.fixtures.gpst_search import bits_of
from tests.fixtures.syntax_suites import write_suite
from tests.fixtures.text_files import LANGUAGE_MODEL
from tests.fixtures.toy_house import House, house

__all__ = ["closed", "house", "pieces", "text"]
SKIPPED = "condition 'b': the word 'zebra' is not in the closed vocabulary of"


def pairs_of(text: Path) -> list[tuple[list[str], list[str]]]:
    lines = [line.split()[:5] for line in text.read_text().splitlines()]
    lines = [line for line in lines if len(line) == 5]
    return [(lines[0], [lines[0][0], *lines[1][1:]]), (lines[2], lines[3]), (lines[4], lines[5])]


def check(content: dict[str, Any], expected: dict[int, dict[str, list[float]]], suite: str = "number_toy") -> None:
    """Compare the items of an output file with the expected bits of words, by item and condition."""
    items = {item["item"]: item for item in content["suites"][suite]["items"] if "skipped" not in item}
    assert items.keys() == expected.keys()
    for number, conditions in expected.items():
        sums = {name: [bits[0], sum(bits[1:3]), 0, sum(bits[3:])] for name, bits in conditions.items()}
        item = items[number]
        for name, of_regions in sums.items():
            assert list(item["bits"][name]) == ["1", "2", "3", "4"]
            assert list(item["bits"][name].values()) == pytest.approx(of_regions, abs=2e-4)
        assert item["predictions"] == [sums["a"][1] < sums["b"][1], abs(sums["a"][0] - sums["b"][0]) < 1e-3]
        assert item["correct"] is item["predictions"][0]


@pytest.mark.parametrize("kind", ["pieces", "closed"])
def test_regions_of_a_gpst(
    text: Path, kind: str, tmp_path: Path, request: pytest.FixtureRequest, grove: Callable[..., str]
) -> None:
    """The bits of a region are the sum of the bits of its pieces, which the reference's search gives."""
    run, pairs = request.getfixturevalue(kind), pairs_of(text)
    suite, out = write_suite(tmp_path / "toy.json", pairs), tmp_path / "out.json"
    output = grove("syntaxgym", "--checkpoint", run, suite, "--beam", 4, "--batch-size", 3, "--out", out)
    model, steps = exact(run)
    expected: dict[int, dict[str, list[float]]] = {}
    for number, pair in enumerate(pairs, 1):
        for name, words in zip("ab", pair, strict=True):
            encoded = [model.vocabulary.encode_words([word]) for word in words]
            bits = iter(bits_of(steps, 4, [i for ids in encoded for i in ids]))
            expected.setdefault(number, {})[name] = [sum(next(bits) for _ in ids) for ids in encoded]
    content = json.loads(out.read_text())
    check(content, expected)
    right = sum(item["correct"] for item in content["suites"]["number_toy"]["items"])
    assert content["suites"]["number_toy"]["items"][0]["predictions"][1] is True  # the first words are the same
    assert content["means"]["all suites"]["circuits"] == {"Agreement": right / 3}
    row = ["number_toy", "Agreement", str(right), "3", "0", f"{right / 3:.4f}", "0.5000"]
    assert output.splitlines()[1].split() == row and content["suites"]["number_toy"]["chance"] == 0.5
    assert output.splitlines()[-1] == "unknown words: 0 of 30"


def test_regions_of_a_gpt2(text: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    run, pairs = train(text, tmp_path / "run", "--vocabulary", "words", "--model", "gpt2"), pairs_of(text)
    grove("syntaxgym", "--checkpoint", run, write_suite(tmp_path / "toy.json", pairs), "--out", tmp_path / "out")
    model = open_model(accel.load("cpu"), run)

    def bits(words: list[str]) -> list[float]:
        batch = batch_with(np.array(model.vocabulary.encode_words(words), np.int32), [5])
        logps: np.ndarray = gpst.token_logps(CPU, model.config, model.parameters, batch)[0]
        return (logps / -math.log(2)).tolist()

    expected = {n: {"a": bits(first), "b": bits(second)} for n, (first, second) in enumerate(pairs, 1)}
    check(json.loads((tmp_path / "out").read_text()), expected)


def test_regions_of_a_language_model(text: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    """Bits are exact; a sentence follows an end of line; a word that training lacks becomes <unk> and is counted."""
    (tmp_path / "train").write_text(text.read_text() + "<unk> dogs\n")
    files = ("--data", tmp_path / "train", "--validation", text, "--length=8", "--batch-size=3", "--steps=3")
    grove("train", "--task", "language_model", "--out", tmp_path / "run", *files, *settings(LANGUAGE_MODEL))
    pairs = pairs_of(text)
    pairs[1][1][2] = "zebra"
    suite = write_suite(tmp_path / "toy.json", pairs)
    output = grove("syntaxgym", "--checkpoint", tmp_path / "run", suite, "--out", tmp_path / "out")
    assert output.splitlines()[-1] == "unknown words: 1 of 30"
    model = open_model(accel.load("cpu"), tmp_path / "run")

    def bits(words: list[str]) -> list[float]:
        ids = np.array(model.vocabulary.encode([EOS, *words]), np.int32)
        batch = TextBatch(ids[:-1], ids[1:], np.array([0, 5]), 5, 1.0, True)
        logps, _ = language_model.token_logps(CPU, model.config, model.parameters, batch)
        return [-float(logp) / math.log(2) for logp in logps]

    expected = {n: {"a": bits(first), "b": bits(second)} for n, (first, second) in enumerate(pairs, 1)}
    check(json.loads((tmp_path / "out").read_text()), expected)


def test_unreadable_items_are_skipped_and_counted(
    text: Path, closed: Path, tmp_path: Path, grove: Callable[..., str]
) -> None:
    pairs = pairs_of(text)
    pairs[1] = (pairs[1][0], ["zebra", *pairs[1][1][1:]])
    pairs[2] = (pairs[2][0] * 19, pairs[2][1])
    write_suite(tmp_path / "a.json", pairs)
    write_suite(tmp_path / "b.json", [pairs[1]], "npz_toy")
    out = tmp_path / "out"
    lines = grove("syntaxgym", "--checkpoint", closed, tmp_path / "a.json", tmp_path / "b.json", "--out", out)
    content = json.loads(out.read_text())
    reasons = [item.get("skipped", "") for item in content["suites"]["number_toy"]["items"]]
    long = "condition 'a': a sentence of 95 tokens, more than a context of the model has, 90"
    assert reasons[0] == "" and reasons[1].startswith(SKIPPED) and reasons[2] == long
    assert content["suites"]["npz_toy"]["accuracy"] is None
    assert content["means"]["all suites"]["suites"] == 1 and set(content["means"]["all suites"]["circuits"]) == {
        "Agreement"
    }
    rows = [line.split() for line in lines.splitlines()]
    assert rows[1][3:5] == ["1", "2"] and rows[2][1:] == ["Garden-Path", "Effects", "0", "0", "1", "-", "0.5000"]
    assert lines.splitlines()[-1].startswith(f"skipped: 3 items, the first item 2 of number_toy: {SKIPPED}")


def test_words_that_the_parser_cannot_read_are_not_counted(
    house: House, tmp_path: Path, grove: Callable[..., str]
) -> None:
    """The parser reads 12 words; the item with a longer sentence is skipped."""
    long = next(words for tree in house.gold if len(words := words_of(tree)) > 12)
    suite = write_suite(tmp_path / "toy.json", [(long[:5], long[:5]), (long[:5], long)])
    parser = ("--parser", house.folder / "parser", "--proposals-per-sentence", 2)
    lines = grove("syntaxgym", "--checkpoint", house.folder / "tg", suite, *parser).splitlines()
    assert lines[-2] == "unknown words: 0 of 10" and lines[-1].startswith("skipped: 1 items, the first item 2 of")


def test_lower_case(text: Path, closed: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    pairs = [pair for pair in pairs_of(text) if all(word.islower() for words in pair for word in words)]
    assert pairs
    results = []
    for name, change, options in (("plain", str.lower, ()), ("loud", str.upper, ("--lower",))):
        new_pairs = [tuple([change(word) for word in words] for words in pair) for pair in pairs]
        suite, out = write_suite(tmp_path / f"{name}.json", new_pairs), tmp_path / name  # type: ignore[arg-type]
        grove("syntaxgym", "--checkpoint", closed, suite, "--out", out, *options)
        results.append(json.loads(out.read_text())["suites"])
    assert results[0] == results[1] and results[0]["number_toy"]["accuracy"] is not None


def test_published_results(tmp_path: Path, grove: Callable[..., str]) -> None:
    rows = ["number_orc,0,True", "number_orc,1,False", "fgd-embed3,0,False", "cleft,0,True", "nn-nv-rpl,0,True"]
    (tmp_path / "results.csv").write_text("model,suite,item,correct\n" + "".join(f"x_1,{row}\n" for row in rows))
    lines = grove("syntaxgym", "--results", tmp_path / "results.csv").splitlines()
    assert lines[0] == "x_1" and lines[2].split() == ["number_orc", "Agreement", "1", "2", "0", "0.5000"]
    means = {line[:26].strip(): line[26:].split() for line in lines[6:] if line}
    assert means[""] == ["4", "suites", "2", "of", "Transformer", "Grammars"]
    assert means["Long-Distance Dependencies"] == ["0.5000", "1.0000"] and means["Licensing"] == ["-", "-"]
    assert means["mean over circuits"] == ["0.5000", "0.7500"] and means["mean over suites"] == ["0.6250", "0.7500"]


def test_mistakes_are_named(text: Path, closed: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    suite = write_suite(tmp_path / "toy.json", pairs_of(text))
    command = ("syntaxgym", "--checkpoint", closed, suite)
    assert mistake(*command[:3]) == "SUITES: give suites, or a folder or an archive of suites"
    assert mistake(*command, suite) == f"{suite}: a second suite number_toy: give each once"
    assert mistake(*command, "--beam", 0) == "--beam 0: at least 1 is needed"
    assert mistake(*command, "--batch-size", 0) == "--batch-size 0: at least 1 is needed"
    message = f"--out {tmp_path / 'no' / 'x'}: no directory {tmp_path / 'no'}: make it first"
    assert mistake(*command, "--out", tmp_path / "no" / "x") == message
    assert mistake(*command, "--out", tmp_path) == f"--out {tmp_path}: a directory: name a file in it"
    assert (
        mistake(*command[:3], tmp_path / "none.json")
        == f"{tmp_path / 'none.json'}: No such file or directory: check the name"
    )
    assert mistake("syntaxgym", suite).startswith("one of the arguments --checkpoint --results is required")
    wrong = mistake("syntaxgym", "--results", tmp_path / "results.csv", suite)
    assert wrong == "SUITES: is for --checkpoint, and --results are given: leave it out"
    wrong = mistake("syntaxgym", "--results", tmp_path / "results.csv", "--lower", "--beam", 5)
    assert wrong == "--lower: is for --checkpoint, and --results are given: leave it out"
    (tmp_path / "broken.json").write_text(suite.read_text().replace("(2;%a%)", "(9;%a%)"))
    wrong = mistake(*command[:3], tmp_path / "broken.json")
    assert wrong == f"{tmp_path / 'broken.json'}: prediction 1: unknown region 9 in item 1, condition 'a'"
