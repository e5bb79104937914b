"""The example of Treeformer, shortened to seconds: it runs, and compares its table with the expected one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accel.data.files.brackets import read_trees
from accel.data.generated.grammar import CONSTRUCTIONS, ENGLISH
from accel.training.run import METRICS
from examples.commands import EXPECTED, compare
from examples.treeformer import head_final
from refimpl.trees import Tree, words

COLUMNS = ["test", "known subjects", *(name.replace("_", " ") for name, held_out in CONSTRUCTIONS.items() if held_out)]


def test_head_final(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sacrebleu", reason="the extra translate is not installed")
    short = ["--out", str(tmp_path), "--sentences", "600", "--test", "20", "--steps", "80"]
    figures = head_final.main(short)
    assert {model: list(values) for model, values in figures.items()} == dict.fromkeys(head_final.MODELS, COLUMNS)
    out = capsys.readouterr().out
    commands = ["train", "train", "train", "translate", "parse", "draw chart", "draw parse"]
    called = [line for line in out.splitlines() if line.startswith("$")]
    assert all(line.startswith(f"$ grove {name}") for name, line in zip(commands, called, strict=True))
    assert "Treeformer, test: " in out.partition("figures are not as expected")[2]  # so few steps do not learn it
    assert "treeformer  " in out and "random" in out
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
    for name in ("chart.svg", "parse.svg"):
        assert head_final.SENTENCE.split()[2] in (tmp_path / name).read_text()
    lines = (tmp_path / "treeformer" / METRICS).read_text().splitlines()
    assert len(lines) == 80 and json.loads(lines[-1])["loss"] < json.loads(lines[0])["loss"]


def phrases(tree: Tree) -> list[Tree]:
    return [tree, *(phrase for child in tree.children if isinstance(child, Tree) for phrase in phrases(child))]


def test_targets(tmp_path: Path) -> None:
    """A target has the words of its source; the words of a phrase stay together, and the verb comes last."""
    trees = list(ENGLISH.sample(50, 1))
    head_final.write_pairs(tmp_path, "x", trees)
    sources, targets = ((tmp_path / f"x.{name}").read_text().splitlines() for name in ("english", "final"))
    bare = list(read_trees((tmp_path / "x.trees").read_text().splitlines()))
    assert len(bare) == len(sources) == len(targets) == 50
    for tree, source, target in zip(bare, sources, targets, strict=True):
        assert " ".join(words(tree)) == source and sorted(source.split()) == sorted(target.split())
        assert all(f" {' '.join(head_final.head_final(phrase))} " in f" {target} " for phrase in phrases(tree))
    simple = Tree("S", (Tree("NP", ("he",)), Tree("VP", ("sees", Tree("NP", ("the", "dog")), Tree("PP", ("x",))))))
    assert head_final.head_final(simple) == ["he", "x", "the", "dog", "sees"]


def test_expected_figures_are_complete() -> None:
    [(program, models)] = json.loads(Path(head_final.__file__).with_name(EXPECTED).read_text()).items()
    assert program == "head_final" and set(models) == set(head_final.MODELS)
    exact = {model: {name: pair[0] for name, pair in values.items()} for model, values in models.items()}
    assert all(list(values) == COLUMNS for values in exact.values())
    assert compare(head_final.__file__, exact) == []
    exact["Treeformer"]["test"] = 0.0
    assert len(compare(head_final.__file__, exact)) == 1
