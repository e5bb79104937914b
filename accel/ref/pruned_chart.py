"""Mirror of `refimpl.gpst.pruned_chart`: the pruned charts of a batch, their cells numbered step by step."""

from __future__ import annotations

import numpy as np

from accel.ref.support.batch import Array, Outputs, finite, of_sequence, offsets_of, sequences_of
from refimpl.gpst import pruned_chart as ref_pruned_chart


def pruned_chart(scores: Array, offsets: Array, *, window: int) -> Outputs:
    """Mirror of `refimpl.gpst.pruned_chart.pruned_chart`, for the merge order of the scores.

    Returns (spans [C, 2], owner [C], split_offsets [C+1], left [P], right [P], step_offsets [T+1], roots [B]).

    Nodes are numbered over the batch: first all its words, then its cells, in the order of spans. Cells stand step by
    step: `step_offsets` says where each step of PC-3 begins, for the whole batch; within a step they stand sentence by
    sentence, shorter spans first, then from the left. `owner` is the sentence of each cell. Its splits, ascending, are
    those from `split_offsets`; left and right are the nodes of a split's two parts. roots are the nodes of the
    sentences.
    """
    finite(scores=scores)
    parts = sequences_of(offsets, len(scores) + len(offsets) - 1)
    charts: list[ref_pruned_chart.Chart] = []
    for b, part in enumerate(parts):
        order = ref_pruned_chart.merge_order(scores[part.start - b : part.stop - b - 1])
        arguments = order, part.stop - part.start, window
        charts.append(of_sequence(b, lambda arguments=arguments: ref_pruned_chart.pruned_chart(*arguments)))
    steps = [
        [(b, i, j) for b, chart in enumerate(charts) for i, j in (chart.steps[s] if s < len(chart.steps) else [])]
        for s in range(max((len(chart.steps) for chart in charts), default=0))
    ]
    cells = [cell for step in steps for cell in step]
    words = [(b, i, i) for b, chart in enumerate(charts) for i in range(chart.n)]
    number = {node: place for place, node in enumerate(words + cells)}
    splits = [(b, i, k, j) for b, i, j in cells for k in charts[b].cells[i, j]]
    return (
        np.array([(i, j) for _, i, j in cells], np.int32).reshape(-1, 2),
        np.array([b for b, _, _ in cells], np.int32),
        offsets_of([len(charts[b].cells[i, j]) for b, i, j in cells]),
        np.array([number[b, i, k] for b, i, k, _ in splits], np.int32),
        np.array([number[b, k + 1, j] for b, _, k, j in splits], np.int32),
        offsets_of([len(step) for step in steps]),
        np.array([number[b, 0, chart.n - 1] for b, chart in enumerate(charts)], np.int32),
    )
