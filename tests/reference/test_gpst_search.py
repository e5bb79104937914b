"""Word-level search: exact beams against enumeration, narrow beams, any words, surprisals, samples and errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import seeds
from refimpl import brute
from refimpl.gpst.generator import action_logps, step_logps
from refimpl.gpst.inside_outside import post_order
from refimpl.gpst.losses import losses
from refimpl.word_level_search import Hypothesis, gpst_actions, word_level_search
from tests.fixtures.enumerated_trees import catalan
from tests.fixtures.gpst_models import CONFIG, Sizes, drawn_parameters, surrogates
from tests.fixtures.gpst_search import Model, bits_of, draw_text, limits, search


def search_texts(model: Model, beam: int, n: int, end: int | None = None) -> tuple[list[Hypothesis], list[float]]:
    return word_level_search(gpst_actions(model, more=True, end=end), limits(beam), n, complete=False)


def words_of(actions: Sequence[int]) -> list[int]:
    return [action for action in actions if action >= 0]


def drawn_model(seed: int, vocabulary: int = 3) -> Model:
    """Return a model with random probabilities, different after every sequence of actions."""

    def model(actions: Sequence[int]) -> tuple[float, float, np.ndarray]:
        draw = np.random.default_rng([seed, len(actions), *(a + 1 for a in actions)])
        comp = draw.uniform(0.1, 0.9)
        return math.log(comp), math.log(1 - comp), np.log(draw.dirichlet(np.ones(vocabulary)))

    return model


def logp_of(model: Model, actions: Sequence[int]) -> float:
    total = 0.0
    for t, action in enumerate(actions):
        comp, gen, words = model(tuple(actions[:t]))
        total += comp if action < 0 else gen + float(words[action])
    return total


def partial_parses(words: Sequence[int]) -> list[tuple[int, ...]]:
    """Return all sequences of actions that generate the words and end with the last word."""
    prefixes = []
    for composed in product(*(range(t) for t in range(1, len(words)))):  # COMPs after word 1, 2, ...
        actions, depth = [words[0]], 1
        for word, n in zip(words[1:], composed, strict=True):
            actions += [-1] * n + [word]
            depth += 1 - n
            if depth < 2:
                break
        else:
            prefixes.append(tuple(actions))
    return prefixes


def parses(words: Sequence[int]) -> list[tuple[int, ...]]:
    trees = brute.binary_trees(0, len(words) - 1)
    return [tuple(words[i] if i == j else -1 for i, j in post_order(tree)) for tree in trees]


@pytest.mark.parametrize("n", range(1, 7))
def test_exact_marginals(n: int) -> None:
    """WS-2 L1, WS-3 L2 and L3: with as many hypotheses as trees, the sum is over all partial parses."""
    for seed in range(3):
        model = drawn_model(seed)
        words = [int(w) for w in np.random.default_rng(seed).integers(0, 3, n)]
        for t in range(n):
            assert len(partial_parses(words[: t + 1])) == catalan(t + 1)
        exact = [
            math.log(sum(math.exp(logp_of(model, actions)) for actions in partial_parses(words[: t + 1])))
            for t in range(n)
        ]
        hypotheses, prefix_logps = search(model, catalan(n), words)
        np.testing.assert_allclose(prefix_logps, exact, rtol=1e-10)
        bits = bits_of(model, catalan(n), words)
        assert min(bits) > 0
        np.testing.assert_allclose(np.cumsum(bits), -np.array(exact) / math.log(2), rtol=1e-10)
        if n > 2:
            assert search(model, catalan(n) - 1, words)[1][-1] < exact[-1]


@pytest.mark.parametrize("n", range(1, 7))
def test_all_parses(n: int) -> None:
    """WS-1 L1, WS-2 L1 and L2: the search finds all trees, sorted by probability, and so log p(x)."""
    for seed, sync in product(range(3), (True, False)):
        model, words = drawn_model(seed), [seed, *range(n - 1)]
        words = [w % 3 for w in words]
        hypotheses, _ = search(model, 2 ** (2 * n), words, sync=sync)
        expected = {actions: logp_of(model, actions) for actions in parses(words)}
        assert {h.actions for h in hypotheses} == set(expected) and len(hypotheses) == catalan(n)
        for h in hypotheses:
            assert h.logp == pytest.approx(expected[h.actions]) and words_of(h.actions) == words
        assert [h.logp for h in hypotheses] == sorted((h.logp for h in hypotheses), reverse=True)
        again = search(model, 2 ** (2 * n), words, sync=sync)[0]
        assert again == hypotheses


@given(seed=seeds, n=st.integers(1, 7), beam=st.integers(1, 6), sync=st.booleans())
def test_narrow_beams(seed: int, n: int, beam: int, sync: bool) -> None:
    """WS-2 L2 and L3."""
    model, words = drawn_model(seed), [int(w) for w in np.random.default_rng(seed).integers(0, 3, n)]
    hypotheses, prefix_logps = search(model, beam, words, sync=sync)
    assert 1 <= len(hypotheses) <= beam and len({h.actions for h in hypotheses}) == len(hypotheses)
    best = max(logp_of(model, actions) for actions in parses(words)) if n < 7 else 0
    for h in hypotheses:
        assert h.logp == pytest.approx(logp_of(model, h.actions)) and h.logp <= best + 1e-9
    actions: list[int] = []
    while len(actions) < 2 * n - 1:
        comp, gen, word_logps = model(tuple(actions))
        n_words = sum(a >= 0 for a in actions)
        more = gen + word_logps[words[n_words]] if n_words < n else -math.inf
        actions.append(-1 if 2 * n_words - len(actions) > 1 and comp >= more else words[n_words])
    if beam == 1:
        assert [h.actions for h in hypotheses] == [tuple(actions)]
    assert len(prefix_logps) == (n if sync else 0)


@pytest.mark.parametrize(("n", "vocabulary"), [(1, 4), (2, 3), (3, 2), (4, 2)])
def test_any_words(n: int, vocabulary: int) -> None:
    """WS-2 L1 without a sentence: the search finds all partial parses of all texts; their sum is below 1."""
    model = drawn_model(n, vocabulary)
    hypotheses, prefix_logps = search_texts(model, 10**6, n)
    texts = product(range(vocabulary), repeat=n)
    expected = {actions: logp_of(model, actions) for words in texts for actions in partial_parses(words)}
    assert {h.actions for h in hypotheses} == set(expected)
    assert prefix_logps[-1] == pytest.approx(math.log(sum(map(math.exp, expected.values()))))
    assert all(a >= b for a, b in zip([0.0, *prefix_logps[:-1]], prefix_logps, strict=True))
    few, _ = search_texts(model, 3, n)
    assert all(h.logp == pytest.approx(expected[h.actions]) for h in few)
    end_hypotheses, _ = search_texts(model, 10**6, n, end=0)
    for words in (words_of(h.actions) for h in end_hypotheses):
        assert 0 not in words[:-1] and (words[-1] == 0 or len(words) == n)


@given(seed=seeds, n=st.integers(2, 7), beam=st.integers(1, 8))
def test_surprisals(seed: int, n: int, beam: int) -> None:
    """WS-2 L4, WS-3 L1 and L3 hold for any beam."""
    model, draw = drawn_model(seed), np.random.default_rng(seed)
    words = [int(w) for w in draw.integers(0, 3, n)]
    bits = bits_of(model, beam, words)
    for t in range(1, n):
        later = [int(w) for w in draw.integers(0, 3, int(draw.integers(0, 3)))]
        assert bits_of(model, beam, words[:t] + later)[:t] == bits[:t]
    total = search(model, beam, words)[1][-1]
    assert sum(bits) == pytest.approx(-total / math.log(2))


@given(seed=seeds, n=st.integers(1, 4), surrogate=st.booleans())
def test_search_agrees_with_teacher_forcing(seed: int, n: int, surrogate: bool) -> None:
    """WS-1 L2: it holds for GPST at window 1 and all trees; the induced tree's score gives L_ar."""
    config = replace(CONFIG, window=1, surrogate=surrogate)
    p = drawn_parameters(seed, Sizes(config=config))
    ids = np.random.default_rng(seed).integers(0, 5, n)
    hypotheses, _ = search(partial(step_logps, config, p), 20, ids.tolist())
    scores = {h.actions: h.logp for h in hypotheses}
    forced = losses(config, p, [ids])
    for tree, actions in zip(brute.binary_trees(0, n - 1), parses(ids.tolist()), strict=True):
        logp = action_logps(config, p, [ids], [tree], [surrogates(p, ids, tree)]).sum()
        assert scores[actions] == pytest.approx(logp, rel=1e-9)
        if forced.trees == [tree]:
            assert scores[actions] == pytest.approx(-(2 * n - 1) * forced.ar, rel=1e-9)


