"""Unsupervised parsing: which words count, the four trivial trees, scores counted by hand, a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.files.brackets import read_trees, without_preterminals
from accel.data.files.lines import LineError
from accel.data.published.wsj import WORD_TAGS, GoldSentence, filtered, read_gold
from accel.evaluation.evalb import evalb
from accel.evaluation.evalb_input import EvalbParameters, with_tags
from accel.evaluation.induced_f1 import (
    BASELINES,
    PRESETS,
    ParseScore,
    Preset,
    Spans,
    oracle_spans,
    score,
    score_baselines,
    score_oracle,
    table,
    trivial_spans,
)
from accel.parsing.distances import induced_tree as bracketed
from accel.verify.strategies import trees
from refimpl.gpst.inside_outside import induced_tree
from refimpl.gpst.pruned_chart import pruned_chart
from refimpl.trees import Tree
from refimpl.trees import spans as spans_of
from refimpl.trees import words as words_of
from tests.fixtures.enumerated_trees import atoms

VINKEN = """
( (S (NP-SBJ (NP (NNP Mr.) (NNP Vinken)) (, ,) (ADJP (NP (CD 61) (NNS years)) (JJ old)) (, ,))
     (VP (MD will) (VP (VB pay) (NP (QP ($ $) (CD 1,200.50) (-NONE- *U*))) (PP-CLR (IN to) (NP (PRP me)))
       (S (NP-SBJ (-NONE- *-1)) (: --))))
     (. .)))
