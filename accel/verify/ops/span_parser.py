"""Rows of the table for labelled trees from scores of spans: their sum, and the best of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import conditions
from accel.verify.op import Case, Example, Op, Outputs, Spoiler, offsets_of
from accel.verify.peaks import with_peak_of_splits
from accel.verify.strategies import floats, regimes, seeds
from refimpl.transformer_grammars.span_parser import best_trees, span_logz, tree_score

sentence_lengths = st.lists(st.one_of(st.integers(1, 3), st.integers(1, 6)), min_size=1, max_size=4)


def chart_rows(square: np.ndarray) -> np.ndarray:
    """Return [n, n, L] as rows [S, L]: shorter spans first, spans of one length from left to right."""
    n = len(square)
    return np.array([square[i, i + longer] for longer in range(n) for i in range(n - longer)])


@st.composite
def square_cases(draw: Callable, most_trees: int | None = None) -> Case:
    """Draw [n, n, L] scores of any regime or 30 times as large. Some labels are forbidden, but never all of the root.

    Scores of trees to be listed are multiples of 1/8, so that their sums are exact in any order.
    """
    regime, seed, n_labels = draw(regimes), draw(seeds), draw(st.integers(1, 4), label="labels")
    scale = draw(st.sampled_from([1.0, 1.0, 30.0]), label="scale")
    forbidden = draw(st.sampled_from([0.0, 0.2, 0.7]), label="forbidden")
    examples = []
    for b, n in enumerate(draw(sentence_lengths, label="lengths")):
        scores = scale * floats(regime, seed + b, n, n, n_labels)
        if most_trees:
            scores = np.round(8 * scores) / 8
        choose = np.random.default_rng([seed, b])
        scores[choose.random(scores.shape) < forbidden] = -np.inf
        scores[0, -1, choose.integers(n_labels)] = 1.0
        examples.append({"scores": scores})
    return Case({"count": draw(st.integers(1, most_trees), label="count")} if most_trees else {}, examples)


def squares_of_sizes(count: int | None, sentences: int = 2, words: int = 3, labels: int = 2) -> Case:
    """Scores in the form of `square_cases`, multiples of 1/8."""
    lengths = [*(1 + b % 3 for b in range(sentences - 1)), words]
    squares = [np.round(8 * floats("unit", b, n, n, labels)) / 8 for b, n in enumerate(lengths)]
    return Case({"count": count} if count else {}, [{"scores": square} for square in squares])


def long_lists_of_sizes(words: int = 4) -> Case:
    """More trees of shorter sentences: the reference takes long to find many trees of a long one."""
    return squares_of_sizes(min(60, 12_000 // words**2 + 1), words=words)


def ref_span_logz(shared: Example, example: Example, start: int) -> Outputs:
    return (np.array([span_logz(example["scores"])], example["scores"].dtype),)


def ref_best_trees(shared: Example, example: Example, start: int) -> Outputs:
    return (np.array([score for score, _ in best_trees(example["scores"], shared["count"])]),)


def batched_squares(case: Case) -> dict[str, Any]:
    squares = [e["scores"] for e in case.examples]
    rows = np.concatenate([chart_rows(square) for square in squares])
    return {"scores": rows, "offsets": offsets_of([len(square) for square in squares]), **case.shared}


def split_logz(outputs: Outputs, case: Case) -> list[Outputs]:
    assert outputs[0].shape == (len(case.examples),)
    return [(outputs[0][b : b + 1],) for b in range(len(case.examples))]


def split_best_trees(outputs: Outputs, case: Case) -> list[Outputs]:
    """Return (scores, numbers of constituents, constituents [K, 3]) of every sentence."""
    tree_offsets, scores, span_offsets, spans, labels = outputs
    assert len(tree_offsets) == len(case.examples) + 1 and tree_offsets[0] == span_offsets[0] == 0
    assert tree_offsets[-1] == len(scores) == len(span_offsets) - 1
    assert span_offsets[-1] == len(spans) == len(labels) and spans.shape[1:] == (2,)
    constituents = np.concatenate([spans, labels[:, np.newaxis]], axis=1)
    sentences = []
    for first, last in zip(tree_offsets[:-1], tree_offsets[1:], strict=True):
        rows = slice(span_offsets[first], span_offsets[last])
        sentences.append((scores[first:last], np.diff(span_offsets[first : last + 1]), constituents[rows]))
    return sentences


def above_the_flat_tree(shared: Example, example: Example, outputs: Outputs) -> None:
    """SP-2 L4: log Z is at least the score of the tree whose only constituent is the sentence."""
    most = example["scores"][0, -1].max()
    assert outputs[0][0] >= most - 1e-6 * abs(most)


def different_trees_in_order(shared: Example, example: Example, outputs: Outputs) -> None:
    """SP-4 L2: different trees in descending order, each with the score of SP-1."""
    scores, sizes, constituents = outputs
    assert (np.diff(scores) <= 0).all() and 1 <= len(scores) <= shared["count"]
    trees = [part.tolist() for part in np.split(constituents, np.cumsum(sizes)[:-1])]
    assert len({frozenset(map(tuple, tree)) for tree in trees}) == len(trees)
    for tree, score in zip(trees, scores, strict=True):
        in_order = sorted(tree, key=lambda span: (span[0], -span[1]))
        for part, right in zip(tree, in_order, strict=True):
            assert part == right, f"constituents of a tree are not in pre-order: {part} stands in the place of {right}"
        try:
            expected = tree_score(example["scores"], tree)
        except ValueError as error:
            raise AssertionError(f"{tree}: {error}") from error
        assert expected == score


def two_sentences(**changes: Any) -> Spoiler:
    """Return a function that gives a sentence of one word and one of two, with these arguments changed."""
    return lambda arguments: (
        arguments | {"scores": np.zeros((4, 2)), "offsets": np.array([0, 1, 3], np.int64)} | changes
    )


def zeros_but(row: int, value: float) -> np.ndarray:
    scores = np.zeros((4, 2))
    scores[row] = value
    return scores


ERRORS = (
    ("sequence 1|empty", two_sentences(offsets=np.array([0, 1, 1, 3], np.int64))),
    ("offsets", two_sentences(offsets=np.array([1, 2, 4], np.int64))),
    ("offsets", two_sentences(offsets=np.array([0, 4, 3], np.int64))),
    ("scores|4 rows|6", two_sentences(offsets=np.array([0, 3], np.int64))),
    ("scores", two_sentences(scores=np.zeros((4, 0)))),
    ("scores", two_sentences(scores=np.zeros(4))),
    ("scores|NaN|row 2", two_sentences(scores=zeros_but(2, np.nan))),
    ("scores|infinity|row 3", two_sentences(scores=zeros_but(3, np.inf))),
    ("sequence 0|no tree", two_sentences(scores=zeros_but(0, -np.inf))),
    ("sequence 1|no tree", two_sentences(scores=zeros_but(3, -np.inf))),
)

SPAN_PARSER = (
    Op(
        "span_logz", "span_parser", "SP-2", square_cases(), ref_span_logz, batched_squares, split_logz,
        diff=("scores",), finite=True, saturated=True, laws=(above_the_flat_tree,), errors=ERRORS,
        sized=(partial(squares_of_sizes, None),), peaks=with_peak_of_splits,
        condition=lambda s, e, start, unit: (np.array([conditions.span_logz(e["scores"], unit)]),),
    ),
    Op(
        "best_trees", "span_parser", "SP-4", square_cases(most_trees=60), ref_best_trees,
        batched_squares, split_best_trees, exact=True, finite=True, laws=(different_trees_in_order,),
        sized=(partial(squares_of_sizes, 5), long_lists_of_sizes),
        errors=(
            *ERRORS,
            ("count|0", two_sentences(count=0)),
            ("count|-1", two_sentences(count=-1)),
        ),
    ),
)  # fmt: skip
