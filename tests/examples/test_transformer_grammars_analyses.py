"""The analyses of Transformer Grammars, shortened to seconds: tables, pictures, and the arithmetic behind them."""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from math import inf, isclose, log
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from accel.data.corpora.treebank import Reading
from accel.data.files.brackets import read_trees
from accel.data.generated.grammar import ENGLISH
from accel.data.vocabularies.building import build
from accel.evaluation.evalb_input import with_tags
from accel.training.last_checkpoints import kept_checkpoints
from accel.training.run import METRICS, TrainingError
from examples.transformer_grammars import ensembles, evolution, exactness, hybrids, regressions, speed
from examples.transformer_grammars.sentences import test_proposals as proposals_of
from refimpl.transformer_grammars.marginal import mixture_logp, sentence_logp
from refimpl.trees import Tree, words
from tests.fixtures.syntax_suites import write_suite

SIZE = ["--d-model", "8", "--layers", "2", "--heads", "2", "--length", "32"]
SHORT = [*SIZE, "--sentences", "200", "--test", "3", "--changed", "2", "--pairs", "2", "--steps", "4", "--seeds", "1",
         "--batch-size", "4"]  # fmt: skip


def written(out: Path, program: str) -> dict[str, Any]:
    """Return the content of a program's result file, after a check of the file, the picture and the table."""
    result = json.loads((out / f"{program}.json").read_text())
    assert result["analysis"] == program and result["hours"] > 0
    assert {"commit", "seeds", "options", "data", "machine"} <= result.keys()
    assert {"processor", "cores", "threads"} == result["machine"].keys()
    assert all(len(digest) == 16 for digest in result["data"].values())
    ElementTree.fromstring((out / f"{program}.svg").read_text())
    assert (out / f"{program}.md").read_text().startswith("| ")
    return result


def trees_of(out: Path) -> list[str]:
    """Write the files of a treebank of generated English without tags, and return the options that read it."""
    out.mkdir()
    for seed, (split, count) in enumerate({"train": 60, "valid": 4, "test": 4}.items()):
        (out / f"{split}.trees").write_text("".join(f"{tree}\n" for tree in ENGLISH.sample(count, seed)))
    return ["--data", str(out), "--keep-tags"]


def test_hybrids(tmp_path: Path) -> None:
    rows = hybrids.main(["--out", str(tmp_path), *SHORT])
    names = {(row["kind"], row["k"]): row["run"] for row in rows}
    assert len(rows) == 9 and names["heads", 2] == names["top", 2] == names["bottom", 2] == "tg-0.0"
    assert names["heads", 1] == "tg-1.1" and names["top", 1] == "tg-2.0" and names["bottom", 1] == "tg-0.2"
    runs = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert runs == ["tg-0.0-0", "tg-0.2-0", "tg-1.1-0", "tg-2.0-0", "tg-2.2-0"]
    assert written(tmp_path, "hybrids")["found"] == rows
    table = (tmp_path / "hybrids.md").read_text().splitlines()
    assert len(table) == 11 and table[0].endswith("| perplexity, upper bound | agreement, % |")
    before = (tmp_path / "tg-2.2-0" / METRICS).read_bytes()
    assert hybrids.main(["--out", str(tmp_path), *SHORT]) == rows  # complete: nothing is trained or scored again
    assert (tmp_path / "tg-2.2-0" / METRICS).read_bytes() == before


def test_suites(tmp_path: Path) -> None:
    pairs = [("the dog sleeps .".split(), "the dog sleep .".split()), ("he sings .".split(), "he sing .".split())]
    suite = write_suite(tmp_path / "suite.json", [(one, other) for one, other in pairs])
    suites = ["--suites", str(suite), "--beam", "4", "--layers", "1", "--heads", "1"]
    rows = hybrids.main(["--out", str(tmp_path), *SHORT, *suites])
    assert all(figures["SG"] in (0, 0.5, 1) and figures["skipped"] == 0 for row in rows for figures in row["found"])
    assert (tmp_path / "hybrids.md").read_text().splitlines()[0].endswith("| agreement, % | SG, % |")


@pytest.mark.parametrize("program", [exactness, regressions, speed])
def test_suites_are_refused_where_none_are_run(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="^2$"):
        program.main(["--suites", "suites"])
    assert "unrecognized arguments: --suites suites" in capsys.readouterr().err


def test_seeds_become_means_and_deviations() -> None:
    of_seeds = [{"perplexity": 10.0, "agreement": 0.25}, {"perplexity": 12.0, "agreement": 0.75}]
    table = hybrids.table_of([{"kind": "top", "k": 1, "run": "", "found": of_seeds}])
    assert table.splitlines()[-1] == "| top layers | 1 | 2 | 11.000 ± 1.414 | 50.0 ± 35.4 |"


