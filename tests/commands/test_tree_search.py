"""`grove parse`, `generate`, `surprisal` and `syntaxgym` with models of trees, against the reference's search."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel import cli
from accel.commands import parse_labelled
from accel.data.corpora.treebank import encode_trees
from accel.data.files.brackets import read_trees
from accel.evaluation.evalb import evalb
from accel.evaluation.evalb_input import COLLINS, with_tags
from accel.parsing.labelled import labelled_trees
from accel.parsing.propose import propose
from accel.scoring.trees import event_logps
from accel.search.word_level import limits_of, word_level_search
from accel.trained.opening import open_model
from refimpl.transformer_grammars import marginal
from refimpl.trees import Tree, tree_from_actions, words
from refimpl.word_level_search import Limits
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.searched_models import PIECES, pieces_model, reference_limits, reference_model
from tests.fixtures.syntax_suites import write_suite
from tests.fixtures.toy_house import LIMITS, SMALL, House, house, read_bits, short_sentences, train, write
from tests.fixtures.tree_search import bits_of, draw_text, search, terminals

__all__ = ["house"]


def lines_of(path: Path, sentences: list[list[str]]) -> Path:
    path.write_text("".join(f"{' '.join(sentence)}\n" for sentence in sentences))
    return path


@pytest.mark.parametrize("name", ["tg", "txl_cc"])
def test_surprisals_are_those_of_the_reference(
    house: House, name: str, tmp_path: Path, grove: Callable[..., str]
) -> None:
    sentences, model = short_sentences(house), house.model(name)
    file = lines_of(tmp_path / "lines", sentences)
    surprisals = read_bits(grove("surprisal", "--checkpoint", house.folder / name, file, *SMALL))
    expected = [
        bits
        for sentence in sentences
        for bits in bits_of(reference_model(model), model.vocabulary.symbols, sentence, reference_limits(LIMITS))
    ]
    assert len(surprisals) > 4 and surprisals == pytest.approx(expected, abs=2e-3)


def test_surprisals_of_a_model_of_words_are_exact(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    sentences, model = [words(tree) for tree in house.gold], house.model("words")
    bits = read_bits(grove("surprisal", "--checkpoint", house.folder / "words", lines_of(tmp_path / "x", sentences)))
    logps = np.concatenate(
        [of_sentence[:-1] for of_sentence in event_logps(CPU, [model], encode_trees(house.gold, model.vocabulary))]
    )
    np.testing.assert_allclose(bits, logps / -math.log(2), atol=1e-3)


@pytest.mark.parametrize("name", ["tg", "txl_cc"])
def test_surprisals_from_proposals(house: House, name: str, tmp_path: Path, grove: Callable[..., str]) -> None:
    """Surprisals are those of MARG-5, summed over the proposals of the parser."""
    sentences, model = short_sentences(house, 3, 8), house.model(name)
    file, parser = lines_of(tmp_path / "lines", sentences), house.folder / "parser"
    command = ("surprisal", "--checkpoint", house.folder / name, file, "--parser", parser, "--batch-size", 2)
    bits = iter(read_bits(grove(*command, "--proposals-per-sentence", 5)))
    for sentence, group in zip(sentences, propose(CPU, open_model(CPU, parser), sentences, 5), strict=True):
        trees = [tree for tree, _ in group]
        events = list(event_logps(CPU, [model], encode_trees(trees, model.vocabulary)))
        prefixes = marginal.word_prefix_logps(trees, [logps.tolist() for logps in events])
        expected = np.diff([0.0, *prefixes]) / -math.log(2)
        assert [next(bits) for _ in sentence] == pytest.approx(expected.tolist(), abs=2e-3)


def test_parses(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    """A parse is the best tree of the reference's search; --gold prints scores and the share of sentences parsed."""
    sentences, model = short_sentences(house), house.model("tg")
    file, out = lines_of(tmp_path / "lines", sentences), tmp_path / "trees"
    output = grove("parse", "--checkpoint", house.folder / "tg", file, *SMALL).splitlines()
    for sentence, line in zip(sentences, output, strict=True):
        parses, _ = search(reference_model(model), model.vocabulary.symbols, sentence, reference_limits(LIMITS))
        assert line == str(tree_from_actions(parses[0].actions))
    command = ("parse", "--checkpoint", house.folder / "txl_cc", "--gold", house.valid, "--out", out, "--beam", 4)
    output = grove(*command, "--batch-size", 5)
    predictions = list(read_trees(out.read_text().splitlines()))
    assert [words(tree) for tree in predictions] == [words(tree) for tree in house.gold]
    tagged = [[with_tags(tree, ["W"] * len(words(tree))) for tree in trees] for trees in (house.gold, predictions)]
    rows = dict(line.split(maxsplit=1) for line in output.splitlines() if not line.startswith("complete"))
    assert float(rows["F1"]) == pytest.approx(evalb(*tagged, COLLINS).f1, abs=0.01)
    assert rows["coverage"] == "1.0000 (12 of 12 sentences)" and rows["tags"].startswith("none in the gold trees")


