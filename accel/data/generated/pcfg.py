"""Probabilistic context-free grammars: exact log p of trees and strings, and exact entropy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import inf, log
from typing import Any

import numpy as np

from refimpl.trees import ActionType, Tree, action_type, actions, tree_from_actions

NUMBERS = {"sg": "pl", "pl": "sg"}


@dataclass(frozen=True)
class Grammar:
    """A grammar with phrases ``LABEL|features``, printed as ``LABEL``; other symbols are classes of words.

    Attributes
    ----------
    phrases : mapping of symbol to rules
        A rule is (probability, symbols).
    lexicon : mapping of word class to words
        Pairs (probability, word).
    start : str
        The phrase of a whole sentence.
    """

    phrases: Mapping[str, tuple[tuple[float, tuple[str, ...]], ...]]
    lexicon: Mapping[str, tuple[tuple[float, str], ...]]
    start: str

    def __post_init__(self) -> None:
        symbols = self.phrases.keys() | self.lexicon.keys()
        if self.start not in self.phrases:
            raise ValueError(f"the start symbol {self.start!r} has no rules")
        for symbol, rules in self.phrases.items():
            unknown = {s for _, rhs in rules for s in rhs} - symbols
            if unknown:
                raise ValueError(f"a rule of {symbol!r} uses unknown symbols: {', '.join(sorted(unknown))}")

    def sample(self, count: int, seed: int) -> Iterator[Tree]:
        """Yield `count` independent trees; the same seed gives the same trees."""
        rng = np.random.Generator(np.random.Philox(seed))
        return (self._draw(rng) for _ in range(count))

    def _draw(self, rng: np.random.Generator) -> Tree:
        actions_drawn: list[str] = []
        agenda = [self.start]
        while agenda:
            symbol = agenda.pop()
            if symbol in self.lexicon:
                actions_drawn.append(_choose(self.lexicon[symbol], rng.random()))
            elif symbol in self.phrases:
                actions_drawn.append(f"({label(symbol)}")
                agenda.append(f"{label(symbol)})")
                agenda.extend(reversed(_choose(self.phrases[symbol], rng.random())))
            else:
                actions_drawn.append(symbol)  # a closing bracket
        return tree_from_actions(actions_drawn)

    def tree_logp(self, tree: Tree) -> float:
        """Return log p of a printed tree, summed over its derivations: nats; -inf outside the grammar."""
        levels: list[dict[int, float]] = [{0: 1.0}]  # states of the trie of every open constituent, with their p
        phrases: Mapping[str, float] = {}
        for action in actions(tree):
            kind = action_type(action)
            if kind == ActionType.ONT:
                levels.append({0: 1.0})
                continue
            if kind == ActionType.T:
                phrases = self._classes.get(action, {})
            else:
                inside = self._completed(levels.pop())
                phrases = {symbol: p for symbol, p in inside.items() if label(symbol) == action[:-1]}
            levels[-1] = self._advance(levels[-1], phrases)
        return _log(phrases.get(self.start, 0.0))

    def sentence_logp(self, words: Sequence[str]) -> float:
        """Return log p of a string: the inside algorithm over all its trees; nats; -inf outside the grammar.

        Cost: O(n^3) times the symbols that can cover a span.
        """
        n = len(words)
        active: dict[tuple[int, int], dict[int, float]] = {}
        complete: dict[tuple[int, int], dict[str, float]] = {}
        for j in range(1, n + 1):
            for i in reversed(range(j)):
                states: dict[int, float] = defaultdict(float)
                for k in range(i + 1, j):
                    for state, p in self._advance(active[i, k], complete[k, j]).items():
                        states[state] += p
                phrases = defaultdict(float, self._completed(states))
                if j == i + 1:
                    for symbol, p in self._classes.get(words[i], {}).items():
                        phrases[symbol] += p
                for symbol in self._bottom_up:  # constituents of one child
                    if symbol in phrases:
                        unary_states = self._advance({0: 1.0}, {symbol: phrases[symbol]})
                        states |= unary_states
                        for parent, p in self._completed(unary_states).items():
                            phrases[parent] += p
                active[i, j], complete[i, j] = states, phrases
        return _log(complete[0, n].get(self.start, 0.0)) if n else -inf

    @cached_property
    def expected_counts(self) -> dict[str, float]:
        """The mean number of occurrences of each symbol in a tree.

        Raises
        ------
        ValueError
            If the trees have no finite expected size.
        """
        symbols = [*self.phrases, *self.lexicon]
        number = {symbol: i for i, symbol in enumerate(symbols)}
        mean = np.zeros((len(symbols), len(symbols)))
        for symbol, rules in self.phrases.items():
            for p, rhs in rules:
                for child in rhs:
                    mean[number[symbol], number[child]] += p
        if np.abs(np.linalg.eigvals(mean)).max() >= 1:
            raise ValueError("the grammar is not subcritical: its trees have no finite expected size")
        counts = np.linalg.solve((np.eye(len(symbols)) - mean).T, np.eye(len(symbols))[number[self.start]])
        return dict(zip(symbols, counts.tolist(), strict=True))

    @property
    def expected_words(self) -> float:
        """The mean number of words of a sentence."""
        return sum(self.expected_counts[symbol] for symbol in self.lexicon)

    @property
    def entropy(self) -> float:
        """Entropy of a derivation, nats; also of a tree and of a sentence if every sentence has one derivation."""
        choices = {**self.phrases, **self.lexicon}
        return sum(n * -sum(c[0] * log(c[0]) for c in choices[symbol]) for symbol, n in self.expected_counts.items())

    @property
    def perplexity(self) -> float:
        """The lowest word perplexity of any model, if the grammar is unambiguous: exp(entropy / expected words)."""
        return float(np.exp(self.entropy / self.expected_words))

    @cached_property
    def _classes(self) -> dict[str, dict[str, float]]:
        """The word classes of every word, with the probability of the word in its class."""
        classes: dict[str, dict[str, float]] = defaultdict(dict)
        for symbol, words in self.lexicon.items():
            for p, word in words:
                classes[word][symbol] = p
        return dict(classes)

    @cached_property
    def _trie(self) -> tuple[list[dict[str, int]], list[dict[str, float]]]:
        """Right-hand sides by prefix: next state by symbol, and the phrases that end in a state, with the rule's p."""
        moves: list[dict[str, int]] = [{}]
        ends: list[dict[str, float]] = [{}]
        for symbol, rules in self.phrases.items():
            for p, rhs in rules:
                state = 0
                for child in rhs:
                    state = moves[state].setdefault(child, len(moves))
                    if state == len(moves):
                        moves.append({})
                        ends.append({})
                ends[state][symbol] = ends[state].get(symbol, 0.0) + p
        return moves, ends

    def _advance(self, states: Mapping[int, float], phrases: Mapping[str, float]) -> dict[int, float]:
        moves = self._trie[0]
        return {moves[s][x]: p * phrases[x] for s, p in states.items() for x in moves[s].keys() & phrases.keys()}

    def _completed(self, states: Mapping[int, float]) -> dict[str, float]:
        phrases: dict[str, float] = defaultdict(float)
        for state, p in states.items():
            for symbol, q in self._trie[1][state].items():
                phrases[symbol] += p * q
        return phrases

    @cached_property
    def _bottom_up(self) -> tuple[str, ...]:
        """All symbols; a symbol that can be an only child comes before its parents."""
        only = {a: {rhs[0] for _, rhs in rules if len(rhs) == 1} for a, rules in self.phrases.items()}
        try:
            return tuple(TopologicalSorter({symbol: () for symbol in self.lexicon} | only).static_order())
        except CycleError as error:
            raise ValueError(f"phrases that are each other's only child: {' '.join(error.args[1])}") from error


