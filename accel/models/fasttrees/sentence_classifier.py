"""A class for every sentence, or for every pair of sentences, from the last states of a stack.

The layers are an embedding, an optional linear projection, the stack of `accel.models.fasttrees.stack`, and one or more
feed-forward layers. A pair is read as two sentences; its features are both states and, optionally, their product and
their distance. Instead of an embedding that is learned there may be frozen tables of word vectors, each with its own
projection; ReLU follows the sum of the projections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from accel.autodiff.arrays import Array, fact
from accel.autodiff.layers import cross_entropy, dropout, embedding, project
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.models.checks import FLAG, POSITIVE, RATE, at_least, check, one_of, refusal
from accel.models.fasttrees import stack as fasttrees
from accel.models.fasttrees.stack import StackConfig
from accel.models.passes import Forward, Pass, differentiated, judged, negative_sum, scoring

NAME = "sentence_classifier"  # in checkpoints
POOLS, ACTIVATIONS = ("last", "max"), ("elu", "relu")


@dataclass(frozen=True)
class Config:
    """One classifier; the defaults are those of the logical inference task.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    vocabulary_size: int
    n_classes: int
    pair: bool
    kind: str
    embedding_size: int = 128
    n_tables: int = 0  # frozen tables of word vectors, all of embedding_size; 0: one table that is learned
    projection_size: int = 0  # of the embedding, for word vectors trained elsewhere; 0: none
    hidden_size: int = 400
    n_layers: int = 1
    pool: str = "last"  # the last step's state; "max": each unit's greatest value over all steps
    mlp_size: int = 400
    mlp_layers: int = 1
    activation: str = "elu"  # or "relu"
    compare: bool = True  # whether a pair's features hold product and distance of its states
    dropout: float = 0.2  # of embeddings, features and hidden units
    embedding_range: float = 0.1  # embeddings start uniform within it; with few epochs 1.7 (deviation 1) is far better
    chunk_size: int = 10
    kernel_size: int = 2
    dilation: int = 1
    conv_dropout: float = 0.2
    variant: str = "paper"
    weight_drop: float = 0.0
    layer_dropout: float = 0.0
    convolved: str = "gates"
    FORMER: ClassVar[Mapping[str, Any]] = fasttrees.FORMER

    def __post_init__(self) -> None:
        one = at_least(1)
        check(
            self, vocabulary_size=one, n_classes=one, pair=FLAG, embedding_size=one, projection_size=at_least(0),
            hidden_size=one, n_layers=one, mlp_size=one, compare=FLAG, dropout=RATE, embedding_range=POSITIVE,
            n_tables=at_least(0), mlp_layers=one, pool=one_of(POOLS), activation=one_of(ACTIVATIONS),
        )  # fmt: skip
        if self.n_tables and not self.projection_size:
            raise refusal("projection_size", 0, f"each of {self.n_tables} tables has a projection", "1 or more")
        _ = self.stack  # checks the fields of the stack

    @property
    def stack(self) -> StackConfig:
        return StackConfig(
            self.kind,
            self.projection_size or self.embedding_size,
            (self.hidden_size,) * self.n_layers,
            self.chunk_size,
            self.kernel_size,
            self.dilation,
            self.conv_dropout,
            self.variant,
            self.weight_drop,
            self.layer_dropout,
            self.convolved,
        )


def parameter_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every parameter, in the order in which a flat vector holds them."""
    features = config.hidden_size * (1 if not config.pair else 4 if config.compare else 2)
    shapes: dict[str, tuple[int, ...]] = {}
    if not config.n_tables:
        shapes["embedding"] = (config.vocabulary_size, config.embedding_size)
    if config.projection_size:
        for name in _projections(config):
            shapes |= _linear(name, config.projection_size, config.embedding_size)
    shapes |= fasttrees.parameter_shapes(config.stack)
    for name in _hidden_layers(config):
        shapes |= _linear(name, config.mlp_size, features)
        features = config.mlp_size
    return shapes | _linear("mlp.out", config.n_classes, features)


def frozen_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every table of word vectors; these tables are not learned."""
    return {f"tables.{k}": (config.vocabulary_size, config.embedding_size) for k in range(config.n_tables)}


def _projections(config: Config) -> list[str]:
    return [f"projection.{k}" for k in range(config.n_tables)] or ["projection"]


def _hidden_layers(config: Config) -> list[str]:
    return ["mlp.hidden", *(f"mlp.hidden_{k}" for k in range(2, config.mlp_layers + 1))]


