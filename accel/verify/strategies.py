"""Random inputs: Hypothesis draws structure, a regime and a seed; NumPy draws the floats from the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from refimpl.trees import START, ActionType, Tree, actions, double_closing

REGIMES = ("zeros", "unit", "tied", "spiky", "huge")
SHAPES = ("flat", "left", "right", "chain", "random")


def floats(regime: str, seed: int, *shape: int) -> np.ndarray:
    """Return [shape] float64 of a regime; the numbers are exact in float32."""
    draw = np.random.default_rng([seed, *shape])
    x = draw.standard_normal(shape)
    if regime == "zeros":
        x = np.zeros(shape)
    elif regime == "tied":
        x = np.round(x)
    elif regime == "spiky":
        x = np.where(draw.random(shape) < 0.1, 20 * x, 0.01 * x)
    elif regime == "huge":
        x = 30 * x
    return x.astype(np.float32).astype(np.float64)


def ones_and_zeros(seed: int, n: int) -> np.ndarray:
    """Return [n] float64 numbers, 1 or 0, the last one 1: the largest stands at many places, also at the end."""
    x = np.where(floats("unit", seed, n) > 0, 1.0, 0.0)
    x[-1:] = 1
    return x


def make_tree(shape: str, n_words: int, seed: int) -> Tree:
    """Return a tree over n words: flat, a left- or right-branching chain, a chain of unary nodes, or random."""
    draw = np.random.default_rng([seed, n_words])
    leaves: list[Tree | str] = [f"w{int(draw.integers(5))}" for _ in range(n_words)]
    if shape == "left":
        while len(leaves) > 2:
            leaves[:2] = [Tree("L", tuple(leaves[:2]))]
    elif shape == "right":
        while len(leaves) > 2:
            leaves[-2:] = [Tree("R", tuple(leaves[-2:]))]
    elif shape == "chain":
        for _ in range(n_words):
            leaves = [Tree("U", tuple(leaves))]
    elif shape == "random":
        for _ in range(n_words):
            i = int(draw.integers(len(leaves)))
            j = min(len(leaves), i + int(draw.integers(1, 4)))
            leaves[i:j] = [Tree("ABC"[int(draw.integers(3))], tuple(leaves[i:j]))]
    return Tree("S", tuple(leaves))


def trees(max_words: int = 8) -> st.SearchStrategy[Tree]:
    return st.builds(make_tree, st.sampled_from(SHAPES), st.integers(1, max_words), st.integers(0, 2**16))


@st.composite
def action_sequences(draw: Callable[..., Any], max_words: int = 8) -> list[str]:
    """Draw START and the actions of one or two trees, perhaps cut short: every prefix is a legal sequence."""
    sequence = [START]
    for tree in draw(st.lists(trees(max_words), min_size=1, max_size=2), label="trees"):
        sequence += actions(tree)
    length = draw(st.integers(1, len(sequence)), label="length") if draw(st.booleans(), label="cut") else len(sequence)
    return sequence[:length]


def position_types(max_words: int = 8) -> st.SearchStrategy[list[ActionType]]:
    """Return a strategy: types of the positions of one sequence, after closing non-terminals are doubled."""
    return action_sequences(max_words).map(lambda sequence: double_closing(sequence)[1])


regimes = st.sampled_from(REGIMES)
seeds = st.integers(0, 2**16)
dropout_seeds = st.integers(0, 2**64 - 1)