def label(symbol: str) -> str:
    """Return the label that a phrase prints with."""
    return symbol.partition("|")[0]


def parse_grammar(rules: str, lexicon: str, start: str) -> Grammar:
    """Return the grammar of two tables.

    Parameters
    ----------
    rules : str
        Lines ``PHRASE weight symbol symbol ...``; ``PHRASE weight @OTHER`` stands for all the rules of another phrase.
        A line with ``#`` or ``~`` stands for two rules, one for singular and one for plural: ``#`` is the number,
        ``~`` the other number. Each rule has half of the weight if ``PHRASE`` has no ``#``, else the whole weight.
    lexicon : str
        Lines ``class word word ...``, the k-th word with weight 1/k; where the class has ``#``, each word is written
        ``singular/plural``.
    """
    weights: dict[str, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    for lhs, weight, *rhs in _expanded(rules):
        target = weights[lhs]
        if rhs[0].startswith("@"):
            source = weights[rhs[0][1:]]
            for rhs_copied, w in source.items():
                target[rhs_copied] += float(weight) * w / sum(source.values())
        else:
            target[tuple(rhs)] += float(weight)
    classes: dict[str, dict[str, float]] = {}
    for line in filter(None, map(str.split, lexicon.splitlines())):
        for index, number in enumerate(NUMBERS if "#" in line[0] else [""]):
            words = [word.split("/")[index] for word in line[1:]]
            classes[line[0].replace("#", f".{number}")] = {word: 1.0 / k for k, word in enumerate(words, 1)}
    return Grammar(_normalised(weights), _normalised(classes), start)


def _expanded(rules: str) -> Iterator[list[str]]:
    for line in filter(None, map(str.split, rules.splitlines())):
        text = " ".join(line)
        if "#" not in text and "~" not in text:
            yield line
            continue
        for number, other in NUMBERS.items():
            lhs, weight, *rhs = text.replace("#", f".{number}").replace("~", f".{other}").split()
            yield [lhs, weight if "#" in line[0] else str(float(weight) / 2), *rhs]


def _normalised(weights: Mapping[str, Mapping]) -> dict[str, tuple]:  # type: ignore[type-arg]
    return {
        symbol: tuple((w / sum(options.values()), option) for option, w in options.items())
        for symbol, options in weights.items()
    }


def _choose(options: Sequence[tuple[float, Any]], u: float) -> Any:
    """Return the option whose interval contains u, a number in [0, 1); an interval is as long as its probability."""
    for p, option in options[:-1]:
        u -= p
        if u < 0:
            return option
    return options[-1][1]


def _log(p: float) -> float:
    return log(p) if p > 0 else -inf
