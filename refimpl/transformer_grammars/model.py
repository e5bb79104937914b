"""Transformer Grammars, Transformer-XL over actions or words, and what lies between (sections 2.2, 2.4, 3.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from refimpl.attention import causal_attention, sparse_attention
from refimpl.checks import Float, Int, Parameters
from refimpl.layers import cross_entropy, embedding, feed_forward, layer_norm, sinusoids
from refimpl.transformer_grammars.segments import Segment, segments
from refimpl.trees import ActionType


@dataclass(frozen=True)
class Config:
    """One model of the family. Everything after `memory_length` concerns "tg" only and keeps its default in the others.

    Spec: TG-1.

    Attributes
    ----------
    model : "tg", "txl_cc" or "txl_terminals"
        Transformer Grammar; Transformer-XL over the actions of trees (Choe-Charniak); Transformer-XL over words.
    vocabulary_size, d_model, d_ff, n_layers, n_heads : int
        V, d, f, K, H; d even and divisible by H.
    segment_length, memory_length : int
        L >= 1 and M >= 0.
    distinct_attention : bool
        A second set of attention parameters for COMPOSE (TG, distinct MHA).
    memory : "stack" or "shift"
        What stays between segments: the top of the stack, or the last M positions (TG, TXL memory).
    positions : "depth" or "linear"
        Differences of depth or distances; "linear" needs "shift" (TG, TXL memory and relative positions).
    unrestricted_layers : int
        n > 0: the top n layers attend to everything before; n < 0: the bottom -n layers (layer hybrid).
    unrestricted_heads : int
        In every layer the last so many heads attend to everything before (head hybrid).
    relative_min, relative_max : int
        Depth differences are clipped to this range.

    Raises
    ------
    ValueError
        If a field is out of range or two of them do not go together; the message names the field.

    Examples
    --------
    >>> tiny = Config("tg", 10, d_model=4, d_ff=8, n_layers=2, n_heads=2, segment_length=8, memory_length=8)
    >>> tiny.d_head, tiny.restricted_heads(0)
    (2, 2)
    """

    model: Literal["tg", "txl_cc", "txl_terminals"]
    vocabulary_size: int
    d_model: int
    d_ff: int
    n_layers: int
    n_heads: int
    segment_length: int
    memory_length: int
    distinct_attention: bool = False
    memory: Literal["stack", "shift"] = "stack"
    positions: Literal["depth", "linear"] = "depth"
    unrestricted_layers: int = 0
    unrestricted_heads: int = 0
    relative_min: int = -1
    relative_max: int = 62

    def __post_init__(self) -> None:
        for name in ("vocabulary_size", "d_model", "d_ff", "n_layers", "n_heads", "segment_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is below 1")
        for name, known in (
            ("model", ("tg", "txl_cc", "txl_terminals")),
            ("memory", ("stack", "shift")),
            ("positions", ("depth", "linear")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: {getattr(self, name)!r} is not one of {', '.join(known)}")
        if self.memory_length < 0:
            raise ValueError(f"memory_length: {self.memory_length} is negative")
        if self.d_model % 2 or self.d_model % self.n_heads:
            raise ValueError(f"d_model: {self.d_model} is odd or not divisible by {self.n_heads} heads")
        if self.positions == "linear" and self.memory == "stack":
            raise ValueError('positions: "linear" needs memory "shift"')
        if abs(self.unrestricted_layers) > self.n_layers:
            raise ValueError(f"unrestricted_layers: {self.unrestricted_layers} of {self.n_layers} layers")
        if not 0 <= self.unrestricted_heads <= self.n_heads:
            raise ValueError(f"unrestricted_heads: {self.unrestricted_heads} of {self.n_heads} heads")
        if self.relative_min > self.relative_max:
            raise ValueError(f"relative_min: {self.relative_min} is above relative_max {self.relative_max}")
        hybrid = self.unrestricted_layers != 0 or self.unrestricted_heads != 0
        if self.distinct_attention and hybrid:
            raise ValueError("distinct_attention: not in a hybrid model")
        if self.model != "tg" and (self.distinct_attention or hybrid):
            raise ValueError(f"model: {self.model} has no distinct_attention and is no hybrid")

    @property
    def d_head(self) -> int:
        """D = d / H."""
        return self.d_model // self.n_heads

    def restricted_heads(self, layer: int) -> int:
        """Return how many heads of a layer obey STACK/COMPOSE; they are the first ones."""
        top, bottom = self.n_layers - self.unrestricted_layers, -self.unrestricted_layers
        if self.model != "tg" or layer < bottom or layer >= top:
            return 0
        return self.n_heads - self.unrestricted_heads


def parameter_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    r"""Return the name and shape of every parameter.

    Spec: TG-2.

    Parameters
    ----------
    config : Config

    Returns
    -------
    dict of str to tuple of int
        In the order of the table on the page.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> tiny = Config("tg", 10, d_model=4, d_ff=8, n_layers=1, n_heads=2, segment_length=8, memory_length=0)
    >>> shapes = parameter_shapes(tiny)
    >>> shapes["embedding"], shapes["layers.0.attention.content_bias"]
    ((10, 4), (2, 2))
    """
    v, d, f, heads = config.vocabulary_size, config.d_model, config.d_ff, (config.n_heads, config.d_head)
    shapes: dict[str, tuple[int, ...]] = {"embedding": (v, d), "output_bias": (v,)}
    for k in range(config.n_layers):
        for attention in ("attention", "compose_attention") if config.distinct_attention else ("attention",):
            for name in ("query", "key", "value", "relative"):
                shapes[f"layers.{k}.{attention}.{name}"] = (d, d)
            shapes[f"layers.{k}.{attention}.content_bias"] = heads
            shapes[f"layers.{k}.{attention}.position_bias"] = heads
            shapes[f"layers.{k}.{attention}.output"] = (d, d)
            shapes[f"layers.{k}.{attention}.output_bias"] = (d,)
        shapes[f"layers.{k}.attention_norm.scale"] = (d,)
        shapes[f"layers.{k}.attention_norm.bias"] = (d,)
        shapes[f"layers.{k}.feed_forward.in"] = (d, f)
        shapes[f"layers.{k}.feed_forward.in_bias"] = (f,)
        shapes[f"layers.{k}.feed_forward.out"] = (f, d)
        shapes[f"layers.{k}.feed_forward.out_bias"] = (d,)
        shapes[f"layers.{k}.feed_forward_norm.scale"] = (d,)
        shapes[f"layers.{k}.feed_forward_norm.bias"] = (d,)
    return shapes


def parameter_count(config: Config) -> int:
    r"""Return the number of learned numbers.

    Spec: TG-2.  $V(d+1) + K(5d^2 + 2df + f + 8d)$, and $K(5d^2 + 3d)$ more with distinct attention

    Parameters
    ----------
    config : Config

    Returns
    -------
    int
        The elements of all shapes of `parameter_shapes`.

    Raises
    ------
    Nothing.

    Examples
    --------
    10 x 5 in the embedding and its bias, 5 x 16 + 2 x 32 + 8 + 8 x 4 = 184 in the layer.

    >>> parameter_count(Config("tg", 10, d_model=4, d_ff=8, n_layers=1, n_heads=2, segment_length=8, memory_length=0))
    234
    """
    return sum(math.prod(shape) for shape in parameter_shapes(config).values())


def token_logps(config: Config, parameters: Parameters, ids: Int, types: Int, labels: Int) -> Float:
    r"""Return the log-probability of the label at every position of one sequence, read segment by segment.

    Spec: TG-6.  $\log p(a_i \mid a_{<i})$; their sum is $\log p(x, y)$ (or $\log p(x)$ for words)

    Parameters
    ----------
    config : Config
    parameters : dict of str to float array
        Exactly the names and shapes of `parameter_shapes`, all of one dtype.
    ids : [T'] int
        Inputs, the start symbol first: for "tg" with doubled closing non-terminals.
    types : [T'] ActionType
        Of the inputs. Read for "tg" only.
    labels : [T'] int
        The next action, -1 where nothing is predicted (at CNT1, and at the end).

    Returns
    -------
    [T'] float, dtype of the parameters
        Nats, never above 0; 0 where there is no label. Entry i does not depend on anything after position i.

    Raises
    ------
    ValueError
        If parameters are missing, unknown or mis-shaped, lengths differ or are 0, an id or label is out of range, or
        the types are ill-formed.

    Examples
    --------
    With all parameters 0 every action is equally likely.

    >>> tiny = Config("txl_terminals", 10, d_model=2, d_ff=1, n_layers=1, n_heads=1, segment_length=2, memory_length=2)
    >>> zeros = {name: np.zeros(shape) for name, shape in parameter_shapes(tiny).items()}
    >>> logp = token_logps(tiny, zeros, np.array([0, 5, 6]), np.array([0, 1, 1]), np.array([5, 6, -1]))
    >>> (logp / np.log(10)).round(12).tolist()
    [-1.0, -1.0, 0.0]
    """
    _check(config, parameters, ids, types, labels)
    table, length = parameters["embedding"], config.segment_length
    memories = [np.zeros((config.memory_length, config.d_model), table.dtype)] * config.n_layers
    filled = 0  # rows of the memories in use, the last ones
    logps = []
    for tau, segment in enumerate(_segments(config, types)):
        here = slice(tau * length, (tau + 1) * length)
        h = embedding(table, ids[here])
        next_memories = []
        for k in range(config.n_layers):
            next_memories.append(update_memory(segment, memories[k], h))
            h = _layer(config, parameters, k, h, memories[k], filled, segment, types[here] == ActionType.CNT1)
        memories = next_memories
        filled = int(segment.memory_to_memory.sum() + segment.seq_to_memory.sum())
        logps.append(cross_entropy(h, table, parameters["output_bias"], labels[here]))
    return np.concatenate(logps)


def update_memory(segment: Segment, memory: Float, h: Float) -> Float:
    r"""Return the memory of a layer for the next segment.

    Spec: TG-5.  $m_{\tau+1} = U^{m \to m}_\tau m_\tau + U^{h \to m}_\tau h_\tau$   (section 2.2)

    Parameters
    ----------
    segment : Segment
        Its two 0/1 matrices say which row goes where.
    memory : [M, d] float
        Of this segment.
    h : [n, d] float
        Inputs of the layer for the n <= L positions of this segment.

    Returns
    -------
    [M, d] float, dtype of `h`
        Most recent last; every row a copy of a row of `memory` or `h`, or 0.

    Raises
    ------
    ValueError
        If the numbers of rows do not fit the matrices.

    Examples
    --------
    L = 1, M = 2: the start symbol enters the last row, and moves up when a non-terminal is opened.

    >>> first, second = segments([ActionType.ONT, ActionType.ONT], 1, 2)
    >>> memory = update_memory(first, np.zeros((2, 1)), np.array([[7.0]]))
    >>> update_memory(second, memory, np.array([[8.0]])).tolist()
    [[7.0], [8.0]]
    """
    memory_length, segment_length = segment.seq_to_memory.shape
    if len(memory) != memory_length or len(h) > segment_length:
        raise ValueError(f"memory, h: {len(memory)} and {len(h)} rows, not {memory_length} and up to {segment_length}")
    from_memory = segment.memory_to_memory.astype(h.dtype)
    from_segment = segment.seq_to_memory.astype(h.dtype)[:, : len(h)]
    new: Float = from_memory @ memory + from_segment @ h
    return new


def _segments(config: Config, types: Int) -> list[Segment]:
    """Return the structure of a sequence. A Transformer-XL's is that of one that only opens: all stays on the stack."""
    length, memory_length = config.segment_length, config.memory_length
    if config.model == "tg":
        return segments(types.tolist(), length, memory_length, memory=config.memory, positions=config.positions)
    return segments([ActionType.ONT] * len(types), length, memory_length, memory="shift", positions="linear")


def _layer(
    config: Config, parameters: Parameters, k: int, h: Float, memory: Float, filled: int, segment: Segment, compose: Int
) -> Float:
    """Return the output of layer k: attention and feed-forward network, each added to its input, then normalised.

    Spec: TG-4.
    """
    own = {name.removeprefix(f"layers.{k}."): array for name, array in parameters.items()}
    restricted = config.restricted_heads(k)
    attended = _self_attention(config, own, "attention", restricted, h, memory, filled, segment)
    if config.distinct_attention:
        composed = _self_attention(config, own, "compose_attention", restricted, h, memory, filled, segment)
        attended = np.where(compose[:, None], composed, attended)
    h = layer_norm(h + attended, own["attention_norm.scale"], own["attention_norm.bias"])
    names = ("feed_forward.in", "feed_forward.in_bias", "feed_forward.out", "feed_forward.out_bias")
    forwarded = feed_forward(h, *(own[name] for name in names))
    return layer_norm(h + forwarded, own["feed_forward_norm.scale"], own["feed_forward_norm.bias"])


def _self_attention(
    config: Config, own: Parameters, name: str, restricted: int, h: Float, memory: Float, filled: int, segment: Segment
) -> Float:
    """Return SelfAttn_k: the first `restricted` heads obey the mask, the others see the memory and all before.

    Spec: TG-3.
    """
    d, n_heads, d_head = config.d_model, config.n_heads, config.d_head

    def heads(x: Float, matrix: str) -> Float:
        return (x @ own[f"{name}.{matrix}"]).reshape(len(x), n_heads, d_head)

    def relative_keys(positions: Int) -> Float:
        return heads(sinusoids(positions, d).astype(h.dtype), "relative")

    context = np.concatenate([memory, h])  # [m, h]: [M+n, d]
    q, k, v = heads(h, "query"), heads(context, "key"), heads(context, "value")
    u, w = own[f"{name}.content_bias"], own[f"{name}.position_bias"]
    r_distance = relative_keys(np.arange(config.memory_length + config.segment_length))
    out = np.zeros_like(q)

    first = slice(0, restricted)
    keys = [np.flatnonzero(segment.mask[x]) for x in range(len(h))]
    relative = [segment.relative[x, keys[x]] for x in range(len(h))]
    r = r_distance
    if config.positions == "depth":
        lowest, highest = config.relative_min, config.relative_max
        relative = [row.clip(lowest, highest) - lowest for row in relative]
        r = relative_keys(np.arange(lowest, highest + 1))
    out[:, first], _ = sparse_attention(
        q[:, first], k[:, first], v[:, first], r[:, first], u[first], w[first], keys, relative
    )

    last = slice(restricted, n_heads)
    seen = slice(config.memory_length - filled, None)
    out[:, last], _ = causal_attention(q[:, last], k[seen, last], v[seen, last], r_distance[:, last], u[last], w[last])

    return out.reshape(len(h), n_heads * d_head) @ own[f"{name}.output"] + own[f"{name}.output_bias"]


def _check(config: Config, parameters: Parameters, ids: Int, types: Int, labels: Int) -> None:
    shapes = parameter_shapes(config)
    for name in sorted(shapes.keys() ^ parameters.keys()):
        raise ValueError(f"parameters: {name} is {'missing' if name in shapes else 'unknown'}")
    for name, shape in shapes.items():
        if parameters[name].shape != shape:
            raise ValueError(f"parameters: {name}: shape {parameters[name].shape} is not {shape}")
        if parameters[name].dtype != parameters["embedding"].dtype:
            raise ValueError(f"parameters: {name}: dtype {parameters[name].dtype} is not that of embedding")
    if len(ids) == 0 or not ids.shape == types.shape == labels.shape:
        raise ValueError(f"ids, types, labels: shapes {ids.shape}, {types.shape}, {labels.shape} differ or are empty")
