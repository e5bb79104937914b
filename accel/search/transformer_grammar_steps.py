"""TG and the two TXL one action after another, for many hypotheses at once, without reading again what they share.

Mirrors `refimpl.transformer_grammars.model.token_logps` (clause TG-6), one position at a time. The keys and values of
all layers at a position are a row of arrays; a hypothesis is a list of numbers of rows, which it shares with others:
those on its stack, and those of its segment and memory. A closing non-terminal is two positions, read in one pass.
Memory: a row for every position of the hypotheses, shared ones once, and of any since the last `keep`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.autodiff.arrays import Array, offsets_of
from accel.autodiff.layers import DropoutSites, embedding, feed_forward, layer_norm, linear, sinusoids
from accel.autodiff.tape import Tape, Variable, constant
from accel.models.transformer_grammars.config import Config
from refimpl.trees import ActionType

ONT, T, CNT1, CNT2 = ActionType
LOST = -1
"""In place of a row of the stack that the memory did not keep."""


class State(NamedTuple):
    """Where a sequence of actions has led; without any, the start symbol has to be read first."""

    position: int = 0  # how many have been read
    context: tuple[int, ...] = ()  # rows of the memory, then of the segment so far, where all of them may be read
    stack: tuple[int, ...] = ()  # rows of what is on it
    places: tuple[int, ...] = ()  # ... its depths or, with linear positions, its positions
    opens: tuple[int, ...] = ()  # where on the stack the constituents begin that are open


class _Position(NamedTuple):
    """What is read at a row, and what may be attended to there."""

    action: int
    composes: bool
    seen: tuple[int, ...]  # rows that the STACK/COMPOSE rules allow
    places: tuple[int, ...]  # ... their places, the last one its own
    context: tuple[int, ...]


Edges = tuple[Array, Array, Array]  # as `sparse_attention` takes them: offsets, rows, relative positions
Job = tuple[str, Any, dict[bool, Edges]]  # whose parameters; at which of the new rows; what they see


class Steps:
    """A model that reads actions, and says how probable each is as the next one."""

    def __init__(
        self, ops: ModuleType, config: Config, parameters: Mapping[str, Array], types: Sequence[int] | np.ndarray
    ) -> None:
        self.config = config
        self._tape, self._types = Tape(ops, recording=False), np.asarray(types)
        self._p = {name: constant(value) for name, value in parameters.items()}
        self._has_stack = config.model == "tg"
        self._attentions = ("attention", "compose_attention") if config.distinct_attention else ("attention",)
        self._groups = [self._heads_of(layer) for layer in range(config.n_layers)]
        self._has_context = config.memory == "shift" or any(False in groups for groups in self._groups)
        self._tables = self._relative_tables()
        self._rows: dict[str, Array] = {}  # keys and values, by name
        self.size = self._room = 0  # rows that are used, and that there are

    def read(self, before: Sequence[State], actions: Sequence[int] | np.ndarray) -> tuple[list[State], Array]:
        """Return R states one action later, and what the probabilities there are made of [R, d].

        Raises ValueError for a closing non-terminal where no constituent is open.
        """
        states, positions, last = list[State](), list[_Position](), list[int]()
        types = self._types[np.asarray(actions)].tolist()
        for state, action, kind in zip(before, actions, types, strict=True):
            for part in (CNT1, CNT2) if self._has_stack and kind == CNT1 else (kind,):
                state, position = self._after(state, int(action), part, self.size + len(positions))
                positions.append(position)
            states.append(state)
            last.append(len(positions) - 1)
        new = slice(self.size, self.size + len(positions))
        self.size = new.stop
        self._make_room()
        xp, jobs = self._tape.xp, self._jobs(positions)
        h = embedding(self._tape, self._p["embedding"], xp.asarray(np.array([p.action for p in positions], np.int32)))
        for layer in range(self.config.n_layers):
            h = self._layer(layer, h, new, jobs)
        return states, h.value[xp.asarray(np.array(last))]

    def logps(self, hidden: Array) -> Array:
        """Return log p of every action [R, V] after what `read` returned [R, d]."""
        xp, p = self._tape.xp, self._p
        logits = xp.matmul(hidden, p["embedding"].value.T)
        logits += p["output_bias"].value
        logits -= logits.max(axis=1, keepdims=True)
        logits -= xp.log(xp.exp(logits).sum(axis=1, keepdims=True))
        return logits

    def keep(self, states: Sequence[State]) -> list[State]:
        """Forget the rows of all other states, and return these with the new numbers of theirs."""
        used = np.zeros(self.size + 1, bool)
        for state in states:
            used[list(state.context)] = True
            used[list(state.stack)] = True
        used[LOST] = False
        number = np.full(self.size + 1, LOST)
        number[used] = np.arange(used.sum())
        places = self._tape.xp.asarray(np.flatnonzero(used))
        self._rows = {name: rows[places] for name, rows in self._rows.items()}
        self.size = self._room = len(places)
        new = number.tolist()
        return [
            state._replace(context=tuple(new[i] for i in state.context), stack=tuple(new[i] for i in state.stack))
            for state in states
        ]

    def _after(self, state: State, action: int, kind: int, row: int) -> tuple[State, _Position]:
        """Return the state after one more position of this row, and what is read there. Mirrors SC-1 and SC-3."""
        position, context, stack, places, opens = self._next_segment(state)
        context = (*context, row) if self._has_context else ()
        if not self._has_stack:
            return State(position + 1, context), _Position(action, False, (), (), context)
        place = position if self.config.positions == "linear" else len(opens) - (kind == CNT1)
        if kind == CNT1:
            if len(opens) < 2:
                raise ValueError(f"position {position}: CNT1 closes no open non-terminal")
            begin, opens = opens[-1], opens[:-1]
            seen, at = (*stack[begin:], row), (*places[begin:], place)
            stack, places = (*stack[:begin], row), (*places[:begin], place)
        else:
            seen, at = (*stack, row), (*places, place)
            stack, places = (stack, places) if kind == CNT2 else (seen, at)
            opens = (*opens, len(stack) - 1) if kind == ONT else opens
        after = State(position + 1, context, stack, places, opens)
        return after, _Position(action, kind == CNT1, seen, at, context)

    def _next_segment(self, state: State) -> State:
        """Return the state; where a segment ends, with its memory in place of that. Mirrors clause SEG-3."""
        most = self.config.memory_length
        if not state.position or state.position % self.config.segment_length:
            return state
        of_stack = self._has_stack and self.config.memory == "stack"
        memory = tuple(row for row in state.stack if row != LOST) if of_stack else state.context
        memory = memory[max(len(memory) - most, 0) :]
        held = set(memory)
        stack = tuple(row if row in held else LOST for row in state.stack)
        return state._replace(context=memory if self._has_context else (), stack=stack)

    def _jobs(self, positions: Sequence[_Position]) -> list[Job]:
        """Return what attention there is: with one set of parameters at all positions, or with two at some each."""
        composes = np.array([position.composes for position in positions])
        at = [np.ones(len(positions), bool)] if len(self._attentions) == 1 else [~composes, composes]
        jobs = []
        for name, served in zip(self._attentions, map(np.flatnonzero, at), strict=True):
            asking = [positions[i] for i in served.tolist()]
            edges = {True: self._stack_edges(asking)} if self._has_stack else {}
            edges |= {False: self._context_edges(asking)} if self._has_context else {}
            jobs.append((name, self._tape.xp.asarray(served), edges))
        return jobs

    def _stack_edges(self, positions: Sequence[_Position]) -> Edges:
        """Return the edges of the heads that obey the rules."""
        rows = _joined([position.seen for position in positions])
        owners = np.repeat(np.arange(len(positions)), _sizes([position.seen for position in positions]))
        here = _joined([position.places[-1:] for position in positions])
        relative = here[owners] - _joined([position.places for position in positions])
        if self.config.positions == "depth":
            low, high = self.config.relative_min, self.config.relative_max
            relative = relative.clip(low, high) - np.int32(low)
        there = rows != LOST
        return self._edges(np.bincount(owners[there], minlength=len(positions)), rows[there], relative[there])

    def _context_edges(self, positions: Sequence[_Position]) -> Edges:
        """Return the edges of the heads that see the memory and all before."""
        contexts = [position.context for position in positions]
        sizes, rows = _sizes(contexts), _joined(contexts)
        distances = np.repeat(np.cumsum(sizes), sizes) - 1 - np.arange(len(rows))
        return self._edges(sizes, rows, distances.astype(np.int32))

    def _edges(self, sizes: np.ndarray, rows: np.ndarray, relative: np.ndarray) -> Edges:
        xp, offsets = self._tape.xp, offsets_of(sizes)
        return xp.asarray(offsets), xp.asarray(rows), xp.asarray(relative)

    def _heads_of(self, layer: int) -> dict[bool, slice]:
        """Return the heads of a layer that obey the rules (True), and those that see all before."""
        n_heads, n_restricted = self.config.n_heads, self.config.restricted_heads(layer)
        heads = {True: slice(0, n_restricted), False: slice(n_restricted, n_heads)}
        return {restricted: group for restricted, group in heads.items() if group.start < group.stop}

    def _relative_tables(self) -> dict[str, Array]:
        """Return for every group of heads the keys of all relative positions [P, heads, D]."""
        config, xp, tables = self.config, self._tape.xp, {}
        d, dtype = config.d_model, self._p["embedding"].value.dtype
        distances = sinusoids(xp, config.segment_length + config.memory_length, d, dtype)
        relative = distances
        if config.model == "tg" and config.positions == "depth":
            relative = sinusoids(xp, config.relative_max - config.relative_min + 1, d, dtype, config.relative_min)
        for layer, groups in enumerate(self._groups):
            for name in self._attentions:
                for restricted, heads in groups.items():
                    prefix = f"layers.{layer}.{name}"
                    table = self._split(linear(self._tape, self._p, f"{prefix}.relative",
                                               constant(relative if restricted else distances)))  # fmt: skip
                    tables[f"{prefix}.{restricted}"] = xp.ascontiguousarray(table[:, heads])
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
                known = [self._write(f"{part}.key", new, keys[:, heads]),
                         self._write(f"{part}.value", new, values[:, heads])]  # fmt: skip
                biases = [p[f"{prefix}.{bias}"].value[heads] for bias in ("content_bias", "position_bias")]
                given = out[:, heads], *known, self._tables[part], *biases, *edges[restricted]
                out[:, heads] = tape.ops.sparse_attention(*given)[0]
            joined = constant(out.reshape(asking.value.shape))
            attended[served] = linear(tape, p, f"{prefix}.output", joined, f"{prefix}.output_bias").value
        h = layer_norm(tape, p, f"layers.{layer}.attention_norm", tape.add(h, constant(attended)))
        fed = feed_forward(tape, p, f"layers.{layer}.feed_forward", h, 0.0, DropoutSites(None))
        return layer_norm(tape, p, f"layers.{layer}.feed_forward_norm", tape.add(h, fed))

    def _write(self, name: str, new: slice, rows: Array) -> Array:
        """Set the new rows under a name, and return all of them."""
        if name not in self._rows:
            self._rows[name] = self._tape.xp.zeros((self._room, *rows.shape[1:]), rows.dtype)
        self._rows[name][new] = rows
        return self._rows[name]

    def _make_room(self) -> None:
        """Make room for twice the rows that there are, where it does not suffice for those."""
        if self.size > self._room:
            more = 2 * self.size - self._room
            for name, rows in self._rows.items():
                unused = self._tape.xp.zeros((more, *rows.shape[1:]), rows.dtype)
                self._rows[name] = self._tape.xp.concatenate([rows, unused])
            self._room += more


def _sizes(rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    return np.array([len(row) for row in rows], np.int64)


def _joined(rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    return np.array([i for row in rows for i in row], np.int32)
