"""The configuration of a GPST, its parameters by name and shape, and their initial values."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from accel.models.checks import FLAG, NOT_NEGATIVE, RATE, at_least, check, check_width, one_of, refusal
from accel.models.shapes import Shapes, linear_shapes, norm_shapes

MODELS = ("gpst", "gpt2")
_HALVES = ("type", "token")
_MATRICES = ("query", "key", "value", "output")


@dataclass(frozen=True)
class Config:
    """One model; the defaults have about a tenth of the size of the paper's small model.

    Raises
    ------
    ValueError
        If a field is out of its range or two of them contradict each other.
    """

    vocabulary_size: int
    model: str = "gpst"  # or gpt2: as many layers of the same width, over words only
    d_model: int = 192
    n_heads: int = 6
    type_layers: int = 2
    token_layers: int = 4
    n_positions: int = 1025  # a context has at most one word less
    d_compose: int = 96
    compose_heads: int = 4
    compose_layers: int = 2
    decompose_layers: int = 1
    d_score: int = 64
    d_parser: int = 64
    parser_heads: int = 4
    parser_layers: int = 2
    parser_feed_forward: int = 256
    window: int = 2  # the most splits of a cell
    surrogate: bool = True  # False: the generative model reads one learned vector in place of every node's
    gradient_stop: bool = True  # False: the auto-regressive loss trains the scores of splits, too
    head: str = "mlp"  # between an outside vector and the words; "dot": their inner product
    height_threshold: float = 15.0
    height_norm: str = "paper"  # heights are divided by n; "excess": by max(n - height_threshold, 1)
    whole_words: bool = False  # no induced tree splits a word of several pieces; when parsing, none does in any case
    dropout: float = 0.1
    network_dropout: float = 0.2  # of the networks before a softmax
    n_classes: int = 0  # above 0: classes of contexts, from the state that generates the last word; 1: a score

    def __post_init__(self) -> None:
        one, zero = at_least(1), at_least(0)
        check(
            self, vocabulary_size=one, d_model=one, n_heads=one, token_layers=one, n_positions=one, d_compose=one,
            compose_heads=one, d_score=one, d_parser=one, parser_heads=one, parser_feed_forward=one, window=one,
            type_layers=zero, compose_layers=zero, decompose_layers=zero, parser_layers=zero, n_classes=zero,
            model=one_of(MODELS), head=one_of(("mlp", "dot")), height_norm=one_of(("paper", "excess")),
            height_threshold=NOT_NEGATIVE, surrogate=FLAG, gradient_stop=FLAG, whole_words=FLAG,
            dropout=RATE, network_dropout=RATE,
        )  # fmt: skip
        for width, heads in (("d_model", "n_heads"), ("d_compose", "compose_heads"), ("d_parser", "parser_heads")):
            check_width(self, width, heads)
        if self.d_parser // self.parser_heads % 2:
            but = f"each of its parser_heads, {self.parser_heads}, has an odd width"
            raise refusal("d_parser", self.d_parser, but, f"{self.d_parser + self.parser_heads}")


SMALL = {
    "d_model": 768, "n_heads": 12, "type_layers": 3, "token_layers": 9, "d_compose": 256, "compose_heads": 8,
    "compose_layers": 4, "d_score": 128, "d_parser": 128, "parser_heads": 8, "parser_layers": 4,
    "parser_feed_forward": 512,
}  # fmt: skip
"""The paper's small model."""
MEDIUM = SMALL | {
    "d_model": 1024, "n_heads": 16, "token_layers": 21, "d_compose": 512, "compose_heads": 16, "d_parser": 256,
    "parser_feed_forward": 768,
}  # fmt: skip
"""The paper's medium model; what the paper does not say is as in the authors' code."""


def parameter_shapes(config: Config) -> Shapes:
    """Return the name and the shape of every parameter, in the order in which a flat vector holds them."""
    d = config.d_model
    shapes = {"embedding": (config.vocabulary_size, d), "position": (config.n_positions, d), "bos": (d,)}
    if config.n_classes:
        shapes["classes"] = (config.n_classes, d)
    if config.model == "gpt2":
        return shapes | _blocks("token", config.type_layers + config.token_layers, d) | norm_shapes("token_norm", d)
    shapes |= linear_shapes("down", d, config.d_compose) | linear_shapes("up", config.d_compose, d)
    if not config.surrogate:
        shapes["placeholder"] = (d,)
    shapes |= _blocks("type", config.type_layers, d) | _blocks("token", config.token_layers, d)
    shapes |= norm_shapes("action_norm", d) | norm_shapes("token_norm", d)
    shapes |= _mlp("action", d, d, 2) | _mlp("word", d, 4 * d, d)
    if config.head == "mlp":
        shapes |= _mlp("reconstruct", config.d_compose, 4 * config.d_compose, d)
    return shapes | _composition(config) | _parser(config)


