"""Ensembles in the commands that compute surprisals: copies, different models, and models that cannot be combined."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel.data.corpora.treebank import encode_trees
from accel.parsing.propose import propose
from accel.scoring.prefix_tree import word_prefix_logps
from accel.trained.opening import open_model
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_runs import closed, text
from tests.fixtures.minimal_pair_files import HEADER
from tests.fixtures.syntax_suites import write_suite
from tests.fixtures.toy_house import SMALL, House, house, read_bits, short_sentences

__all__ = ["closed", "house", "text"]
Grove = Callable[..., str]


def lines_of(house: House, folder: Path) -> Path:
    path = folder / "lines"
    path.write_text("".join(f"{' '.join(words)}\n" for words in short_sentences(house)))
    return path


@pytest.mark.parametrize("ensemble", ["mixture", "product"])
def test_copies_have_the_surprisals_of_the_model(house: House, tmp_path: Path, ensemble: str, grove: Grove) -> None:
    lines, proposals = lines_of(house, tmp_path), ("--parser", house.folder / "parser", "--proposals-per-sentence", 4)
    for name, search in (("tg", SMALL), ("txl_cc", proposals), ("words", ())):
        once = read_bits(grove("surprisal", *house.checkpoints(name), lines, *search))
        both = house.checkpoints(name, name)
        twice = read_bits(grove("surprisal", *both, lines, *search, "--ensemble", ensemble))
        assert twice == pytest.approx(once, abs=2e-3) and len(once) > 4


def test_different_models_are_summed_over_proposals(house: House, tmp_path: Path, grove: Grove) -> None:
    """Ensembles of a TG and a TXL (CC), as in Figure 7, have the surprisals that the paper defines."""
    sentences, parser = short_sentences(house), open_model(CPU, house.folder / "parser")
    groups = [[tree for tree, _ in ranked] for ranked in propose(CPU, parser, sentences, 5)]
    models = [house.model("tg"), house.model("txl_cc")]
    corpus = encode_trees((tree for group in groups for tree in group), models[0].vocabulary)
    both = house.checkpoints("tg", "txl_cc")
    search = ("--parser", house.folder / "parser", "--proposals-per-sentence", 5)
    for ensemble in ("mixture", "product"):
        surprisals = read_bits(grove("surprisal", *both, lines_of(house, tmp_path), *search, "--ensemble", ensemble))
        logps = word_prefix_logps(CPU, models, corpus, [5] * len(groups), ensemble=ensemble)
        expected = [x for of_words in logps for x in np.diff([0.0, *of_words]) / -math.log(2)]
        assert surprisals == pytest.approx(expected, abs=2e-3)


def test_suites_and_pairs_take_ensembles(house: House, tmp_path: Path, grove: Grove) -> None:
    good, *_ = (words for words in short_sentences(house, 20) if len(words) > 3)
    bad = [*good[:2], next(word for word in good if word != good[2]), *good[3:]]
    suite = write_suite(tmp_path / "toy.json", [(good, bad)])
    (tmp_path / "ml.tsv").write_text(HEADER + f"t\tc\t{' '.join(good)}\t{' '.join(bad)}\t\n")
    command = ("syntaxgym", suite, *SMALL, "--out", tmp_path / "out")
    contents = []
    for names in (("tg",), ("tg", "txl_cc"), ("txl_cc",)):
        grove(*command, *house.checkpoints(*names))
        contents.append(json.loads((tmp_path / "out").read_text()))
    sums = [content["suites"]["number_toy"]["items"][0]["bits"]["a"]["1"] for content in contents]
    assert len(set(sums)) == 3 and all(map(math.isfinite, sums))
    assert contents[1]["ensemble"] == "mixture" and contents[1]["others"][0].startswith(str(house.folder / "txl_cc"))
    assert "others" not in contents[0] and contents[0]["checkpoint"] == contents[1]["checkpoint"]
    command = ("minimal_pairs", "--data", tmp_path / "ml.tsv", "--format", "marvin_linzen", "--out", tmp_path / "out")
    for names in (("words",), ("words", "words")):
        grove(*command, *house.checkpoints(*names), *("--ensemble", "product")[: 2 * len(names) - 2])
        contents.append(json.loads((tmp_path / "out").read_text()))
    one, two = (content["paradigms"]["t"]["pairs"][0]["bits"] for content in contents[3:])
    assert two == pytest.approx(one, abs=1e-3) and contents[4]["ensemble"] == "product"


def test_models_that_make_no_ensemble_are_refused(house: House, closed: Path, tmp_path: Path, mistake: Grove) -> None:
    lines = lines_of(house, tmp_path)
    wrong = mistake("surprisal", "--checkpoint", closed, "--checkpoint", closed, lines)
    assert wrong.endswith("holds a gpst, which makes no ensemble; models that do: tg, txl_cc, txl_terminals")
    wrong = mistake("surprisal", *house.checkpoints("tg", "words"), lines)
    assert "a txl_terminals and a tg make no ensemble" in wrong
    parse = ("parse", *house.checkpoints("tg", "tg"), lines)
    assert mistake(*parse).startswith("parse: several models are compared on --gold trees")
