"""A class for every sentence, or for every pair of sentences, from the last states of a stack.

Embedding, where wanted a linear projection, the stack of `accel.models.fasttrees.stack`, and a feed-forward layer
with ELU.
A pair is read as two sentences; its features are both states and, where wanted, their product and their distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from accel.autodiff.arrays import Array
from accel.autodiff.layers import DropoutSites, cross_entropy, dropout, embedding, project
from accel.autodiff.tape import Tape, Variable, constant
from accel.models.fasttrees import stack as fasttrees
from accel.models.fasttrees.stack import StackConfig
from accel.models.loss import Forward, differentiated, negative_sum

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
    projection_size: int = 0  # of the embedding, for vectors that come from elsewhere; 0: none
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
        for name in ("vocabulary_size", "n_classes", "embedding_size", "n_layers", "mlp_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be positive, is {getattr(self, name)}")
        if not self.embedding_range > 0.0:
            raise ValueError(f"embedding_range: must be positive, is {self.embedding_range}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout: must lie in [0, 1), is {self.dropout}")
        _ = self.stack  # raises what is wrong with it

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
    random, most = np.random.default_rng(seed), config.embedding_range
    parameters = {"embedding": random.uniform(-most, most, (config.vocabulary_size, config.embedding_size))}
    stack = fasttrees.initialise(config.stack, random)
    limit = 0.0
    for name, shape in parameter_shapes(config).items():
        if name.startswith(("projection.", "mlp.")):
            limit = shape[1] ** -0.5 if name.endswith(".weight") else limit
            parameters[name] = random.uniform(-limit, limit, shape)
    parameters |= stack
    return {name: parameters[name].astype(np.float32) for name in parameter_shapes(config)}


def scores(
    ops: ModuleType, config: Config, parameters: Mapping[str, Array], batch: Any, memory: list[Array] | None = None
) -> tuple[Array, Array, list[Array]]:
    """Return the log-probability of every label [B], whether its class is the most probable one [B], and no memory."""
    if not len(batch.ids):
        return ops.xp.zeros(0, parameters["embedding"].dtype), ops.xp.zeros(0, bool), []
    variables = {name: constant(value) for name, value in parameters.items()}
    tape = Tape(ops, recording=False)
    hidden = _hidden(tape, config, variables, batch, DropoutSites(None))
    logp = cross_entropy(tape, hidden, variables["mlp.out.weight"], variables["mlp.out.bias"], batch.labels)
    classes = project(tape, variables, "mlp.out", hidden).value.argmax(axis=1)
    return logp.value, classes == batch.labels, []


def token_logps(
    ops: ModuleType, config: Config, parameters: Mapping[str, Array], batch: Any, memory: list[Array] | None = None
) -> tuple[Array, list[Array]]:
    """Return the log-probability of every label [B], and no memory."""
    return scores(ops, config, parameters, batch)[0], []


def distances(ops: ModuleType, config: Config, parameters: Mapping[str, Array], ids: Array, offsets: Array) -> Array:
    """Return the distances of every word in every layer, [layers, N]; [0, N] for LSTM, which has none."""
    variables = {name: constant(value) for name, value in parameters.items()}
    return _states(Tape(ops, recording=False), config, variables, ids, offsets, DropoutSites(None))[1]


def _states(
    tape: Tape, config: Config, p: Mapping[str, Variable], ids: Array, offsets: Array, sites: DropoutSites
) -> tuple[Variable, Array]:
    """Return the last layer's outputs [N, H] and the distances."""
    x = dropout(tape, embedding(tape, p["embedding"], ids), config.dropout, sites)
    if config.projection_size:
        x = project(tape, p, "projection", x)
    h, _, _, found = fasttrees.run_stack(tape, config.stack, p, x, offsets, None, sites)
    return h, found


def _hidden(tape: Tape, config: Config, p: Mapping[str, Variable], batch: Any, sites: DropoutSites) -> Variable:
    """Return what the classes are told apart by [B, mlp_size]."""
    h, _ = _states(tape, config, p, batch.ids, batch.offsets, sites)
    features = tape.take(h, batch.offsets[1:] - 1)
    if config.pair:
        n = len(features.value) // 2
        a, b = tape.part(features, 0, n), tape.part(features, n, 2 * n)
        compared = [tape.multiply(a, b), tape.absolute_difference(a, b)] if config.compare else []
        features = tape.concatenate([a, b, *compared], axis=1)
    features = dropout(tape, features, config.dropout, sites)
    return dropout(tape, tape.elu(project(tape, p, "mlp.hidden", features)), config.dropout, sites)


def _learn(
    tape: Tape,
    config: Config,
    p: Mapping[str, Variable],
    batch: Any,
    memory: list[Array] | None,
    dropout_seed: int | None,
) -> Forward:
    """Return -log p of the classes."""
    hidden = _hidden(tape, config, p, batch, DropoutSites(dropout_seed))
    return negative_sum(tape, cross_entropy(tape, hidden, p["mlp.out.weight"], p["mlp.out.bias"], batch.labels))


loss_and_grad = differentiated(_learn)
