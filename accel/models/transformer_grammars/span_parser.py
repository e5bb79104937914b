"""A constituency parser: the probability q(y | x) of every labelled tree over a sentence, from scores of its spans.

A bidirectional Transformer, or LSTMs in both directions, read the pieces of the words. A place between two words is the
first half of the vector of the piece before it and the second half of the vector of the piece after it. A span is the
difference of its two ends, and a layer scores each label for it (Stern et al. 2017, Kitaev and Klein 2018). Trees are
those of clauses SP-1 and SP-2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.autodiff.layers import cross_entropy, dropout, layer_norm, linear
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant
from accel.data.batches.constituents import span_number
from accel.models.checks import RATE, at_least, check, check_width, one_of, refusal
from accel.models.passes import Forward, Pass, differentiated, judged, negative_sum, scoring
from accel.models.shapes import Shapes, linear_shapes, norm_shapes
from accel.models.transformer_grammars.span_encoder import ENCODERS, encoded, encoder_shapes

NAME = "span_parser"  # in checkpoints


@dataclass(frozen=True)
class Config:
    """One parser.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    vocabulary_size: int
    n_labels: int
    d_model: int = 128
    n_layers: int = 3
    n_heads: int = 4
    d_ff: int = 512
    d_span: int = 128
    max_words: int = 100  # of a sentence
    max_places: int = 8  # of the pieces of a word; later pieces share the last one
    dropout: float = 0.1
    encoder: str = "transformer"  # or "lstm", without n_heads and d_ff
    d_affix: int = 0  # of the vector of each affix of a word, beside the vectors of its pieces; 0: none
    n_tags: int = 0  # part-of-speech tags that are learned from the words' vectors, an auxiliary loss; 0: none

    def __post_init__(self) -> None:
        rules = {"dropout": RATE, "encoder": one_of(ENCODERS), "d_affix": at_least(0), "n_tags": at_least(0)}
        check(self, **{name: rules.get(name, at_least(1)) for name in vars(self)})
        if self.encoder == "transformer":
            check_width(self, "d_model", "n_heads", even=True)
        elif self.d_model % 2:
            raise refusal("d_model", self.d_model, "it is odd", str(self.d_model + 1))
        if self.vocabulary_size <= 2 + 2 * self.n_labels:
            but, least = f"no id is left for words beside {self.n_labels} labels", 3 + 2 * self.n_labels
            raise refusal("vocabulary_size", self.vocabulary_size, but, f"{least} or more")


def parameter_shapes(config: Config) -> Shapes:
    """Return the name and the shape of every parameter, in the order in which a flat vector holds them."""
    d = config.d_model
    shapes = encoder_shapes(config, config.vocabulary_size - 2 * config.n_labels)  # labels are not read
    shapes |= (
        norm_shapes("norm", d) | linear_shapes("span.in", d, config.d_span) | norm_shapes("span.norm", config.d_span)
    )
    shapes |= linear_shapes("span.out", config.d_span, config.n_labels)
    return shapes | ({"tag": (config.n_tags, d), "tag_bias": (config.n_tags,)} if config.n_tags else {})


