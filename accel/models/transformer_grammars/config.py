"""The configuration of a Transformer Grammar, its parameters by name and shape, and their initial values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.models.checks import require_not_negative, require_positive, require_rates


@dataclass(frozen=True)
class Config:
    """One model: the fields of `refimpl.transformer_grammars.model.Config`, and three dropout rates.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    model: str  # "tg", "txl_cc" or "txl_terminals"
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
    unrestricted_heads: int = 0  # the last heads
    relative_min: int = -1
    relative_max: int = 62
    embedding_dropout: float = 0.0
    core_dropout: float = 0.0
    output_dropout: float = 0.0

    def __post_init__(self) -> None:
        def require(condition: bool, message: str) -> None:
            if not condition:
                raise ValueError(message)

        require(self.model in ("tg", "txl_cc", "txl_terminals"), f"model: unknown {self.model!r}")
        require_positive(self, "vocabulary_size", "d_model", "d_ff", "n_layers", "n_heads", "segment_length")
        require_not_negative(self, "memory_length")
        require(self.d_model % 2 == 0, f"d_model: must be even, is {self.d_model}")
        require(self.d_model % self.n_heads == 0, f"d_model: {self.d_model} is no multiple of {self.n_heads} heads")
        require(self.memory in ("stack", "shift"), f"memory: unknown {self.memory!r}")
        require(self.positions in ("depth", "linear"), f"positions: unknown {self.positions!r}")
        require(self.positions == "depth" or self.memory == "shift", 'positions: "linear" needs memory "shift"')
        require(abs(self.unrestricted_layers) <= self.n_layers, "unrestricted_layers: more than there are layers")
        require(0 <= self.unrestricted_heads <= self.n_heads, "unrestricted_heads: not among the heads")
        require(self.relative_min <= self.relative_max, "relative_min: above relative_max")
        hybrid = bool(self.unrestricted_layers or self.unrestricted_heads)
        require(not (self.distinct_attention and hybrid), "distinct_attention: not in a hybrid model")
        require(
            self.model == "tg" or not (self.distinct_attention or hybrid),
            f"model: {self.model} has no distinct_attention and nothing unrestricted",
        )
        require_rates(self, "embedding_dropout", "core_dropout", "output_dropout")

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads

    def restricted_heads(self, layer: int) -> int:
        """Return how many heads of a layer, the first ones, follow the STACK/COMPOSE rules."""
        free = self.unrestricted_layers
        top, bottom = layer >= self.n_layers - free, layer < -free
        return 0 if self.model != "tg" or top or bottom else self.n_heads - self.unrestricted_heads


def parameter_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every parameter, in the order in which a flat vector holds them."""
    d, f = config.d_model, config.d_ff
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (config.vocabulary_size, d),
        "output_bias": (config.vocabulary_size,),
    }
    for layer in range(config.n_layers):
        name = f"layers.{layer}."
        for attention in ("attention", "compose_attention") if config.distinct_attention else ("attention",):
            for weight in ("query", "key", "value", "relative"):
                shapes[f"{name}{attention}.{weight}"] = (d, d)
            for bias in ("content_bias", "position_bias"):
                shapes[f"{name}{attention}.{bias}"] = (config.n_heads, config.d_head)
            shapes[f"{name}{attention}.output"] = (d, d)
            shapes[f"{name}{attention}.output_bias"] = (d,)
        shapes |= {f"{name}attention_norm.scale": (d,), f"{name}attention_norm.bias": (d,)}
        shapes |= {f"{name}feed_forward.in": (d, f), f"{name}feed_forward.in_bias": (f,)}
        shapes |= {f"{name}feed_forward.out": (f, d), f"{name}feed_forward.out_bias": (d,)}
        shapes |= {f"{name}feed_forward_norm.scale": (d,), f"{name}feed_forward_norm.bias": (d,)}
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
        return x * (variance**0.5 / 0.87962566103423978)  # the standard deviation of the normal that was cut

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
