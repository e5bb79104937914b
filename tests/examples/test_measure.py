"""The whole way from published treebanks to result files, on a few generated trees."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import accel
from accel.data.corpora.constituents import tree_of
from accel.data.corpora.proposals import read_proposals
from accel.data.corpora.treebank import read_sentences, tags
from accel.data.files.brackets import without_preterminals
from accel.data.generated.grammar import ENGLISH
from accel.data.vocabularies.vocabulary import Vocabulary
from accel.evaluation.evalb_input import with_tags
from accel.parsing.propose import parses
from accel.trained.opening import open_model
from examples import candidates, measure
from examples.candidates import READING, propose, unite
from examples.commands import grove
from examples.result_files import result_name
from examples.sample import read_sample
from examples.transformer_grammars import free_treebanks, silver_trees
from refimpl.transformer_grammars.marginal import perplexity
from refimpl.trees import Tree, words
from tests.fixtures.syntax_suites import write_suite

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
    assert lines_of["craft/valid.trees"] == []  # the only tree of the last article has a tag over two words
    assert lines_of["union/train.trees"][-1] == "(S (NP (NN free)))" and len(lines_of["union/train.trees"]) == 11
    assert len(lines_of["union/test.trees"]) == 2


def test_articles_stay_together(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.mrg", *(f"( (S (NN {split}{i})) )" for i in range(3)))
    (tmp_path / "docs.tsv").write_text("split\tpmid\ttrees\ntrain\t1\t1\ntrain\t2\t1\ntrain\t3\t1\ndev\t4\t3\n")
    articles = free_treebanks._craft(tmp_path)
    free_treebanks._write(tmp_path / "out", articles)
    assert (tmp_path / "out" / "train.trees").read_text() == "(S (NN train0))\n\n(S (NN train1))\n"
    assert (tmp_path / "out" / "valid.trees").read_text() == "(S (NN train2))\n"
    for count in (2, 4):  # one tree belongs to no article, or the file is cut
        (tmp_path / "docs.tsv").write_text(f"split\tpmid\tgenre\ttrees\ntrain\t1\tnews\t{count}\n")
        with pytest.raises(ValueError, match=f"docs.tsv: counts {count} trees of train, but train.mrg has 3: give the"):
            free_treebanks._craft(tmp_path)
        (tmp_path / "train.ptb").write_text((tmp_path / "train.mrg").read_text())
        with pytest.raises(ValueError, match=f"docs.tsv: counts {count} trees of train, but train.ptb has 3: give the"):
            free_treebanks._gum(tmp_path)


def test_a_sample_of_documents_is_their_beginnings(tmp_path: Path) -> None:
    path = tmp_path / "test.trees"
    write(path, "(S a)", "(S a b)", "(S a)\n", "(S a)\n", "(S a b c)", "(S a)")
    sample = read_sample(path, documents=True, count=2, max_words=2)
    assert list(map(str, sample.gold)) == ["(S a)", "(S a b)", "(S a)"] and sample.skipped == 2
    assert sample.documents == [(2, 3), (1, 1), (0, 2)] and sample.n_ends == 1
    assert sample.in_documents([[1], [2], [3]]) == ([[1], [2], [], [3], []], [3, 1, 1])
    assert read_sample(path, documents=False, count=None, max_words=2).skipped == 1
    write(tmp_path / "many.trees", *(f"(S {'a ' * (i + 1)})" for i in range(20)))
    first, again = (read_sample(tmp_path / "many.trees", documents=False, count=8, max_words=12) for _ in range(2))
    lengths = [len(words(tree)) for tree in first.gold]
    assert first == again and len(lengths) + first.skipped == 8 and 0 < first.skipped < 8
    assert lengths == sorted(set(lengths)) and max(lengths) <= 12 and lengths != [*range(1, len(lengths) + 1)]
    write(path, "(S a)", "(S a b)")
    with pytest.raises(ValueError, match="test.trees: one document: put a blank line between documents, or leave out"):
        read_sample(path, documents=True, count=None, max_words=2)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder: `toy` has small data, and `runs` has the runs of the three models of Table 1 and of a parser."""
    folder = tmp_path_factory.mktemp("measure")
    for seed, (split, size) in enumerate({"train": 200, "valid": 10, "test": 8}.items(), 1):
        tagged = (with_tags(tree, ["X"] * len(words(tree))) for tree in ENGLISH.sample(size, seed))
        write(folder / "toy" / f"{split}.trees", *(f"{tree}" + "\n" * (i % 4 == 3) for i, tree in enumerate(tagged)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "SETTINGS", TINY)
        patch.setattr(measure, "VOCABULARY", ("--vocabulary", "words"))
        settings = [word for setting in PARSER for word in ("--set", setting)]
        patch.setattr(measure, "PARSER", ("--batch-size", 120, "--vocabulary", "words", *settings))
        run(folder, "runs", "--steps", 4, "--number", 5, "--draws", 4, "--beam", 20, "--sentences", 6)
        yield folder


def run(folder: Path, out: str, *options: object) -> None:
    measure.main([str(x) for x in ("--data", folder / "toy", "--out", folder / out, *options)])


def results_of(runs: Path, split: str = "test") -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in runs.glob(f"*/{result_name(split)}")}


