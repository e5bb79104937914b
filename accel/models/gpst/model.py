"""GPST: a parser, a composition model and a generative model over the trees that they induce; and GPT-2.

Mirrors `refimpl.gpst.losses` (clauses GPST-*): the same parameters by the same names. The words of all sentences of a
batch lie one after another, so that nothing is padded; whole sentences make up the contexts that the generative model
reads. Under the gradient stop the tape runs backwards twice: from the losses of the structure, then from the
auto-regressive loss with the scores of splits detached. Memory: linear in words; never queries x keys, never [N, V].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, fact, host
from accel.autodiff.layers import embedding, linear, mlp, negative_squares
from accel.autodiff.variables import Variable
from accel.models.gpst import composition
from accel.models.gpst import generator as generative
from accel.models.gpst.config import MEDIUM, SMALL, Config, initialise, parameter_shapes
from accel.models.gpst.structure import Structure, last_words, layout_of, spans_of, structure_of
from accel.models.gpst.structure import losses as structure_losses
from accel.models.passes import Forward, Pass, differentiated, judged, most_probable, scored, scoring

NAME = "gpst"  # in checkpoints

__all__ = [
    "MEDIUM", "SMALL", "Config", "class_logits", "counts", "induced_trees", "initialise", "loss_and_grad", "losses",
    "parameter_shapes", "scores", "token_logps",
]  # fmt: skip


def losses(
    ops: ModuleType, config: Config, parameters: Mapping[str, Array], batch: Any, seed: int | None = None
) -> dict[str, float]:
    """Return the losses of a batch by name: ae, height, parser, ar, and class if contexts have classes.

    GPT-2 has no ae, height and parser. `seed` is that of the noise; None: no noise.
    """
    f = scoring(ops, config, parameters)
    outputs = _with_losses(f, batch, _forward(f, batch, seed))
    return {name: float(value) for name, (value, _) in _values(outputs, counts(config, batch)).items()}


def counts(config: Config, batch: Any) -> dict[str, int]:
    """Return how many terms every loss of a batch has (GPST-5), and how many labels; the counts of its parts add up."""
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
    contexts = np.array([0, len(bounds) - 1])
    structure = structure_of(f, embedding(f.tape, f.p["embedding"], ids), ids, offsets, contexts, None, begins_word)
    spans = spans_of(structure, bounds)
    vectors = structure.inside.vectors.value[ops.xp.asarray(structure.trees.nodes)]
    return spans, 2 * bounds - np.arange(len(bounds)), vectors


@dataclass(frozen=True)
class _Forward:
    """The terms of the losses; GPT-2 has only words, and evaluation needs no losses of the structure."""

    words: Variable  # [N] log-probabilities
    hidden: Variable  # [N, D] the vectors that the embedding table multiplies
    states: Variable  # [N, D] the states that generate the words; for GPT-2 equal to hidden
    actions: Variable | None = None  # [2 N - B] of GEN and COMP
    word_of: Callable[[], Array] | None = None  # [2 N - B] int32 the last word before or in every action
    structure: Structure | None = None
    reconstructed: Variable | None = None  # [N] log-probabilities
    heights: Variable | None = None  # [B] excess over the threshold, divided as `height_norm` says
    splits: Variable | None = None  # [N - B] -log p of the parser
    classes: Variable | None = None  # [R] log-probabilities; for scores, negative squared errors


def _terms(outputs: _Forward) -> dict[str, tuple[int, tuple[Variable, ...]]]:
    """Return the sign of every loss, GPST-5, and its terms."""
    terms = {} if outputs.classes is None else {"class": (-1, (outputs.classes,))}
    if outputs.structure is None:
        return {"ar": (-1, (outputs.words,))} | terms
    return terms | {
        "ae": (-1, (outputs.reconstructed,)), "height": (1, (outputs.heights,)), "parser": (1, (outputs.splits,)),
        "ar": (-1, (outputs.actions, outputs.words)),
    }  # fmt: skip


def _values(outputs: _Forward, whole: Mapping[str, int]) -> dict[str, tuple[Any, int]]:
    """Return the part of every loss of the whole batch that these outputs make up, and the number of its terms."""
    values = {}
    for name, (sign, terms) in _terms(outputs).items():
        count = max(whole[name], 1)
        values[name] = sign * sum(x.value.sum(dtype=np.float64) for x in terms) / count, count
    return values  # on a GPU arrays without axes


SIZES = {"ae": (1, 0), "height": (0, 1), "parser": (1, -1), "ar": (2, -1)}
"""How many terms a loss has: (a, b) stands for a times the words plus b times the sentences."""


def _weighed(f: Pass, outputs: _Forward, batch: Any) -> tuple[Any, dict[Variable, Array]]:
    """Return the loss times the number of labels of the whole batch, and its gradients with respect to all terms."""
    terms, sizes = _terms(outputs), getattr(batch, "sizes", None)
    whole = {} if sizes is not None else f.whole or counts(f.config, batch)
    if hasattr(f.tape.ops, "loss_terms"):
        ops, numbers = f.tape.ops.loss_terms, {}
        for name, (sign, xs) in terms.items():
            count = max(whole[name], 1) if whole else SIZES[name]
            for x in xs:
                size = SIZES["ae"] if x is outputs.words else SIZES.get(name, (0, 0))
                numbers[x] = ops.Term(x.value, sign, count, size)
        loss, gradients = ops.weigh(list(numbers.values()), whole.get("labels", 0), sizes)
        return loss, dict(zip(numbers, gradients, strict=True))
    n, values = whole["labels"], _values(outputs, whole)
    factors = {x: sign * (n / values[name][1]) for name, (sign, xs) in terms.items() for x in xs}
    gradients = {x: f.tape.xp.full_like(x.value, factor) for x, factor in factors.items()}
    return n * sum(value for value, _ in values.values()), gradients


def _backward(f: Pass, outputs: _Forward, gradients: Mapping[Variable, Array]) -> None:
    """Run the tape backwards from the gradients of all terms."""
    if outputs.structure is not None:
        outputs.reconstructed.accumulate(gradients[outputs.reconstructed])
        outputs.heights.accumulate(gradients[outputs.heights])
        if f.config.gradient_stop:
            f.tape.backward(outputs.splits, gradients[outputs.splits], keep=True)
            for score in outputs.structure.inside.scores:
                score.needs_gradient = False
        else:
            outputs.splits.accumulate(gradients[outputs.splits])
        outputs.actions.accumulate(gradients[outputs.actions])
    if outputs.classes is not None:
        outputs.classes.accumulate(gradients[outputs.classes])
    f.tape.backward(outputs.words, gradients[outputs.words])


def _forward(f: Pass, batch: Any, noise_seed: int | None) -> _Forward:
    fact(partial(_check_contexts, n_sentences=len(batch.offsets) - 1), batch.contexts)
    words = embedding(f.tape, f.p["embedding"], batch.ids)
    if f.config.model == "gpt2":
        word_starts = host(batch.offsets)[host(batch.contexts)]
        logps, states = generative.words_only(f, words, batch.ids, word_starts)
        return _Forward(logps, states, states)
    begins_word = batch.begins_word if f.config.whole_words else None
    structure = structure_of(f, words, batch.ids, batch.offsets, batch.contexts, noise_seed, begins_word)
    layout = layout_of(f, structure, batch)
    actions, *of_words = generative.actions_and_words(f, layout, structure.inside.vectors, words, batch.ids)
    return _Forward(*of_words, actions, lambda: last_words(f, structure, len(batch.ids)), structure)


def _check_contexts(contexts: np.ndarray, n_sentences: int) -> None:
    if contexts[0] or contexts[-1] != n_sentences or (np.diff(contexts) < 0).any():
        raise ValueError(f"contexts: do not rise from 0 to the number of sentences, {n_sentences}")


def _last_states(f: Pass, batch: Any, outputs: _Forward) -> Variable:
    """Return the state from which the last word of every context is generated [R, D]."""
    ends = host(batch.offsets)[host(batch.contexts)]
    if (np.diff(ends) < 1).any():
        raise ValueError(f"contexts: number {int(np.argmin(np.diff(ends)))} is empty, and has no class")
    return f.tape.take(outputs.states, f.tape.xp.asarray(ends[1:] - 1))


def _class_terms(f: Pass, states: Variable, labels: Array) -> Variable:
    """Return the log-probability of every context's class; for a score, the negative squared error."""
    if f.config.n_classes > 1:
        return generative.vocabulary(f, states, f.p["classes"], labels)
    return negative_squares(f.tape, f.tape.project(states, f.p["classes"]), labels)


