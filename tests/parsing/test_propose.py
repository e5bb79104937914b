"""`accel.parsing.propose` and `grove propose`: different trees of a sentence, best first; errors for long sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, fsum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.corpora.constituents import constituents
from accel.data.corpora.proposals import read_proposals
from accel.data.files.brackets import read_trees
from accel.evaluation.bound_and_rerank import bracket_score
from accel.evaluation.evalb_input import COLLINS
from accel.parsing.propose import Parse, closest, parses, propose, read_gold, read_words, sampled_parses
from accel.trained.opening import Model, open_model
from refimpl.trees import Tree, actions, words
from tests.fixtures.command_line import settings
from tests.fixtures.span_parser_runs import READING, trained, treebank, write

__all__ = ["trained", "treebank"]
SENTENCES = [["dogs", "sleep"], "the king sleeps past these kings .".split(), ["zebra"], "a dog sees Kim .".split()]


@pytest.fixture(scope="module")
def parser(trained: Path) -> Model:
    return open_model(accel.load("cpu"), trained)


def test_proposals_are_different_sorted_and_over_the_words(parser: Model) -> None:
    proposed = list(propose(accel.load("cpu"), parser, SENTENCES, 200))
    assert [len(best) for best in proposed] == [200, 200, parser.config.n_labels, 200]
    for sentence, best in zip(SENTENCES, proposed, strict=True):
        trees, logqs = zip(*best, strict=True)
        assert len(set(map(str, trees))) == len(trees) and all(words(tree) == sentence for tree in trees)
        assert list(logqs) == sorted(logqs, reverse=True) and fsum(map(exp, logqs)) <= 1 + 1e-6
    fewer = list(propose(accel.load("cpu"), parser, SENTENCES, 7))
    assert [[logq for _, logq in best] for best in fewer] == [[logq for _, logq in best[:7]] for best in proposed]


def test_a_sentence_of_two_words_has_all_its_trees(parser: Model) -> None:
    """The trees have a label for the sentence, and one or none for each word; their probabilities sum to 1."""
    n = parser.config.n_labels
    ((*best,),) = propose(accel.load("cpu"), parser, SENTENCES[:1], 10**6)
    assert len(best) == n * (n + 1) ** 2 and fsum(exp(logq) for _, logq in best) == pytest.approx(1.0, abs=1e-5)


def test_a_sentence_does_not_see_those_beside_it(parser: Model) -> None:
    ops = accel.load("cpu")
    together = list(parses(ops, parser, SENTENCES, 30))
    for size in (1, 3):
        for one, other in zip(together, parses(ops, parser, SENTENCES, 30, batch_size=size), strict=True):
            np.testing.assert_allclose([logq for _, logq in one], [logq for _, logq in other], atol=1e-4)
            assert one[0][0] == other[0][0]


@pytest.mark.parametrize("batch_size", [1, 3])
def test_processes_change_nothing(parser: Model, batch_size: int) -> None:
    """Best trees and drawn trees are the same, bit for bit, in the order of the sentences."""
    ops = accel.load("cpu")

    def both(processes: int) -> list[list[list[Parse]]]:
        side_by_side = {"batch_size": batch_size, "processes": processes}
        ranked = list(parses(ops, parser, SENTENCES, 9, **side_by_side))
        return [ranked, list(sampled_parses(ops, parser, SENTENCES, 9, 5, **side_by_side))]

    assert both(2) == both(1)
    with pytest.raises(ValueError, match="sentence 5: an empty sentence"):
        list(propose(ops, parser, [*SENTENCES, []], 3, batch_size=batch_size, processes=2))


def test_backends_propose_alike(backend: ModuleType, parser: Model) -> None:
    parameters = {name: backend.xp.asarray(x.astype(np.float64)) for name, x in parser.parameters.items()}
    expected = list(parses(accel.load("cpu"), replace(parser, parameters=_plain(parser)), SENTENCES[:2], 12))
    proposed = list(parses(backend, replace(parser, parameters=parameters), SENTENCES[:2], 12))
    for one, other in zip(proposed, expected, strict=True):
        assert [sorted(tree) for tree, _ in one] == [sorted(tree) for tree, _ in other]
        np.testing.assert_allclose([logq for _, logq in one], [logq for _, logq in other], rtol=1e-9)


def _plain(parser: Model) -> dict[str, np.ndarray]:
    return {name: x.astype(np.float64) for name, x in parser.parameters.items()}


@pytest.mark.parametrize(
    ("sentences", "count", "message"),
    [
        ([["a"], []], 3, "sentence 2: an empty sentence"),
        ([["a"]] * 20 + [["a"] * 31], 3, "sentence 21: 31 words, more than the parser reads, 30"),
        ([["a"]], 0, "count 0: at least 1 is needed"),
    ],
)
def test_mistakes_are_named(parser: Model, sentences: Any, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(propose(accel.load("cpu"), parser, sentences, count))


def test_the_closest_tree_is_the_one_that_shares_most() -> None:
    gold = constituents(Tree("S", (Tree("NP", ("a",)), Tree("VP", (Tree("NP", ("b", "c")),)))))
    others = [
        Tree("S", ("a", "b", "c")),
        Tree("S", (Tree("NP", ("a",)), Tree("NP", ("b", "c")))),
        Tree("S", (Tree("NP", ("a",)), Tree("VP", (Tree("NP", ("b", "c")),)))),
    ]
    proposed = [(constituents(tree), 0.0) for tree in others]
    assert closest(proposed, gold) == 2 and closest(proposed[:2], gold) == 1 and closest(proposed[:1] * 2, gold) == 0


def test_other_commands_read_the_proposals(
    treebank: Path, trained: Path, tmp_path: Path, grove: Callable[..., str]
) -> None:
    gold = [x for x in read_gold(treebank / "test", READING) if len(x.words) <= 30]
    command = ("propose", "--checkpoint", trained, "--number", 9, "--out")
    text = tmp_path / "text"
    text.write_text("".join(f"{' '.join(x.words)}\n" for x in gold))
    output = grove(*command, tmp_path / "blank", text)
    assert output == f"sentences       21\nproposals       {9 * 21} (9.0 a sentence)\n"
    groups = read_proposals(tmp_path / "blank", replace(READING, drop_preterminals=False))
    assert [words(group[0].tree) for group in groups] == [x.words for x in gold]
    assert all(len(group) == 9 for group in groups)
    output = grove(*command, tmp_path / "numbered", "--trees", treebank / "test", "--numbered", "--batch-size", 5)
    lines = [line.split("\t") for line in (tmp_path / "numbered").read_text().splitlines()]
    assert [int(number) for number, _ in lines] == [number for number in range(1, 22) for _ in range(9)]
    assert len({line for _, line in lines}) > 100
    proposals = [[tree for tree in read_trees(line for _, line in lines[k : k + 9])] for k in range(0, 9 * 21, 9)]
    trees = [x.tree for x in gold if x.tree is not None]
    best = [group[0] for group in proposals]
    oracle = [group[closest([(constituents(t), 0.0) for t in group], x.constituents)]
              for group, x in zip(proposals, gold, strict=True)]  # fmt: skip
    rows = [line.split() for line in output.splitlines()]
    assert rows[2] == ["F1", f"{bracket_score(best, trees, COLLINS).f1:.2f}"]
    assert rows[3] == ["oracle", "F1", f"{bracket_score(oracle, trees, COLLINS).f1:.2f}"]
    assert float(rows[3][2]) > float(rows[2][1])
    grove(*command, tmp_path / "again", text)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "blank").read_bytes()


def test_long_sentences_are_left_out_only_by_number(
    treebank: Path, trained: Path, tmp_path: Path, mistake: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text("dogs sleep\n" + "dog " * 31 + "\nthe dogs ( sleep )\n")
    command = ["propose", "--checkpoint", str(trained), str(text), "--number", "2", "--out", str(out)]
    reason = f"{text}:2: 31 words, more than 30"
    assert mistake(*command) == f"{reason}: leave it out with --numbered"
    assert mistake(*command, "--max-words", 2) == (
        f"{text}:2: 31 words, more than 2: leave it out with --numbered, or give a larger --max-words"
    )
    assert not out.exists() and [path.name for path in tmp_path.iterdir()] == ["text"]
    capsys.readouterr()
    assert cli.main([*command, "--numbered"]) == 0
    streams = capsys.readouterr()
    assert streams.err.splitlines()[-2:] == [
        f"grove: {reason}: sentence 2 is left out", f"grove: {text}: 1 of 3 sentences left out"
    ]  # fmt: skip
    lines = [line.split("\t") for line in out.read_text().splitlines()]
    assert [number for number, _ in lines] == ["1", "1", "3", "3"]
    (tree,) = read_trees([lines[-1][1]])
    assert words(tree) == ["the", "dogs", "-LRB-", "sleep", "-RRB-"]
    assert mistake(*command, "--max-words", 1, "--numbered").startswith(f"{text}: every one of 3 sentences is left out")


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("\n\n", (), "text: no sentence in this file"),
        ("", (), "text: an empty file"),
        ("a dog\n", ("--max-words", 31), "--max-words 31: the parser reads 1 to 30 words"),
        ("a dog\n", ("--number", 0), "--number 0: at least 1 is needed"),
        ("a dog\n", ("--batch-size", 0), "--batch-size 0: at least 1 is needed"),
        ("a dog\n", ("--trees", "x"), "propose: give either a FILE of sentences, or trees with --trees"),
    ],
)
def test_bad_input_is_named(
    trained: Path, tmp_path: Path, text: str, more: tuple, message: str, mistake: Callable[..., str]
) -> None:
    path, out = tmp_path / "text", tmp_path / "out"
    path.write_text(text)
    assert message in mistake("propose", "--checkpoint", trained, path, "--out", out, *more)
    assert [x.name for x in tmp_path.iterdir()] == ["text"]


def test_other_models_and_other_trees_are_named(
    treebank: Path, trained: Path, tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    command = ("propose", "--out", tmp_path / "out")
    assert (
        mistake(*command, "--checkpoint", trained) == "propose: give either a FILE of sentences, or trees with --trees"
    )
    tg = ("--data", treebank / "valid", "--out", tmp_path / "tg", "--steps", 1, "--batch-size", 2)
    grove("train", *tg, *settings(("d_model=8", "n_heads=2", "n_layers=1", "d_ff=8", "warmup_steps=0")))
    wrong = mistake(*command, "--checkpoint", tmp_path / "tg", "--trees", treebank / "test")
    assert wrong.endswith("holds a tg, which gives no proposal trees; models that do: span_parser")
    wrong = mistake("parse", "--checkpoint", trained, treebank / "test")
    assert wrong.endswith("a span parser: its best trees are those of grove propose --number 1")
    (tmp_path / "bare").write_text("(S (NP the dog) (VP sleeps))\n")
    wrong = mistake(*command, "--checkpoint", trained, "--trees", tmp_path / "bare")
    assert "bare:1: not every word has a part-of-speech tag to drop" in wrong
    (tmp_path / "some").write_text("(S (NP the dog))\n(S (NP (NNS dogs)) (VP (VBP sleep)))\n")
    some = (*command, "--checkpoint", trained, "--trees", tmp_path / "some", "--number", 1, "--leave-out-untagged")
    reason = "not every word has a part-of-speech tag: leave it out with --numbered"
    assert mistake(*some) == f"{tmp_path}/some:1: {reason}"
    grove(*some, "--numbered")
    assert [line[0] for line in (tmp_path / "out").read_text().splitlines()] == ["2"]  # its place in the treebank
    unknown = write(tmp_path / "unknown", Tree("S", (Tree("XP", ("a",)), "dog")))
    output = grove(*command, "--checkpoint", trained, "--trees", unknown, "--number", 3)
    assert output.startswith("sentences       1\nproposals       3 ") and "oracle F1" in output
    assert actions(next(read_trees((tmp_path / "out").read_text().splitlines())))[0].startswith("(")


def test_words_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a dog (here)\r\nruns\n")
    assert [(x.words, x.line) for x in read_words(tmp_path / "text")] == [
        (["a", "dog", "-LRB-here-RRB-"], 1), (["runs"], 2)
    ]  # fmt: skip
