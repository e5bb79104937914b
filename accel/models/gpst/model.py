"""GPST: a parser, a composition model and a generative model over the trees that they induce; and GPT-2.

Mirrors `refimpl.gpst.losses` (clauses GPST-*): the same parameters by the same names. The words of all sentences of a
batch lie one after another, so that nothing is padded; whole sentences make up the contexts that the generative model
reads. Under the gradient stop the record runs backwards twice: from the losses of the structure, and from the
auto-regressive one with the scores of the splits detached. Memory: linear in words; never queries x keys, never [N, V].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, on_device
from accel.autodiff.layers import embedding, linear, mix, mlp, negative_squares
from accel.autodiff.tape import Variable, constant
from accel.models.gpst import composition
from accel.models.gpst import generator as generative
from accel.models.gpst import parser as split_parser
from accel.models.gpst.composition import Charts, Inside, Trees
from accel.models.gpst.config import MEDIUM, SMALL, Config, initialise, parameter_shapes
from accel.models.passes import Forward, Pass, differentiated, judged, scored, scoring

NAME = "gpst"  # in checkpoints

__all__ = [
    "MEDIUM", "SMALL", "Config", "class_logits", "counts", "induced_trees", "initialise", "loss_and_grad", "losses",
    "parameter_shapes", "scores", "token_logps",
]  # fmt: skip

LOGITS = 2**24
"""How many logits are in memory at a time when the most probable word is computed."""


def losses(
    ops: ModuleType, config: Config, parameters: Mapping[str, Array], batch: Any, seed: int | None = None
) -> dict[str, float]:
    """Return the losses of a batch: ae, height, parser, ar; GPT-2 has ar only; class if contexts have classes.

    `seed` is that of the noise; None: no noise.
    """
    f = scoring(ops, config, parameters)
    outputs = _with_losses(f, batch, _forward(f, batch, seed))
    return {name: float(value) for name, (value, _) in _values(outputs, counts(config, batch)).items()}


def counts(config: Config, batch: Any) -> dict[str, int]:
    """Return the number of terms of every loss of a batch, GPST-5, and of its labels; those of its parts add up."""
    n, n_sentences = len(batch.ids), len(batch.offsets) - 1
    n_actions = n if config.model == "gpt2" else 2 * n - n_sentences
    return {
        "ae": n, "height": n_sentences, "parser": n - n_sentences, "ar": n_actions, "class": len(batch.contexts) - 1,
        "labels": batch.n_labels,
    }  # fmt: skip


def class_logits(ops: ModuleType, config: Config, parameters: Mapping[str, Array], batch: Any) -> Array:
    """Return the logits of the classes of every context [R, n_classes]; a score if there is one class."""
    f = scoring(ops, config, parameters)
    return f.tape.project(_last_states(f, batch, _forward(f, batch, None)), f.p["classes"]).value


def induced_trees(
    ops: ModuleType, config: Config, parameters: Mapping[str, Array], ids: Array, offsets: Array,
    begins_word: Array | None = None,
) -> tuple[np.ndarray, np.ndarray, Array]:  # fmt: skip
    """Return first and last token of all nodes of the trees [2 N - B, 2], within their sentences, in post-order.

    The nodes of sentence b begin at 2 offsets[b] - b. Also return these starts [B+1] and the inside vectors of all
    nodes [2 N - B, d]. With `begins_word` [N] the pieces of every word are a constituent.
    """
    f, bounds = scoring(ops, config, parameters), host(offsets)
    structure = _structure(f, embedding(f.tape, f.p["embedding"], ids), ids, bounds, None, begins_word)
    spans = composition.spans_of(structure.charts, structure.trees, bounds)
    vectors = structure.inside.vectors.value[ops.xp.asarray(structure.trees.nodes)]
    return spans, 2 * bounds - np.arange(len(bounds)), vectors


@dataclass(frozen=True)
class _Structure:
    """The result of the E-step, GPST-3."""

    scores: Variable  # [N - B] the parser's
    charts: Charts
    inside: Inside
    trees: Trees


@dataclass(frozen=True)
class _Forward:
    """The terms of the losses; GPT-2 has only words, and evaluation needs no losses of the structure."""

    words: Variable  # [N] log-probabilities
    hidden: Variable  # [N, D] the vectors that E multiplies
    states: Variable  # [N, D] that generate the words; for GPT-2 equal to hidden
    actions: Variable | None = None  # [2 N - B] of GEN and COMP
    word_of: np.ndarray | None = None  # [2 N - B] the last word before or in every action
    structure: _Structure | None = None
    reconstructed: Variable | None = None  # [N] log-probabilities
    heights: Variable | None = None  # [B] excess, divided
    splits: Variable | None = None  # [N - B] -log p of the parser
    classes: Variable | None = None  # [R] log-probabilities; of scores, negative squared errors


def _values(outputs: _Forward, whole: Mapping[str, int]) -> dict[str, tuple[Any, int]]:
    """Return what these outputs give to every loss of the whole batch, GPST-5, and the number of its terms."""

    def mean(name: str, *terms: Variable, sign: int = 1) -> tuple[Any, int]:  # on a GPU an array without axes
        count = max(whole[name], 1)
        return sign * sum(x.value.sum(dtype=np.float64) for x in terms) / count, count

    classes = {} if outputs.classes is None else {"class": mean("class", outputs.classes, sign=-1)}
    if outputs.structure is None:
        return {"ar": mean("ar", outputs.words, sign=-1)} | classes
    return classes | {
        "ae": mean("ae", outputs.reconstructed, sign=-1),
        "height": mean("height", outputs.heights),
        "parser": mean("parser", outputs.splits),
        "ar": mean("ar", outputs.actions, outputs.words, sign=-1),
    }


def _backward(f: Pass, outputs: _Forward, scale: Mapping[str, float]) -> None:
    """Run the record backwards, from every sum times its factor."""

    def slopes(x: Variable, factor: float) -> Array:
        return f.tape.xp.full_like(x.value, factor)

    if outputs.structure is not None:
        outputs.reconstructed.accumulate(slopes(outputs.reconstructed, -scale["ae"]))
        outputs.heights.accumulate(slopes(outputs.heights, scale["height"]))
        if f.config.gradient_stop:
            f.tape.backward(outputs.splits, slopes(outputs.splits, scale["parser"]), keep=True)
            for score in outputs.structure.inside.scores:
                score.needs_gradient = False
        else:
            outputs.splits.accumulate(slopes(outputs.splits, scale["parser"]))
        outputs.actions.accumulate(slopes(outputs.actions, -scale["ar"]))
    if outputs.classes is not None:
        outputs.classes.accumulate(slopes(outputs.classes, -scale["class"]))
    f.tape.backward(outputs.words, slopes(outputs.words, -scale["ar"]))


def _forward(f: Pass, batch: Any, noise_seed: int | None) -> _Forward:
    offsets, contexts = host(batch.offsets), host(batch.contexts)
    if contexts[0] or contexts[-1] != len(offsets) - 1 or (np.diff(contexts) < 0).any():
        raise ValueError(f"contexts: do not rise from 0 to the {len(offsets) - 1} sentences")
    words = embedding(f.tape, f.p["embedding"], batch.ids)
    if f.config.model == "gpt2":
        logps, states = generative.words_only(f, words, batch.ids, offsets[contexts])
        return _Forward(logps, states, states)
    begins_word = batch.begins_word if f.config.whole_words else None
    structure = _structure(f, words, batch.ids, offsets, noise_seed, begins_word)
    nodes, vectors = structure.trees.nodes, structure.inside.vectors
    starts = offsets[contexts], (2 * offsets - np.arange(len(offsets)))[contexts]
    actions, *of_words = generative.actions_and_words(f, nodes, vectors, words, batch.ids, *starts)
    return _Forward(*of_words, actions, np.cumsum(nodes < len(batch.ids)) - 1, structure)


def _last_states(f: Pass, batch: Any, outputs: _Forward) -> Variable:
    """Return the state from which the last word of every context is generated [R, D]."""
    ends = host(batch.offsets)[host(batch.contexts)]
    if (np.diff(ends) < 1).any():
        raise ValueError(f"contexts: number {int(np.argmin(np.diff(ends)))} is empty, and has no class")
    return f.tape.take(outputs.states, f.tape.xp.asarray(ends[1:] - 1))


def _class_terms(f: Pass, states: Variable, labels: Array) -> Variable:
    """Return the log-probability of every class; of a score the negative squared error."""
    if f.config.n_classes > 1:
        return generative.vocabulary(f, states, f.p["classes"], labels)
    return negative_squares(f.tape, f.tape.project(states, f.p["classes"]), labels)


def _with_losses(f: Pass, batch: Any, outputs: _Forward) -> _Forward:
    """Return the outputs completed with the terms of the losses of the classes and of the structure."""
    tape, config, p, structure, offsets = f.tape, f.config, f.p, outputs.structure, host(batch.offsets)
    if config.n_classes:
        outputs = replace(outputs, classes=_class_terms(f, _last_states(f, batch, outputs), batch.labels))
    if structure is None:
        return outputs
    outer, table = (
        composition.outside(tape, config, p, structure.inside.vectors, structure.charts, f.sites),
        p["embedding"],
    )
    if config.head == "mlp":
        outer = mlp(tape, p, "reconstruct", outer, config.network_dropout, f.sites)
    else:
        table = linear(tape, p, "down", table, "down_bias")
    reconstructed = generative.vocabulary(f, outer, table, batch.ids)
    heights, splits = _heights(f, structure, offsets), _parser_loss(f, structure, offsets)
    return replace(outputs, reconstructed=reconstructed, heights=heights, splits=splits)


def _structure(
    f: Pass, words: Variable, ids: Array, offsets: np.ndarray, noise_seed: int | None,
    begins_word: Array | None = None,
) -> _Structure:  # fmt: skip
    """Return the result of the E-step; with `begins_word` [N] the pieces of every word are a constituent."""
    tape, config, p = f.tape, f.config, f.p
    if (np.diff(offsets) < 1).any():
        raise ValueError(f"offsets: sentence {int(np.argmin(np.diff(offsets)))} is empty")
    scores = split_parser.split_scores(tape, config, p, ids, offsets, f.sites)
    order, points = host(scores.value), np.delete(np.arange(offsets[-1]), offsets[1:] - 1)
    if noise_seed is not None:
        order = order + split_parser.gumbel(points, noise_seed).astype(order.dtype)
    cuts_word = None if begins_word is None else ~np.append(host(begins_word)[1:], True)  # no word ends after it
    if cuts_word is not None:
        order = _with_atoms_first(order, cuts_word[points])
    charts = composition.charts_of(tape.ops, order, offsets, config.window)
    inside = composition.inside(tape, config, p, linear(tape, p, "down", words, "down_bias"), charts, f.sites)
    of_splits = np.concatenate([order[:0], *(host(score.value) for score in inside.scores)])
    cuts = None if cuts_word is None else cuts_word[charts.ends(offsets)[1][charts.left]]
    return _Structure(scores, charts, inside, composition.induced(charts, of_splits, offsets, cuts))


def _with_atoms_first(scores: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return numbers in the order of PC-1: points inside of atoms before all others, each group by its scores."""
    ranks = np.empty_like(scores)
    ranks[np.lexsort((scores, ~inner))] = np.arange(len(scores), dtype=scores.dtype)
    return ranks


