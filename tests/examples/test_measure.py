"""The whole way from published treebanks to result files, on a few generated trees."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from accel.data.generated.grammar import ENGLISH
from accel.evaluation.evalb import with_tags
from examples import measure
from examples.results import result_name
from examples.transformer_grammars import free_treebanks
from refimpl.transformer_grammars.marginal import perplexity
from refimpl.trees import Tree, words

TINY = ("d_model=16", "d_ff=24", "n_layers=1", "n_heads=2", "segment_length=24", "memory_length=24")
PARSER = ("d_model=32", "n_heads=2", "n_layers=1", "d_ff=16", "d_span=32", "warmup_steps=2")


def write(path: Path, *trees: str | Tree) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")


def test_treebanks_are_split_by_article_and_licence(tmp_path: Path) -> None:
    trees = [f"( (S (NP-SBJ (NN n{i})) (VP (VBZ is) (-NONE- *))) )" for i in range(10)]
    write(tmp_path / "craft" / "train.mrg", *trees[:9], "( (NP (NN two words)) )")
    write(tmp_path / "craft" / "dev.mrg", trees[0])
    write(tmp_path / "craft" / "docs.tsv", "split\tpmid\ttrees", *(f"train\t{i}\t1" for i in range(10)), "dev\t10\t1")
    for split in ("train", "valid", "test"):
        write(tmp_path / "tg_example" / f"{split}.txt", "(S (NP (PRP he)) (VP (VBD ran)))")
    for split in ("train", "dev"):
        write(tmp_path / "gum" / f"{split}.ptb", "(ROOT (S (NP (NN free))))", "(ROOT (S (NP (NN unfree))))")
    genres = [f"{split}\t{genre}\t1" for split in ("train", "dev") for genre in ("news", "fiction")]
    write(tmp_path / "gum" / "docs.tsv", "split\tgenre\ttrees", *genres)
    folders = [f"--{name}={tmp_path / name.replace('-', '_')}" for name in ("craft", "tg-example", "gum")]
    free_treebanks.main([*folders, f"--out={tmp_path / 'out'}"])
    lines_of = {path.relative_to(tmp_path / "out").as_posix(): path.read_text().splitlines()
             for path in (tmp_path / "out").glob("*/*.trees")}  # fmt: skip
    assert lines_of["craft/train.trees"] == [f"(S (NP (NN n{i})) (VP (VBZ is)))" for i in range(9)]
    assert lines_of["craft/valid.trees"] == []  # the last article, whose only tree has a tag over two words
    assert lines_of["union/train.trees"][-1] == "(S (NP (NN free)))" and len(lines_of["union/train.trees"]) == 11
    assert len(lines_of["union/test.trees"]) == 2


def test_from_trees_to_result_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SETTINGS", TINY)
    monkeypatch.setattr(measure, "VOCABULARY", ("--vocabulary", "words"))
    settings = [word for setting in PARSER for word in ("--set", setting)]
    monkeypatch.setattr(measure, "PARSER", ("--batch-size", 120, "--vocabulary", "words", *settings))
    for seed, (split, size) in enumerate({"train": 200, "valid": 10, "test": 8}.items(), 1):
        drawn = ENGLISH.sample(size, seed)
        write(tmp_path / "toy" / f"{split}.trees", *(with_tags(tree, ["X"] * len(words(tree))) for tree in drawn))
    asked = ["--data", tmp_path / "toy", "--out", tmp_path / "runs", "--steps", 4, "--number", 5, "--sentences", 6]
    measure.main([str(x) for x in asked])
    results = {path.parent.name: json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/result.json")}
    assert set(results) == {"tg-0", "txl_cc-0", "txl_terminals-0"}
    for result in results.values():
        counts, logps = zip(*(row[:2] for row in result["rows"]), strict=True)
        assert math.isclose(result["perplexity"]["value"], perplexity(logps, sum(counts)), rel_tol=1e-3)
        assert result["perplexity"]["sentences"] == 6 and result["settings"]["steps"] == 4
    tg, terminals = results["tg-0"], results["txl_terminals-0"]
    assert tg["perplexity"]["is_bound"] and not terminals["perplexity"]["is_bound"] and "rerank" not in terminals
    assert tg["rerank"]["f1"] <= 100 and 0 <= tg["rerank"]["gold_among"] <= 1
    matched, gold, chosen = (sum(row[k] for row in tg["rows"]) for k in (2, 3, 4))
    assert math.isclose(tg["rerank"]["f1"], 200 * matched / (gold + chosen))
    assert tg["rerank"]["oracle_f1"] >= tg["rerank"]["parser_f1"]
    more = ["--out", tmp_path / "other", "--parser", tmp_path / "runs" / "parser", "--models", "tg"]
    measure.main([str(x) for x in (*asked[:2], *more, *asked[4:])])  # the same model, by the same proposals
    again = json.loads((tmp_path / "other" / "tg-0" / result_name("test")).read_text())
    assert again["rows"] == tg["rows"] and not (tmp_path / "other" / "parser").exists()
