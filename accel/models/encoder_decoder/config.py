"""The configuration of an encoder-decoder, its parameters by name and shape, and their initial values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.models.checks import FLAG, RATE, at_least, check, check_width, chunk_size, one_of, refusal
from accel.models.shapes import Shapes, linear_shapes, norm_shapes

GATES = ("none", "positionwise", "causal")
GATE_CONVOLUTIONS = ("shared", "own")
CHARTS = ("none", "paper", "released")
NORMS = ("pre", "post")


@dataclass(frozen=True)
class Config:
    """One model; the defaults are those of Tensor2Tensor's transformer_tiny.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    vocabulary_size: int  # of the target, and of the source if it shares the vocabulary
    source_vocabulary_size: int = 0  # 0: source and target share vocabulary and table
    n_classes: int = 0  # above 0: no decoder, but a class for every source
    d_model: int = 128
    d_ff: int = 512
    n_layers: int = 2
    n_encoder_layers: int = 0  # 0: as many as the decoder has
    n_heads: int = 4
    gate: str = "none"  # after every self-attention: none, position-wise, or after a causal convolution
    kernel_size: int = 2  # of that convolution; 1: it reads every row by itself
    gate_convolutions: str = "shared"  # one for all three functions of the gate; "own": one for each function
    chunk_size: int = 1  # features that share a master gate value
    chart: str = "none"  # above the encoder: "none", "paper" (as Treeformer's paper) or "released" (as its code)
    max_height: int = 10  # tokens of the longest phrase; 0: the whole sequence
    norm: str = "pre"  # LayerNorm before every sub-layer and one at the end; "post": after every residual sum
    attention_bias: bool = False  # of the four matrices of every attention
    output_bias: bool = True
    dropout: float = 0.1  # of embeddings and of the terms of residual sums
    attention_dropout: float = 0.1
    relu_dropout: float = 0.1
    label_smoothing: float = 0.1  # the probability that training spreads over the other tokens or classes

    def __post_init__(self) -> None:
        one, zero = at_least(1), at_least(0)
        check(
            self, vocabulary_size=one, d_model=one, d_ff=one, n_layers=one, n_heads=one, kernel_size=one,
            chunk_size=one, source_vocabulary_size=zero, n_classes=zero, n_encoder_layers=zero, max_height=zero,
            gate=one_of(GATES), gate_convolutions=one_of(GATE_CONVOLUTIONS), chart=one_of(CHARTS), norm=one_of(NORMS),
            attention_bias=FLAG, output_bias=FLAG,
            dropout=RATE, attention_dropout=RATE, relu_dropout=RATE, label_smoothing=RATE,
        )  # fmt: skip
        if self.n_classes and self.source_vocabulary_size:
            size = self.source_vocabulary_size
            raise refusal("source_vocabulary_size", size, "a classifier has one vocabulary only", "0")
        check_width(self, "d_model", "n_heads", even=True)
        if self.d_model % self.chunk_size:
            but = f"it does not divide d_model, {self.d_model}"
            raise refusal("chunk_size", self.chunk_size, but, str(chunk_size(self.chunk_size, self.d_model)))

    def layers(self, side: str) -> int:
        """Return how many layers the encoder or the decoder has."""
        return self.n_encoder_layers or self.n_layers if side == "encoder" else self.n_layers


SIZES = {
    "tiny": {"d_model": 128, "d_ff": 512, "n_layers": 2, "n_heads": 4},
    "base": {"d_model": 512, "d_ff": 2048, "n_layers": 6, "n_heads": 8},
    "iwslt": {"d_model": 512, "d_ff": 1024, "n_layers": 6, "n_heads": 4},
}
"""Tensor2Tensor's transformer_tiny and transformer_base, and fairseq's transformer_iwslt_de_en."""