def _with_losses(f: Pass, batch: Any, outputs: _Forward) -> _Forward:
    """Return the outputs completed with the terms of the losses of the classes and of the structure."""
    tape, config, p, structure = f.tape, f.config, f.p, outputs.structure
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
    heights, splits = structure_losses(f, structure, batch.offsets)
    return replace(outputs, reconstructed=reconstructed, heights=heights, splits=splits)


def _word_logps(ops: ModuleType, outputs: _Forward) -> Array:
    if outputs.actions is None:
        return outputs.words.value
    words, word_of = outputs.words.value, outputs.word_of()
    return words + ops.embedding_vjp(outputs.actions.value[:, None], (), words[:, None], word_of)[0][:, 0]


def _learn(f: Pass, batch: Any, memory: list[Array] | None) -> Forward:
    """Return the loss of a batch, or of a part of one, times the number of labels of the whole batch.

    The noise on the parser's scores is drawn at the first dropout site; without a seed there is none. A batch is a
    `SentencesBatch`, whose labels are its words; if contexts have classes it is a `ContextsBatch`, whose labels are the
    classes, and the loss of the classes is added. Raises ValueError if a sentence is empty, or a context has as many
    words as the model has positions.
    """
    noise_seed = f.sites.part().seed
    outputs = _with_losses(f, batch, _forward(f, batch, noise_seed))
    loss, gradients = _weighed(f, outputs, batch)
    return Forward(lambda: loss, lambda: _backward(f, outputs, gradients))


def _token_logps(f: Pass, batch: Any, memory: list[Array] | None) -> tuple[Array, list[Array]]:
    """Return for every word the log-probability of GEN and of the word, and of the COMPs after it [N].

    Their sum is log p(x, y), where y are the induced trees, read by their surrogates (GPST-5 L4).
    """
    return _word_logps(f.tape.ops, _forward(f, batch, None)), []


def _judge(f: Pass, batch: Any) -> tuple[Array, Array]:
    """Return `token_logps`, and whether each word is the most probable one where it is generated.

    If contexts have classes, return the log-probabilities of the classes [R], and whether they are the most probable;
    for scores, the negative squared errors, and always False.
    """
    xp, outputs = f.tape.xp, _forward(f, batch, None)
    if f.config.n_classes:
        states = _last_states(f, batch, outputs)
        best = xp.matmul(states.value, f.p["classes"].value.T).argmax(axis=1)
        is_best = (best == batch.labels) & (f.config.n_classes > 1)
        return _class_terms(f, states, batch.labels).value, is_best
    best = most_probable(xp, outputs.hidden.value, f.p["embedding"].value)
    return _word_logps(f.tape.ops, outputs), best == batch.ids


loss_and_grad = differentiated(_learn)
token_logps = scored(_token_logps)
scores = judged(_judge)