def initialise(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Return float32 parameters drawn from the seed.

    Vectors of symbols and positions are normal, of deviation 0.1; matrices uniform with variance 1 / inputs, divided by
    sqrt(2 layers) at the end of a residual branch; those of an LSTM uniform within 1 / sqrt(inputs). Norms begin as the
    identity, biases as 0.
    """
    random, parameters = np.random.default_rng(seed), {}
    for name, shape in parameter_shapes(config).items():
        if len(shape) == 1:
            value = np.full(shape, float(name.endswith(".scale")))
        elif name in ("embedding", "word", "place", "affix", "tag"):
            value = 0.1 * random.standard_normal(shape)
        elif name.endswith(".weight"):  # of an LSTM
            value = random.uniform(-1, 1, shape) * shape[1] ** -0.5
        else:
            ends_branch = name.endswith((".output", "feed_forward.out"))
            limit = (3.0 / shape[0]) ** 0.5 / ((2 * config.n_layers) ** 0.5 if ends_branch else 1.0)
            value = random.uniform(-limit, limit, shape)
        parameters[name] = value.astype(np.float32)
    return parameters


def _are_best(ops: ModuleType, scores: Array, batch: Any) -> np.ndarray:
    """Return whether each gold tree has exactly the constituents of the best tree [B]."""
    _, _, bounds, places, chains = (host(x) for x in ops.best_trees(scores, batch.offsets, 1))
    offsets, gold, labels, owners = (host(x) for x in (batch.offsets, batch.spans, batch.labels, batch.owners))
    lengths, n_best = np.diff(offsets), np.diff(bounds)
    first_spans = offsets_of(lengths * (lengths + 1) // 2)[:-1]
    spans = np.repeat(first_spans, n_best) + span_number(np.repeat(lengths, n_best), places[:, 0], places[:, 1])
    n_labels = scores.shape[1]
    shared = np.isin(gold * n_labels + labels, spans * n_labels + chains)
    n_shared, n_gold = (np.bincount(x, minlength=len(lengths)) for x in (owners[shared], owners))
    return (n_shared == n_gold) & (n_gold == n_best)


def span_scores(ops: ModuleType, config: Config, parameters: Mapping[str, Array], batch: Any) -> Array:
    """Return the score of every label for every span of a batch, [S, labels]."""
    f = scoring(ops, config, parameters)
    return _scores(f, batch, _vectors(f, batch)).value


def _vectors(f: Pass, batch: Any) -> Variable:
    """Return the vector of every piece [P, d_model]."""
    return layer_norm(f.tape, f.p, "norm", encoded(f, batch))


def _scores(f: Pass, batch: Any, x: Variable) -> Variable:
    """Return the score of every label for every span [S, labels] from the vectors of the pieces."""
    tape, config, p, sites = f.tape, f.config, f.p, f.sites
    rate, d = config.dropout, config.d_model
    before = tape.part(tape.take(x, batch.before), 0, d // 2, axis=1)
    after = tape.part(tape.take(x, batch.after), d // 2, d, axis=1)
    between = linear(tape, p, "span.in", tape.concatenate([before, after], axis=1))
    h = layer_norm(tape, p, "span.norm", _differences(tape, between, p["span.in_bias"], batch))
    return linear(tape, p, "span.out", dropout(tape, tape.relu(h), rate, sites), "span.out_bias")


def _differences(tape: Tape, between: Variable, bias: Variable, batch: Any) -> Variable:
    """Return for every span the row of its end minus that of its beginning, plus a bias [S, d_span]."""
    ops, rows = tape.ops, (batch.begins, batch.ends)
    begins, ends = (ops.embedding(between.value, places)[0] for places in rows)

    def backward(d_out: Array) -> None:
        d_begins, d_ends = (ops.embedding_vjp(d_out, (), between.value, places)[0] for places in rows)
        between.accumulate(d_ends - d_begins)
        bias.accumulate(d_out.sum(axis=0))

    return tape.record(ends - begins + bias.value, [between, bias], backward)


def _gold_logqs(tape: Tape, scores: Variable, batch: Any) -> Variable:
    """Return log q = score - log Z of the gold trees [B]."""
    ops, xp, values = tape.ops, tape.xp, scores.value
    outputs = ops.span_logz(values, batch.offsets)
    entries = values[batch.spans, batch.labels]
    gold = ops.embedding_vjp(entries[:, None], (), xp.zeros((batch.n_labels, 1), values.dtype), batch.owners)[0][:, 0]

    def backward(d_out: Array) -> None:
        (gradient,) = ops.span_logz_vjp(-d_out, outputs, values, batch.offsets)
        gradient[batch.spans, batch.labels] += d_out[batch.owners]
        scores.accumulate(gradient)

    return tape.record(gold - outputs[0], [scores], backward)


def _learn(f: Pass, batch: Any, memory: list[Array] | None) -> Forward:
    """Return -log q of the gold trees and, with tags, -log p of every word's tag by its last piece."""
    tape, x = f.tape, _vectors(f, batch)
    logqs = _gold_logqs(tape, _scores(f, batch, x), batch)
    if f.config.n_tags and batch.tags is not None:
        logqs = tape.concatenate([logqs, cross_entropy(tape, x, f.p["tag"], f.p["tag_bias"], batch.tags)])
    return negative_sum(f, logqs)


def _judge(f: Pass, batch: Any) -> tuple[Array, Array]:
    """Return log q of every gold tree [B], and whether it is the best of all trees [B]."""
    scores = constant(_scores(f, batch, _vectors(f, batch)).value)
    logqs = _gold_logqs(f.tape, scores, batch).value
    return logqs, f.tape.xp.asarray(_are_best(f.tape.ops, scores.value, batch))


loss_and_grad = differentiated(_learn)
scores = judged(_judge)
