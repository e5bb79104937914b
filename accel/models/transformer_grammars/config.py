"""The configuration of a Transformer Grammar, its parameters by name and shape, and their initial values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.models.checks import FLAG, RATE, WHOLE, at_least, check, check_width, one_of, refusal
from accel.models.shapes import Shapes, linear_shapes, norm_shapes

MODELS = ("tg", "txl_cc", "txl_terminals")


@dataclass(frozen=True)
class Config:
    """One model: the fields of `refimpl.transformer_grammars.model.Config`, and three dropout rates.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    model: str  # of MODELS
    vocabulary_size: int
    d_model: int
    d_ff: int
    n_layers: int
    n_heads: int
    segment_length: int
    memory_length: int
    distinct_attention: bool = False  # COMPOSE rows have separate attention parameters
    memory: str = "stack"  # "stack": Appendix A; "shift": the last positions, as Transformer-XL
    positions: str = "depth"  # "depth": difference of depths; "linear": distance, needs "shift"
    unrestricted_layers: int = 0  # > 0: the top layers, < 0: the bottom ones
    unrestricted_heads: int = 0  # how many of the last heads see all positions
    relative_min: int = -1
    relative_max: int = 62
    embedding_dropout: float = 0.0
    core_dropout: float = 0.0
    output_dropout: float = 0.0

    def __post_init__(self) -> None:
        one = at_least(1)
        check(
            self, model=one_of(MODELS), vocabulary_size=one, d_model=one, d_ff=one, n_layers=one, n_heads=one,
            segment_length=one, memory_length=at_least(0), distinct_attention=FLAG, memory=one_of(("stack", "shift")),
            positions=one_of(("depth", "linear")), unrestricted_layers=WHOLE, unrestricted_heads=at_least(0),
            relative_min=WHOLE, relative_max=WHOLE, embedding_dropout=RATE, core_dropout=RATE, output_dropout=RATE,
        )  # fmt: skip
        check_width(self, "d_model", "n_heads", even=True)
        self._check_restrictions()

    def _check_restrictions(self) -> None:
        """Check the fields that restrict attention, which depend on each other."""
        layers, heads = self.unrestricted_layers, self.unrestricted_heads
        if self.positions == "linear" and self.memory != "shift":
            raise refusal("positions", "linear", f"memory is {self.memory}", "memory shift, or positions depth")
        if abs(layers) > self.n_layers:
            raise refusal("unrestricted_layers", layers, "there are fewer layers", f"at most {self.n_layers}")
        if heads > self.n_heads:
            raise refusal("unrestricted_heads", heads, "there are fewer heads", f"at most {self.n_heads}")
        if self.relative_min > self.relative_max:
            but = f"it is above relative_max, {self.relative_max}"
            raise refusal("relative_min", self.relative_min, but, f"at most {self.relative_max}")
        if self.distinct_attention and (layers or heads):
            raise refusal("distinct_attention", True, "it is not for a hybrid model", "no unrestricted layers or heads")
        if self.model != "tg" and (self.distinct_attention or layers or heads):
            but = "it has no distinct_attention, and nothing unrestricted"
            raise refusal("model", self.model, but, "tg, or leave these out")

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads

    def restricted_heads(self, layer: int) -> int:
        """Return how many heads of a layer, the first ones, follow the STACK/COMPOSE rules."""
        free = self.unrestricted_layers
        top, bottom = layer >= self.n_layers - free, layer < -free
        return 0 if self.model != "tg" or top or bottom else self.n_heads - self.unrestricted_heads

    def kinds_of_heads(self, layer: int) -> dict[str, range]:
        """Return the "restricted" heads of a layer, see `restricted_heads`, and the "unrestricted" ones."""
        restricted = self.restricted_heads(layer)
        kinds = {"restricted": range(restricted), "unrestricted": range(restricted, self.n_heads)}
        return {kind: heads for kind, heads in kinds.items() if heads}

    @property
    def reads_distances(self) -> bool:
        """Return whether any head looks up distances: unrestricted heads do, and all heads if positions are linear."""
        kinds = [self.kinds_of_heads(layer) for layer in range(self.n_layers)]
        return self.positions == "linear" or any("unrestricted" in kind for kind in kinds)

    @property
    def attentions(self) -> tuple[str, ...]:
        """Return the names of the attentions of a layer."""
        return ("attention", "compose_attention") if self.distinct_attention else ("attention",)


def parameter_shapes(config: Config) -> Shapes:
    """Return the name and the shape of every parameter, in the order in which a flat vector holds them."""
    d, f = config.d_model, config.d_ff
    shapes: Shapes = {"embedding": (config.vocabulary_size, d), "output_bias": (config.vocabulary_size,)}
    for layer in range(config.n_layers):
        name = f"layers.{layer}."
        for attention in config.attentions:
            for weight in ("query", "key", "value", "relative"):
                shapes[f"{name}{attention}.{weight}"] = (d, d)
            for bias in ("content_bias", "position_bias"):
                shapes[f"{name}{attention}.{bias}"] = (config.n_heads, config.d_head)
            shapes |= linear_shapes(f"{name}{attention}.output", d, d)
        shapes |= norm_shapes(f"{name}attention_norm", d)
        shapes |= linear_shapes(f"{name}feed_forward.in", d, f) | linear_shapes(f"{name}feed_forward.out", f, d)
        shapes |= norm_shapes(f"{name}feed_forward_norm", d)
    return shapes


def initialise(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Return float32 parameters drawn from the seed.

    Weights: normal, cut at two standard deviations, of variance 2 / (n_layers * fan-in); the two attention biases
    likewise with variance 1 / d. Embedding: uniform within sqrt(3 / d). Other biases 0, LayerNorm scales 1.
    """
    random = np.random.default_rng(seed)

    def cut_normal(shape: tuple[int, ...], variance: float) -> np.ndarray:
        x = random.standard_normal(shape)
        while (far := np.abs(x) > 2.0).any():
            x[far] = random.standard_normal(int(far.sum()))
        return x * (variance**0.5 / 0.87962566103423978)  # the standard deviation of the cut normal

    parameters = {}
    for name, shape in parameter_shapes(config).items():
        if name == "embedding":
            limit = (3.0 / config.d_model) ** 0.5
            value = random.uniform(-limit, limit, shape)
        elif name.endswith(("content_bias", "position_bias")):
            value = cut_normal(shape, 1.0 / config.d_model)
        elif len(shape) == 2:
            value = cut_normal(shape, 2.0 / (config.n_layers * shape[0]))
        else:
            value = np.full(shape, float(name.endswith(".scale")))
        parameters[name] = value.astype(np.float32)
    return parameters