def test_ensembles(tmp_path: Path) -> None:
    arguments = ["--out", str(tmp_path), *SHORT, "--seeds", "3", "--subsets", "2", "--products", "1"]
    results = ensembles.main(arguments)
    assert [row["size"] for row in results["tg"]] == [1, 2, 3] and [row["size"] for row in results["tg+txl_cc"]] == [2]
    assert all(len(row["mixture"]) == len(row["subsets"]) <= 2 for rows in results.values() for row in rows)
    assert [name for row in results["tg"] for name in row] == [*["size", "subsets", "mixture"] * 2, "product",
                                                             "size", "subsets", "mixture"]  # fmt: skip
    written(tmp_path, "ensembles")
    text = (tmp_path / "ensembles.md").read_text()
    assert text.count("\n| TG |") == 4 and text.count("| TG + TXL (CC) | 2 |") == 2  # with its product
    assert ensembles.main(arguments) == results
    ensembles.main([*arguments[:-1], "0"])
    assert "products" not in (tmp_path / "ensembles.md").read_text()


def test_ensembles_on_suites(tmp_path: Path) -> None:
    """As in Figure 7, mixtures and products have a score on suites beside their perplexity."""
    suite = write_suite(tmp_path / "suite.json", [("the dog sleeps .".split(), "the dog sleep .".split())])
    small = ["--seeds", "2", "--products", "1", "--suites", str(suite), "--beam", "4", "--layers", "1", "--heads", "1"]
    results = ensembles.main(["--out", str(tmp_path / "out"), *SHORT, *small])
    figures = [
        entry for rows in results.values() for row in rows for entry in (*row["mixture"], *row.get("product", ()))
    ]
    assert all(entry["SG"] in (0, 1) and entry["skipped"] == 0 for entry in figures)
    assert "| SG, % |" in (tmp_path / "out" / "ensembles.md").read_text().splitlines()[0]
    assert "SG, %, product" in (tmp_path / "out" / "ensembles.md").read_text()


def test_mixtures_are_of_events() -> None:
    logps = np.log([[0.5, 0.25, 0.5], [0.25, 0.75, 0.125]])
    mixtures = ensembles.mixture(logps, np.array([0, 2, 3]))
    np.testing.assert_allclose(mixtures, [mixture_logp(logps)[:2].sum(), log(0.3125)])


def test_subsets() -> None:
    assert ensembles.subsets(4, 4, 20) == [(0, 1, 2, 3)] and ensembles.subsets(3, 1, 3) == [(0,), (1,), (2,)]
    sample = ensembles.subsets(10, 4, 20, groups=2)
    assert len(set(sample)) == 20 and all(sum(k < 10 for k in subset) == 4 == len(set(subset)) - 4 for subset in sample)


def test_evolution(tmp_path: Path) -> None:
    of_new_runs = evolution.main(["--out", str(tmp_path), *SHORT])
    assert of_new_runs.keys() == {"tg", "txl_cc", "txl_terminals"}
    assert all(list(steps) == [1, 2, 3, 4] for steps in of_new_runs.values())
    result = written(tmp_path, "evolution")
    assert list(result["found"]["tg"]) == ["1", "2", "3", "4"]
    assert len((tmp_path / "evolution.md").read_text().splitlines()) == 6
    runs = ["--runs", str(tmp_path / "tg-0"), str(tmp_path / "txl_terminals-0")]
    data = trees_of(tmp_path / "trees")
    of_finished_runs = evolution.main(["--out", str(tmp_path / "given"), *SHORT, *runs, *data])
    assert of_finished_runs.keys() == {"tg", "txl_terminals"}
    assert list(of_finished_runs["tg"]) == list(of_new_runs["tg"])
    assert written(tmp_path / "given", "evolution")["data"].keys() == {"trees/test.trees"}
    with pytest.raises(SystemExit, match="--runs: give the test trees"):
        evolution.main(["--out", str(tmp_path), *runs])
    for checkpoint in kept_checkpoints(tmp_path / "tg-0"):
        checkpoint.unlink()
    with pytest.raises(SystemExit, match="tg-0: holds no checkpoint under its step"):
        evolution.main(["--out", str(tmp_path), *runs, *data])


