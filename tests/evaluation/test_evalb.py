"""EVALB: its known answers, hand-derived vectors, the laws of the pages, and its rules spelled out in O(n^2)."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.files.brackets import without_preterminals
from accel.evaluation import evalb as evalb_module
from accel.evaluation import evalb_input
from accel.evaluation.evalb import TooManyErrors, evalb, score_sentence
from accel.evaluation.evalb_input import COLLINS, EvalbParameters, Side, read_parameters, read_sentences, with_tags
from accel.verify.evalb_report import report
from refimpl.trees import Tree, TreeError
from refimpl.trees import words as words_of

PAGES = Path(__file__).parents[2] / "specs/vectors/evaluation"
VECTORS = sorted([*PAGES.glob("evalb/*.json"), *PAGES.glob("evalb_input/*.json")])
LABELS = ("S", "NP", "NP-SBJ", "NP=2", "ADVP", "PRT", "RP", "TOP")
PARAMETERS = EvalbParameters(
    delete_labels=frozenset({"TOP", ","}),
    delete_labels_for_length=frozenset({"-NONE-"}),
    equal_labels=frozenset({("ADVP", "PRT"), ("PRT", "RP")}),
)


def make_tree(n_words: int, seed: int) -> Tree:
    """Return a random tree over the words w0, w1, ...; every word has a tag, and there are unary chains."""
    draw = random.Random(seed)
    nodes = [Tree(draw.choice(("N", "V", "PRT")), (f"w{k}",)) for k in range(n_words)]
    while len(nodes) > 1 or draw.random() < 0.5:
        start = draw.randrange(len(nodes))
        stop = draw.randint(start + 1, min(start + 3, len(nodes)))
        nodes[start:stop] = [Tree(draw.choice(LABELS), tuple(nodes[start:stop]))]
    return nodes[0]


seeds = st.integers(0, 2**32)
tagged_trees = st.builds(make_tree, st.integers(1, 7), seeds)
pairs = st.builds(lambda n, a, b: (make_tree(n, a), make_tree(n, b)), st.integers(1, 7), seeds, seeds)


def plain(x: Any) -> Any:
    """Return a value in the form of a vector file."""
    if isinstance(x, (Tree, TreeError)):
        return str(x)
    if dataclasses.is_dataclass(x):
        return {f.name: plain(getattr(x, f.name)) for f in dataclasses.fields(x)}
    if isinstance(x, (frozenset, set)):
        return sorted(plain(y) for y in x)
    return [plain(y) for y in x] if isinstance(x, (tuple, list)) else x


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vectors(path: Path) -> None:
    vector = json.loads(path.read_text())
    stem, name = vector["function"].split(".")[-2:]
    inputs = dict(vector["inputs"])
    function = getattr({"evalb": evalb_module, "evalb_input": evalb_input}[stem], name)
    function = report if "gold_lines" in inputs else function
    if "tree" in inputs:
        (inputs["tree"],) = read_sentences([inputs["tree"]])
    if "error" in vector:
        error, words = vector["error"].split(": ", 1)
        with pytest.raises(ValueError, match=re.escape(words)) as raised:
            function(**inputs)
        assert raised.type.__name__ == error
    else:
        assert plain(function(**inputs)) == vector["expect"]


def test_outside_data(data_dir: Path) -> None:
    def lines(name: str) -> list[str]:
        return (data_dir / "evalb" / name).read_text(encoding="utf-8").splitlines()

    sample = [lines(f"sample/sample.{end}") for end in ("gld", "tst", "prm")]
    assert report(*sample) == lines("sample/sample.rsl-evalb-current")
    score = evalb(read_sentences(sample[0]), read_sentences(sample[1]), read_parameters(sample[2]))
    figures = (score.recall, score.precision, score.complete_match, score.tagging)
    assert [round(x, 2) for x in figures] == [87.76, 90.53, 52.94, 98.15]
    assert (len(score.per_sentence), score.valid, score.errors, score.skipped) == (24, 17, 5, 2)

    # The indents of this output differ, and its totals line has a wrong 0 for the crossing brackets.
    new = [line.split() for line in report(lines("bug/bug.gld"), lines("bug/bug.tst"), lines("new.prm"))]
    expected = [line.split() for line in lines("bug/bug.rsl-new")]
    expected[9][5] = "36"
    assert new == expected

    # The older program puts quotation marks back; its messages are between its lines; its parameters are the sample's.
    parameters = read_parameters(sample[2])
    old = evalb(read_sentences(lines("bug/bug.gld")), read_sentences(lines("bug/bug.tst")), parameters)
    messages = [line.split(" : ")[1] for line in lines("bug/bug.rsl-old") if "unmatch" in line]
    assert [row.reason for row in old.per_sentence] == messages
    assert (old.errors, old.valid, old.f1) == (5, 0, 0.0)
    assert read_parameters(lines("COLLINS.prm")) == COLLINS


def test_parameters() -> None:
    assert read_parameters([]) == EvalbParameters()
    chain = read_parameters(["EQ_LABEL A B", "EQ_LABEL C B"])
    gold, *predicted = read_sentences([f"({label} (N n))" for label in "ABC"])
    assert [score_sentence(gold, p, chain).matched for p in predicted] == [1, 0]
    equal_to_deleted = read_parameters(["DELETE_LABEL TOP", "EQ_LABEL S1 TOP"])
    assert score_sentence(*read_sentences(["(S1 (S (N n)))", "(S (N n))"]), equal_to_deleted).gold == 1


def test_sentences() -> None:
    lines = ["(S (NN a))", "", "(S (NN a)", "x", "(S (NN a) b)"]
    type_names = [type(sentence).__name__ for sentence in read_sentences(lines)]
    assert type_names == ["Tree", "NoneType", "TreeError", "TreeError", "Tree"]


@given(tagged_trees)
def test_printed_and_read_again(tree: Tree) -> None:
    assert read_sentences([str(tree)]) == [tree]


def test_words_and_brackets() -> None:
    (tree,) = read_sentences(["(TOP (S=1 (-NONE- *) (NP (, ,)) (TOP-2 (NN-X a))))"])
    side = Side(tree, PARAMETERS)
    assert (side.length, side.words) == (2, [("-NONE-", "*"), ("NN-X", "a")])
    assert side.constituents(PARAMETERS) == [("S", 0, 2)]


@given(pairs, st.integers(0, 6))
def test_deleted_nodes_change_nothing(trees: tuple[Tree, Tree], place: int) -> None:
    gold, predicted = trees
    comma = Tree(",", (",",))
    bigger = Tree("TOP", (gold, comma) if place % 2 else (comma, gold))
    plain_score, score = (score_sentence(tree, predicted, PARAMETERS) for tree in (gold, bigger))
    assert score == dataclasses.replace(plain_score, length=plain_score.length + 1)


def test_which_sentences_count() -> None:
    (gold, other, untagged) = read_sentences(["(S (A a) (B b))", "(S (A a))", "(S (NP a b))"])
    unreadable = TreeError(1, 1, "unclosed bracket")
    cases = [
        (None, "skip"),
        ((), "skip"),
        (unreadable, "error"),
        (other, "error"),
        (untagged, "error"),
        (gold, "valid"),
    ]
    for predicted, status in cases:
        assert score_sentence(gold, predicted, PARAMETERS).status == status
    assert score_sentence(unreadable, None, PARAMETERS).status == "skip"
    assert score_sentence(None, gold, PARAMETERS).status == "error"
    assert "More than two elements" in score_sentence(gold, untagged, PARAMETERS).reason
    with pytest.raises(ValueError, match="1 gold sentences but 2 predicted"):
        evalb([gold], [gold, gold], PARAMETERS)


def test_quotes_return_where_lengths_differ() -> None:
    """Each side deletes another of the two marks. If both marks were put back, the words would be equal."""
    parameters = EvalbParameters(delete_labels=frozenset({"''"}), quote_labels=frozenset({"''", "NN"}))
    gold, predicted, whole = read_sentences([
        "(S ('' ') (N a) (NN '))", "(S (NN ') (N a) ('' '))", "(S (NN ') (N a) (NN '))"
    ])  # fmt: skip
    row = score_sentence(gold, predicted, parameters)
    assert (row.status, row.reason) == ("error", "Words unmatch (a|')")
    row = score_sentence(gold, whole, parameters)
    assert (row.status, row.words, row.correct_tags, row.matched) == ("valid", 3, 2, 1)


def test_too_many_errors() -> None:
    gold, other = read_sentences(["(S (A a))", "(S (A b))"])
    assert evalb([gold] * 11, [other] * 11, COLLINS).errors == 11
    with pytest.raises(TooManyErrors, match=r"sentence 12: Words unmatch \(a\|b\): error 12, MAX_ERROR 10"):
        evalb([gold] * 12, [other] * 12, COLLINS)
    assert evalb([gold] * 12, [other] * 12, dataclasses.replace(COLLINS, max_error=None)).errors == 12


def spelled_out(gold: Tree, predicted: Tree, labelled: bool) -> tuple[int, int]:
    """Return the matched and the crossing brackets, by comparing every gold bracket with every predicted one."""
    equal = {(a, b) for x, y in PARAMETERS.equal_labels for a, b in ((x, y), (y, x))}
    ours, theirs = (Side(tree, PARAMETERS).constituents(PARAMETERS) for tree in (gold, predicted))
    places: set[int] = set()
    for label, i, j in ours:
        for place, (other, a, b) in enumerate(theirs):
            same = not labelled or label == other or (label, other) in equal
            if place not in places and (i, j) == (a, b) and same:
                places.add(place)
                break
    crossing = sum(any(i < a < j < b or a < i < b < j for _, i, j in ours) for _, a, b in theirs)
    return len(places), crossing


@given(pairs, st.booleans())
def test_matching_is_greedy(trees: tuple[Tree, Tree], labelled: bool) -> None:
    score = score_sentence(*trees, dataclasses.replace(PARAMETERS, labelled=labelled))
    assert (score.matched, score.crossing) == spelled_out(*trees, labelled)


def test_first_free_bracket() -> None:
    """The gold PRT may match either bracket and takes the first; so the gold ADVP finds a match or not."""
    gold, *predicted = read_sentences(["(PRT (ADVP (N n)))", "(RP (ADVP (N n)))", "(ADVP (RP (N n)))"])
    assert [score_sentence(gold, p, PARAMETERS).matched for p in predicted] == [2, 1]


def test_crossing() -> None:
    gold, *predicted = read_sentences(
        [
            "(S (X (N a) (N b)) (Y (N c) (N d)))",
            "(S (N a) (X (N b) (N c)) (N d))",  # b c crosses two brackets and counts once
            "(S (X (N a) (N b) (N c)) (N d))",
            "(S (X (X (N a)) (N b)) (N c) (N d))",
        ]
    )
    assert [score_sentence(gold, p, PARAMETERS).crossing for p in predicted] == [1, 1, 0]


@given(st.lists(pairs, min_size=1, max_size=4), seeds)
def test_laws(corpus: list[tuple[Tree, Tree]], seed: int) -> None:
    gold, predicted = [pair[0] for pair in corpus], [pair[1] for pair in corpus]
    score = evalb(gold, predicted, PARAMETERS)
    for row in score.per_sentence:
        assert row.status == "valid" and row.matched <= min(row.gold, row.predicted)
        assert row.crossing <= row.predicted - row.matched
    percentages = (score.recall, score.precision, score.f1, score.complete_match, score.tagging, score.no_crossing)
    assert all(0 <= x <= 100 for x in percentages)
    assert min(score.recall, score.precision) - 1e-9 <= score.f1 <= max(score.recall, score.precision) + 1e-9
    same = evalb(gold, gold, PARAMETERS)
    assert all(row.matched == row.gold == row.predicted and row.crossing == 0 for row in same.per_sentence)
    assert (same.complete_match, same.tagging) == (100, 100)
    no_pairs = dataclasses.replace(PARAMETERS, equal_labels=frozenset())
    forth, back = evalb(gold, predicted, no_pairs), evalb(predicted, gold, no_pairs)
    assert (forth.recall, forth.precision) == (back.precision, back.recall)
    shuffled = random.Random(seed).sample([*corpus, (gold[0], None), (None, gold[0])], len(corpus) + 2)
    again = evalb([pair[0] for pair in shuffled], [pair[1] for pair in shuffled], PARAMETERS)
    assert (again.errors, again.skipped) == (1, 1)
    assert dataclasses.replace(again, errors=0, skipped=0, per_sentence=()) == dataclasses.replace(
        score, per_sentence=()
    )


def test_max_length() -> None:
    gold = read_sentences(["(S (N a) (N b))", "(S (N a) (-NONE- *))", "(S (N a))", "(S (N a) (N b))"])
    predicted = [gold[0], gold[1], gold[0], None]
    assert [row.length for row in evalb(gold, predicted, PARAMETERS).per_sentence] == [2, 1, 1, 2]
    score = evalb(gold, predicted, PARAMETERS, max_length=1)
    assert (len(score.per_sentence), score.valid, score.errors, score.skipped) == (2, 1, 1, 0)


@given(tagged_trees)
def test_with_tags(tree: Tree) -> None:
    bare = without_preterminals(tree)
    assert without_preterminals(with_tags(bare, [tag for tag, _ in Side(tree, EvalbParameters()).words])) == bare
    assert words_of(with_tags(bare, ["X"] * len(words_of(bare)))) == words_of(bare)


@pytest.mark.parametrize("shape", ["right", "left", "unary"])
def test_deep(shape: str) -> None:
    depth = 20_000
    tree = Tree("S", (Tree("''", ('"',)),))
    for k in range(depth):
        word = Tree("N", (f"w{k}",))
        tree = Tree("S", {"right": (word, tree), "left": (tree, word), "unary": (tree,)}[shape])
    score = evalb([tree], [tree], dataclasses.replace(PARAMETERS, quote_labels=frozenset({"''"})))
    assert (score.f1, score.valid) == (100.0, 1)
    assert score.per_sentence[0].gold == depth + 1
    noun = read_sentences([str(tree).replace("''", "NN")])
    parameters = dataclasses.replace(
        PARAMETERS, quote_labels=frozenset({"''", "NN"}), delete_labels=frozenset({"''", "TOP"})
    )
    if shape != "unary":
        assert evalb([tree], noun, parameters).f1 == 100.0  # the mark is put back under its ancestors
    bare = without_preterminals(tree)
    assert without_preterminals(with_tags(bare, ["N"] * len(words_of(bare)))) == bare
