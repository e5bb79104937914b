"""The laws of specs/evaluation/spans.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.evaluation import spans as span_score
from accel.evaluation.spans import label_recall, unlabelled_f1
from refimpl.trees import Tree, spans

VECTORS = sorted((Path(__file__).parents[2] / "specs/vectors/evaluation/spans").glob("*.json"))
SWITCHES = ("drop_single_words", "drop_whole_sentence", "merge_duplicates")
span = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda ends: (min(ends), max(ends)))
sentence = st.lists(span, max_size=8).map(lambda inner_spans: [(0, 6), *inner_spans])
corpus = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4)
switches = st.fixed_dictionaries({name: st.booleans() for name in SWITCHES})


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vectors(path: Path) -> None:
    vector = json.loads(path.read_text())
    function = getattr(span_score, vector["function"].rsplit(".", 1)[1])
    if "error" in vector:
        with pytest.raises(ValueError, match=re.escape(vector["error"].split(": ", 1)[1])):
            function(**vector["inputs"])
    else:
        assert function(**vector["inputs"]) == pytest.approx(vector["expect"], rel=1e-12)


@given(corpus, switches, st.sampled_from(["sentence", "corpus"]))
def test_f1_laws(pairs: list, chosen: dict, average: str) -> None:
    gold, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    f1 = unlabelled_f1(gold, predicted, average=average, **chosen)
    assert 0 <= f1 <= 100
    assert unlabelled_f1(gold, gold, average=average, **chosen) == 100
    assert unlabelled_f1(predicted, gold, average=average, **chosen) == pytest.approx(f1)
    one = {unlabelled_f1(gold[:1], predicted[:1], average=a, **chosen) for a in ("sentence", "corpus")}
    assert len(one) == 1
    extra = ([(0, 6)] if chosen["drop_whole_sentence"] else []) + ([(2, 2)] if chosen["drop_single_words"] else [])
    more = [side + extra for side in predicted]
    assert unlabelled_f1(gold, more, average=average, **chosen) == pytest.approx(f1)


def test_switches() -> None:
    gold, predicted = [[(0, 2), (0, 1)], [(0, 0)], [(0, 1)]], [[(0, 2), (1, 2)], [(0, 0)], [(0, 1)]]
    assert unlabelled_f1(gold, predicted) == pytest.approx(200 / 3)
    assert unlabelled_f1(gold, predicted, shortest_sentence=2) == 50
    assert unlabelled_f1(gold, predicted, shortest_sentence=3) == 0
    assert unlabelled_f1(gold, predicted, skip_empty=True) == 0
    assert unlabelled_f1(gold, predicted, average="corpus", drop_whole_sentence=False) == pytest.approx(200 * 2 / 6)
    every = {"drop_whole_sentence": False, "drop_single_words": False}
    assert unlabelled_f1(gold, predicted, average="corpus", **every) == pytest.approx(200 * 3 / 8)
    assert unlabelled_f1([[], *gold[:1]], [[], *predicted[:1]]) == 0, "no span, no word: shorter than 1"


def test_switches_of_label_recall() -> None:
    gold, predicted = [[("S", 0, 2), ("NP", 0, 1), ("N", 2, 2)], [("VP", 0, 1)]], [[(0, 2), (2, 2)], [(0, 2)]]
    assert label_recall(gold, predicted) == {"NP": 0, "S": 100, "VP": 0}
    assert label_recall(gold, predicted, drop_whole_sentence=True) == {"NP": 0, "VP": 0}, "VP: of three words"
    assert label_recall(gold, predicted, drop_single_words=False) == {"N": 100, "NP": 0, "S": 100, "VP": 0}
    assert label_recall([[]], [[]], drop_whole_sentence=True) == {}


@given(corpus, span)
def test_label_recall_laws(pairs: list, one_more: tuple[int, int]) -> None:
    gold = [[(f"L{(i + j) % 3}-X", i, j) for i, j in side] for side, _ in pairs]
    predicted = [side for _, side in pairs]
    recall = label_recall(gold, predicted)
    assert set(label_recall(gold, [side for side, _ in pairs]).values()) == {100.0}
    more = label_recall(gold, [[*side, one_more] for side in predicted])
    assert set(more) == set(recall) and all(more[label] >= recall[label] for label in recall)


def test_errors() -> None:
    with pytest.raises(ValueError, match="average must be"):
        unlabelled_f1([[]], [[]], average="mean")  # type: ignore[arg-type]
    for function in (unlabelled_f1, label_recall):
        with pytest.raises(ValueError, match="0 gold sentences but 1"):
            function([], [[]])
        with pytest.raises(ValueError, match="no span"):
            function([[]], [[(-1, 0)]])
    with pytest.raises(ValueError, match="no sentence is left"):
        unlabelled_f1([], [])
    with pytest.raises(ValueError, match="zip"):
        unlabelled_f1([[]], [[]], ignored_words=[])


def test_deep() -> None:
    tree: Tree | str = "w"
    for _ in range(50_000):
        tree = Tree("S", ("w", tree))
    assert isinstance(tree, Tree)
    labelled = spans(tree)
    bare = [(i, j) for _, i, j in labelled]
    assert unlabelled_f1([bare], [bare]) == 100
    assert label_recall([labelled], [bare]) == {"S": 100.0}
