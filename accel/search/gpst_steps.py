"""GPST one action after another, for many hypotheses at once; actions that hypotheses share are read once.

Mirrors `refimpl.gpst.generator.step_logps` (clause GPST-6). Every action that is read gets a row in several arrays: its
vector on the stack, and the keys and values of all layers. A hypothesis is a list of row numbers; hypotheses share
rows. Memory: a row for every different action of the hypotheses, and for every action read since the last `keep`.
Sentences of a context are read with the trees and vectors that they induce, and are never composed any further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.autodiff.layers import embedding, feed_forward, layer_norm, linear, mlp
from accel.autodiff.variables import Variable, constant
from accel.data.vocabularies.vocabulary import START_ID
from accel.models.gpst import composition
from accel.models.gpst import generator as generative
from accel.models.gpst.composition import Charts
from accel.models.gpst.config import Config
from accel.models.gpst.model import induced_trees
from accel.models.passes import scoring
from accel.search.lists import Lists, joined, lists, renumbered, taken
from accel.search.pools import log_softmax, most_probable
from accel.search.rows import Rows

COMP, START, GIVEN = -1, -2, -3
"""Actions that are no words. GIVEN is a composed node of a context, whose vector is already on top of the stack."""
PIECE = 128
"""How many actions of a context are read at a time."""


class State(NamedTuple):
    """The states after R sequences of actions, as lists of rows; START has to be read first after an empty sequence."""

    path: Lists  # of all actions
    generating: Lists  # of those after which a word was generated
    stack: Lists  # where the sub-trees were completed, the topmost last

    def after(self, actions: np.ndarray, numbers: np.ndarray) -> State:
        """Return the states after one more action each; `numbers` are the rows of these actions."""
        is_word, is_comp = actions >= 0, actions == COMP
        few = np.flatnonzero(is_comp & (self.stack.sizes < 2))
        if len(few):
            raise ValueError(f"actions: -1 with {self.stack.sizes[few[0]]} sub-trees: -1, COMP, needs two")
        generating = self.generating.longer(self.path.last(), is_word)
        stack = self.stack.shorter(2 * is_comp).longer(numbers, is_word | is_comp)
        return State(self.path.longer(numbers), generating, stack)


def no_actions(count: int) -> State:
    """Return the states of `count` sequences without any actions."""
    none = lists([()] * count)
    return State(none, none, none)


class Steps:
    """A GPST that reads actions, and returns log p of the next ones; or a GPT-2, for which COMP is impossible."""

    def __init__(self, ops: ModuleType, config: Config, parameters: Mapping[str, Array]) -> None:
        self.config, self._parameters = config, parameters
        self._f = scoring(ops, config, parameters)
        self._has_trees = config.model == "gpst"
        self._rows = Rows(self._f.tape.xp)  # vectors, keys and values

    @property
    def size(self) -> int:
        """How many rows are in use."""
        return self._rows.size

    def read(self, before: State, actions: np.ndarray, generates: np.ndarray) -> tuple[State, np.ndarray, Array]:
        """Return R states one action later, log p of COMP and GEN there [R, 2], and vectors for `word_logps` [G, d].

        The G vectors are of the states where `generates` [R] is true; only after these states may a word be read next.
        Raises ValueError for COMP of fewer than two sub-trees, and for more words than the model has positions for.
        """
        f, tape, xp = self._f, self._f.tape, self._f.tape.xp
        numbers = np.arange(self.size, self.size + len(actions), dtype=np.int32)
        states = before.after(actions, numbers)
        n_words = states.generating.sizes.astype(np.int32)
        if n_words.max() >= f.config.n_positions:
            limit = f"the model has {f.config.n_positions} positions: use fewer words"
            raise ValueError(f"context: {n_words.max()} words, but {limit}")
        self._rows.add(len(actions))
        x = tape.add(self._inputs(before, actions, numbers), embedding(tape, f.p["position"], xp.asarray(n_words)))
        h, action_logps, n_layers = self._types(x, numbers, states)
        indices = np.flatnonzero(generates)
        if not len(indices):
            return states, action_logps, h.value[:0]
        context = taken(states.generating, indices).longer(numbers[indices])
        g = tape.take(h, xp.asarray(indices))
        g = layer_norm(tape, f.p, "token_norm", self._layers("token", n_layers, g, numbers[indices], context))
        words = mlp(tape, f.p, "word", g, 0.0, f.sites) if self._has_trees else g
        return states, action_logps, words.value

    def after(self, contexts: Sequence[Sequence[Sequence[int]]]) -> tuple[State, list[int]]:
        """Return for every context of whole sentences the state before its last action, and this action, read next.

        The actions of a context are the nodes of the trees that its sentences induce, each with its inside vector, as
        `token_logps` reads them. If a context has no sentences, the last action is START.
        """
        sentences, xp = [ids for context in contexts for ids in context], self._f.tape.xp
        if not sentences:
            return no_actions(len(contexts)), [START] * len(contexts)
        if not self._has_trees:
            words = [np.array([i for ids in context for i in ids], np.int64) for context in contexts]
            results = [self._through(ids, ids) for ids in words]
            return joined([state for state, _ in results]), [last for _, last in results]
        ids = np.concatenate([np.asarray(sentence, np.int32) for sentence in sentences])
        tokens = xp.asarray(ids), xp.asarray(offsets_of(map(len, sentences)))
        ends, bounds, vectors = induced_trees(self._f.tape.ops, self.config, self._parameters, *tokens)
        is_word = ends[:, 0] == ends[:, 1]
        rows = self.size - 1 + np.cumsum(~is_word)
        composed = self._rows.add(len(ends) - len(ids))
        self._rows.write("vector", composed, vectors[xp.asarray(~is_word)])
        actions = np.full(len(ends), GIVEN)
        actions[is_word] = ids
        starts = bounds[offsets_of(map(len, contexts))]
        results = [self._through(actions[i:j], rows[i:j]) for i, j in pairwise(starts.tolist())]
        return joined([state for state, _ in results]), [last for _, last in results]

    def word_logps(self, hidden: Array, words: np.ndarray) -> np.ndarray:
        """Return log p of one word for every vector that `read` returned [G]."""
        f = self._f
        ids = f.tape.xp.asarray(words.astype(np.int32))
        return host(generative.vocabulary(f, constant(hidden), f.p["embedding"], ids).value).astype(np.float64)

    def best_words(self, hidden: Array, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return for every vector the most probable words, in rising order [G, count], and their log p.

        The start symbol is not among them; its probability is lost.
        """
        xp, table, first = self._f.tape.xp, self._f.p["embedding"].value, START_ID + 1
        logps = log_softmax(xp, xp.matmul(hidden, table.T))[:, first:]
        words = most_probable(xp, logps, count)
        return host(words) + first, host(xp.take_along_axis(logps, words, axis=1)).astype(np.float64)

    def keep(self, states: State) -> State:
        """Delete all rows that these states do not use, and return the states with the new numbers of their rows."""
        is_used = np.zeros(self.size, bool)
        for numbers in (states.path, states.stack):
            is_used[numbers.joined()] = True
        self._rows.keep(is_used)
        return State(*(renumbered(numbers, is_used) for numbers in states))

    def _through(self, actions: np.ndarray, rows: np.ndarray) -> tuple[State, int]:
        """Read START and all actions but the last; return the state, and the last action, which is to be read next.

        `rows` are the rows of the vectors of GIVEN actions.
        """
        count = len(actions)
        todo, is_word = np.append(START, actions), actions >= 0
        path = np.arange(self.size, self.size + count, dtype=np.int32)[None]
        generating = path[:, is_word] if is_word.any() else path[:, :1]
        n_words = np.append([0, 0], np.cumsum(is_word)) if count else np.zeros(1, np.int64)
        stack, is_given = np.append(0, rows).astype(np.int32)[:, None], 1 * (todo == GIVEN)
        for first in range(0, count + 1, PIECE):
            steps = np.arange(first, min(first + PIECE, count + 1))
            paths, of_words = (np.broadcast_to(x, (len(steps), x.shape[1])) for x in (path, generating))
            stacks = Lists(stack[steps], is_given[steps])
            before = State(Lists(paths, steps), Lists(of_words, n_words[steps]), stacks)
            n_read = min(len(steps), count - first)
            if n_read:
                piece = slice(first, first + n_read)
                self.read(taken(before, slice(n_read)), todo[piece], is_word[piece])
        return taken(before, [-1]), int(todo[-1])

    def _types(self, x: Variable, numbers: np.ndarray, states: State) -> tuple[Variable, np.ndarray, int]:
        """Return what the token layers read, log p of COMP and GEN, and how many token layers there are."""
        f, tape, config = self._f, self._f.tape, self.config
        if not self._has_trees:
            return x, np.tile([-np.inf, 0.0], (len(numbers), 1)), config.type_layers + config.token_layers
        h = self._layers("type", config.type_layers, x, numbers, states.path)
        logits = mlp(tape, f.p, "action", layer_norm(tape, f.p, "action_norm", h), 0.0, f.sites).value
        return h, host(log_softmax(tape.xp, logits)).astype(np.float64), config.token_layers

    def _inputs(self, before: State, actions: np.ndarray, numbers: np.ndarray) -> Variable:
        """Return what the type layers read [R, D]; write the vectors of words and of composed nodes into their rows."""
        f, tape, xp = self._f, self._f.tape, self._f.tape.xp
        rows, is_word, is_comp = [tape.reshape(f.p["bos"], 1, -1)], actions >= 0, actions == COMP
        is_node, place = is_comp | (actions == GIVEN), np.zeros(len(actions), np.int32)
        if is_word.any():
            words = embedding(tape, f.p["embedding"], xp.asarray(actions[is_word].astype(np.int32)))
            if self._has_trees:
                self._rows.write("vector", numbers[is_word], linear(tape, f.p, "down", words, "down_bias").value)
            place[is_word] = 1 + np.arange(is_word.sum())
            rows.append(words)
        if is_comp.any() and f.config.surrogate:
            parts = np.concatenate([before.stack.last(2)[is_comp], before.stack.last()[is_comp]])
            self._rows.write("vector", numbers[is_comp], self._compose(self._rows["vector"][xp.asarray(parts)]))
        if is_node.any() and f.config.surrogate:
            which = np.where(is_comp, numbers, before.stack.last())[is_node]
            vectors = constant(self._rows["vector"][xp.asarray(which)])
            place[is_node] = 1 + is_word.sum() + np.arange(is_node.sum())
            rows.append(linear(tape, f.p, "up", vectors, "up_bias"))
        elif is_node.any():
            place[is_node] = 1 + is_word.sum()
            rows.append(tape.reshape(f.p["placeholder"], 1, -1))
        return embedding(tape, tape.concatenate(rows), xp.asarray(place))

    def _compose(self, parts: Array) -> Array:
        """Return the compositions [P, d] of P left parts and P right parts [2 P, d], as roots of two-word sentences."""
        f, count = self._f, len(parts) // 2
        one, spans = np.arange(count), np.tile(np.array([0, 1]), (count, 1))
        steps = np.array([0, count])
        charts = Charts(spans, one, np.arange(count + 1), one, count + one, steps, 2 * count + one)
        charts = composition.sent(f.tape.ops, charts, len(parts))
        inside = composition.inside(f.tape, f.config, f.p, constant(parts), charts, f.sites)
        return inside.vectors.value[2 * count :]

    def _layers(self, name: str, count: int, x: Variable, numbers: np.ndarray, context: Lists) -> Variable:
        """Return the output of the layers of that name for rows of these numbers; row i sees list i of `context`."""
        f, tape, p, xp, n_heads = self._f, self._f.tape, self._f.p, self._f.tape.xp, self._f.config.n_heads
        rows = xp.asarray(context.joined())
        zeros = xp.zeros((1, n_heads, x.value.shape[1] // n_heads), x.value.dtype)  # no positions, no biases
        edges = xp.asarray(offsets_of(context.sizes)), rows, xp.zeros_like(rows)

        def heads(matrix: str, rows: Variable) -> Array:
            return linear(tape, p, matrix, rows, f"{matrix}_bias").value.reshape(len(numbers), n_heads, -1)

        for layer in (f"{name}.{k}" for k in range(count)):
            h = layer_norm(tape, p, f"{layer}.attention_norm", x)
            for part in ("key", "value"):
                self._rows.write(f"{layer}.{part}", numbers, heads(f"{layer}.attention.{part}", h))
            query = heads(f"{layer}.attention.query", h)
            memory = [self._rows[f"{layer}.{part}"] for part in ("key", "value")]
            out = tape.ops.sparse_attention(query, *memory, zeros, zeros[0], zeros[0], *edges)[0]
            bias, out = f"{layer}.attention.output_bias", out.reshape(h.value.shape)
            x = tape.add(x, linear(tape, p, f"{layer}.attention.output", constant(out), bias))
            h = layer_norm(tape, p, f"{layer}.feed_forward_norm", x)
            x = tape.add(x, feed_forward(tape, p, f"{layer}.feed_forward", h, 0.0, f.sites))
        return x
