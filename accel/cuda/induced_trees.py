"""The trees that GPST's inside pass induces, on the GPU: their actions, and the losses of a parser and of heights.

Mirrors `refimpl.gpst.inside_outside.induced_tree` and `post_order`, and two losses of `refimpl.gpst.losses`. A thread a
sentence walks from the root down; all else is computed by a thread a node or a point. The host waits for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.cuda import device
from accel.cuda.chart_plan import Plan
from accel.cuda.device import Array
from accel.cuda.support import check, known
from accel.cuda.support.check import THREADS

BLOCK = (32, 4)  # of a sentence
WARPS = 4  # points a block


@dataclass(frozen=True)
class Trees:
    """The trees of B sentences of N words, in contexts. A point stands for the cell that is split there."""

    nodes: Array  # [2 N - B] int32 in post-order, sentence after sentence
    begins: Array  # [N - B] int64 for every point: the first point of its cell,
    ends: Array  # [N - B] int64 the point after the last one of its cell,
    above: Array  # [N - B] int64 and the point of the cell above, -1 for the root
    types: Array  # [2 N - B] int32: 1 for the action of a word, 0 for that of a cell
    previous: Array  # [2 N - B] int32: the row that an action reads, of [1 + N + cells]; 0 for the first of a context
    positions: Array  # [2 N - B] int32: words before it in its context
    word_actions: Array  # [N] int64 the action of every word
    cell_actions: Array  # [N - B] int64 the action of every cell in post-order,
    composed: Array  # [N - B] int64 and its node


def induce(
    scores: Array, plan: Plan, offsets: Array, contexts: Array, n_words: int, *, numbered: bool = True,
    begins_word: Array | None = None,
) -> Trees:  # fmt: skip
    """Return the trees that split every cell where its score [P] is highest, the first of equals.

    `offsets` [B+1] int64 are those of the words, `contexts` [R+1] int64 those of the sentences. Unless `numbered`, all
    cells have the same row in `Trees.previous`. With `begins_word` [N] int32 a cell is split inside of a word only if
    it has no other splits. Raises ValueError for a row with a NaN or an infinity.
    """
    (scores,) = check.floats(scores=scores)
    check.finite(scores=scores)
    xp, n_sentences = device.xp(), len(offsets) - 1
    n_actions, n_cells = 2 * n_words - n_sentences, n_words - n_sentences
    stack, (nodes, types, previous, positions) = xp.empty(4 * n_words, np.int32), xp.empty((4, n_actions), np.int32)
    begins, ends, above, cell_actions, composed = xp.empty((5, n_cells), np.int64)
    word_actions = xp.empty(n_words, np.int64)
    atoms = (stack, 0) if begins_word is None else (begins_word, 1)
    args = (
        scores, plan.split_offsets, plan.inside["left"], plan.inside["right"], plan.n_nodes, plan.first_words,
        plan.last_words, plan.roots, *atoms, offsets, n_sentences, contexts, len(contexts) - 1, int(numbered), stack,
        nodes, begins, ends, above, types, previous, positions, word_actions, cell_actions, composed,
    )  # fmt: skip
    device.launch("induced_trees", "induce_trees", (n_sentences,), BLOCK, args, scores.dtype)
    known.promise(types, 0, 2)
    return Trees(nodes, begins, ends, above, types, previous, positions, word_actions, cell_actions, composed)


def split_loss(scores: Array, trees: Trees) -> tuple[Array, Array]:
    """Return -log p of every point among those of its cell [N - B], and what the gradient needs.

    scores [N - B] are a parser's; p is their softmax over the points of a cell.
    """
    (scores,) = check.floats(scores=scores)
    losses, logs = device.xp().empty_like(scores), device.xp().empty((2, len(scores)), scores.dtype)
    args = scores, trees.begins, trees.ends, losses, logs, len(scores)
    device.launch("induced_trees", "split_loss_forward", (-(-len(scores) // WARPS),), (32, WARPS), args, scores.dtype)
    return losses, logs


def split_loss_vjp(d_losses: Array, outputs: tuple[Array, Array], scores: Array, trees: Trees) -> Array:
    """Return the gradient of the scores."""
    d_losses, scores = check.floats(d_losses=d_losses, scores=scores)
    d_scores, n = device.xp().empty_like(scores), len(scores)
    args = d_losses, scores, outputs[1], trees.above, d_scores, n
    device.launch("induced_trees", "split_loss_backward", (-(-n // THREADS),), (THREADS,), args, scores.dtype)
    return d_scores


def excess(heights: Array, roots: Array, offsets: Array, threshold: float, of_excess: bool) -> Array:
    """Return by how much the height of every root [B] exceeds the threshold, divided by the words of its sentence.

    heights [M], of nodes; below the threshold the result is 0. With `of_excess` the divisor is the words minus the
    threshold, at least 1.
    """
    out, n = device.xp().empty(len(roots), heights.dtype), len(roots)
    args = heights, roots, offsets, out, n, int(of_excess), float(threshold)
    device.launch("induced_trees", "excess_forward", (-(-n // THREADS),), (THREADS,), args, heights.dtype)
    return out


def excess_vjp(d_out: Array, heights: Array, roots: Array, offsets: Array, threshold: float, of_excess: bool) -> Array:
    """Return the gradient of the heights."""
    d_heights, n = device.xp().zeros_like(heights), len(roots)
    args = device.xp().ascontiguousarray(d_out), heights, roots, offsets, d_heights, n, int(of_excess), float(threshold)
    device.launch("induced_trees", "excess_backward", (-(-n // THREADS),), (THREADS,), args, heights.dtype)
    return d_heights