def _heights(f: Pass, structure: _Structure, offsets: np.ndarray) -> Variable:
    """Return the excess of every sentence's height over the threshold, divided by its length."""
    tape, config, n = f.tape, f.config, np.diff(offsets)
    size = n if config.height_norm == "paper" else np.maximum(n - config.height_threshold, 1.0)
    factor = (1.0 / size).astype(structure.scores.value.dtype)
    arrays = on_device(tape.ops, {"roots": structure.charts.roots, "factor": factor})
    roots = tape.reshape(tape.take(structure.inside.heights, arrays["roots"]), len(n))
    excess = tape.relu(tape.add(roots, constant(tape.xp.full_like(roots.value, -config.height_threshold))))
    return tape.scale(excess, arrays["factor"])


def _parser_loss(f: Pass, structure: _Structure, offsets: np.ndarray) -> Variable:
    """Return -log p of every split of the induced trees."""
    splits = composition.splits_of(structure.charts, structure.trees, offsets)
    return split_parser.loss(f.tape, structure.scores, *splits)


def _word_logps(ops: ModuleType, outputs: _Forward) -> Array:
    if outputs.actions is None:
        return outputs.words.value
    words, word_of = outputs.words.value, ops.xp.asarray(outputs.word_of.astype(np.int32))
    return words + ops.embedding_vjp(outputs.actions.value[:, None], (), words[:, None], word_of)[0][:, 0]


