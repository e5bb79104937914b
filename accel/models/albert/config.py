"""The configuration of an ALBERT, its parameters by name and shape, and their initial values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.models.checks import FLAG, POSITIVE, RATE, at_least, check, check_width, one_of
from accel.models.encoder_decoder.config import CHARTS, chart_shapes
from accel.models.shapes import Shapes, linear_shapes, norm_shapes

ACTIVATIONS = ("gelu_new", "gelu")
KINDS = {"albert": "none", "albert_treeformer": "paper", "albert_treeformer_released": "released"}
"""The chart of each kind of model."""


@dataclass(frozen=True)
class Config:
    """One model; the defaults are those of albert-base-v2, except for the vocabulary.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    vocabulary_size: int
    d_embedding: int = 128
    d_model: int = 768
    d_ff: int = 3072
    n_layers: int = 12  # how many times the one shared layer is applied
    n_heads: int = 12
    n_positions: int = 512  # the most tokens of a sequence
    activation: str = "gelu_new"  # "gelu_new": the tanh formula; "gelu": the exact function
    norm_epsilon: float = 1e-12  # of every LayerNorm of ALBERT
    n_classes: int = 0  # 0: predicts masked tokens; 1: a score; above: classes
    chart: str = "none"  # above the last layer: "none", "paper" (as Treeformer's paper) or "released" (as its code)
    max_height: int = 10  # tokens of the longest phrase; 0: the whole sequence
    across: bool = False  # whether a phrase may hold tokens of both sentences of a pair
    dropout: float = 0.0  # of embeddings and of the output of the attention
    attention_dropout: float = 0.0
    class_dropout: float = 0.1  # of the pooler's output

    def __post_init__(self) -> None:
        one, zero = at_least(1), at_least(0)
        check(
            self, vocabulary_size=one, d_embedding=one, d_model=one, d_ff=one, n_layers=one, n_heads=one,
            n_positions=one, n_classes=zero, max_height=zero, norm_epsilon=POSITIVE, across=FLAG,
            activation=one_of(ACTIVATIONS), chart=one_of(CHARTS), dropout=RATE, attention_dropout=RATE,
            class_dropout=RATE,
        )  # fmt: skip
        check_width(self, "d_model", "n_heads")


SIZES = {
    "tiny": {"d_embedding": 64, "d_model": 128, "d_ff": 512, "n_layers": 4, "n_heads": 4, "n_positions": 128},
    "base": {"d_embedding": 128, "d_model": 768, "d_ff": 3072, "n_layers": 12, "n_heads": 12, "n_positions": 512},
}
"""A small one for training from scratch, and albert-base-v2."""


def parameter_shapes(config: Config) -> Shapes:
    """Return the name and the shape of every parameter, in the order in which a flat vector holds them.

    A model that predicts masked tokens has the pooler, too, for a classifier that starts from this model.
    """
    e, d, f = config.d_embedding, config.d_model, config.d_ff
    shapes: Shapes = {"embedding": (config.vocabulary_size, e), "position": (config.n_positions, e), "type": (2, e)}
    shapes |= norm_shapes("embedding_norm", e) | linear_shapes("widen", e, d)
    for name in ("query", "key", "value", "output"):
        shapes |= linear_shapes(f"layer.attention.{name}", d, d)
    shapes |= norm_shapes("layer.attention_norm", d) | norm_shapes("layer.feed_forward_norm", d)
    shapes |= linear_shapes("layer.feed_forward.in", d, f) | linear_shapes("layer.feed_forward.out", f, d)
    shapes |= linear_shapes("pooler", d, d)
    if not config.n_classes:
        shapes |= linear_shapes("narrow", d, e) | norm_shapes("narrow_norm", e)
        return shapes | {"output_bias": (config.vocabulary_size,)}
    shapes |= {"classes": (config.n_classes, d), "classes_bias": (config.n_classes,)}
    return shapes | {f"chart.{name}": shape for name, shape in chart_shapes(config).items()}


def initialise(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Return float32 parameters drawn from the seed.

    Matrices and tables are normal with standard deviation 0.02, norms begin as the identity, biases as 0. A chart
    begins as in an encoder-decoder.
    """
    random, parameters = np.random.default_rng(seed), {}
    for name, shape in parameter_shapes(config).items():
        if name == "chart.w":
            value = random.standard_normal(shape) * (1.0 if config.chart == "paper" else 0.02)
        elif len(shape) == 1:
            value = np.full(shape, float(name.endswith(".scale")))
        elif name.startswith("chart."):
            limit = (6.0 / sum(shape)) ** 0.5
            value = random.uniform(-limit, limit, shape)
        else:
            value = random.standard_normal(shape) * 0.02
        parameters[name] = value.astype(np.float32)
    return parameters
