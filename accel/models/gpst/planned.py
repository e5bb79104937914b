"""GPST's charts and trees where a backend makes them itself, as `accel.cuda` does: the host never reads them.

The charts and trees equal those of `composition.charts_of` and `composition.induced`. The losses and inputs that follow
from them equal those of `parser.loss` and `generator.laid_out`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, fact, host, on_device
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.models.gpst.composition import Inside
from accel.models.gpst.config import Config
from accel.models.gpst.generator import Layout
from accel.models.passes import Pass


def charts_of(
    f: Pass, scores: Array, offsets: Array, noise_seed: int | None, begins_word: Array | None
) -> Any:  # fmt: skip
    """Return the plan of the charts of all sentences; the scores [N - B] with noise of that seed give the merge order.

    With `begins_word` [N] int32 the points inside of words come before all others.
    """
    options = {"noise_seed": noise_seed, "begins_word": begins_word}
    planner, wait = f.tape.ops.chart_plan, not f.tape.ops.charts.walks(f.tape.recording)
    longest = fact(planner.longest_of, offsets)
    return planner.plan(scores, offsets, longest, window=f.config.window, wait=wait, **options)


def induced(
    f: Pass, inside: Inside, plan: Any, offsets: Array, contexts: Array, n_words: int, begins_word: Array | None
) -> Any:  # fmt: skip
    """Return the trees of the splits with the highest scores."""
    options = {"numbered": f.config.surrogate, "begins_word": begins_word}
    scores = inside.scores[0].value
    return f.tape.ops.induced_trees.induce(scores, plan, offsets, contexts, n_words, **options)


def heights(tape: Tape, config: Config, inside: Inside, plan: Any, offsets: Array) -> Variable:
    """Return the excess of every sentence's height over the threshold [B], divided as `height_norm` says."""
    ops, of_nodes = tape.ops.induced_trees, inside.heights.value.ravel()
    args = of_nodes, plan.roots, offsets, config.height_threshold, config.height_norm == "excess"

    def backward(d_out: Array) -> None:
        inside.heights.accumulate(ops.excess_vjp(d_out, *args)[:, None])

    return tape.record(ops.excess(*args), [inside.heights], backward)


def parser_loss(tape: Tape, scores: Variable, trees: Any) -> Variable:
    """Return -log p of every split of the induced trees, in the order of the points between words."""
    ops, values = tape.ops.induced_trees, scores.value
    outputs = ops.split_loss(values, trees)
    return tape.record(
        outputs[0], [scores], lambda d_out: scores.accumulate(ops.split_loss_vjp(d_out, outputs, values, trees))
    )


def spans_of(plan: Any, trees: Any, offsets: np.ndarray) -> np.ndarray:
    """Return the first and the last word of every node of the trees [2 N - B, 2], within their sentences."""
    ends = np.stack([host(words[trees.nodes]) for words in (plan.first_words, plan.last_words)], axis=1)
    return ends - offsets[np.searchsorted(offsets, ends[:, :1], side="right") - 1]


def laid_out(f: Pass, trees: Any, batch: Any) -> Layout:
    """Return the layout of the trees of a batch. Raises ValueError if a context has more words than positions."""
    words, actions = _starts(f, batch)
    p, table = f.p, "position"

    def read(f: Pass, words_of: Variable, composed: Variable) -> Variable:
        tape, ops, draw = f.tape, f.tape.ops.action_inputs, f.sites.draw(f.config.dropout)
        inputs = [p["bos"], words_of, composed, p[table]]
        values, drop = [x.value for x in inputs], (draw["rate"], draw["seed"])

        def backward(d_out: Array) -> None:
            shared = not f.config.surrogate
            gradients = ops.action_inputs_vjp(d_out, *values, trees, *drop, (words, actions), shared=shared)
            for x, gradient in zip(inputs, gradients, strict=True):
                x.accumulate(gradient)

        return tape.record(ops.action_inputs(*values, trees, *drop), inputs, backward)

    return Layout(trees.composed, trees.word_actions, trees.types, words, actions, read)


def _starts(f: Pass, batch: Any) -> tuple[Array, Array]:
    """Return where the words and the actions of contexts begin [R+1]; a batch on the device may hold these already."""
    fact(partial(_check_positions, n_positions=f.config.n_positions), batch.offsets, batch.contexts)
    if getattr(batch, "words", None) is not None:
        return batch.words, batch.actions
    offsets, contexts = host(batch.offsets), host(batch.contexts)
    starts = {"words": offsets[contexts], "actions": (2 * offsets - np.arange(len(offsets)))[contexts]}
    there = on_device(f.tape.ops, starts, attention=[("words", "words"), ("actions", "actions")])
    return there["words"], there["actions"]


def _check_positions(offsets: np.ndarray, contexts: np.ndarray, n_positions: int) -> None:
    lasts = np.diff(offsets)[contexts[1:] - 1]  # not used for an empty context
    positions = np.where(np.diff(contexts) > 0, np.diff(offsets[contexts]) - (lasts == 1), 0)
    if positions.max() >= n_positions:
        limit = f"the model has {n_positions} positions: use fewer words"
        raise ValueError(f"contexts: {positions.max()} words, but {limit}")
