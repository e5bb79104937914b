"""Word-level search for models of trees: exact search against enumeration, narrow beams, samples and errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import seeds
from refimpl.trees import ActionType, Tree, action_type, actions, tree_from_actions, words
from refimpl.word_level_search import (
    Limits,
    possible_actions,
)
from tests.fixtures.enumerated_trees import WORDS, all_trees, drawn_words, total
from tests.fixtures.tree_search import Model, bits_of, draw_text, n_open, search, terminals

ALL = 10**6


def symbols_of(labels: Sequence[str]) -> list[str]:
    return ["<s>", "</s>", *WORDS, *(f"({x}" for x in labels), *(f"{x})" for x in labels)]


def drawn_model(seed: int, symbols: Sequence[str]) -> Model:
    """Return a model with random probabilities, different after every sequence of actions."""

    def model(before: Sequence[str]) -> np.ndarray:
        draw = np.random.default_rng([seed, len(before), *(symbols.index(a) for a in before)])
        return np.log(draw.dirichlet(np.ones(len(symbols))))

    return model


def logp_of(model: Model, symbols: Sequence[str], sequence: Sequence[str]) -> float:
    return sum(float(model(sequence[:i])[symbols.index(action)]) for i, action in enumerate(sequence))


def beginnings(trees: Sequence[Tree]) -> set[tuple[str, ...]]:
    """Return the actions of each tree up to its last word."""
    prefixes = set()
    for tree in trees:
        sequence = actions(tree)
        last = max(i for i, action in enumerate(sequence) if action_type(action) == ActionType.T)
        prefixes.add(tuple(sequence[: last + 1]))
    return prefixes


SPACES = [("XY", 1, 2, 2), ("XY", 2, 2, 2), ("XY", 3, 2, 1), ("XY", 3, 2, 2), ("X", 3, 3, 2), ("XY", 4, 2, 2),
          ("X", 4, 3, 3), ("X", 6, 2, 2), ("X", 6, 3, 1)]  # fmt: skip


@pytest.mark.parametrize(("labels", "n", "max_open", "max_opens"), SPACES)
def test_exact_marginals(labels: str, n: int, max_open: int, max_opens: int) -> None:
    """WS-6 L1 and L5: without pruning, sums are over all beginnings that end in a word, and all trees are found."""
    limits, symbols = Limits(ALL, max_open=max_open, max_opens=max_opens), symbols_of(labels)
    model, sentence = drawn_model(n, symbols), drawn_words(n, n)
    parses, prefix_logps = search(model, symbols, sentence, limits)
    for t in range(n):
        prefixes = beginnings(all_trees(sentence[: t + 1], labels, limits))
        assert prefix_logps[t] == pytest.approx(total([logp_of(model, symbols, a) for a in prefixes]), rel=1e-10)
    expected = {tuple(actions(tree)) for tree in all_trees(sentence, labels, limits)}
    assert {h.actions for h in parses} == expected and len(parses) == len(expected)
    assert [h.logp for h in parses] == sorted((h.logp for h in parses), reverse=True)
    for h in parses[:20]:
        assert h.logp == pytest.approx(logp_of(model, symbols, h.actions)) and terminals(h.actions) == sentence


@pytest.mark.parametrize(("labels", "n", "max_open", "max_opens"), SPACES[:-2])
def test_possible_actions_build_all_trees(labels: str, n: int, max_open: int, max_opens: int) -> None:
    """WS-5 L2 and L3: the possible actions, one after another, build all trees and no others."""
    limits, symbols = Limits(1, max_open=max_open, max_opens=max_opens), symbols_of(labels)
    sentence, trees = drawn_words(0, n), set()
    agenda: list[tuple[str, ...]] = [()]
    while agenda:
        prefix = agenda.pop()
        can, complete = possible_actions(prefix, symbols, limits, sentence), prefix and not n_open(prefix)
        assert bool(can) != bool(complete) and can == sorted(can)
        agenda += [(*prefix, symbols[i]) for i in can]
        if complete:
            trees.add(tree_from_actions(prefix))
    assert trees == set(all_trees(sentence, labels, limits))


@given(seeds, st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 3), st.integers(1, 4))
def test_narrow_beams(seed: int, n: int, beam: int, word_beam: int, fast_track: int, max_open: int) -> None:
    """WS-5 L1, WS-6 L2 and L3."""
    limits, symbols = Limits(beam, word_beam, fast_track, max_open=max_open, max_opens=2), symbols_of("XY")
    model, sentence = drawn_model(seed, symbols), drawn_words(seed, n)
    parses, prefix_logps = search(model, symbols, sentence, limits)
    assert 1 <= len(parses) <= word_beam and len({h.actions for h in parses}) == len(parses)
    assert len(prefix_logps) == n and max(prefix_logps) < 0
    for h in parses:
        tree = tree_from_actions(h.actions)
        assert words(tree) == sentence and h.logp == pytest.approx(logp_of(model, symbols, h.actions))
        depths = np.cumsum(
            [(action_type(a) == ActionType.ONT) - (action_type(a) == ActionType.CNT1) for a in h.actions]
        )
        assert depths.max() <= max_open
    assert search(model, symbols, sentence, limits) == (parses, prefix_logps)
    greedy, best = Limits(1, max_open=max_open, max_opens=2), tuple[str, ...]()
    while can := possible_actions(best, symbols, greedy, sentence):
        logps = model(best)
        best = (*best, symbols[max(can, key=lambda i: logps[i])])
    assert [h.actions for h in search(model, symbols, sentence, greedy)[0]] == [best]


@given(seeds, st.integers(2, 5), st.integers(1, 8), st.integers(0, 2))
def test_later_words_change_nothing(seed: int, n: int, beam: int, fast_track: int) -> None:
    """WS-6 L4, WS-7 L1: they hold for any beam."""
    symbols, draw = symbols_of("XY"), np.random.default_rng(seed)
    model, limits, sentence = drawn_model(seed, symbols), Limits(beam, None, fast_track), drawn_words(seed, n)
    bits = bits_of(model, symbols, sentence, limits)
    for t in range(1, n):
        later = drawn_words(seed + 1, int(draw.integers(0, 3)))
        assert bits_of(model, symbols, sentence[:t] + later, limits)[:t] == bits[:t]
    logp = search(model, symbols, sentence, limits)[1][-1]
    assert sum(bits) == pytest.approx(-logp / math.log(2))


def test_samples() -> None:
    """WS-7 L2 and L3."""
    symbols = symbols_of("X")
    model, limits = drawn_model(5, symbols), Limits(4, max_open=3)
    assert len({draw_text(model, symbols, Limits(1), 4, seed) for seed in range(20)}) == 1
    first = Counter(draw_text(model, symbols, limits, 1, seed) for seed in range(2000))
    logps = {prefix: logp_of(model, symbols, prefix) for prefix in first}
    assert len(logps) == 4 and all(sum(action_type(a) == ActionType.T for a in prefix) == 1 for prefix in logps)
    for prefix, logp in logps.items():
        p = math.exp(logp - total(list(logps.values())))
        assert abs(first[prefix] - 2000 * p) < 4 * math.sqrt(2000 * p * (1 - p)) + 1
    for seed in range(20):
        text = draw_text(model, symbols, limits, 3, seed, ["c", "a"])
        assert [a for a in text if a in WORDS][:2] == ["c", "a"]
        assert len([a for a in text if a in WORDS]) == 5 or not n_open(text)


SYMBOLS = symbols_of("X")


def even(_: Sequence[str]) -> np.ndarray:
    return np.log(np.full(len(SYMBOLS), 1 / len(SYMBOLS)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Limits(0), "beam: 0 is below 1"),
        (lambda: Limits(1, word_beam=0), "word_beam: 0 is below 1"),
        (lambda: Limits(1, fast_track=-1), "fast_track: -1 is below 0"),
        (lambda: Limits(1, max_open=0), "max_open: 0 is below 1"),
        (lambda: Limits(1, max_opens=0), "max_opens: 0 is below 1"),
        (lambda: search(even, SYMBOLS, [], Limits(1)), "0 words"),
        (lambda: bits_of(even, SYMBOLS, ["a", "d"], Limits(1)), "sentence: word 1 is 'd', not a terminal"),
        (lambda: draw_text(even, SYMBOLS, Limits(1), 0, 0), "n_words, n_given: 0, 0: nothing to draw"),
        (lambda: search(lambda _: -even(_), SYMBOLS, ["a"], Limits(1)), "are log-probabilities"),
        (lambda: search(lambda _: even(_) - np.inf, SYMBOLS, ["a"], Limits(1)), "model: nothing is possible"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    """WS-6 and WS-7: every error message is one line."""
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