def test_from_trees_to_result_files(toy: Path) -> None:
    results = results_of(toy / "runs")
    assert set(results) == {"tg-0", "txl_cc-0", "txl_terminals-0"}
    for result in results.values():
        counts, logps = zip(*(row[:2] for row in result["rows"]), strict=True)
        assert math.isclose(result["perplexity"]["value"], perplexity(logps, sum(counts)), rel_tol=1e-3)
        assert result["perplexity"]["sentences"] == 6 and result["settings"]["steps"] == 4
    tg, terminals = results["tg-0"], results["txl_terminals-0"]
    assert tg["perplexity"]["is_bound"] and not terminals["perplexity"]["is_bound"] and "rerank" not in terminals
    assert tg["rerank"]["f1"] <= 100 and 0 <= tg["rerank"]["gold_among"] <= 1
    n_matched, n_gold, n_chosen = (sum(row[k] for row in tg["rows"]) for k in (2, 3, 4))
    assert math.isclose(tg["rerank"]["f1"], 200 * n_matched / (n_gold + n_chosen))
    assert tg["rerank"]["oracle_f1"] >= tg["rerank"]["parser_f1"]
    assert tg["search"]["beam"] == 20 and tg["search"]["coverage"] > 0 and 0 <= tg["search"]["f1"] <= 100
    assert {"proposals", "draws", "search"} < set(tg["hours"]) and "search" not in terminals
    same = ("--parser", toy / "runs" / "parser", "--steps", 4, "--number", 5, "--draws", 0, "--beam", 20)
    options = (*same, "--sentences", 6, "--name", "toy_2")
    (toy / "no.json").write_text("{")
    with pytest.raises(SystemExit):
        run(toy, "other", *options, "--suites", toy / "no.json")
    assert set(results_of(toy / "other")) == {"tg-0"}  # the costly results are kept
    run(toy, "other", *options, "--set", "clip_norm=3")  # the same models and proposals
    with pytest.raises(ValueError, match="proposals.trees: has trees of other sentences than this run's: give another"):
        run(toy, "other", *same, "--sentences", 5)
    for option, value, right in (("--number", 6, 5), ("--beam", 19, 20), ("--models", "tg", " ".join(measure.MODELS))):
        with pytest.raises(ValueError, match=f"{option}: the trees in .*other were made with {right}, not {value}: gi"):
            run(toy, "other", *same, "--sentences", 6, option, value)
    refused = r"--parser: the trees in .*other were made with one of SHA-256 \w+, not one of SHA-256 \w+: give the same"
    with pytest.raises(ValueError, match=refused):
        run(toy, "other", *same, "--sentences", 6, "--parser", toy / "runs" / "tg-0")
    for option, value, change in (("--steps", 5, "steps=4, not 5"), ("--set", "d_model=8", "d_model=16, not 8"),
                                  ("--set", "clip_norm=2e-1", "clip_norm=3.0, not 2e-1"),
                                  ("--set", "clip_norm=much", "clip_norm=3.0, not much")):  # fmt: skip
        with pytest.raises(ValueError, match=f"tg-0: was trained with {change}: give the same, or another --out"):
            run(toy, "other", *same, "--sentences", 6, option, value)
    again = results_of(toy / "other")["tg-0"]
    assert (tg["experiment"], again["experiment"]) == ("toy", "toy_2")
    assert again["rows"] == tg["rows"] and not (toy / "other" / "parser").exists()
    suite = write_suite(toy / "suite.json", [("the dog sleeps .".split(), "the dog sleep .".split())] * 2)
    run(toy, "other", *same, "--sentences", 6, "--suites", suite)  # the results are complete
    for name, with_suites in results_of(toy / "other").items():
        assert list(map(len, with_suites["syntaxgym"]["answers"].values())) == [2]
        assert with_suites["syntaxgym"]["items"] == 2 and with_suites["rows"] == results[name]["rows"]
    (toy / "packed.json.gz").write_bytes(gzip.compress(suite.read_bytes()))
    run(toy, "other", *same, "--sentences", 6, "--suites", toy / "packed.json.gz")  # the same suites
    refused = r"--suites: the results in .*other were made with suites of SHA-256 \w{16}, not .*: give the same, or"
    for suites in ((toy / "no.json",), (suite, suite)):
        with pytest.raises(ValueError, match=refused):
            run(toy, "other", *same, "--sentences", 6, "--seed", 1, "--suites", *suites)
    assert not (toy / "other" / "tg-1").exists()


