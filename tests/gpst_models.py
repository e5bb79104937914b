"""Small GPST models: the shapes of all parameters, and random ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from refimpl import gpst
from refimpl.inside_outside import Split


@dataclass(frozen=True)
class Sizes:
    """What the parameters show, and the choices of `refimpl.gpst.Config`, which they do not."""

    vocabulary: int = 5
    d_model: int = 4
    d_compose: int = 4
    d_score: int = 3
    d_parser: int = 4
    parser_feed_forward: int = 5
    n_positions: int = 20
    type_layers: int = 1
    token_layers: int = 1
    compose_layers: int = 1
    parser_layers: int = 1
    config: gpst.Config = field(default_factory=lambda: gpst.Config(2, 2, 2))


def composition_shapes(
    d: int, d_feed_forward: int, d_score: int = 128, n_compose: int = 4, n_decompose: int = 1
) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every parameter of the composition model: the list above IO-1."""
    shapes: dict[str, tuple[int, ...]] = {"outside_root": (d,)}
    for function, roles, layers in (("compose", 2, n_compose), ("decompose", 3, n_decompose)):
        for own in (f"{function}.{k}" for k in range(layers)):
            shapes[f"{own}.role"] = (roles, d)
            shapes |= {f"{own}.attention.{name}": (d, d) for name in ("query", "key", "value", "output")}
            shapes |= {f"{own}.feed_forward.in": (d, d_feed_forward), f"{own}.feed_forward.out": (d_feed_forward, d)}
    for score in ("inside.left", "inside.right", "outside.parent", "outside.left", "outside.right"):
        shapes |= {f"{score}.in": (d, d), f"{score}.out": (d, d_score)}
    biased = {f"{name}_bias": shape[-1:] for name, shape in shapes.items() if "role" not in name and len(shape) == 2}
    return shapes | biased


def parameter_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every parameter: the table of GPST-1."""
    v, wide, d, own = sizes.vocabulary, sizes.d_model, sizes.d_compose, sizes.d_parser
    blocks = [f"type.{k}" for k in range(sizes.type_layers)] + [f"token.{k}" for k in range(sizes.token_layers)]
    networks = {"action": (wide, wide, 2), "word": (wide, 4 * wide, wide), "parser.split": (2 * own, 4 * own, 1)}
    networks |= {f"{block}.feed_forward": (wide, 4 * wide, wide) for block in blocks}
    if sizes.config.head == "mlp":
        networks["reconstruct"] = (d, 4 * d, wide)
    four = ("query", "key", "value", "output")
    shapes: dict[str, tuple[int, ...]] = {"down": (wide, d), "up": (d, wide)}
    shapes |= {f"{name}.in": (a, b) for name, (a, b, _) in networks.items()}
    shapes |= {f"{name}.out": (b, c) for name, (_, b, c) in networks.items()}
    shapes |= {f"{block}.attention.{name}": (wide, wide) for block in blocks for name in four}
    shapes |= {f"{name}_bias": shape[1:] for name, shape in shapes.items()}
    norms = ["action", "token", *(f"{block}.{part}" for block in blocks for part in ("attention", "feed_forward"))]
    shapes |= {f"{name}_norm.{part}": (wide,) for name in norms for part in ("scale", "bias")}
    shapes |= {"embedding": (v, wide), "position": (sizes.n_positions, wide), "bos": (wide,)}
    if not sizes.config.surrogate:
        shapes["placeholder"] = (wide,)
    composition = composition_shapes(d, 4 * d, sizes.d_score, sizes.compose_layers)
    shapes |= {f"composition.{name}": shape for name, shape in composition.items()}
    shapes |= {"parser.embedding": (v, own), "parser.norm": (own,)}
    for block in (f"parser.{k}" for k in range(sizes.parser_layers)):
        shapes |= {f"{block}.attention.{name}": (own, own) for name in four}
        shapes |= {f"{block}.attention_norm": (own,), f"{block}.feed_forward_norm": (own,)}
        shapes |= {f"{block}.{name}": (own, sizes.parser_feed_forward) for name in ("gate", "up")}
        shapes[f"{block}.down"] = (sizes.parser_feed_forward, own)
    return shapes


def drawn_parameters(seed: int, sizes: Sizes | None = None) -> dict[str, np.ndarray]:
    """Return random parameters, of a size that neither saturates nor flattens the probabilities."""
    draw = np.random.default_rng(seed)
    return {
        name: draw.standard_normal(shape) / math.sqrt(shape[0] if len(shape) > 1 else 4) + name.endswith("scale")
        for name, shape in parameter_shapes(sizes or Sizes()).items()
    }


def order_of(tree: list[Split]) -> list[int]:
    """Return a merge order whose tree this is: a tree's splits, top-down, backwards."""
    return [k for _, k, _ in reversed(tree)]
