"""GPST's E-step: the parser's scores, the charts, the inside pass and the trees that it induces; and their losses.

Mirrors `refimpl.gpst.parser.encode` and the losses of the structure, GPST-3 and GPST-5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, fact, host, on_device
from accel.autodiff.layers import linear
from accel.autodiff.variables import Variable, constant
from accel.models.gpst import composition, fused_charts, planned
from accel.models.gpst import generator as generative
from accel.models.gpst import parser as split_parser
from accel.models.gpst.composition import Charts, Inside
from accel.models.gpst.generator import Layout
from accel.models.passes import Pass


@dataclass(frozen=True)
class Structure:
    """The result of the E-step, GPST-3."""

    scores: Variable  # [N - B] the parser's
    charts: Any  # `composition.Charts`, or what `planned.charts_of` returns
    inside: Inside
    trees: Any  # `composition.Trees`, or what `planned.induced` returns


def structure_of(
    f: Pass, words: Variable, ids: Array, offsets: Array, contexts: Array, noise_seed: int | None,
    begins_word: Array | None = None,
) -> Structure:  # fmt: skip
    """Return the result of the E-step; with `begins_word` [N] the pieces of every word are a constituent."""
    tape, config, p, there = f.tape, f.config, f.p, offsets
    fact(_check_lengths, offsets)
    if fused_charts.can(tape, config):
        return _planned_structure(f, words, ids, there, contexts, noise_seed, begins_word)
    scores, offsets = split_parser.split_scores(tape, config, p, ids, there, f.sites), host(offsets)
    order, points = host(scores.value), np.delete(np.arange(offsets[-1]), offsets[1:] - 1)
    if noise_seed is not None:
        order = order + split_parser.gumbel(points, noise_seed).astype(order.dtype)
    cuts_word = None if begins_word is None else ~np.append(host(begins_word)[1:], True)  # true if no word ends there
    if cuts_word is not None:
        order = _with_atoms_first(order, cuts_word[points])
    charts = composition.charts_of(tape.ops, order, offsets, config.window)
    inside = composition.inside(tape, config, p, linear(tape, p, "down", words, "down_bias"), charts, f.sites)
    of_splits = np.concatenate([order[:0], *(host(score.value) for score in inside.scores)])
    cuts = None if cuts_word is None else cuts_word[charts.ends(offsets)[1][charts.left]]
    return Structure(scores, charts, inside, composition.induced(charts, of_splits, offsets, cuts))


def _check_lengths(offsets: np.ndarray) -> None:
    if (np.diff(offsets) < 1).any():
        raise ValueError(f"offsets: sentence {int(np.argmin(np.diff(offsets)))} is empty")


def _planned_structure(
    f: Pass, words: Variable, ids: Array, offsets: Array, contexts: Array, noise_seed: int | None,
    begins_word: Array | None,
) -> Structure:  # fmt: skip
    """Return the result of the E-step where the backend makes charts and trees itself."""
    tape, config, p, xp = f.tape, f.config, f.p, f.tape.xp
    offsets, contexts = xp.asarray(offsets), xp.asarray(contexts)
    atoms = None if begins_word is None else xp.asarray(begins_word).astype(np.int32)
    scores = split_parser.split_scores(tape, config, p, ids, offsets, f.sites)
    plan = planned.charts_of(f, scores.value, offsets, noise_seed, atoms)
    inside = composition.inside(tape, config, p, linear(tape, p, "down", words, "down_bias"), plan, f.sites)
    trees = planned.induced(f, inside, plan, offsets, contexts, len(ids), atoms)
    return Structure(scores, plan, inside, trees)


def _with_atoms_first(scores: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return numbers in the order of PC-1: points inside of atoms before all others, each group by its scores."""
    ranks = np.empty_like(scores)
    ranks[np.lexsort((scores, ~inner))] = np.arange(len(scores), dtype=scores.dtype)
    return ranks


def _host_heights(f: Pass, structure: Structure, offsets: np.ndarray) -> Variable:
    """Return the excess of every sentence's height over the threshold [B], divided as `height_norm` says."""
    tape, config, n = f.tape, f.config, np.diff(offsets)
    size = n if config.height_norm == "paper" else np.maximum(n - config.height_threshold, 1.0)
    factor = (1.0 / size).astype(structure.scores.value.dtype)
    arrays = on_device(tape.ops, {"roots": structure.charts.roots, "factor": factor})
    roots = tape.reshape(tape.take(structure.inside.heights, arrays["roots"]), len(n))
    excess = tape.relu(tape.add(roots, constant(tape.xp.full_like(roots.value, -config.height_threshold))))
    return tape.scale(excess, arrays["factor"])


def _host_parser_loss(f: Pass, structure: Structure, offsets: np.ndarray) -> Variable:
    """Return -log p of every split of the induced trees."""
    splits = composition.splits_of(structure.charts, structure.trees, offsets)
    return split_parser.loss(f.tape, structure.scores, *splits)


def losses(f: Pass, structure: Structure, offsets: Array) -> tuple[Variable, Variable]:
    """Return every sentence's excess height, divided [B], and -log p of every split of the induced trees [N - B]."""
    if not isinstance(structure.charts, Charts):
        heights = planned.heights(f.tape, f.config, structure.inside, structure.charts, offsets)
        return heights, planned.parser_loss(f.tape, structure.scores, structure.trees)
    return _host_heights(f, structure, host(offsets)), _host_parser_loss(f, structure, host(offsets))


def layout_of(f: Pass, structure: Structure, batch: Any) -> Layout:
    """Return the layout of the trees of a batch."""
    if not isinstance(structure.charts, Charts):
        return planned.laid_out(f, structure.trees, batch)
    offsets, contexts = host(batch.offsets), host(batch.contexts)
    starts = offsets[contexts], (2 * offsets - np.arange(len(offsets)))[contexts]
    return generative.laid_out(f, structure.trees.nodes, len(batch.ids), *starts)


def spans_of(structure: Structure, offsets: np.ndarray) -> np.ndarray:
    """Return the first and the last word of every node of the trees [2 N - B, 2], within their sentences."""
    of_backend = composition if isinstance(structure.charts, Charts) else planned
    return of_backend.spans_of(structure.charts, structure.trees, offsets)


def last_words(f: Pass, structure: Structure, n_words: int) -> Array:
    """Return the last word before or in every node of the trees [2 N - B] int32."""
    nodes = structure.trees.nodes
    if not isinstance(structure.charts, Charts):
        return structure.charts.last_words[nodes]
    return f.tape.xp.asarray((np.cumsum(nodes < n_words) - 1).astype(np.int32))
