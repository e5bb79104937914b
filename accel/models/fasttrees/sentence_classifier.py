"""A class for every sentence, or for every pair of sentences, from the last states of a stack.

The layers are an embedding, an optional linear projection, the stack of `accel.models.fasttrees.stack`, and a
feed-forward layer with ELU. A pair is read as two sentences; its features are both states and, optionally, their
product and their distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array
from accel.autodiff.layers import cross_entropy, dropout, embedding, project
from accel.autodiff.tape import Variable
from accel.models.checks import FLAG, POSITIVE, RATE, at_least, check
from accel.models.fasttrees import stack as fasttrees
from accel.models.fasttrees.stack import StackConfig
from accel.models.passes import Forward, Pass, differentiated, judged, negative_sum, scored, scoring

NAME = "sentence_classifier"  # in checkpoints


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
    projection_size: int = 0  # of the embedding, for word vectors trained elsewhere; 0: none
    hidden_size: int = 400
    n_layers: int = 1
    mlp_size: int = 400
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

    def __post_init__(self) -> None:
        one = at_least(1)
        check(
            self, vocabulary_size=one, n_classes=one, pair=FLAG, embedding_size=one, projection_size=at_least(0),
            hidden_size=one, n_layers=one, mlp_size=one, compare=FLAG, dropout=RATE, embedding_range=POSITIVE,
        )  # fmt: skip
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
        )


def parameter_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every parameter, in the order in which a flat vector holds them."""
    shapes: dict[str, tuple[int, ...]] = {"embedding": (config.vocabulary_size, config.embedding_size)}
    if config.projection_size:
        shapes |= {
            "projection.weight": (config.projection_size, config.embedding_size),
            "projection.bias": (config.projection_size,),
        }
    features = config.hidden_size * (1 if not config.pair else 4 if config.compare else 2)
    return (
        shapes
        | fasttrees.parameter_shapes(config.stack)
        | {
            "mlp.hidden.weight": (config.mlp_size, features),
            "mlp.hidden.bias": (config.mlp_size,),
            "mlp.out.weight": (config.n_classes, config.mlp_size),
            "mlp.out.bias": (config.n_classes,),
        }
    )


def initialise(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Return float32 parameters: embeddings uniform within their range, all else as `fasttrees.initialise`."""
    random, embedding_limit = np.random.default_rng(seed), config.embedding_range
    parameters = {
        "embedding": random.uniform(-embedding_limit, embedding_limit, (config.vocabulary_size, config.embedding_size))
    }
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
    x = dropout(tape, embedding(tape, p["embedding"], ids), config.dropout, sites)
    if config.projection_size:
        x = project(tape, p, "projection", x)
    h, _, _, distances = fasttrees.run_stack(tape, config.stack, p, x, offsets, None, sites)
    return h, distances


def _hidden(f: Pass, batch: Any) -> Variable:
    """Return the hidden units that the output layer reads [B, mlp_size]."""
    tape, config, p, sites = f.tape, f.config, f.p, f.sites
    h, _ = _states(f, batch.ids, batch.offsets)
    features = tape.take(h, batch.offsets[1:] - 1)
    if config.pair:
        n = len(features.value) // 2
        a, b = tape.part(features, 0, n), tape.part(features, n, 2 * n)
        compared = [tape.multiply(a, b), tape.absolute_difference(a, b)] if config.compare else []
        features = tape.concatenate([a, b, *compared], axis=1)
    features = dropout(tape, features, config.dropout, sites)
    return dropout(tape, tape.elu(project(tape, p, "mlp.hidden", features)), config.dropout, sites)


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
token_logps = scored(lambda f, batch, memory: (_logps(f, _hidden(f, batch), batch.labels).value, []))
scores = judged(_judge)