def _linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def initialise(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Return float32 parameters: embeddings uniform within their range, all else as `fasttrees.initialise`."""
    random, parameters = np.random.default_rng(seed), {}
    if not config.n_tables:
        size = (config.vocabulary_size, config.embedding_size)
        parameters["embedding"] = random.uniform(-config.embedding_range, config.embedding_range, size)
    stack = fasttrees.initialise(config.stack, random)
    limit = 0.0
    for name, shape in parameter_shapes(config).items():
        if name.startswith(("projection.", "mlp.")):
            limit = shape[1] ** -0.5 if name.endswith(".weight") else limit
            parameters[name] = random.uniform(-limit, limit, shape)
    parameters |= stack
    return {name: parameters[name].astype(np.float32) for name in parameter_shapes(config)}


def distances(ops: ModuleType, config: Config, parameters: Mapping[str, Array], ids: Array, offsets: Array) -> Array:
    """Return the distances of every word in every layer, [layers, N]; [0, N] for LSTM, which has none."""
    return _states(scoring(ops, config, parameters), ids, offsets)[1]


def _states(f: Pass, ids: Array, offsets: Array) -> tuple[Variable, Array]:
    """Return the last layer's outputs [N, H] and the distances."""
    tape, config, p, sites = f.tape, f.config, f.p, f.sites
    if config.n_tables:
        x, *others = (
            project(tape, p, name, embedding(tape, p[f"tables.{k}"], ids))
            for k, name in enumerate(_projections(config))
        )
        for other in others:
            x = tape.add(x, other)
        x = dropout(tape, tape.relu(x), config.dropout, sites)
    else:
        x = dropout(tape, embedding(tape, p["embedding"], ids), config.dropout, sites)
        x = project(tape, p, "projection", x) if config.projection_size else x
    h, _, distances = fasttrees.run_stack(tape, config.stack, p, x, offsets, None, sites)
    return h, distances


def _hidden(f: Pass, batch: Any) -> Variable:
    """Return the hidden units that the output layer reads [B, mlp_size]."""
    tape, config, p, sites = f.tape, f.config, f.p, f.sites
    h, _ = _states(f, batch.ids, batch.offsets)
    pooled = config.pool == "max"
    features = _largest(tape, h, batch.offsets) if pooled else tape.take(h, batch.offsets[1:] - 1)
    if config.pair:
        n = len(features.value) // 2
        a, b = tape.part(features, 0, n), tape.part(features, n, 2 * n)
        comparisons = [tape.multiply(a, b), tape.absolute_difference(a, b)] if config.compare else []
        features = tape.concatenate([a, b, *comparisons], axis=1)
    x = dropout(tape, features, config.dropout, sites)
    for name in _hidden_layers(config):
        hidden = project(tape, p, name, x)
        x = dropout(tape, tape.relu(hidden) if config.activation == "relu" else tape.elu(hidden), config.dropout, sites)
    return x


def _largest(tape: Tape, h: Variable, offsets: Array) -> Variable:
    """Return the greatest value of every unit in each sentence [S, H]; of equal values the first gets the gradient."""
    xp, lengths, units = tape.xp, offsets[1:] - offsets[:-1], tape.xp.arange(h.value.shape[1])
    longest = fact(lambda starts: int(np.diff(starts).max()), offsets)
    steps = xp.minimum(xp.arange(longest), lengths[:, None] - 1)  # [S, L], the last step is repeated
    rows = offsets[:-1, None] + steps
    largest_rows = xp.take_along_axis(rows, h.value[rows].argmax(axis=1), axis=1)  # [S, H]

    def backward(d_out: Array) -> None:
        gradient = xp.zeros_like(h.value)
        gradient[largest_rows, units] = d_out
        h.accumulate(gradient)

    return tape.record(h.value[largest_rows, units], [h], backward)


def _logps(f: Pass, hidden: Variable, labels: Array) -> Variable:
    return cross_entropy(f.tape, hidden, f.p["mlp.out.weight"], f.p["mlp.out.bias"], labels)


def _learn(f: Pass, batch: Any, memory: list[Array] | None) -> Forward:
    """Return -log p of the classes."""
    return negative_sum(f, _logps(f, _hidden(f, batch), batch.labels))


def _judge(f: Pass, batch: Any) -> tuple[Array, Array]:
    """Return the log-probability of every label [B], and whether its class is the most probable one [B]."""
    hidden = _hidden(f, batch)
    classes = project(f.tape, f.p, "mlp.out", hidden).value.argmax(axis=1)
    return _logps(f, hidden, batch.labels).value, classes == batch.labels


loss_and_grad = differentiated(_learn)
scores = judged(_judge)