def test_real_trees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = trees_of(tmp_path / "trees")
    rows = hybrids.main(["--out", str(tmp_path / "out"), *SHORT, *data, "--vocabulary-size", "40", "--layers", "1"])
    assert "all words and labels of 0 of 10 pairs" in capsys.readouterr().out  # the vocabulary is small
    assert all(figures.keys() == {"perplexity"} for row in rows for figures in row["found"])
    before = (tmp_path / "out" / "tg-2-0" / "vocabulary.json").read_bytes()
    with pytest.raises(TrainingError):  # existing files stay
        hybrids.main(["--out", str(tmp_path / "out"), *SHORT, *data, "--vocabulary-size", "60", "--layers", "1"])
    assert (tmp_path / "out" / "tg-2-0" / "vocabulary.json").read_bytes() == before
    files = {f"trees/{split}.trees" for split in ("train", "valid", "test")}
    assert written(tmp_path / "out", "hybrids")["data"].keys() == files


def test_proposals_without_tags_beside_trees_with_tags(tmp_path: Path) -> None:
    """A parser's proposals have no tags: their nodes over one word are constituents, and are not dropped as tags."""
    trees = list(ENGLISH.sample(5, 0))
    texts = {"test.trees": [with_tags(tree, ["X"] * len(words(tree))) for tree in trees], "proposals.trees": trees}
    for name, of_file in texts.items():
        (tmp_path / name).write_text("\n".join(f"{tree}\n" for tree in of_file))
    options = argparse.Namespace(proposals=tmp_path / "proposals.trees", test=4)
    reading = Reading(drop_preterminals=True)
    for proposals in (tmp_path / "proposals.trees", tmp_path / "test.trees", None):
        options.proposals = proposals
        _, groups = proposals_of(tmp_path / "test.trees", options, reading)
        assert [[sentence.tree for sentence in group] for group in groups] == [[tree] for tree in trees[:4]]


DOCUMENT = "(DOC (S (NP the bird) (VP sings)) (S (NP the cat) (VP sees (NP the bird))))"


def test_regression_design_of_two_sentences() -> None:
    """the bird sings | the cat sees the bird: "the" has occurred nowhere, in the first sentence, in the second."""
    [tree] = read_trees([DOCUMENT])
    vocabulary = build([tree])
    case = regressions.context_of(vocabulary.encode(tree), vocabulary)
    assert case.tolist() == [2, 2, 2, 0, 2, 2, 1, 0]
    columns, names = regressions.design(regressions.CONTEXTS, case)
    assert names == list(regressions.CONTEXTS)
    assert columns.T.tolist() == [[0, 0, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 1, 1, 0, 0]]
    sentence = tree.children[1]
    assert isinstance(sentence, Tree)
    alone = regressions.context_of(vocabulary.encode(sentence), vocabulary)  # without the sentence before it
    assert alone.tolist() == [2, 2, 2, 1, 2]
    columns, names = regressions.design(regressions.CONTEXTS, alone)
    assert names == ["InContextCurSentence", "NotInContext"] and columns.shape == (5, 2)


def test_places_of_earlier_terminals() -> None:
    """A word of a closed constituent is no longer on the stack; a word of an open constituent is."""
    [tree] = read_trees(["(S (NP the bird) saw (NP the bird (PP by (NP the bird)) saw bird))"])
    vocabulary = build([tree])
    assert regressions.place_of(vocabulary.encode(tree), vocabulary).tolist() == [2, 2, 2, 1, 1, 2, 0, 0, 0, 0]


def test_frequencies() -> None:
    ids = np.repeat([3, 5, 7], [90, 9, 1])
    assert regressions.frequency_of(ids, 9, (0.5, 0.05))[[3, 5, 7, 8]].tolist() == [0, 1, 2, 2]
    ranks = np.repeat(np.arange(1, 7), [60, 30, 20, 15, 12, 10])  # 60 / rank
    assert isclose(regressions.zipf(ranks), -1.0)