def test_samples() -> None:
    """WS-4 L1 to L3."""
    model = drawn_model(5)
    assert len({draw_text(model, 1, 5, seed) for seed in range(20)}) == 1
    prefix = [2, 0, 1]
    pool = search_texts(model, 4, 1)[0]
    counts = Counter(draw_text(model, 4, 1, seed) for seed in range(3000))
    assert set(counts) <= {h.actions for h in pool}
    total = sum(math.exp(h.logp) for h in pool)
    for h in pool:
        p = math.exp(h.logp) / total
        assert abs(counts[h.actions] - 3000 * p) < 4 * math.sqrt(3000 * p * (1 - p)) + 1
    for seed in range(20):
        actions = draw_text(model, 4, 3, seed, prefix)
        words = [a for a in actions if a >= 0]
        assert words[:3] == prefix and len(words) == 6 and actions in partial_parses(words)
        text = draw_text(model, 4, 6, seed, end=1)
        assert 1 not in text[:-1] and (text[-1] == 1 or len([a for a in text if a >= 0]) == 6)


def answer(comp: float, gen: float, words: list[float]) -> Model:
    return lambda actions: (comp, gen, np.array(words))


GOOD = answer(math.log(0.5), math.log(0.5), [math.log(0.5)] * 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: search(GOOD, 0, [0]), "beam: 0 is below 1"),
        (lambda: search(GOOD, -1, [0]), "beam: -1 is below 1"),
        (lambda: search(GOOD, 1, []), "0 words"),
        (lambda: search_texts(GOOD, 1, 0), "0 words"),
        (
            lambda: word_level_search(gpst_actions(GOOD, [0]), limits(1), 1, complete=False, sync=False),
            "1 words, complete False, sync False: nothing to search",
        ),
        (lambda: search(GOOD, 1, [0, -1]), "sentence: word 1 is -1, outside 0..1"),
        (lambda: search(GOOD, 1, [2]), "sentence: word 0 is 2"),
        (lambda: bits_of(GOOD, 0, [0]), "beam: 0 is below 1"),
        (lambda: bits_of(GOOD, 5, []), "0 words"),
        (lambda: draw_text(GOOD, 0, 1, 0), "beam: 0 is below 1"),
        (lambda: draw_text(GOOD, 1, 0, 0), "n_words, n_given: 0, 0: nothing to draw"),
        (lambda: draw_text(GOOD, 1, 1, 0, [5]), "sentence: word 0 is 5"),
        (lambda: search(answer(0.0, math.nan, [0.0]), 1, [0]), "not all of .* are log-probabilities"),
        (lambda: search(answer(0.0, 0.5, [0.0]), 1, [0]), "not all of .* are log-probabilities"),
        (lambda: search(answer(0.0, 0.0, [-math.inf]), 1, [0]), "model: nothing is possible"),
        (lambda: bits_of(answer(0.0, 0.0, [-math.inf]), 1, [0]), "model: nothing is possible"),
        (lambda: draw_text(answer(0.0, -math.inf, [0.0]), 1, 2, 0), "model: nothing is possible"),
    ],
)
def test_bad_input(call: Callable[[], object], words: str) -> None:
    """WS-2 to WS-4: every error message is one line."""
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_prefix_longer_than_the_context() -> None:
    """GPST-4: 20 positions have room for 19 words."""
    model = partial(step_logps, CONFIG, drawn_parameters(0))
    assert len(draw_text(model, 1, 1, 0, [0] * 18)) > 18
    with pytest.raises(ValueError, match="context: 20 words, but the model has 20 positions"):
        draw_text(model, 1, 2, 0, [0] * 19)
