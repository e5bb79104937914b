"""The encoder-decoder reference: laws of attention and layers; beam search agrees with enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import floats, regimes, seeds
from refimpl.attention import dot_product_attention
from refimpl.transformer import beam_search, block, classify, decode, encode
from tests.fixtures.sequence_models import HEADS, D, V, random_parameters, step_logps

GATES = ("none", "positionwise", "causal")


@given(regime=regimes, seed=seeds, n=st.integers(1, 4), s=st.integers(1, 5), order=st.randoms())
def test_order_of_keys(regime: str, seed: int, n: int, s: int, order: st.randoms) -> None:
    """ED-1 L3 and L4."""
    q, k, v = (floats(regime, seed + i, m, 2, 3) for i, m in enumerate((n, s, s)))
    places = list(range(s))
    order.shuffle(places)
    out, lse = dot_product_attention(q, k, v)
    permuted_out, permuted_lse = dot_product_attention(q, k[places], v[places])
    np.testing.assert_allclose(permuted_out, out, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(permuted_lse, lse, rtol=1e-9, atol=1e-12)
    if regime != "huge":
        np.testing.assert_allclose(dot_product_attention(q, k + 0.5, v)[0], out, rtol=1e-9, atol=1e-9)


@given(seed=seeds, n=st.integers(1, 4), memory=st.integers(0, 3))
def test_causal_attention_is_attention_to_less(seed: int, n: int, memory: int) -> None:
    """ED-1: a causal query equals a query of the keys up to its position."""
    q, k, v = (floats("unit", seed + i, m, 2, 3) for i, m in enumerate((n, n + memory, n + memory)))
    out, lse = dot_product_attention(q, k, v, causal=True)
    for i in range(n):
        prefix = slice(0, memory + i + 1)
        alone, alone_lse = dot_product_attention(q[i : i + 1], k[prefix], v[prefix])
        np.testing.assert_allclose(out[i], alone[0], rtol=1e-12)
        np.testing.assert_allclose(lse[i], alone_lse[0], rtol=1e-12)


def is_permuted(gate: str, seed: int) -> bool:
    """Return whether permuted input rows give the same rows, permuted alike."""
    layer = {name[10:]: x for name, x in random_parameters(seed, gate).items() if name.startswith("encoder.0.")}
    x, places = floats("unit", seed, 5, D), [3, 0, 4, 1, 2]
    return np.allclose(block(layer, x[places], HEADS), block(layer, x, HEADS)[places], rtol=1e-9)


@pytest.mark.parametrize("gate", ["none", "positionwise"])
@given(seed=seeds)
def test_permuted_rows(gate: str, seed: int) -> None:
    """ED-2 L3."""
    assert is_permuted(gate, seed)


def test_order_of_rows() -> None:
    """ED-2 L3: with a convolution the order matters, if its ReLU is not 0 everywhere."""
    assert not any(is_permuted("causal", seed) for seed in range(5))


@pytest.mark.parametrize("gate", GATES)
@given(seed=seeds, n=st.integers(1, 5), changed=st.integers(0, 4), source=st.booleans())
def test_later_tokens_change_nothing(gate: str, seed: int, n: int, changed: int, source: bool) -> None:
    """ED-2 L1, ED-3 L1, ED-4 L1 to L3."""
    parameters = random_parameters(seed, gate, source=source)
    draw = np.random.default_rng(seed)
    ids, target = draw.integers(0, V, 3), draw.integers(0, V, n)
    encoded = encode(parameters, ids, HEADS)
    normal = (encoded - parameters["encoder.norm.bias"]) / parameters["encoder.norm.scale"]
    np.testing.assert_allclose(normal.mean(axis=1), 0, atol=1e-6)
    logp = decode(parameters, encoded, target, HEADS)
    np.testing.assert_allclose(np.exp(logp).sum(axis=1), 1)
    first = min(changed, n)
    other = np.concatenate([target[:first], (target[first:] + 1) % V])
    np.testing.assert_allclose(decode(parameters, encoded, other, HEADS)[:first], logp[:first], rtol=1e-9)
    if first:
        np.testing.assert_allclose(decode(parameters, encoded, target[:first], HEADS), logp[:first], rtol=1e-9)


@given(seed=seeds, n=st.integers(1, 5))
def test_classes(seed: int, n: int) -> None:
    """ED-5 L1."""
    ids = np.random.default_rng(seed).integers(0, V, n)
    logp = classify(random_parameters(seed, "positionwise"), ids, HEADS)
    assert np.exp(logp).sum() == pytest.approx(1)


def sequence_logp(step_logp, tokens: tuple[int, ...]) -> float:
    return float(sum(step_logp(list(tokens[:i]))[token] for i, token in enumerate(tokens)))


@given(seed=seeds, v=st.integers(1, 3), length=st.integers(1, 4), penalty=st.floats(0, 2), holes=st.booleans())
def test_wide_beam_is_enumeration(seed: int, v: int, length: int, penalty: float, holes: bool) -> None:
    """ED-6 L1 and L3: no sequence that ends, or has the greatest length, has a higher score."""
    step_logp = step_logps(seed, v, 0.3 * holes)
    scores = {}
    for n in range(1, length + 1):
        for tokens in product(range(v), repeat=n):
            if 0 not in tokens[:-1] and (tokens[-1] == 0 or n == length):
                scores[tokens] = sequence_logp(step_logp, tokens) / ((5 + n) / 6) ** penalty
    if max(scores.values()) == -np.inf:
        with pytest.raises(ValueError, match="possible"):
            beam_search(step_logp, v**length, penalty, length, end=0)
        return
    sequence = tuple(beam_search(step_logp, v**length, penalty, length, end=0))
    best = max(scores.get(sequence, -np.inf), scores.get((*sequence, 0), -np.inf))
    assert best == pytest.approx(max(scores.values()), rel=1e-12)


@given(seed=seeds, length=st.integers(1, 6))
def test_narrow_beam_is_greedy(seed: int, length: int) -> None:
    """ED-6 L2, for a model that never ends."""
    step_logp, tokens = step_logps(seed, 4), []
    for _ in range(length):
        tokens.append(int(np.argmax(step_logp(tokens))))
    assert beam_search(step_logp, 1, 0.6, length, end=9) == tokens


@pytest.mark.parametrize(
    ("steps", "beam", "expected"),
    [
        ({(): [0.2, 0.5, 0.3], (1,): [0.3, 0.3, 0.4]}, 1, [1, 2]),  # two continuations are looked at; the end is third
        ({(): [0.2, 0.3, 0.5], (2,): [0.0, 0.5, 0.5]}, 1, [2, 1]),  # of equal continuations the lower token
        ({(): [0.0, 0.5, 0.5], (1,): [0.0, 0.5, 0.5], (2,): [0.0, 0.5, 0.5]}, 2, [1, 1]),
        ({(): [0.5, 0.5, 0.0], (1,): [1.0, 0.0, 0.0]}, 1, []),  # of equal sequences the shorter
    ],
)
def test_what_is_looked_at_and_ties(steps: dict[tuple[int, ...], list[float]], beam: int, expected: list[int]) -> None:
    """ED-6: 2 `beam` continuations are considered; ties go to the shorter, the likelier prefix, the lower token."""

    def step_logp(tokens: list[int]) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(steps[tuple(tokens)])

    assert beam_search(step_logp, beam, 0.0, 2, end=0) == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"beam": 0}, "out of range"),
        ({"max_length": 0}, "out of range"),
        ({"length_penalty": -0.1}, "out of range"),
        ({"length_penalty": np.nan}, "out of range"),
        ({"length_penalty": np.inf}, "out of range"),
        ({"step_logp": lambda tokens: [np.nan]}, "no log-probability"),
        ({"step_logp": lambda tokens: [0.5]}, "no log-probability"),
        ({"step_logp": lambda tokens: [-np.inf]}, "no sequence is possible"),
    ],
)
def test_beam_search_refuses(change: dict, words: str) -> None:
    arguments = {"step_logp": lambda tokens: [0.0], "beam": 1, "length_penalty": 0.6, "max_length": 2, "end": 0}
    with pytest.raises(ValueError, match=words):
        beam_search(**(arguments | change))
