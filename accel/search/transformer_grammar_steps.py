"""TG and the two TXL one action after another, for many hypotheses at once; positions that they share are read once.

Mirrors `refimpl.transformer_grammars.model.token_logps` (clause TG-6), one position at a time. Every position has a row
in several arrays, the keys and values of all layers. A hypothesis is two lists of row numbers: the rows on its stack,
and those of its segment and memory. Hypotheses share rows. A closing non-terminal is two positions, read in one pass.
Memory: a row for every different position of the hypotheses, and for every position read since the last `keep`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, host, offsets_of
from accel.autodiff.layers import DropoutSites, embedding, feed_forward, layer_norm, linear, sinusoids
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant
from accel.models.transformer_grammars.config import Config
from accel.search.lists import Lists, joined, lists, renumbered, taken
from accel.search.pools import log_softmax
from accel.search.rows import Rows
from refimpl.trees import ActionType

ONT, T, CNT1, CNT2 = ActionType
LOST = -1
"""Stands for a row of the stack that the memory did not keep."""


class State(NamedTuple):
    """The states after R sequences of actions; the start symbol has to be read first after an empty sequence."""

    position: np.ndarray  # [R] how many positions have been read
    context: Lists  # rows of the memory, then of the segment so far; empty if the model needs the stack only
    stack: Lists  # rows of the positions on the stack
    opens: Lists  # where on the stack the open constituents begin


def no_actions(count: int) -> State:
    """Return the states of `count` sequences without any actions."""
    none = lists([()] * count)
    return State(np.zeros(count, np.int64), none, none, none)


Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # how many rows a position sees; their numbers; relative positions
Job = tuple[str, slice, dict[bool, tuple[Array, Array, Array]]]
"""The name of an attention, the new rows that it serves, and what its heads see, as `sparse_attention` takes it."""


class Steps:
    """A model that reads actions, and returns the log-probability of every next action."""

    def __init__(
        self, ops: ModuleType, config: Config, parameters: Mapping[str, Array], types: Sequence[int] | np.ndarray
    ) -> None:
        self.config = config
        self._tape, self._types = Tape(ops, recording=False), np.asarray(types)
        self._p = {name: constant(value) for name, value in parameters.items()}
        self._has_stack = config.model == "tg"
        self._groups = [
            {kind == "restricted": slice(heads.start, heads.stop) for kind, heads in config.kinds_of_heads(k).items()}
            for k in range(config.n_layers)
        ]  # of every layer, the heads that follow the STACK/COMPOSE rules (True), and the others (False)
        self._has_context = config.memory == "shift" or any(False in groups for groups in self._groups)
        self._tables = self._relative_tables()
        self._rows = Rows(self._tape.xp)  # keys and values
        self._places = Rows(np)  # of rows on a stack: depths or, with linear positions, positions

    @property
    def size(self) -> int:
        """How many rows are in use."""
        return self._rows.size

    def read(self, before: State, actions: np.ndarray) -> tuple[State, Array]:
        """Return the R states after one more action each, and the hidden states there [R, d], for `logps`.

        Raises ValueError for a closing non-terminal where no constituent is open.
        """
        kinds, xp = self._types[actions], self._tape.xp
        composing = np.flatnonzero((kinds == CNT1) & self._has_stack)  # these are read twice, first to compose
        first, count = len(composing), len(composing) + len(actions)
        numbers = self._rows.add(count)
        self._places.add(count)
        edges = {}
        if self._has_stack:
            closing = taken(before, composing)
            composed, edges["compose_attention"] = self._after(closing, kinds[composing], numbers[:first])
            before = _replaced(before, composing, composed)
            kinds = np.where(kinds == CNT1, CNT2, kinds)
        states, edges["attention"] = self._after(before, kinds, numbers[first:])
        new, jobs = slice(int(numbers[0]), self.size), self._jobs(edges, first)
        ids = np.append(actions[composing], actions).astype(np.int32)
        h = embedding(self._tape, self._p["embedding"], xp.asarray(ids))
        for layer in range(self.config.n_layers):
            h = self._layer(layer, h, new, jobs)
        return states, h.value[first:]

    def logps_of(self, hidden: Array, actions: np.ndarray) -> np.ndarray:
        """Return log p of some actions [R, C] from the hidden states of `read` [R, d]: float64, on the host."""
        xp, p = self._tape.xp, self._p
        table, bias, is_used = p["embedding"].value, p["output_bias"].value, np.zeros(len(p["output_bias"].value), bool)
        is_used[actions] = True
        some, column = xp.asarray(np.flatnonzero(is_used)), np.cumsum(is_used) - 1
        logits = host(xp.matmul(hidden, table[some].T) + bias[some]).astype(np.float64)
        logits = np.take_along_axis(logits, column[actions], axis=1)
        best = logits.argmax(axis=1)[:, None]
        labels = xp.asarray(np.take_along_axis(actions, best, axis=1)[:, 0].astype(np.int32))
        logps = host(self._tape.ops.cross_entropy(hidden, table, bias, labels)[0]).astype(np.float64)[:, None]
        most = np.take_along_axis(logits, best, axis=1)
        return logps + np.where(logits < most, logits - most, 0.0)

    def logps(self, hidden: Array) -> Array:
        """Return log p of every action [R, V] from the hidden states of `read` [R, d]."""
        xp, p = self._tape.xp, self._p
        logits = xp.matmul(hidden, p["embedding"].value.T)
        logits += p["output_bias"].value
        return log_softmax(xp, logits)

    def keep(self, states: State) -> State:
        """Delete all rows that these states do not use, and return the states with the new numbers of their rows."""
        is_used = np.zeros(self.size + 1, bool)
        for numbers in (states.context, states.stack):
            is_used[numbers.joined()] = True
        is_used = is_used[:LOST]
        for rows in (self._rows, self._places):
            rows.keep(is_used)
        return states._replace(context=renumbered(states.context, is_used), stack=renumbered(states.stack, is_used))

    def _after(self, state: State, kinds: np.ndarray, rows: np.ndarray) -> tuple[State, dict[bool, Edges]]:
        """Return the states after one more position each, and what these positions see. Mirrors SC-1 and SC-3.

        `rows` are the rows of the positions. Either all of `kinds` are CNT1, or none is.
        """
        edges = {}
        position, context, stack, opens = self._next_segment(state)
        if self._has_context:
            context = context.longer(rows)
            numbers = context.joined()
            distances = np.repeat(np.cumsum(context.sizes), context.sizes) - 1 - np.arange(len(numbers))
            edges[False] = context.sizes, numbers, distances.astype(np.int32)
        if not self._has_stack:
            return State(position + 1, context, stack, opens), edges
        closes = kinds == CNT1
        wrong = np.flatnonzero(closes & (opens.sizes < 2))
        if len(wrong):
            raise ValueError(f"position {position[wrong[0]]}: CNT1 closes no open non-terminal")
        begins = np.where(closes, opens.last(), 0)
        places = position if self.config.positions == "linear" else opens.sizes - closes
        self._places.write("", rows, places)
        edges[True] = self._stack_edges(stack.longer(rows), begins, places)
        stack = Lists(stack.values, np.where(closes, begins, stack.sizes)).longer(rows, kinds != CNT2)
        opens = opens.shorter(closes).longer(stack.sizes - 1, kinds == ONT)
        return State(position + 1, context, stack, opens), edges

    def _next_segment(self, state: State) -> State:
        """Return the states; where a segment ends, the memory takes the place of the segment. Mirrors clause SEG-3."""
        most = self.config.memory_length
        ends = np.flatnonzero((state.position > 0) & (state.position % self.config.segment_length == 0))
        if not len(ends):
            return state
        of_stack = self._has_stack and self.config.memory == "stack"
        contexts, stacks = list[list[int]](), list[list[int]]()
        for i in ends.tolist():
            stack = state.stack.values[i, : state.stack.sizes[i]].tolist()
            context = state.context.values[i, : state.context.sizes[i]].tolist()
            memory = [row for row in stack if row != LOST] if of_stack else context
            memory = memory[max(len(memory) - most, 0) :]
            contexts.append(memory if self._has_context else [])
            stacks.append([row if row in memory else LOST for row in stack])
        renewed = taken(state, ends)._replace(context=lists(contexts), stack=lists(stacks))
        return _replaced(state, ends, renewed)

    def _stack_edges(self, stack: Lists, begins: np.ndarray, places: np.ndarray) -> Edges:
        """Return the edges of the heads that follow the STACK/COMPOSE rules, to the stack's rows from `begins` on."""
        is_seen = stack.where() & (stack.values != LOST) & (np.arange(stack.values.shape[1]) >= begins[:, None])
        rows, sizes = stack.values[is_seen], is_seen.sum(axis=1)
        relative = np.repeat(places, sizes) - self._places[""][rows]
        if self.config.positions == "depth":
            low, high = self.config.relative_min, self.config.relative_max
            relative = relative.clip(low, high) - low
        return sizes, rows, relative.astype(np.int32)

    def _jobs(self, edges: Mapping[str, Mapping[bool, Edges]], first: int) -> list[Job]:
        """Return the attentions to compute: one for all positions, or two with separate parameters and positions."""
        places = {"compose_attention": slice(0, first), "attention": slice(first, None)}
        of_names = {name: [edges[name]] for name in edges}
        if len(self.config.attentions) == 1:
            places, of_names = {"attention": slice(0, None)}, {"attention": list(edges.values())}
        jobs = []
        for name, parts in of_names.items():
            joint = {}
            for group in parts[0]:
                sizes, *numbers = (np.concatenate(column) for column in zip(*(x[group] for x in parts), strict=True))
                rows, relative = map(self._tape.xp.asarray, numbers)
                joint[group] = self._tape.xp.asarray(offsets_of(sizes)), rows, relative
            jobs.append((name, places[name], joint))
        return jobs

    def _relative_tables(self) -> dict[str, Array]:
        """Return for every group of heads the keys of all relative positions [P, heads, D]."""
        config, ops, tables = self.config, self._tape.ops, {}
        d, dtype = config.d_model, self._p["embedding"].value.dtype
        distances = sinusoids(ops, config.segment_length + config.memory_length, d, dtype)
        relative = distances
        if config.model == "tg" and config.positions == "depth":
            relative = sinusoids(ops, config.relative_max - config.relative_min + 1, d, dtype, config.relative_min)
        for layer, groups in enumerate(self._groups):
            for name in config.attentions:
                for restricted, heads in groups.items():
                    prefix = f"layers.{layer}.{name}"
                    table = self._split(linear(self._tape, self._p, f"{prefix}.relative",
                                               constant(relative if restricted else distances)))  # fmt: skip
                    tables[f"{prefix}.{restricted}"] = ops.xp.ascontiguousarray(table[:, heads])
        return tables

    def _split(self, rows: Variable) -> Array:
        return rows.value.reshape(len(rows.value), self.config.n_heads, self.config.d_head)

    def _layer(self, layer: int, h: Variable, new: slice, jobs: Sequence[Job]) -> Variable:
        """Return the output of a layer at the new rows."""
        tape, p = self._tape, self._p
        attended = tape.xp.empty_like(h.value)
        for name, served, edges in jobs:
            prefix = f"layers.{layer}.{name}"
            keys, values = (self._split(linear(tape, p, f"{prefix}.{part}", h)) for part in ("key", "value"))
            asking = constant(h.value[served])
            out = self._split(linear(tape, p, f"{prefix}.query", asking))
            for restricted, heads in self._groups[layer].items():
                part = f"{prefix}.{restricted}"
                memory = [self._rows.write(f"{part}.key", new, keys[:, heads]),
                          self._rows.write(f"{part}.value", new, values[:, heads])]  # fmt: skip
                biases = [p[f"{prefix}.{bias}"].value[heads] for bias in ("content_bias", "position_bias")]
                inputs = out[:, heads], *memory, self._tables[part], *biases, *edges[restricted]
                out[:, heads] = tape.ops.sparse_attention(*inputs)[0]
            out_rows = constant(out.reshape(asking.value.shape))
            attended[served] = linear(tape, p, f"{prefix}.output", out_rows, f"{prefix}.output_bias").value
        h = layer_norm(tape, p, f"layers.{layer}.attention_norm", tape.add(h, constant(attended)))
        output = feed_forward(tape, p, f"layers.{layer}.feed_forward", h, 0.0, DropoutSites(None))
        return layer_norm(tape, p, f"layers.{layer}.feed_forward_norm", tape.add(h, output))


def _replaced(state: State, places: np.ndarray, new: State) -> State:
    """Return the states with new ones in these places."""
    rows = np.arange(len(state.position))
    rows[places] = len(rows) + np.arange(len(places))
    return taken(joined([state, new]), rows)