"""


def read(text: str) -> Tree:
    [tree] = read_trees(text.splitlines())
    return tree


def test_filtered() -> None:
    gold = filtered(read(VINKEN))
    assert gold is not None
    assert gold.words == ["mr.", "vinken", "N", "years", "old", "will", "pay", "N,N.N", "to", "me"]
    assert gold.constituents == [
        ("S", 0, 9),
        ("NP", 0, 4),
        ("NP", 0, 1),
        ("ADJP", 2, 4),
        ("NP", 2, 3),
        ("VP", 5, 9),
        ("VP", 6, 9),
        ("NP", 7, 7),
        ("QP", 7, 7),
        ("PP", 8, 9),
        ("NP", 9, 9),
    ]
    with_digits = filtered(read(VINKEN), digits=True)
    assert with_digits is not None and with_digits.constituents == gold.constituents
    assert [word for word in with_digits.words if word not in gold.words] == ["61", "1,200.50"]
    assert filtered(read("(S (NP the bird) (VP sings))")) is None
    assert filtered(read("(S (. .) (-LRB- -LRB-) ($ $) (# #) (`` ``) (SYM x))")) == GoldSentence(["x"], [("S", 0, 0)])
    assert len(WORD_TAGS) == 36


def test_read_gold(tmp_path: Path) -> None:
    path = tmp_path / "trees"
    eleven = f"(S {' '.join('(NN a)' for _ in range(11))} (. .))\n"
    path.write_text(f"{VINKEN}\n(S (. .))\n{eleven}(S (NP=2 (NN I)) (. !))\n")
    assert [len(gold.words) for gold in read_gold(path)] == [10, 11, 1]
    assert [len(gold.words) for gold in read_gold(path, "wsj10")] == [10, 1]
    assert next(read_gold(path, "kim")).words[2] == "61"
    path.write_text("(S (NP-1 The dog) 61 .)\n")
    gold = GoldSentence(["The", "dog", "61", "."], [("S", 0, 3), ("NP", 0, 1)], line=1)
    assert list(read_gold(path, "plain")) == [gold]
    with pytest.raises(LineError, match=":1: not every word has a part-of-speech tag"):
        list(read_gold(path))
    path.write_text(eleven)
    with pytest.raises(LineError, match="wsj10 leaves no sentence"):
        list(read_gold(path, "wsj10"))
    with pytest.raises(ValueError, match="unknown convention 'wsj40'"):
        list(read_gold(path, "wsj40"))


@given(st.sampled_from(BASELINES), st.integers(1, 30), st.integers(0, 99))
def test_trivial_spans_are_binary_trees(name: str, n_words: int, seed: int) -> None:
    spans = trivial_spans(name, n_words, np.random.default_rng(seed))
    assert len(set(spans)) == len(spans) == n_words - 1
    for i, j in spans:
        assert 0 <= i < j < n_words
        assert not any(a < i <= b < j for a, b in spans)
    assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))


def test_trivial_spans_of_five_words() -> None:
    rng = np.random.default_rng(0)
    assert trivial_spans("left", 5, rng) == [(0, 4), (0, 3), (0, 2), (0, 1)]
    assert trivial_spans("right", 5, rng) == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert trivial_spans("balanced", 5, rng) == [(0, 4), (0, 1), (2, 4), (3, 4)]
    samples = {tuple(trivial_spans("random", 5, rng)) for _ in range(400)}
    assert len(samples) == 14  # all binary trees: the fourth Catalan number


def test_score() -> None:
    gold = [
        GoldSentence(list("abcd"), [("S", 0, 3), ("VP", 0, 3), ("NP", 0, 1), ("NX", 0, 1), ("PP", 2, 3), ("NP", 3, 3)]),
        GoldSentence(list("ab"), [("NP", 0, 1)]),
        GoldSentence(["a"], [("NP", 0, 0)]),
        GoldSentence(list("abc"), [("S", 0, 2)]),
    ]
    right = [trivial_spans("right", len(s.words), np.random.default_rng(0)) for s in gold]
    result = score(gold, right)
    # spans {01, 23} and {13, 23} have one in common; the flat tree over abc has no span
    assert result.sentence_f1 == pytest.approx((50 + 100 + 100 + 0) / 4)
    assert result.corpus_f1 == pytest.approx(100 * 2 / 5)
    assert result.label_recall == {"S": 100.0, "VP": 100.0, "NP": 50.0, "NX": 0.0, "PP": 100.0}
    baselines = score_baselines(gold, seed=1)
    assert tuple(baselines) == BASELINES and baselines["right"] == result
    assert baselines["balanced"].sentence_f1 == pytest.approx((100 + 100 + 100 + 0) / 4)
    assert score_baselines(gold, seed=1) == baselines


CHAINED = [
    GoldSentence(list("abc"), [("S", 0, 2), ("VP", 0, 2), ("NP", 0, 1)]),
    GoldSentence(["a"], [("S", 0, 0), ("NP", 0, 0)]),
    GoldSentence(list("ab"), [("S", 0, 1)]),
]


@pytest.mark.parametrize(
    ("preset", "sentence_f1", "corpus_f1"),
    [
        ("fasttrees", 100.0, 100.0),
        ("gpst", 100.0, 100.0),
        ("gpst_released", (200 / 3 + 100 + 100) / 3, 200 / 3),  # one copy of the chain over abc is left
        ("compound_pcfg", (200 / 3 + 100) / 2, 200 / 3),  # likewise; one word does not count
        ("evalb", (400 / 5 + 200 / 3 + 100) / 3, 100 * 8 / 10),  # the tree (X a) has one of the two brackets
    ],
)
def test_presets_count_by_hand(preset: str, sentence_f1: float, corpus_f1: float) -> None:
    result = score(CHAINED, [[(0, 2), (0, 1)], [], [(0, 1)]], preset)
    assert (result.sentence_f1, result.corpus_f1) == pytest.approx((sentence_f1, corpus_f1))


def released_scores(gold: Sequence[Spans], predicted: Sequence[Spans]) -> tuple[float, float]:
    """Return sentence F1 and corpus F1, in percent, as the scorer of Compound PCFG computes them."""
    scores, n_matched, n_wrong, n_missed = [], 0, 0, 0
    for sides in zip(gold, predicted, strict=True):
        last = max((j for side in sides for _, j in side), default=0)
        if last == 0:
            continue
        closed = [sorted((s for s in side if s[0] < s[1]), key=lambda s: (s[1], -s[0])) for side in sides]
        ours, theirs = (set(side[:-1]) for side in closed)
        n_matched, n_wrong, n_missed = (
            n_matched + len(ours & theirs), n_wrong + len(theirs - ours), n_missed + len(ours - theirs)
        )  # fmt: skip
        precision = len(ours & theirs) / (len(theirs) + 1e-8) if ours or theirs else 1.0
        recall = len(ours & theirs) / (len(ours) + 1e-8) if ours else 1.0
        scores.append(2 * precision * recall / (precision + recall + 1e-8))
    both = 2 * n_matched + n_wrong + n_missed
    return 100 * sum(scores) / len(scores), 200 * n_matched / both if both else 100.0


@given(st.lists(st.tuples(trees(), st.integers(0, 99)), min_size=1, max_size=4))
def test_compound_pcfg_counts_as_its_scorer(drawn: list[tuple[Tree, int]]) -> None:
    """SPAN-1: one copy of the sentence's span is removed; the other copies of a unary chain over it remain."""
    gold = [GoldSentence(words_of(tree), spans_of(tree)) for tree, _ in drawn] + CHAINED[:1]
    draws = [np.random.default_rng(seed) for _, seed in [*drawn, (None, 0)]]
    predicted = [trivial_spans("random", len(s.words), draw) for s, draw in zip(gold, draws, strict=True)]
    result = score(gold, predicted, "compound_pcfg")
    expected = released_scores([[(i, j) for _, i, j in sentence.constituents] for sentence in gold], predicted)
    assert (result.sentence_f1, result.corpus_f1) == pytest.approx(expected, abs=1e-5)


