"""Transformer Grammars, Transformer-XL over actions or words, and hybrids of both (sections 2.2, 2.4, 3.5)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from refimpl.attention import causal_attention, sparse_attention
from refimpl.checks import Float, Int, Parameters, check_least, check_shape, check_shapes, part
from refimpl.layers import cross_entropy, embedding, gelu, mlp, named_norm, sinusoids
from refimpl.transformer_grammars.segments import Segment, check_segmentation, segments, shifted_segments
from refimpl.trees import ActionType


@dataclass(frozen=True)
class Config:
    """One model of the family; the fields after `memory_length` concern "tg" only.

    Spec: TG-1.  Raises ValueError with the name of a field that is out of range or contradicts another.
    """

    model: Literal["tg", "txl_cc", "txl_terminals"]
    vocabulary_size: int  # V
    d_model: int  # d; even, and divisible by H
    d_ff: int  # f
    n_layers: int  # K
    n_heads: int  # H
    segment_length: int  # L >= 1
    memory_length: int  # M >= 0
    distinct_attention: bool = False  # a second set of attention parameters for COMPOSE
    memory: Literal["stack", "shift"] = "stack"
    positions: Literal["depth", "linear"] = "depth"
    unrestricted_layers: int = 0  # n > 0: the top n layers; n < 0: the bottom -n layers
    unrestricted_heads: int = 0  # how many heads of every layer; they are the last ones
    relative_min: int = -1  # R_min
    relative_max: int = 62  # R_max

    def __post_init__(self) -> None:
        check_least(1, vocabulary_size=self.vocabulary_size, d_model=self.d_model, d_ff=self.d_ff)
        check_least(1, n_layers=self.n_layers, n_heads=self.n_heads)
        check_segmentation(self.segment_length, self.memory_length, self.memory, self.positions)
        hybrid = self.unrestricted_layers != 0 or self.unrestricted_heads != 0
        for name, right, rule in (
            ("model", self.model in ("tg", "txl_cc", "txl_terminals"), "must be tg, txl_cc or txl_terminals"),
            ("d_model", self.d_model % 2 == self.d_model % self.n_heads == 0, "must be even and a multiple of n_heads"),
            ("unrestricted_layers", abs(self.unrestricted_layers) <= self.n_layers, "are more than n_layers"),
            ("unrestricted_heads", 0 <= self.unrestricted_heads <= self.n_heads, "are negative or more than n_heads"),
            ("relative_min", self.relative_min <= self.relative_max, "is above relative_max"),
            ("distinct_attention", not (self.distinct_attention and hybrid), "does not go with a hybrid"),
            ("model", self.model == "tg" or not (self.distinct_attention or hybrid), "has no variants"),
        ):
            if not right:
                raise ValueError(f"{name}: {getattr(self, name)} {rule}")

    def restricted_heads(self, k: int) -> int:
        """Return how many heads of layer k obey STACK/COMPOSE; they are the first ones."""
        top, bottom = self.n_layers - self.unrestricted_layers, -self.unrestricted_layers
        return self.n_heads - self.unrestricted_heads if self.model == "tg" and bottom <= k < top else 0


def parameter_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every parameter, in the order of the page's table. Spec: TG-2."""
    V, d, f, H = config.vocabulary_size, config.d_model, config.d_ff, config.n_heads
    shapes: dict[str, tuple[int, ...]] = {"embedding": (V, d), "output_bias": (V,)}
    for k in range(config.n_layers):
        for attention in ("attention", "compose_attention") if config.distinct_attention else ("attention",):
            shapes |= {f"layers.{k}.{attention}.{name}": (d, d) for name in ("query", "key", "value", "relative")}
            shapes |= {f"layers.{k}.{attention}.{name}": (H, d // H) for name in ("content_bias", "position_bias")}
            shapes |= {f"layers.{k}.{attention}.output": (d, d), f"layers.{k}.{attention}.output_bias": (d,)}
        shapes |= {f"layers.{k}.attention_norm.{name}": (d,) for name in ("scale", "bias")}
        shapes |= {f"layers.{k}.feed_forward.in": (d, f), f"layers.{k}.feed_forward.in_bias": (f,)}
        shapes |= {f"layers.{k}.feed_forward.out": (f, d), f"layers.{k}.feed_forward.out_bias": (d,)}
        shapes |= {f"layers.{k}.feed_forward_norm.{name}": (d,) for name in ("scale", "bias")}
    return shapes


def parameter_count(config: Config) -> int:
    """Return the number of parameters, counted as single numbers.

    Spec: TG-2.  $V(d+1) + K(5d^2 + 2df + f + 8d)$, and $K(5d^2 + 3d)$ more with distinct attention

    10 x 5 in the embedding and its bias, 5 x 16 + 2 x 32 + 8 + 8 x 4 = 184 in the layer:

    >>> parameter_count(Config("tg", 10, d_model=4, d_ff=8, n_layers=1, n_heads=2, segment_length=8, memory_length=0))
    234
    """
    return sum(math.prod(shape) for shape in parameter_shapes(config).values())


def token_logps(config: Config, parameters: Parameters, ids: Int, types: Int, labels: Int) -> Float:
    r"""Return the log-probability of the label at every position of one sequence, read segment by segment.

    Spec: TG-6.  $\log p(a_i \mid a_{<i})$; their sum is $\log p(x, y)$ (or $\log p(x)$ for words)

    parameters : exactly the names and shapes of `parameter_shapes`.
    ids, types : [T'] int, inputs, the start symbol first; for "tg" with doubled closing non-terminals.
    labels : [T'] int, the next action, -1 where nothing is predicted -> [T'] float, nats; 0 where there is no label
    Raises ValueError for other parameters, lengths that differ, ids or labels out of range, or, for "tg",
    ill-formed types.

    With all parameters 0 every action is equally likely:

    >>> tiny = Config("txl_terminals", 10, d_model=2, d_ff=1, n_layers=1, n_heads=1, segment_length=2, memory_length=2)
    >>> zeros = {name: np.zeros(shape) for name, shape in parameter_shapes(tiny).items()}
    >>> logp = token_logps(tiny, zeros, np.array([0, 5, 6]), np.array([0, 1, 1]), np.array([5, 6, 1]))
    >>> (logp / np.log(10)).round(12).tolist()
    [-1.0, -1.0, -1.0]
    """
    shapes = parameter_shapes(config)
    for name in sorted(shapes.keys() ^ parameters.keys()):
        raise ValueError(f"parameters: {name} is {'missing' if name in shapes else 'unknown'}")
    for name, shape in shapes.items():
        check_shape(f"parameters: {name}", parameters[name], *shape)
    check_shapes(ids=(ids, "T"), types=(types, "T"), labels=(labels, "T"))
    E, L, M = parameters["embedding"], config.segment_length, config.memory_length
    if config.model == "tg":
        parts = segments(types.tolist(), L, M, memory=config.memory, positions=config.positions)
    else:  # a Transformer-XL reads every action as an ONT: all positions stay on the stack
        parts = shifted_segments([ActionType.ONT] * len(types), L, M, "corrected", "linear")
    memories = [np.zeros((M, config.d_model), E.dtype)] * config.n_layers
    filled, logps = 0, list[Float]()  # how many rows of the memories are in use; they are the last ones
    for tau, segment in enumerate(parts):
        here = slice(tau * L, (tau + 1) * L)
        h = embedding(E, ids[here])
        for k in range(config.n_layers):
            m, memories[k] = memories[k], update_memory(segment, memories[k], h)
            h = _layer(config, part(parameters, f"layers.{k}"), k, h, m, filled, segment, types[here])
        filled = int(segment.memory_to_memory.sum() + segment.seq_to_memory.sum())
        logps.append(cross_entropy(h, E, parameters["output_bias"], labels[here]))
    return np.concatenate(logps)


def update_memory(segment: Segment, m: Float, h: Float) -> Float:
    r"""Return the memory of a layer for the next segment, [M, d], most recent row last.

    Spec: TG-5.  $m_{\tau+1} = U^{m \to m}_\tau m_\tau + U^{h \to m}_\tau h_\tau$   (section 2.2)

    m : [M, d] float, the memory of this segment.
    h : [n, d] float, inputs of the layer for the n <= L positions of this segment.
    Raises ValueError if the numbers of rows do not fit the segment.

    >>> first, second = segments([ActionType.ONT, ActionType.ONT], 1, 2)
    >>> update_memory(second, update_memory(first, np.zeros((2, 1)), np.array([[7.0]])), np.array([[8.0]])).tolist()
    [[7.0], [8.0]]
    """
    M, L = segment.seq_to_memory.shape
    if len(m) != M or len(h) > L:
        raise ValueError(f"memory, h: {len(m)} and {len(h)} rows, not {M} and up to {L}")
    U_mm, U_hm = segment.memory_to_memory.astype(h.dtype), segment.seq_to_memory[:, : len(h)].astype(h.dtype)
    return np.asarray(U_mm @ m + U_hm @ h)


def _layer(
    config: Config, p: Parameters, k: int, h: Float, m: Float, filled: int, segment: Segment, types: Int
) -> Float:
    """Return h of layer k: attention and feed-forward network, each added to its input, then normalised. Spec: TG-4."""
    restricted = config.restricted_heads(k)
    attended = _self_attention(config, part(p, "attention"), restricted, h, m, filled, segment)
    if config.distinct_attention:
        composed = _self_attention(config, part(p, "compose_attention"), restricted, h, m, filled, segment)
        attended = np.where((types == ActionType.CNT1)[:, None], composed, attended)
    h = named_norm(h + attended, p, "attention_norm")
    return named_norm(h + mlp(h, p, "feed_forward", gelu), p, "feed_forward_norm")


def _self_attention(
    config: Config, parameters: Parameters, restricted: int, h: Float, m: Float, filled: int, segment: Segment
) -> Float:
    """Return SelfAttn_k: the first `restricted` heads obey the mask, the others see all before. Spec: TG-3."""
    d, H, M = config.d_model, config.n_heads, config.memory_length

    def heads(x: Float, name: str) -> Float:
        return (x @ parameters[name]).reshape(len(x), H, d // H)

    def relative_keys(positions: Int) -> Float:
        return heads(sinusoids(positions, d).astype(h.dtype), "relative")

    context = np.concatenate([m, h])  # [m, h]: [M+n, d]
    q, k, v = heads(h, "query"), heads(context, "key"), heads(context, "value")
    u, w = parameters["content_bias"], parameters["position_bias"]
    r_distance = relative_keys(np.arange(M + config.segment_length))
    r, rows = r_distance, segment.relative
    if config.positions == "depth":
        r = relative_keys(np.arange(config.relative_min, config.relative_max + 1))
        rows = rows.clip(config.relative_min, config.relative_max) - config.relative_min
    keys = [np.flatnonzero(segment.mask[x]) for x in range(len(h))]
    relative = [rows[x, keys[x]] for x in range(len(h))]
    out = np.zeros_like(q)
    obey, free, past = slice(0, restricted), slice(restricted, H), slice(M - filled, None)
    out[:, obey], _ = sparse_attention(q[:, obey], k[:, obey], v[:, obey], r[:, obey], u[obey], w[obey], keys, relative)
    out[:, free], _ = causal_attention(q[:, free], k[past, free], v[past, free], r_distance[:, free], u[free], w[free])
    return out.reshape(len(h), d) @ parameters["output"] + parameters["output_bias"]
