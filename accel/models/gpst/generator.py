"""GPST's generative model: type layers over the nodes of trees in post-order, token layers over the words; or GPT-2.

Mirrors `refimpl.gpst.generator.action_logps` (clause GPST-4). Contexts lie one after another, so that nothing is
padded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from accel.autodiff.arrays import Array, on_device
from accel.autodiff.layers import (
    attended,
    cross_entropy,
    dropout,
    embedding,
    feed_forward_hidden,
    layer_norm,
    linear,
    mlp,
    mlp_hidden,
    residual_linear,
)
from accel.autodiff.recomputation import recomputed
from accel.autodiff.sublayers import normed, residual_and_norm
from accel.autodiff.variables import Variable, constant
from accel.models.passes import Pass

COMP, GEN = 0, 1


def words_only(f: Pass, words: Variable, ids: Array, word_starts: np.ndarray) -> tuple[Variable, Variable]:
    """Return GPT-2's log-probability of every word, and the vector that the embedding table multiplies for it."""
    numbers, n_layers = np.arange(len(ids)), f.config.type_layers + f.config.token_layers
    rows = f.tape.concatenate([f.tape.reshape(f.p["bos"], 1, -1), words])
    arrays = _inputs(f, 1 + numbers, numbers, word_starts) | {"words": word_starts}
    arrays = on_device(f.tape.ops, arrays, groups=["previous", "position"], attention=[("words", "words")])
    h = _blocks(f, "token", n_layers, _embedded(f, rows, arrays), arrays["words"])
    h = layer_norm(f.tape, f.p, "token_norm", h)
    return vocabulary(f, h, f.p["embedding"], ids), h


@dataclass(frozen=True)
class Layout:
    """The actions of the trees of all contexts, on the device: one action for every node, in post-order."""

    composed: Array  # [N - B] the nodes of two words or more
    word_actions: Array  # [N] the action of every word
    types: Array  # [2 N - B] int32: COMP or GEN
    words: Array  # [R+1] int64 where the words of every context begin
    actions: Array  # [R+1] int64 where the actions of every context begin
    read: Callable[[Pass, Variable, Variable], Variable]  # from words and composed nodes to the input of every action


def laid_out(f: Pass, nodes: np.ndarray, n_words: int, word_starts: np.ndarray, action_starts: np.ndarray) -> Layout:
    """Return the layout of trees, from their nodes in post-order on the host, numbered with the words first.

    The words and the actions of context r begin at `word_starts[r]` and `action_starts[r]` [R+1].
    """
    is_word = nodes < n_words
    cells = np.cumsum(~is_word) - 1
    types = np.where(is_word, GEN, COMP).astype(np.int32)
    arrays = {"composed": nodes[~is_word], "word_actions": np.flatnonzero(is_word), "types": types}
    arrays |= {"words": word_starts, "actions": action_starts}
    number = np.where(is_word, 1 + nodes, 1 + n_words + cells * f.config.surrogate)
    arrays |= _inputs(f, number, np.cumsum(is_word) - is_word, action_starts)
    uses = {"attention": [("words", "words"), ("actions", "actions")], "groups": ["previous", "position"]}
    there = on_device(f.tape.ops, arrays, labels=["types"], **uses)

    def read(f: Pass, words: Variable, composed: Variable) -> Variable:
        rows = f.tape.concatenate([f.tape.reshape(f.p["bos"], 1, -1), words, composed])
        return _embedded(f, rows, there)

    return Layout(*(there[name] for name in ("composed", "word_actions", "types", "words", "actions")), read)


def actions_and_words(
    f: Pass, layout: Layout, vectors: Variable, words: Variable, ids: Array
) -> tuple[Variable, Variable, Variable, Variable]:  # fmt: skip
    """Return log-probabilities of the types of actions and of words, and two kinds of vectors of the words.

    These are the vectors that the embedding table multiplies for the words, and the states from which the words are
    generated. `vectors` are the inside vectors of all nodes.
    """
    tape, config, p = f.tape, f.config, f.p
    if config.surrogate:
        composed = linear(tape, p, "up", tape.take(vectors, layout.composed), "up_bias")
    else:
        composed = tape.reshape(p["placeholder"], 1, -1)
    h = _blocks(f, "type", config.type_layers, layout.read(f, words, composed), layout.actions)
    normal = normed(tape, p, "action_norm", h)
    hidden = mlp_hidden(tape, p, "action", normal, config.network_dropout, f.sites)
    table = tape.transpose(p["action.out"], 1, 0)
    actions = cross_entropy(tape, hidden, table, p["action.out_bias"], layout.types)
    g = tape.take(h, layout.word_actions)
    g = layer_norm(tape, p, "token_norm", _blocks(f, "token", config.token_layers, g, layout.words))
    hidden = mlp(tape, p, "word", g, config.network_dropout, f.sites)
    return actions, vocabulary(f, hidden, p["embedding"], ids), hidden, g


def _inputs(f: Pass, node: np.ndarray, position: np.ndarray, starts: np.ndarray) -> dict[str, np.ndarray]:
    """Return what every action reads: its position, and the row of the action before it (row 0 begins a context)."""
    context_starts = np.unique(starts[:-1][np.diff(starts) > 0])
    previous = np.concatenate([[0], node[:-1]])
    previous[context_starts] = 0
    position = position - np.repeat(position[context_starts], np.diff(np.append(context_starts, len(node))))
    if position.max() >= f.config.n_positions:
        limit = f"the model has {f.config.n_positions} positions: use fewer words"
        raise ValueError(f"contexts: {position.max()} words, but {limit}")
    return {"previous": previous.astype(np.int32), "position": position.astype(np.int32)}


def _embedded(f: Pass, rows: Variable, arrays: Mapping[str, Array]) -> Variable:
    """Return the input of every action: a row plus its position."""
    inputs = [
        embedding(f.tape, table, arrays[name]) for table, name in ((rows, "previous"), (f.p["position"], "position"))
    ]
    return dropout(f.tape, f.tape.add(*inputs), f.config.dropout, f.sites)


def _blocks(f: Pass, name: str, count: int, x: Variable, bounds: Array) -> Variable:
    """Return the output of causal pre-norm layers; every context is read by itself."""
    for k in range(count):
        x = recomputed(_block, f, f"{name}.{k}", x, bounds)
    return x


def _block(f: Pass, block: str, x: Variable, bounds: Array) -> Variable:
    tape, p, rate = f.tape, f.p, f.config.dropout
    h, draw = normed(tape, p, f"{block}.attention_norm", x), f.sites.draw(rate)
    heads = attended(tape, p, f"{block}.attention", h, h, f.config.n_heads, bounds, draw, causal=True)
    matrix, norm = f"{block}.attention.output", f"{block}.feed_forward_norm"
    x, h = residual_and_norm(tape, p, matrix, norm, x, heads, rate, f.sites)
    hidden = feed_forward_hidden(tape, p, f"{block}.feed_forward", h, 0.0, f.sites)
    matrix = f"{block}.feed_forward.out"
    return residual_linear(tape, x, hidden, p[matrix], p[f"{matrix}_bias"], rate, f.sites)


def vocabulary(f: Pass, h: Variable, table: Variable, ids: Array) -> Variable:
    """Return the log-probability of every word under softmax(h table^T)."""
    return cross_entropy(f.tape, h, table, constant(f.tape.xp.zeros(len(table.value), h.value.dtype)), ids)