def parameter_shapes(config: Config) -> Shapes:
    """Return the name and the shape of every parameter, in the order in which a flat vector holds them."""
    v, d = config.vocabulary_size, config.d_model
    shapes: Shapes = {"embedding": (v, d)}
    if config.n_classes:
        shapes |= {"classes": (config.n_classes, d), "classes_bias": (config.n_classes,)}
    elif config.output_bias:
        shapes |= {"output_bias": (v,)}
    if config.source_vocabulary_size:
        shapes["source_embedding"] = (config.source_vocabulary_size, d)
    for side in ("encoder",) if config.n_classes else ("encoder", "decoder"):
        for k in range(config.layers(side)):
            shapes |= {f"{side}.{k}.{name}": shape for name, shape in _layer_shapes(config, side).items()}
        if config.norm == "pre":
            shapes |= norm_shapes(f"{side}.norm", d)
    return shapes | {f"chart.{name}": shape for name, shape in chart_shapes(config).items()}


def _layer_shapes(config: Config, side: str) -> Shapes:
    d, f, n = config.d_model, config.d_ff, config.d_model // config.chunk_size
    shapes: Shapes = {}
    for attention in ("attention", "cross_attention") if side == "decoder" else ("attention",):
        shapes |= {f"{attention}.{name}": (d, d) for name in ("query", "key", "value", "output")}
        if config.attention_bias:
            shapes |= {f"{attention}.{name}_bias": (d,) for name in ("query", "key", "value", "output")}
        shapes |= norm_shapes(f"{attention}_norm", d)
    for part in gate_convolutions(config):
        shapes |= {f"gate.{part}conv.weight": (d, d, config.kernel_size), f"gate.{part}conv.bias": (d,)}
    if config.gate != "none":
        for name, rows in (("a", n), ("b", n), ("f", d)):
            shapes |= {f"gate.{name}.weight": (rows, d), f"gate.{name}.bias": (rows,)}
    shapes |= linear_shapes("feed_forward.in", d, f) | linear_shapes("feed_forward.out", f, d)
    return shapes | norm_shapes("feed_forward_norm", d)


def gate_convolutions(config: Config) -> list[str]:
    """Return the beginning of the name of every convolution of a gate."""
    prefixes = [f"{function}." for function in "abf"]
    return [] if config.gate != "causal" else prefixes if config.gate_convolutions == "own" else [""]


def chart_shapes(config: Any) -> Shapes:
    """Return the name and the shape of every parameter of the chart above an encoder with this configuration."""
    d, f = config.d_model, config.d_ff
    if config.chart == "none":
        return {}
    shapes: Shapes = {"w": (d,), "compose": (2 * d, d)}
    if config.chart == "paper":
        return shapes | {"key": (d, d), "query": (d, d)}
    for k in (1, 2, 3):
        shapes |= norm_shapes(f"norm_{k}", d)
    shapes["compose_bias"] = (d,)
    for name in ("query", "key", "value", "output"):
        shapes |= linear_shapes(f"attention.{name}", d, d)
    return shapes | linear_shapes("feed_forward.in", d, f) | linear_shapes("feed_forward.out", f, d)


def initialise(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Return float32 parameters drawn from the seed.

    Embeddings are normal with standard deviation 1 / sqrt(d), weights uniform within sqrt(6 / (inputs + outputs)),
    norms begin as the identity, biases as 0. The w of a chart is normal, with standard deviation 1 or, as in the
    released code, 0.02.
    """
    random = np.random.default_rng(seed)
    parameters = {}
    for name, shape in parameter_shapes(config).items():
        if name.endswith("embedding"):
            value = random.standard_normal(shape) * shape[1] ** -0.5
        elif name == "chart.w":
            value = random.standard_normal(shape) * (1.0 if config.chart == "paper" else 0.02)
        elif len(shape) == 1:
            value = np.full(shape, float(name.endswith(".scale")))
        else:
            limit = (6.0 / ((shape[0] + shape[1]) * float(np.prod(shape[2:])))) ** 0.5
            value = random.uniform(-limit, limit, shape)
        parameters[name] = value.astype(np.float32)
    return parameters
