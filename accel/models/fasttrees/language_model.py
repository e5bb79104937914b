"""A language model on a stack of `accel.models.fasttrees.stack`, with every regularisation of the AWD-LSTM.

Mirrors `refimpl.fasttrees.stack` (clauses FT-*). The output layer shares the embedding's weights. The state is
carried from batch to batch, and no gradient flows into it. Memory: as the stack's, O(N R) floats a layer; never [N, V].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from accel.autodiff.arrays import Array
from accel.autodiff.layers import DropoutSites, cross_entropy, embedding, locked_dropout, word_dropout
from accel.autodiff.variables import Variable
from accel.models.checks import NOT_NEGATIVE, RATE, at_least, check
from accel.models.fasttrees import stack as fasttrees
from accel.models.fasttrees.stack import StackConfig
from accel.models.passes import Forward, Pass, differentiated, negative_sum, scored, scoring

NAME = "language_model"  # in checkpoints


@dataclass(frozen=True)
class Config:
    """One language model; the defaults are those of the Penn Treebank.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    vocabulary_size: int
    kind: str
    embedding_size: int = 400  # also the width of the last layer
    hidden_size: int = 1150
    n_layers: int = 3
    chunk_size: int = 10
    embedding_dropout: float = 0.1  # of whole words
    input_dropout: float = 0.5  # of embeddings; this rate and the next two: the same features at all steps of a column
    layer_dropout: float = 0.3
    output_dropout: float = 0.45
    weight_drop: float = 0.45
    alpha: float = 2.0  # the weight of the mean square of the last layer's outputs
    beta: float = 1.0  # the weight of the mean square of their change from step to step
    kernel_size: int = 2
    dilation: int = 1
    conv_dropout: float = 0.2
    variant: str = "paper"
    convolved: str = "gates"
    FORMER: ClassVar[Mapping[str, Any]] = fasttrees.FORMER

    def __post_init__(self) -> None:
        one = at_least(1)
        check(
            self, vocabulary_size=one, embedding_size=one, hidden_size=one, n_layers=one, embedding_dropout=RATE,
            input_dropout=RATE, output_dropout=RATE, alpha=NOT_NEGATIVE, beta=NOT_NEGATIVE,
        )  # fmt: skip
        _ = self.stack  # checks the fields of the stack

    @property
    def stack(self) -> StackConfig:
        return StackConfig(
            self.kind,
            self.embedding_size,
            (self.hidden_size,) * (self.n_layers - 1) + (self.embedding_size,),
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
    return {
        "embedding": (config.vocabulary_size, config.embedding_size),
        "output_bias": (config.vocabulary_size,),
    } | fasttrees.parameter_shapes(config.stack)


def initialise(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Return float32 parameters: embeddings uniform within 0.1, output bias 0, the rest as `fasttrees.initialise`."""
    random = np.random.default_rng(seed)
    table = random.uniform(-0.1, 0.1, (config.vocabulary_size, config.embedding_size)).astype(np.float32)
    bias = np.zeros(config.vocabulary_size, np.float32)
    return {"embedding": table, "output_bias": bias} | fasttrees.initialise(config.stack, random)


def penalty(
    ops: ModuleType,
    config: Config,
    parameters: Mapping[str, Array],
    batch: Any,
    memory: list[Array] | None = None,
    dropout_seed: int | None = None,
) -> float:
    """Return the penalty per label on large and changing outputs of the last layer; training adds it to the loss."""
    f = replace(scoring(ops, config, parameters), sites=DropoutSites(dropout_seed))
    _, h, _ = _forward(f, batch, memory)
    whole, size, change = counts(config, batch), h.value.shape[1], _changes(h.value, batch.offsets)
    value = config.alpha * float((h.value * h.value).sum(dtype=np.float64)) / (whole["steps"] * size)
    count = (whole["steps"] - whole["columns"]) * size
    return value + (config.beta * float((change * change).sum(dtype=np.float64)) / count if count else 0.0)


def counts(config: Config, batch: Any) -> dict[str, int]:
    """Return the numbers of steps and of columns, by which penalties are divided.

    The numbers of the parts of a batch add up to those of the batch.
    """
    return {"steps": len(batch.ids), "columns": len(batch.offsets) - 1}


def distances(ops: ModuleType, config: Config, parameters: Mapping[str, Array], ids: Array, offsets: Array) -> Array:
    """Return the distances of every word in every layer, [layers, N]; [0, N] for LSTM, which has none."""
    f = scoring(ops, config, parameters)
    x = embedding(f.tape, f.p["embedding"], ops.xp.asarray(ids, dtype=np.int32))
    return fasttrees.run_stack(f.tape, config.stack, f.p, x, offsets, None, f.sites)[2]


def _no_state(ops: ModuleType, config: Config, parameters: Mapping[str, Array]) -> list[Array]:
    return [ops.xp.zeros((0, width), parameters["embedding"].dtype) for width in config.stack.state_widths()]


def _forward(f: Pass, batch: Any, state: list[Array] | None) -> tuple[Variable, Variable, list[Array]]:
    """Return the log-probability of every label, the last layer's outputs, and the state.

    A batch that is `fresh` begins with a state of zeros.
    """
    tape, config, p, sites = f.tape, f.config, f.p, f.sites
    state = None if batch.fresh else state
    x = embedding(tape, p["embedding"], batch.ids)
    x = word_dropout(tape, x, batch.ids, config.vocabulary_size, config.embedding_dropout, sites)
    x = locked_dropout(tape, x, batch.offsets, config.input_dropout, sites)
    h, state, _ = fasttrees.run_stack(tape, config.stack, p, x, batch.offsets, state, sites)
    output = locked_dropout(tape, h, batch.offsets, config.output_dropout, sites)
    return cross_entropy(tape, output, p["embedding"], p["output_bias"], batch.labels), h, state


def _changes(h: Array, offsets: Array) -> Array:
    """Return h_{t+1} - h_t [N - 1, H]; it is 0 where step t + 1 is in the next column."""
    change = h[1:] - h[:-1]
    change[offsets[1:-1] - 1] = 0.0
    return change


def _penalty_gradients(ops: ModuleType, config: Config, h: Array, offsets: Array, whole: Mapping[str, int]) -> Array:
    """Return the gradient [N, H] of alpha mean(h^2) + beta mean((h_{t+1} - h_t)^2), times the number of labels.

    Both steps of a difference are in the same column. The means are over the whole batch, of which these rows are a
    part.
    """
    count = (whole["steps"] - whole["columns"]) * h.shape[1]
    of_size, of_change = 2.0 * config.alpha / (whole["steps"] * h.shape[1]), 2.0 * config.beta / max(count, 1)
    if hasattr(ops, "penalty_gradients"):
        return ops.penalty_gradients(h, offsets, of_size, of_change, whole["steps"])
    gradient = h * of_size
    if count:
        change = _changes(h, offsets)
        change *= of_change
        later, earlier = gradient[1:], gradient[:-1]
        later += change
        earlier -= change
    gradient *= whole["steps"]
    return gradient


def _learn(f: Pass, batch: Any, memory: list[Array] | None) -> Forward:
    """Return -log p of the words. The gradient includes that of `penalty` times the number of labels."""
    logps, h, state = _forward(f, batch, memory)
    whole = f.whole or counts(f.config, batch)
    h.accumulate(_penalty_gradients(f.tape.ops, f.config, h.value, batch.offsets, whole))
    return negative_sum(f, logps, state)


def _token_logps(f: Pass, batch: Any, memory: list[Array] | None) -> tuple[Array, list[Array]]:
    logps, _, state = _forward(f, batch, memory)
    return logps.value, state


loss_and_grad = differentiated(_learn, _no_state)
token_logps = scored(_token_logps, _no_state)
