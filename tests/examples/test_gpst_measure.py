"""The measures of a trained GPST: every part runs once; trees and pairs have the scores of the commands."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import accel
from accel.data.generated.grammar import ENGLISH
from accel.evaluation.evalb_input import with_tags
from accel.evaluation.induced_f1 import BASELINES
from accel.evaluation.syntaxgym import circuit_of
from accel.scoring.surprisals import bits_of_words
from accel.trained.opening import open_model
from examples.commands import grove
from examples.gpst import measure, one_tree
from refimpl.trees import words
from tests.fixtures.command_line import settings
from tests.fixtures.gpst_runs import TINY
from tests.fixtures.minimal_pair_files import line
from tests.fixtures.syntax_suites import write_suite


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Paths by name: runs of a GPST and a GPT-2 of three steps, tagged trees, a suite, and pairs, one with a tie."""
    folder = tmp_path_factory.mktemp("measure")
    trees = [with_tags(tree, ["NN"] * len(words(tree))) for tree in ENGLISH.sample(12, 1)]
    (folder / "gold.trees").write_text("".join(f"{tree}\n" for tree in trees))
    (folder / "text").write_text("".join(f"{' '.join(words(tree))}\n" for tree in ENGLISH.sample(60, 2)))
    write_suite(folder / "suite.json", [("the dog sleeps .".split(), "the dog sleep .".split())] * 2)
    pairs = (line(), line(good="The dogs sleep.", bad="The dogs sleep.", pairID="1"))
    (folder / "toy.jsonl").write_text("".join(pairs))
    short = ("--sentence-a-line", "--max-tokens", 200, "--steps", 3, "--batch-size", 4, "--vocabulary-size", 320)
    for model in ("gpst", "gpt2"):
        grove("train", "--task", "gpst", "--model", model, "--data", folder / "text", "--out", folder / model,
              *short, *settings(TINY))  # fmt: skip
    return {path.name.partition(".")[0]: path for path in folder.iterdir()}


def asked(material: dict[str, Path], out: Path, model: str, *more: object) -> dict[str, Any]:
    words = ["--checkpoint", material[model], "--suites", material["suite"], "--blimp", material["toy"], "--per", 2,
             "--beam", 2, "--out", out, *more]  # fmt: skip
    return measure.main([str(word) for word in words])


def test_every_part_is_measured_once(
    material: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "measured.json"
    trees = ("--induction", material["gpst"], "--gold", f"toy={material['gold']}", "--most", 5)
    content = asked(material, out, "gpst", *trees)
    assert list(content) == ["options", "trees toy", "syntaxgym", "blimp"] and json.loads(out.read_text()) == content
    part = content["trees toy"]
    assert (part["sentences"], part["of"], part["every"]) == (4, 12, 3)
    assert list(part["scores"]) == [*measure.WAYS, *BASELINES, "oracle"]
    for name, of_sentences in part["of_sentences"].items():
        assert len(of_sentences) == 4
        assert fmean(of_sentences) == pytest.approx(part["scores"][name]["sentence_f1"], abs=0.01)
    capsys.readouterr()
    assert asked(material, out, "gpst", *trees) == content and not capsys.readouterr().out
    del content["blimp"]
    out.write_text(json.dumps(content))
    assert asked(material, out, "gpst", *trees).keys() == {"options", "trees toy", "syntaxgym", "blimp"}
    assert capsys.readouterr().out.count("$ grove") == 1
    with pytest.raises(SystemExit, match="measured.json: measured with other beam, most: give another --out"):
        asked(material, out, "gpst", *trees, "--most", 6, "--beam", 3)
    other = tmp_path / "other.trees"
    other.write_text("(S (NN dogs) (VBP sleep))\n")
    for model, more, option in (
        ("gpt2", trees, "checkpoint"),
        ("gpst", ("--induction", material["gpt2"], *trees[2:]), "induction"),
        ("gpst", (*trees[:2], "--gold", f"toy={other}", *trees[4:]), "gold toy"),
    ):
        with pytest.raises(SystemExit, match=f"measured.json: measured with other {option}: give another --out"):
            asked(material, out, model, *more)


def test_ties_and_circuits(material: dict[str, Path], tmp_path: Path) -> None:
    content = asked(material, tmp_path / "measured.json", "gpt2")
    assert list(content) == ["options", "syntaxgym", "blimp"]
    pairs = content["blimp"]
    means = [pairs["accuracy"][name]["mean"] for name in measure.TIES]
    assert (pairs["pairs"], pairs["ties"], pairs["skipped"]) == (2, 1, 0)
    assert means == [means[0], means[0] + 0.25, means[0] + 0.5] and means[0] in (0, 0.5)
    assert pairs["phenomena"] == {"agreement": means[0]}
    circuit = circuit_of("number_toy")
    suites = content["syntaxgym"]
    assert (suites["items"], suites["skipped"], suites["suites"]) == (2, 0, 1) and circuit in suites["circuits"]


def test_the_good_sentence_has_fewer_bits() -> None:
    pairs = [(1.0, 2.0), (2.0, 1.0), (3.0, 3.0)]
    rights = {name: measure._right(pairs, worth) for name, worth in measure.TIES.items()}
    assert rights == {"wrong": [1, 0, 0], "half": [1, 0, 0.5], "right": [1, 0, 1]}


def test_trees_need_a_model(material: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in (("--gold", f"toy={material['gold']}"), ("--gold", "toy", "--induction", material["gpst"])):
        with pytest.raises(SystemExit):
            asked(material, tmp_path / "measured.json", "gpst", *more)
    error = capsys.readouterr().err
    assert "--gold: measures the trees of the model of --induction" in error and "give NAME=TREEBANK" in error


def test_one_tree_and_the_sum_over_parses(material: dict[str, Path], tmp_path: Path) -> None:
    """Pieces of a word are one word; a line that is longer than a context is left out."""
    text, out = tmp_path / "text", tmp_path / "new" / "out.json"
    text.write_text("the dog sleeps\n\nthe cats see the dog\n" + "the dog " * 150 + "\n")
    models = ("--gpst", material["gpst"], "--gpt2", material["gpt2"])
    content = one_tree.main([str(word) for word in (*models, "--text", text, "--out", out, "--beam", 42)])
    assert json.loads(out.read_text()) == content
    assert (content["sentences"], content["words"], content["of"], content["beam"]) == (2, 8, 3, 42)
    assert content["gpst"]["apart"] > content["gpst"]["apart, summed"] > 1 < content["gpt2"]["apart"]
    model = open_model(accel.load("cpu"), material["gpt2"])
    bits = bits_of_words(
        accel.load("cpu"), model, [line.split() for line in ("the dog sleeps", "the cats see the dog")]
    )
    assert content["gpt2"]["apart"] == pytest.approx(2 ** (sum(map(sum, bits)) / 8), rel=1e-5)


def test_one_tree_refuses_swapped_models_and_an_empty_text(material: dict[str, Path], tmp_path: Path) -> None:
    (empty := tmp_path / "text").write_text("\n")
    models, out = (material["gpst"], material["gpt2"]), tmp_path / "out.json"
    for (one, other), message in ((models, "has no line"), (models[::-1], "--gpst: .* holds a gpt2: swap")):
        with pytest.raises(SystemExit, match=message):
            one_tree.main(["--gpst", str(one), "--gpt2", str(other), "--text", str(empty), "--out", str(out)])
    assert not out.exists()