def test_a_chain_over_the_sentence_costs() -> None:
    """SPAN-1: (S (VP (NP a b) c)) and (S d (VP e f)) are predicted right, but one trivial gold span is left."""
    gold = [
        GoldSentence(list("abc"), [("S", 0, 2), ("VP", 0, 2), ("NP", 0, 1)]),
        GoldSentence(list("def"), [("S", 0, 2), ("VP", 1, 2)]),
    ]
    predicted = [[(0, 2), (0, 1)], [(0, 2), (1, 2)]]
    assert score(gold, predicted, "gpst").corpus_f1 == 100
    result = score(gold, predicted, "compound_pcfg")
    assert (result.sentence_f1, result.corpus_f1) == pytest.approx(((200 / 3 + 100) / 2, 100 * 4 / 5))


def test_sentences_of_one_word() -> None:
    """They score 100, like sentences of two words, or do not count."""
    predicted = [[(0, 2), (1, 2)], [], [(0, 1)]]
    assert score(CHAINED, predicted, "gpst").sentence_f1 == pytest.approx((0 + 100 + 100) / 3)
    assert score(CHAINED, predicted, "compound_pcfg").sentence_f1 == pytest.approx((0 + 100) / 2)
    assert score_baselines(CHAINED, preset="gpst")["right"] == score(CHAINED, predicted, "gpst")


def test_the_preset_evalb_counts_as_evalb_does() -> None:
    """EVALB reads the trees as they are printed, with one tag over every word; (X she) has a bracket over its word."""
    texts = "(S (NP (D the) (N dog)) (VP (V sees) (NP (P her))))", "(S (VP (V go)))", "(X (U yes))"
    gold = [read(text) for text in texts]
    sentences = [GoldSentence(words_of(tree), spans_of(without_preterminals(tree))) for tree in gold]
    predicted = [[(0, 3), (0, 1), (2, 3)], [], []]
    pairs = zip(predicted, map(words_of, gold), strict=True)
    trees_with_tags = [with_tags(bracketed(spans, words), ["T"] * len(words)) for spans, words in pairs]
    expected = pytest.approx(100 * 10 / 12)
    assert evalb(gold, trees_with_tags, EvalbParameters(labelled=False)).f1 == expected
    assert score(sentences, predicted, "evalb").corpus_f1 == score_oracle(sentences, "evalb").corpus_f1 == expected


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="unknown preset 'diora': choose one of fasttrees, gpst"):
        score(CHAINED, [[], [], []], "diora")
    with pytest.raises(ValueError, match="3 gold sentences but 2 predicted ones"):
        score(CHAINED, [[], []])
    with pytest.raises(ValueError, match='whole_sentence must be "drop", "drop_one" or "keep"'):
        Preset(whole_sentence="drop one")
    assert PRESETS["gpst"] == PRESETS["fasttrees"] == Preset()