def test_sentences_without_a_tree_are_named_and_counted(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = write(tmp_path / "gold", house.gold[:3])
    monkeypatch.setattr(parse_labelled, "labelled_trees", lambda *_, **__: iter([house.gold[0], None, house.gold[2]]))
    assert cli.main(["parse", "--checkpoint", str(house.folder / "tg"), "--gold", str(gold)]) == 0
    output, messages = capsys.readouterr()
    assert messages == f"grove: {gold}:2: no tree: the search ends before the sentence does\n"
    assert "F1              100.00\n" in output and "coverage        0.6667 (2 of 3 sentences)\n" in output


def test_an_interrupted_search_keeps_its_trees(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The trees found so far are on standard output, or in a file of another name, which the message gives."""
    file, out = lines_of(tmp_path / "lines", [words(tree) for tree in house.gold[:3]]), tmp_path / "out.trees"

    def interrupted(*_: object, **__: object) -> Iterator[Tree]:
        yield house.gold[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(parse_labelled, "labelled_trees", interrupted)
    out.write_text("old\n")
    parse = ["parse", "--checkpoint", str(house.folder / "tg"), str(file)]
    for part in (out.with_name("out.trees.part"), out.with_name("out.trees.2.part")):
        assert cli.main([*parse, "--out", str(out)]) == 130
        assert capfd.readouterr().err.endswith(f"grove: interrupted: what is done is in {part}\n")
        assert part.read_text() == f"{house.gold[0]}\n" and out.read_text() == "old\n"
    assert cli.main(parse) == 130
    assert capfd.readouterr().out == f"{house.gold[0]}\n"
    monkeypatch.setattr(parse_labelled, "labelled_trees", lambda *_, **__: iter(house.gold[:3]))
    assert cli.main([*parse, "--out", str(out)]) == 0
    assert out.read_text().splitlines() == [str(tree) for tree in house.gold[:3]]


def test_trees_hold_the_words_as_they_were() -> None:
    """Trees hold the sentence's own words, also unknown words and words of pieces; without a possible word, None."""
    model, sentences = pieces_model(), [["dogs", "hot"], ["Zebra"]]
    for tree, sentence in zip(labelled_trees(CPU, model, sentences, limits_of(4)), sentences, strict=True):
        assert tree is not None and words(tree) == sentence
    bias = model.parameters["output_bias"].copy()
    bias[PIECES.encode_words(["Zebra"])[-1]] = -math.inf
    mute = replace(model, parameters=model.parameters | {"output_bias": bias})
    assert [tree is None for tree in labelled_trees(CPU, mute, sentences, limits_of(4))] == [False, True]


@pytest.mark.parametrize("name", ["tg", "txl_cc"])
def test_text_is_that_of_the_reference(house: House, name: str, grove: Callable[..., str]) -> None:
    model = house.model(name)
    prefix = words(house.gold[0])[:2]
    for seed in (0, 1):
        command = ("generate", "--checkpoint", house.folder / name, "--prefix", " ".join(prefix), "--top-k", 2)
        output = grove(*command, "--words", 3, "--seed", seed).split()
        arguments = reference_model(model), model.vocabulary.symbols, Limits(2)
        actions = draw_text(*arguments, 3, seed, prefix)
        assert output == terminals(actions)
    assert len(grove("generate", "--checkpoint", house.folder / "words", "--words", 4).split()) <= 4


def test_suites(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    """Suites are judged by search, by proposals and exactly; an item that the parser cannot read is skipped."""
    five = [words(tree)[:5] for tree in house.gold if len(words(tree)) >= 5]
    pairs = [(five[0], [five[0][0], *five[1][1:]]), (five[2], five[3] * 4)]
    suite, out = write_suite(tmp_path / "toy.json", pairs), tmp_path / "out.json"
    by_proposals = ("--parser", house.folder / "parser", "--proposals-per-sentence", 4)
    for name, more in (("tg", SMALL), ("txl_cc", by_proposals), ("words", ())):
        output = grove("syntaxgym", "--checkpoint", house.folder / name, suite, *more, "--out", out)
        first, second = json.loads(out.read_text())["suites"]["number_toy"]["items"]
        file = lines_of(tmp_path / "lines", [*pairs[0]])
        bits = read_bits(grove("surprisal", "--checkpoint", house.folder / name, file, *more))
        sums = [bits[0], sum(bits[1:3]), 0, sum(bits[3:5])]
        assert list(first["bits"]["a"].values()) == pytest.approx(sums, abs=1e-3)
        if name == "txl_cc":
            assert second["skipped"] == "condition 'b': 20 words, more than the parser reads, 12"
            assert json.loads(out.read_text())["n_proposals"] == 4 and "skipped: 1 items" in output
        else:
            assert "skipped" not in second


def test_mistakes_are_named(house: House, tmp_path: Path, mistake: Callable[..., str]) -> None:
    tg, plain, parser = (house.folder / name for name in ("tg", "words", "parser"))
    file = lines_of(tmp_path / "lines", [words(house.gold[0]), ["zebra"]])
    suite = write_suite(tmp_path / "toy.json", [(words(house.gold[0]), words(house.gold[1]))])
    ask = ("surprisal", "--checkpoint", tg, file)
    assert mistake(*ask).startswith(f"{file}:2: the word 'zebra' is not in the closed vocabulary")
    assert mistake("parse", "--checkpoint", tg, file).startswith(f"{file}:2: the word 'zebra' is not in the closed")
    assert mistake(*ask, "--max-open", 0) == "--max-open 0: at least 1 is needed"
    assert mistake(*ask, "--fast-track", -1) == "--fast-track -1: at least 0 is needed"
    assert mistake("surprisal", "--checkpoint", plain, file, "--beam", 3).endswith("has no such search: leave it out")
    file = lines_of(file, [words(house.gold[0])])
    assert mistake(*ask, "--context-lines", 1).endswith("reads every line by itself")
    wrong = mistake(*ask, "--parser", parser, "--beam", 3)
    assert wrong == "--beam: is for a search: leave it out, or leave out the parser"
    assert mistake(*ask, "--parser", tg).endswith(
        "holds a tg, which gives no proposal trees; models that do: span_parser"
    )
    wrong = mistake(*ask, "--proposals-per-sentence", 3)
    assert wrong == "--proposals-per-sentence: counts the trees of a parser, and none is named"
    command = (*ask, "--parser", parser, "--proposals-per-sentence", 0)
    assert mistake(*command) == "--proposals-per-sentence 0: at least 1 is needed"
    command = ("syntaxgym", "--checkpoint", plain, suite, "--parser", parser)
    assert mistake(*command) == f"--parser: is for a TG or a TXL (CC), and {plain / 'best.safetensors'} is neither"
    file = lines_of(file, [words(house.gold[0]) * 5])
    assert mistake(*ask, "--parser", parser).endswith("words, more than the parser reads, 12")
    command = ("parse", "--checkpoint", tg, "--gold", house.valid, "--mode", "inside")
    assert mistake(*command).startswith("--mode: is for trees without labels, and")
    wrong = mistake("parse", "--checkpoint", plain, file)
    assert wrong.endswith("holds a txl_terminals, which gives no labelled trees; models that do: tg, txl_cc")
    assert mistake("generate", "--checkpoint", tg, "--context", file).endswith("reads every sentence by itself")


def test_a_sentence_is_the_first_of_a_document(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    """MARG-6, point g: `parse`, `surprisal` and `syntaxgym` read `(DOC` before a sentence, by search and proposals."""
    data, run, parser = tmp_path / "documents.trees", tmp_path / "run", house.folder / "parser"
    data.write_text("".join(f"{line}\n\n" for line in house.data.read_text().splitlines()))
    assert cli.main(train(run, data, "--documents")) == 0
    model, spoken = open_model(CPU, run), short_sentences(house)[0]
    symbols, reference = model.vocabulary.symbols, reference_model(model)
    opening = float(reference(())[symbols.index("(DOC")])
    inside = (lambda actions: reference(("(DOC", *actions))), symbols, spoken, reference_limits(LIMITS)
    file = lines_of(tmp_path / "lines", [spoken])
    parses, _ = search(*inside)
    assert grove("parse", "--checkpoint", run, file, *SMALL).strip() == str(tree_from_actions(parses[0].actions))
    ((hypotheses, _),) = word_level_search(CPU, model, [model.vocabulary.encode_words(spoken)], LIMITS)
    assert hypotheses[0].logp == pytest.approx(opening + parses[0].logp, rel=1e-4)

    trees = [tree for tree, _ in next(iter(propose(CPU, open_model(CPU, parser), [spoken], 5)))]
    documents = encode_trees((Tree("DOC", (tree,)) for tree in trees), model.vocabulary)
    events = [logps[1:-1].tolist() for logps in event_logps(CPU, [model], documents)]
    by_proposals = np.diff([0.0, *marginal.word_prefix_logps(trees, events)]) / -math.log(2)
    bits_by = {SMALL: bits_of(*inside), ("--parser", parser, "--proposals-per-sentence", 5): by_proposals.tolist()}
    suite, out = write_suite(tmp_path / "toy.json", [(spoken, spoken)]), tmp_path / "items.json"
    for options, (first, *rest) in bits_by.items():
        expected = pytest.approx([first - opening / math.log(2), *rest], abs=2e-3)
        assert read_bits(grove("surprisal", "--checkpoint", run, file, *options)) == expected
        grove("syntaxgym", "--checkpoint", run, suite, "--out", out, *options)
        item = json.loads(out.read_text())["suites"]["number_toy"]["items"][0]
        assert item["bits"]["a"]["1"] == pytest.approx(first - opening / math.log(2), abs=2e-3)