def test_regressions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fits = regressions.main(["--out", str(tmp_path), *SHORT, "--test", "6"])
    of_cases = (regressions.FREQUENCIES, regressions.CONTEXTS, regressions.PLACES)
    for name, variables in zip(regressions.REGRESSIONS, of_cases, strict=True):
        coefficients = fits[name]["coefficients"]
        assert {*coefficients, *fits[name]["absent"]} == set(variables)
        assert sum(one["terminals"] for one in coefficients.values()) == fits[name]["rows"]
        centre = sum(one["terminals"] * one["estimate"] for one in coefficients.values()) / fits[name]["rows"]
        assert isclose(centre, fits["mean"], abs_tol=1e-9)  # a coefficient is the mean of its case
        tg, txl_cc = fits[name]["means"]["tg"], fits[name]["means"]["txl_cc"]
        assert all(isclose(tg[case][0] - txl_cc[case][0], one["estimate"]) for case, one in coefficients.items())
    written(tmp_path, "regressions")
    documents = tmp_path / "documents.trees"
    documents.write_text("\n".join("".join(f"{s}\n" for s in tree.children) for tree in regressions.documents(5, 3)))
    runs = ["--tg", str(tmp_path / "tg-0"), "--txl-cc", str(tmp_path / "txl_cc-0")]
    trees = ["--train", str(documents), "--trees", str(documents)]
    fits_of_runs = regressions.main(["--out", str(tmp_path / "given"), *runs, *trees, "--frequencies", "0.5", "0.4"])
    assert fits_of_runs["frequency"]["absent"] == ["HighFreq", "MediumFreq"]
    assert "No terminal is HighFreq." in capsys.readouterr().out
    other = tmp_path / "other.trees"
    other.write_text(f"{documents.read_text()}\n(NEW {regressions.documents(1, 4)[0].children[0]})\n")
    trees[-1] = str(other)
    assert regressions.main(["--out", str(tmp_path / "other"), *runs, *trees]).keys() == fits_of_runs.keys()
    assert "left out 1 of 6 trees: the runs have not seen their labels\n" in capsys.readouterr().out
    trees[-1] = str(documents)
    with pytest.raises(SystemExit, match="give all of them or none"):
        regressions.main(["--out", str(tmp_path), *runs])
    for tg, txl_cc, kind in ((runs[3], runs[1], "tg"), (runs[1], runs[1], "txl_cc")):
        with pytest.raises(SystemExit, match=f"no {kind} that reads trees as"):
            regressions.main(["--out", str(tmp_path), "--tg", tg, "--txl-cc", txl_cc, *trees])
    with pytest.raises(SystemExit, match="--frequencies: HIGH is below MEDIUM"):
        regressions.main(["--out", str(tmp_path), "--frequencies", "0.1", "0.2"])


def test_documents_speak_of_few_nouns() -> None:
    nouns = {word for number in ("sg", "pl") for _, word in ENGLISH.lexicon[f"noun.{number}"]}
    for tree in regressions.documents(6, 1):
        mentioned = {word.removesuffix("s") for word in words(tree) if word in nouns}
        assert len(tree.children) == regressions.SENTENCES and len(mentioned) <= regressions.NOUNS


def test_the_grammars_trees_are_all_there() -> None:
    sentence = "Kim sees the dog in a park with Mary".split()
    trees = exactness.parses(exactness.AMBIGUOUS, sentence)
    assert len(set(trees)) == len(trees) == 5 and all(words(tree) == sentence for tree in trees)
    together = sentence_logp([exactness.AMBIGUOUS.tree_logp(tree) for tree in trees])
    assert isclose(together, exactness.AMBIGUOUS.sentence_logp(sentence))
    trees = exactness.labelled_trees(["a", "b", "c"], ["X", "Y"])
    assert len(trees) == len(set(trees)) == 2 * (27 + 2 * 18 * 3)  # words bare or labelled, or first two of them joined


def test_bounds_fall_to_the_exact_value(tmp_path: Path) -> None:
    results = exactness.main([
        "--out", str(tmp_path / "out"), *SIZE, "--sentences", "700", "--test", "30", "--max-words", "12",
        "--short", "1", "--steps", "4", "--parser-steps", "1",
    ])  # fmt: skip
    assert list(results["grammar"]["bounds"]) == ["best first", "best first, spoilt", "at random", "by the parser"]
    for under, of_one in results.items():
        for order, bounds in of_one["bounds"].items():
            values = list(bounds.values())
            assert all(a >= b for a, b in pairwise(values)), (under, order)
            assert values[-1] >= of_one["exact"] * (1 - 1e-12)
            if order != "by the parser":
                assert isclose(values[-1], of_one["exact"], rel_tol=1e-9)
    best, spoilt = (results["grammar"]["bounds"][name]["1"] for name in ("best first", "best first, spoilt"))
    assert best < spoilt and results["grammar"]["most"] > 1
    written(tmp_path / "out", "exactness")
    assert exactness.bound([[-1.0], [-inf, -2.0]], 1, 4) == inf


def test_speed(tmp_path: Path) -> None:
    speeds = speed.main(["--out", str(tmp_path), *SHORT, "--repeats", "2", "--steps-each", "1", "--clock", "cpu"])
    for of_model in speeds.values():
        assert of_model.keys() == {"sentences", "documents"}
        assert all(0 < rate["least"] <= rate["median"] <= rate["greatest"] for rate in of_model.values())
    assert len((tmp_path / "speed.md").read_text().splitlines()) == 5
    written(tmp_path, "speed")