def _learn(f: Pass, batch: Any, memory: list[Array] | None) -> Forward:
    """Return the loss of a batch, or of a part of one, times the number of labels of the whole, one a word.

    The noise on the parser's scores follows from the seed of dropout, too; without a seed there is none. A batch is a
    `SentencesBatch`; if contexts have classes it is a `ContextsBatch`, whose labels are the classes, and the loss of
    the classes is added. Raises ValueError if a sentence is empty, or a context has as many words as the model has
    positions.
    """
    noise_seed = None if f.sites.seed is None else mix(f.sites.seed, -1)
    outputs = _with_losses(f, batch, _forward(f, batch, noise_seed))
    whole = f.whole or counts(f.config, batch)
    values, n = _values(outputs, whole), whole["labels"]
    scale = {name: n / count for name, (_, count) in values.items()}
    return Forward(lambda: n * sum(value for value, _ in values.values()), lambda: _backward(f, outputs, scale))


def _token_logps(f: Pass, batch: Any, memory: list[Array] | None) -> tuple[Array, list[Array]]:
    """Return for every word the log-probability of GEN and of the word, and of the COMPs after it [N].

    Their sum is log p(x, y), y the induced trees: a bound of log p(x).
    """
    return _word_logps(f.tape.ops, _forward(f, batch, None)), []


def _judge(f: Pass, batch: Any) -> tuple[Array, Array]:
    """Return `token_logps`, and whether each word is the most probable one where it is generated.

    If contexts have classes, return the log-probabilities of the classes [R], and whether they are the most probable;
    of scores the negative squared errors, and no right one.
    """
    xp, outputs = f.tape.xp, _forward(f, batch, None)
    if f.config.n_classes:
        states = _last_states(f, batch, outputs)
        best = xp.matmul(states.value, f.p["classes"].value.T).argmax(axis=1)
        is_best = (best == batch.labels) & (f.config.n_classes > 1)
        return _class_terms(f, states, batch.labels).value, is_best
    h, table = outputs.hidden.value, f.p["embedding"].value
    rows = max(1, LOGITS // len(table))
    best = [xp.matmul(h[i : i + rows], table.T).argmax(axis=1) for i in range(0, len(h), rows)]
    return _word_logps(f.tape.ops, outputs), xp.concatenate(best) == batch.ids


loss_and_grad = differentiated(_learn)
token_logps = scored(_token_logps)
scores = judged(_judge)