def test_another_parser_is_refused(toy: Path) -> None:
    options = ("--steps", 4, "--number", 5, "--draws", 4, "--beam", 20, "--sentences", 6)
    before = {path: path.read_bytes() for path in (toy / "runs").iterdir() if path.is_file()}
    with pytest.raises(ValueError, match="--epochs: the parser in .*runs was trained with 3, not 4: give the same"):
        run(toy, "runs", *options, "--epochs", 4)
    assert before == {path: path.read_bytes() for path in (toy / "runs").iterdir() if path.is_file()}
    run(toy, "runs", *options, "--epochs", 3)
    run(toy, "runs", *options, "--epochs", 4, "--parser", toy / "runs" / "parser")  # a given parser is not trained


def test_what_commands_print_of_the_same_files(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands print the same perplexity from proposals, gold trees and drawn trees, and the same F1 of the search."""

    def printed(command: str, *options: object) -> dict[str, list[str]]:
        capsys.readouterr()
        grove(command, "--checkpoint", toy / "runs" / "tg-0", *options)
        lines = (line.split() for line in capsys.readouterr().out.splitlines())
        return {words[0]: words[1:] for words in lines if words}

    result, sentences = results_of(toy / "runs")["tg-0"], toy / "runs" / "test.trees"
    scores = result["perplexity"]
    of_proposals = printed("perplexity", "--proposals", toy / "runs" / "united-0.trees", "--keep-tags")
    of_gold = printed("perplexity", "--trees", sentences)
    beside = ("--drawn", "without", "--also", toy / "runs" / "united-0.trees", "--keep-tags")
    of_draws = printed("perplexity", "--proposals", toy / "runs" / "draws.txt", *beside)
    of_search = printed("parse", "--gold", sentences, "--beam", 20)
    assert of_proposals["perplexity"][0][:-1] == f"{scores['value']:.4f}"[:-1]
    assert of_gold["perplexity"][0][:-1] == f"{scores['gold_tree']:.4f}"[:-1]
    assert of_draws["estimate"][0][:-1] == f"{scores['estimate']['value']:.4f}"[:-1]
    assert of_draws["estimate"][2][:-1] == f"{scores['estimate']['error']:.4f}"[:-1]
    assert of_search["F1"] == [f"{result['search']['f1']:.2f}"]


def test_proposals_are_joined_by_those_of_searches(toy: Path, tmp_path: Path) -> None:
    parsed, searched = (read_proposals(toy / "runs" / name, READING, numbered=is_search)
                        for name, is_search in (("proposals.trees", False), ("tg-0/searched.trees", True)))  # fmt: skip
    united = read_proposals(toy / "runs" / "united-0.trees", READING)
    for group, of_parser, of_search in zip(united, parsed, searched, strict=True):
        trees = [sentence.tree for sentence in group]
        assert trees[: len(of_parser)] == [sentence.tree for sentence in of_parser]
        assert {sentence.tree for sentence in of_search} <= set(trees) and len(set(trees)) == len(trees)
    write(tmp_path / "parsed", "(S a b)\n", "(S c)\n", "(S d)")
    (tmp_path / "searched").write_text("1\t(S (X a) b)\n1\t(S a b)\n2\t(S (X c))\n")  # no tree of the last sentence
    unite(tmp_path / "parsed", [tmp_path / "searched"], tmp_path / "united")
    assert (tmp_path / "united").read_text() == "(S a b)\n(S (X a) b)\n\n(S c)\n(S (X c))\n\n(S d)\n"


def test_documents_and_seeds(toy: Path) -> None:
    run(toy, "documents", "--documents", "--parser", toy / "runs" / "parser", "--models", "txl_cc", "txl_terminals",
        "--seeds", 2, "--steps", 2, "--number", 3, "--sentences", 3, "--set", "memory_length=16")  # fmt: skip
    results = results_of(toy / "documents")
    assert set(results) == {f"{model}-{seed}" for model in ("txl_cc", "txl_terminals") for seed in (0, 1)}
    bound, exact = (results[name]["perplexity"] for name in ("txl_cc-1", "txl_terminals-1"))
    for scores in (bound, exact):
        assert scores["documents"] == [[3, 4], [3, 4]] and scores["sentences"] == 6 and not scores["is_bound"]
        assert scores["alone"] > 1 and scores["alone"] != scores["value"]
    assert exact["ends"] == 0 and "ends" not in bound
    config = json.loads((toy / "documents" / "txl_cc-1" / "config.json").read_text())
    assert "memory_length=16" in config["options"]["set"] and "'documents': 'blank'" in str(config)


def test_variants_on_the_validation_split(toy: Path) -> None:
    run(toy, "variants", "--variants", "distinct,shift,linear", "--split", "valid", "--models", "tg",
        "--parser", toy / "runs" / "parser", "--steps", 2, "--number", 2, "--sentences", 3)  # fmt: skip
    results = results_of(toy / "variants", "valid")
    assert set(results) == {"tg-0", "tg_distinct-0", "tg_shift-0", "tg_linear-0"}
    assert all(result["split"] == "valid" for result in results.values())
    parameters = {name: result["settings"]["parameters"] for name, result in results.items()}
    assert parameters["tg-0"] == parameters["tg_shift-0"] == parameters["tg_linear-0"] < parameters["tg_distinct-0"]
    config = json.loads((toy / "variants" / "tg_linear-0" / "config.json").read_text())
    assert "'memory': 'shift'" in str(config) and "'positions': 'linear'" in str(config)


def test_silver_trees_are_those_of_the_parser(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run keeps the trees of an interrupted one; too long sentences are left out; readers drop the tags."""
    data = tmp_path / "data"
    sentences = [words(tree) for tree in ENGLISH.sample(12, seed=9)]
    for split in silver_trees.SHARES:
        lines = (" ".join(sentence) + "\n" * (1 + (i % 4 == 3)) for i, sentence in enumerate(sentences))
        write(data / f"{split}.txt", *lines)
    monkeypatch.setattr(silver_trees, "LONGEST", longest := max(map(len, sentences)) - 1)
    monkeypatch.setattr(silver_trees, "AT_ONCE", 3)

    def made(name: str, n_words: int = 5000) -> dict[str, str]:
        folder = tmp_path / name
        options = ("--parser", toy / "runs" / "parser", "--data", data, "--out", folder, "--words", n_words)
        silver_trees.main(list(map(str, options)))
        return {path.name: path.read_text() for path in folder.iterdir()}

    files = made("once")
    assert set(files) == {"train.trees", "valid.trees", "test.trees", "silver.json"}
    trees = [sentence.tree for sentence in read_sentences(tmp_path / "once" / "train.trees")]
    assert [words(tree) for tree in trees] == [sentence for sentence in sentences if len(sentence) <= longest]
    assert tags(trees[0]) == [silver_trees.TAGS.get(word, "XX") for word in words(trees[0])]
    (tmp_path / "again").mkdir()
    best = parses(accel.load("cpu"), open_model(accel.load("cpu"), toy / "runs" / "parser"), [words(trees[0])], count=1)
    assert without_preterminals(trees[0]) == tree_of(next(iter(best))[0][0], words(trees[0]))
    there = "".join(f"(KEPT {' '.join(words(tree))})\n" for tree in trees[3:6])
    (tmp_path / "again" / "train-1.trees").write_text(there)  # from an interrupted run
    (tmp_path / "again" / "train-0.trees").write_text("(S a tree)\n")  # other words: parsed again
    again = made("again")["train.trees"].splitlines()
    assert all(line.startswith("(KEPT ") for line in again[3:6])
    assert again[:3] + again[6:] == files["train.trees"].splitlines()[:3] + files["train.trees"].splitlines()[6:]
    with pytest.raises(SystemExit, match="silver.json: was written with another --parser, --data or --words: give"):
        made("again", 100)


def test_silver_trees_are_drawn_evenly() -> None:
    documents = [[["w"] * 5, ["x"] * 5]] * 100
    assert sum(map(len, silver_trees.drawn(documents, 200))) == pytest.approx(200, abs=10)
    short_documents = [[[str(n)] * 10] for n in range(100)]
    assert [sentence[0] for sentence in silver_trees.drawn(short_documents, 250)][:4] == ["0", "4", "8", "12"]


def test_proposals_with_labels_that_no_model_has_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser may know more labels than its best trees have, from which the models learned."""
    first, second = "(S (NP a) b)", "(S a)"
    text = f"{first}\n(S (RRC a) b)\n\n{second}\n"
    monkeypatch.setattr(candidates, "grove", lambda *words: Path(words[-1]).write_text(text))
    vocabulary = Vocabulary("words", ("a", "b"), ("NP", "S"))
    for argument, expected in ((vocabulary, f"{first}\n\n{second}\n"), (None, text)):
        propose(Path("parser"), Path("sentences"), "cpu", 2, out := tmp_path / f"{argument is None}.trees", argument)
        assert out.read_text() == expected