def _mlp(name: str, inputs: int, hidden: int, outputs: int) -> Shapes:
    return linear_shapes(f"{name}.in", inputs, hidden) | linear_shapes(f"{name}.out", hidden, outputs)


def _attention(name: str, d: int) -> Shapes:
    return {key: shape for part in _MATRICES for key, shape in linear_shapes(f"{name}.{part}", d, d).items()}


def _blocks(name: str, count: int, d: int) -> Shapes:
    shapes: Shapes = {}
    for block in (f"{name}.{k}" for k in range(count)):
        shapes |= norm_shapes(f"{block}.attention_norm", d) | _attention(f"{block}.attention", d)
        shapes |= norm_shapes(f"{block}.feed_forward_norm", d) | _mlp(f"{block}.feed_forward", d, 4 * d, d)
    return shapes


def _composition(config: Config) -> Shapes:
    d, shapes = config.d_compose, {"composition.outside_root": (config.d_compose,)}
    for function, roles, layers in (("compose", 2, config.compose_layers), ("decompose", 3, config.decompose_layers)):
        for layer in (f"composition.{function}.{k}" for k in range(layers)):
            shapes |= {f"{layer}.role": (roles, d)} | _attention(f"{layer}.attention", d)
            shapes |= _mlp(f"{layer}.feed_forward", d, 4 * d, d)
    for name in ("inside.left", "inside.right", "outside.parent", "outside.left", "outside.right"):
        shapes |= _mlp(f"composition.{name}", d, d, config.d_score)
    return shapes


def _parser(config: Config) -> Shapes:
    d, f = config.d_parser, config.parser_feed_forward
    shapes: Shapes = {"parser.embedding": (config.vocabulary_size, d), "parser.norm": (d,)}
    for layer in (f"parser.{k}" for k in range(config.parser_layers)):
        shapes |= {f"{layer}.attention.{part}": (d, d) for part in _MATRICES}
        shapes |= {f"{layer}.attention_norm": (d,), f"{layer}.feed_forward_norm": (d,)}
        shapes |= {f"{layer}.gate": (d, f), f"{layer}.up": (d, f), f"{layer}.down": (f, d)}
    return shapes | _mlp("parser.split", 2 * d, 4 * d, 1)


def layer_weights(config: Config) -> dict[str, dict[str, int]]:
    """Return how many weights one layer has, by part, without biases and output projection (GPST, A.6, Table 7).

    The score maps of the composition function belong to no layer; the paper counts them with the layer.
    """
    shapes = parameter_shapes(config)

    def count(*names: str) -> int:
        return sum(prod(shapes.get(name, (0,))) for name in names)

    rows = {}
    for name, layer in (("composition function", "composition.compose.0"), ("GPT-2", "token.0")):
        scores = [f"composition.inside.{side}.out" for side in ("left", "right")] if "compose" in layer else []
        rows[name] = {
            "MLP": count(f"{layer}.feed_forward.in", f"{layer}.feed_forward.out"),
            "QKV linear": count(*(f"{layer}.attention.{part}" for part in ("query", "key", "value"))),
            "score linear": count(*scores),
        }
    return {name: parts for name, parts in rows.items() if any(parts.values())}


def initialise(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Return float32 parameters drawn from the seed.

    The generative model is initialised as GPT-2: normal, standard deviation 0.02, divided by sqrt(2 layers) at the end
    of a residual branch. The parser's word vectors and all roles are normal, `outside_root` is uniform in [0, 1), other
    matrices are uniform within 1 / sqrt(inputs). Norms begin as the identity, biases as 0.
    """
    random, parameters = np.random.default_rng(seed), {}
    shapes = parameter_shapes(config)
    n_layers = {name: len({key.split(".")[1] for key in shapes if key.startswith(f"{name}.")}) for name in _HALVES}
    for name, shape in shapes.items():
        half = name.split(".")[0]
        if name.endswith(("scale", "parser.norm", "n_norm", "d_norm")):
            value = np.ones(shape)
        elif name.endswith(("_bias", ".bias")):
            value = np.zeros(shape)
        elif name in ("embedding", "position", "bos", "classes", "placeholder") or half in _HALVES:
            ends_branch = name.endswith((".output", "feed_forward.out"))
            value = random.standard_normal(shape) * (0.02 / (2 * n_layers[half]) ** 0.5 if ends_branch else 0.02)
        elif name.endswith((".role", "parser.embedding")):
            value = random.standard_normal(shape)
        elif name.endswith("outside_root"):
            value = random.random(shape)
        else:
            value = random.uniform(-1.0, 1.0, shape) * shape[0] ** -0.5
        parameters[name] = value.astype(np.float32)
    return parameters
