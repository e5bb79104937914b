"""GPST's pruned charts planned on the GPU, from a parser's scores to all that the passes over them read.

Mirrors `refimpl.gpst.pruned_chart` as `accel.cuda.pruned_chart` does. A block for each sentence ranks the points, and
one of its threads merges the units; one block numbers the nodes of all sentences; a block for each sentence writes its
pairs, and for every node the pairs that read it. The host waits for the number of nodes of every step, on which the
launches of the passes depend. If a pass is one launch, the host waits for nothing, and the arrays have room for the
most nodes and pairs that charts of these words can have. Extra memory: for W = 2 about 350 bytes a word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.cuda import device, forms
from accel.cuda.device import Array
from accel.cuda.support import check, seeds
from accel.cuda.support.graphs import padded_size

BLOCK = (32, 4)  # of a sentence
NUMBERING = 1024  # threads, as in chart_plan.cu


@dataclass(frozen=True)
class Plan:
    """The charts of B sentences of N words: M nodes, the words first, C cells and P pairs, on the device.

    The arrays may have room for more nodes, cells and pairs than there are.
    """

    n_nodes: int
    n_words: int
    steps: Array  # [3, T + 1] int64: where nodes, outside pairs and inside pairs of steps begin, and their ends
    inside: dict[str, Array]  # the arrays of `charts.Chart` of the inside pass,
    outside: dict[str, Array]  # and of the outside pass
    first_words: Array  # [M] int32, counted in the batch
    last_words: Array  # [M] int32
    split_offsets: Array  # [C + 1] int64
    roots: Array  # [B] int32


def plan(
    scores: Array, offsets: Array, longest: int, *, window: int, noise_seed: int | None = None,
    begins_word: Array | None = None, wait: bool = True,
) -> Plan:  # fmt: skip
    """Return the charts of sentences of at least one word and at most `longest`, for a parser's scores [N - B].

    With `wait` the host waits for the steps: the plan has them on the host, and arrays have no more room than needed.
    Otherwise the plan has them on the device. With `noise_seed` standard Gumbel noise is added to the scores. With
    `begins_word` [N] int32 the points inside of words are merged before all others. `offsets` [B+1] int64 are those of
    the words. Raises ValueError for a row with a NaN or an infinity, and for more nodes than int32 can number.
    """
    (scores,) = check.floats(scores=scores)
    check.finite(scores=scores)
    n_sentences = len(offsets) - 1
    n_words, w = len(scores) + n_sentences, max(1, min(window, longest - 1))
    n_spans, n_splits = (2 * w + 1) * n_words, 3 * w * (w + 1) // 2 * n_words  # as in chart_plan.cu
    if n_words + n_spans > np.iinfo(np.int32).max:
        raise ValueError(f"offsets: {n_words} words may have {n_spans} spans, more nodes than int32 can number")
    xp, sentences = device.xp(), (offsets, n_sentences, w, longest)
    first, longer, step, ranked, place, uses, number = xp.empty((7, n_words + n_spans), np.int32)
    first_splits, n_needed = xp.empty(n_spans, np.int64), xp.empty(n_sentences, np.int64)
    spans = first, longer, step, first_splits, *xp.empty((2, n_splits), np.int32), ranked, place, uses, n_needed
    counts = xp.empty((2, longest * n_sentences), np.int64)
    scratch = xp.empty_like(scores), xp.empty(len(scores), np.int32), xp.empty((w + 1) * n_words, np.int32)
    links = xp.empty(2 * (n_words + n_sentences), np.int32)
    atoms = (links, 0) if begins_word is None else (begins_word, 1)
    args = scores, *atoms, *_noise(noise_seed), *sentences, *scratch, links, *spans, *counts
    device.launch("chart_plan", "play_sentences", (n_sentences,), BLOCK, args, scores.dtype)
    starts, steps = xp.empty((2, longest * n_sentences), np.int64), xp.empty(3 * (longest + 1), np.int64)
    args = *counts, n_sentences, w, longest, *starts, steps
    device.launch("chart_plan", "number_nodes", (1,), (32, NUMBERING // 32), args, scores.dtype)
    of_steps = (device.to_host(steps) if wait else steps).reshape(3, longest + 1)
    n_nodes, n_uses, n_pairs = of_steps[:, -1].tolist() if wait else most(n_words, w)
    of_nodes = *xp.empty((3, n_nodes), np.int32), xp.empty(n_nodes + 1, np.int64)
    of_nodes += (
        xp.empty(n_nodes - n_words + 1, np.int64),
        xp.empty(n_nodes + 1, np.int64),
        xp.empty(n_sentences, np.int32),
    )
    rows, roles, uses_of_rows = xp.empty((3, 2 * n_pairs), np.int32)
    inner = rows, roles, *xp.empty((2, n_pairs), np.int32), uses_of_rows
    outer = *xp.empty((2, 2 * n_uses), np.int32), *xp.empty((4, n_uses), np.int32)
    args = (
        *sentences,
        n_nodes,
        *spans,
        *starts,
        steps,
        number,
        xp.empty(2 * n_pairs, np.int64),
        *of_nodes,
        *inner,
        *outer,
    )
    device.launch("chart_plan", "list_pairs", (n_sentences,), BLOCK, args, scores.dtype)
    first_words, last_words, is_root, use_offsets, split_offsets, parent_offsets, roots = of_nodes
    return Plan(
        n_nodes, n_words, of_steps,
        _pass(inner[:4], split_offsets, [(use_offsets, inner[4])]),
        _pass(outer[:4], use_offsets, [(parent_offsets, outer[4]), (use_offsets, outer[5])])
        | {"roots": roots, "is_root": is_root},
        first_words, last_words, split_offsets, roots,
    )  # fmt: skip


def most(n_words: int, window: int) -> tuple[int, int, int]:
    """Return the most nodes, outside pairs and inside pairs that charts of so many words can have.

    A span of W + 1 units has W splits. It is a part of other spans only once it has W units: after a merge of two of
    its own units. A merge does that to at most W spans, those that contain both units. Of n words n - W - 1 merges are
    made; one span more is the root. All other spans have 2 to W words. An inside pair has two parts: two outside pairs.

    >>> most(10, 1), most(10, 2)
    ((20, 20, 10), (40, 100, 50))
    """
    n_pairs = window * (3 * window - 1) // 2 * n_words
    return 2 * window * n_words, 2 * n_pairs, n_pairs


def longest_of(offsets: np.ndarray) -> int:
    """Return the length of the longest sentence, for `plan`; with graphs rounded up, so that few lengths occur."""
    longest = int(np.diff(offsets).max())
    return padded_size(longest) if forms.current().graphs else longest


def _pass(pairs: tuple[Array, ...], offsets: Array, uses: list[tuple[Array, Array]]) -> dict[str, Array]:
    """Return the arrays of a pass by their names in `charts.Chart`."""
    rows, roles, left, right = pairs
    return {"rows": rows, "roles": roles, "left": left, "right": right, "offsets": offsets, "uses": uses}


def _noise(seed: int | None) -> tuple[np.uint64, np.uint64]:
    """Return the seed and 1; while a graph is captured, its address and 1 with the bit IS_PLACE; without noise 0, 0."""
    if seed is None:
        return np.uint64(0), np.uint64(0)
    place = seeds.place_of(seed)
    return (np.uint64(seed), np.uint64(1)) if place is None else (np.uint64(place), np.uint64(1 | seeds.IS_PLACE))
