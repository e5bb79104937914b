"""Row of the table for GPST: the pruned charts of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accel.verify import laws
from accel.verify.compare import Disagreement
from accel.verify.op import Case, Example, Op, Outputs, Spoiler, offsets_of
from accel.verify.ops.fasttrees import SEQUENCES
from accel.verify.strategies import floats, ones_and_zeros, regimes, seeds
from refimpl.gpst.pruned_chart import merge_order, pruned_chart

sentence_lengths = st.lists(st.one_of(st.integers(1, 3), st.integers(1, 13)), min_size=1, max_size=4)
pruned_windows = st.one_of(st.sampled_from([1, 2, 2, 99]), st.integers(1, 9))
ARRANGEMENTS = {"as drawn": np.array, "ascending": np.sort, "descending": lambda x: np.sort(x)[::-1].copy()}


@st.composite
def score_cases(draw: Callable) -> Case:
    """Draw scores of any regime; sorted scores give a tree that is a chain."""
    regime, seed, lengths = draw(regimes), draw(seeds), draw(sentence_lengths, label="lengths")
    if draw(st.integers(0, 4), label="long") == 4:
        lengths.append(40)
    arrange = ARRANGEMENTS[draw(st.sampled_from(sorted(ARRANGEMENTS)), label="arrangement")]
    examples = [{"scores": arrange(floats(regime, seed + b, n - 1))} for b, n in enumerate(lengths)]
    return Case({"window": draw(pruned_windows, label="window")}, examples)


def scores_of_sizes(window: int, tied: bool, sentences: int = 2, words: int = 5) -> Case:
    lengths = [*(1 + b % 4 for b in range(sentences - 1)), words]
    scores = [ones_and_zeros(b, n - 1) if tied else floats("unit", b, n - 1) for b, n in enumerate(lengths)]
    return Case({"window": window}, [{"scores": x} for x in scores])


def ref_pruned_chart(shared: Example, example: Example, start: int) -> Outputs:
    """Return the outputs that the laws of pruned charts read, in the order of the reference's steps."""
    scores = example["scores"]
    n = len(scores) + 1
    chart = pruned_chart(merge_order(scores), n, shared["window"])
    cells = [cell for step in chart.steps for cell in step]
    number = {node: place for place, node in enumerate([(i, i) for i in range(n)] + cells)}
    splits = [(i, k, j) for i, j in cells for k in chart.cells[i, j]]
    return (
        np.array(cells, int).reshape(-1, 2),
        np.array([len(chart.cells[cell]) for cell in cells], int),
        np.array([number[i, k] for i, k, _ in splits], int),
        np.array([number[k + 1, j] for _, k, j in splits], int),
        np.repeat(np.arange(len(chart.steps)), [len(step) for step in chart.steps]) + 1,
        np.array([number[0, n - 1]]),
    )


def batched_scores(case: Case) -> dict[str, Any]:
    parts = [e["scores"] for e in case.examples]
    return {"scores": np.concatenate(parts), "offsets": offsets_of([len(p) + 1 for p in parts]), **case.shared}


def split_pruned_chart(outputs: Outputs, case: Case) -> list[Outputs]:
    """Cut a batch's charts into those of its sentences, and number the nodes within each sentence."""
    spans, owner, split_offsets, left, right, step_offsets, roots = outputs
    lengths = [len(e["scores"]) + 1 for e in case.examples]
    assert len(owner) == len(spans) == len(split_offsets) - 1 == step_offsets[-1] and split_offsets[0] == 0
    assert len(left) == len(right) == split_offsets[-1] and len(roots) == len(lengths)
    assert (np.diff(step_offsets) > 0).all(), "a step has no cells"
    steps = np.repeat(np.arange(len(step_offsets) - 1), np.diff(step_offsets)) + 1
    assert (np.diff(steps * len(lengths) + owner) >= 0).all(), "cells do not stand step by step, sentence by sentence"
    sizes, first_words = np.diff(split_offsets), offsets_of(lengths)
    split_owner = np.repeat(owner, sizes)
    charts = []
    for b, n in enumerate(lengths):
        cells, splits = owner == b, split_owner == b
        number = np.full(first_words[-1] + len(spans), -1)  # -1: not a node of the sentence
        number[first_words[b] : first_words[b + 1]] = np.arange(n)
        number[first_words[-1] + np.flatnonzero(cells)] = n + np.arange(cells.sum())
        parts = number[left[splits]], number[right[splits]]
        for output, part in zip((3, 4), parts, strict=True):
            if (part < 0).any():
                place = int(np.flatnonzero(splits)[part < 0][0])
                other = f"node {outputs[output][place]}, which sentence {b} does not have"
                raise Disagreement(f"PC-2 pruned_chart, output {output}", f"[{place}]", other, "one of its nodes")
        charts.append((spans[cells], sizes[cells], *parts, steps[cells], number[roots[b : b + 1]]))
    return charts


def two_sentences(**changes: Any) -> Spoiler:
    """Return a function that gives two sentences of three words, with these arguments changed."""
    right = {"scores": np.array([0.5, 1.0, 2.0, 0.0]), "offsets": np.array([0, 3, 6], np.int64), "window": 2}
    return lambda arguments: right | changes


GPST = (
    Op(
        "pruned_chart", "pruned_chart", "PC-2", score_cases(), ref_pruned_chart,
        batched_scores, split_pruned_chart, options=("window",), exact=True, finite=True,
        laws=(laws.parts_meet, laws.parts_come_earlier, laws.windows, laws.chart_sizes),
        sized=tuple(partial(scores_of_sizes, *x) for x in ((2, False), (4, False), (2, True))),
        errors=(
            *SEQUENCES,
            ("sequence 2|empty", two_sentences(offsets=np.array([0, 3, 7, 7], np.int64))),
            ("scores|NaN|row 2", two_sentences(scores=np.array([0.5, 1.0, np.nan, 0.0]))),
            ("scores|infinity|row 3", two_sentences(scores=np.array([0.5, 1.0, 2.0, -np.inf]))),
            ("offsets|5", two_sentences(scores=np.array([0.5, 1.0, 2.0]))),
            ("offsets", two_sentences(offsets=np.array([1, 3, 6], np.int64))),
            ("offsets", two_sentences(offsets=np.array([0, 8, 6], np.int64))),
            ("window|0", two_sentences(window=0)),
            ("window|-1", two_sentences(window=-1)),
        ),
    ),
)  # fmt: skip