@given(st.integers(1, 12), st.integers(0, 99), st.floats(0, 1))
def test_no_binary_tree_is_better_than_the_oracle(n_words: int, seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    spans = [span for span in trivial_spans("random", n_words, random) if random.random() < share]
    tree = oracle_spans(spans, n_words)
    assert set(spans) <= set(tree) and len(tree) == len(set(tree)) == n_words - 1
    gold = [GoldSentence(["a"] * n_words, [("S", 0, n_words - 1), *(("X", i, j) for i, j in spans)])]
    best = score_oracle(gold)
    assert set(best.label_recall.values()) <= {100.0}
    for name in BASELINES:
        assert score(gold, [trivial_spans(name, n_words, random)]).sentence_f1 <= best.sentence_f1


@given(st.lists(st.booleans(), max_size=7), st.integers(0, 99))
def test_trees_that_split_no_word(later: list[bool], seed: int) -> None:
    begins = [True, *later]
    words = atoms(begins)
    assert [k for i, j in words for k in range(i, j)] == [k for k in range(len(later)) if not later[k]]
    n, random = len(begins), np.random.default_rng(seed)
    chart = pruned_chart(list(range(n - 1)), n, window=n)
    scores = {cell: random.standard_normal(len(splits)) for cell, splits in chart.cells.items()}
    spans = {(i, j) for i, _, j in induced_tree(chart, scores, words)}
    assert set(words) <= spans


def test_table() -> None:
    gold = [GoldSentence(list("abc"), [("S", 0, 2), ("NP", 0, 1), ("VP", 2, 2)])]
    rows = {"ours": ParseScore(12.34, 5.0, {"S": 100.0, "NP": 0.0}), "left": ParseScore(100, 100, {"S": 1, "NP": 2})}
    assert table(rows, gold).splitlines() == [
        "      sentence F1  corpus F1      NP       S",
        "ours         12.3        5.0     0.0   100.0",
        "left        100.0      100.0     2.0     1.0",
        "gold            1 sentences        1       1",
    ]
    odd = [GoldSentence(list("abc"), [("-LRB-", 0, 1), ("=X", 0, 2)])]  # these labels become empty (SPAN-2)
    assert table({"odd": score(odd, [[(0, 1)]])}, odd).splitlines()[-1].split() == ["gold", "1", "sentences", "2"]
    assert "NP" not in table(rows, [GoldSentence(list("abc"), [("S", 0, 2), ("S", 0, 1), ("NP", 1, 2)])], columns=1)


def test_equally_frequent_labels_stand_in_the_alphabet() -> None:
    """Not in the order of a set of strings, which changes from run to run."""
    ties = [GoldSentence(list("ab"), [(label, 0, 1) for label in labels]) for labels in ("KJIHGFEDCBA", "K")]
    assert table({"odd": score(ties, [[], []])}, ties).splitlines()[0].split()[4:] == list("ABCDEFGK")


@pytest.mark.parametrize(
    ("convention", "sentences", "published"),
    [("wsj10", 555, (32.2, 43.4, 19.6, 56.6)), ("wsj", 3914, (18.6, 24.5, 9.0, 39.8))],
)
def test_trivial_trees_of_the_treebank(
    convention: str, sentences: int, published: tuple[float, ...], data_dir: Path
) -> None:
    """Table 7 is over other sections than this sample, which is a thirteenth of WSJ10; its figures agree roughly."""
    gold = list(read_gold(data_dir / "ptb_sample" / "wsj_sample.mrg.xz", convention))
    assert len(gold) == sentences
    computed = [scored.sentence_f1 for scored in score_baselines(gold).values()]
    best = score_oracle(gold, "gpst").sentence_f1
    assert best == pytest.approx(84.3, abs=4.0 if convention == "wsj10" else 1.5)  # the oracle of GPST's Table 3
    assert computed == pytest.approx(published, abs=2.5 if convention == "wsj10" else 1.0)


def test_the_page_lists_the_presets() -> None:
    page = (Path(__file__).parents[2] / "specs/evaluation/spans.md").read_text(encoding="utf-8")
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    header = next(row for row in rows if row[:1] == ["preset"])
    presets = {row[0]: dict(zip(header, row, strict=True)) for row in rows if row and row[0] in PRESETS}
    assert list(presets) == list(PRESETS)
    for name, preset in PRESETS.items():
        assert {switch: str(value) for switch, value in asdict(preset).items()}.items() <= presets[name].items()
