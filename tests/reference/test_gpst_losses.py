"""GPST's losses: computed by hand, the parameters that change each, the gradient stop, and one-word sentences."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import seeds
from refimpl import brute
from refimpl.gpst.generator import action_logps
from refimpl.gpst.inside_outside import Inside, induced_tree, outside
from refimpl.gpst.losses import losses
from refimpl.gpst.parser import Config, encode
from refimpl.gpst.pruned_chart import Chart
from refimpl.layers import erf_gelu
from refimpl.randomness import gumbel
from tests.fixtures.gpst_models import CONFIG, Sizes, composition_parameters, drawn_parameters, drawn_sentences


@given(seed=seeds, n=st.integers(1, 5), head=st.sampled_from(["mlp", "dot"]), norm=st.sampled_from(["paper", "excess"]))
def test_losses_by_hand(seed: int, n: int, head: str, norm: str) -> None:
    """GPST-5: each of the four losses is the sum computed from its parts."""
    config = replace(CONFIG, head=head, height_norm=norm, height_threshold=1.5)
    p, ids = drawn_parameters(seed, Sizes(config=config)), drawn_sentences(seed, [n])[0]
    computed = losses(config, p, [ids])
    scores, chart, encoded = encode(config, p, ids)
    tree = induced_tree(chart, encoded.scores)
    assert computed.trees == [tree]
    vectors, _ = outside(encoded, chart, composition_parameters(p), 2)
    table = p["embedding"] if head == "mlp" else p["embedding"] @ p["down"] + p["down_bias"]
    ae = 0.0
    for i in range(n):
        o = vectors[i, i]
        if head == "mlp":
            hidden = erf_gelu(o @ p["reconstruct.in"] + p["reconstruct.in_bias"])
            o = hidden @ p["reconstruct.out"] + p["reconstruct.out_bias"]
        ae -= math.log(math.exp(table[ids[i]] @ o) / sum(math.exp(row @ o) for row in table)) / n
    assert computed.ae == pytest.approx(ae)
    height = max(encoded.heights[0, n - 1] - 1.5, 0) / (n if norm == "paper" else max(n - 1.5, 1))
    assert computed.height == pytest.approx(height)
    parser = [math.log(sum(math.exp(x - scores[k]) for x in scores[i:j])) for i, k, j in tree]
    assert computed.parser == pytest.approx(sum(parser) / max(n - 1, 1))
    logps = action_logps(config, p, [ids], [tree], [encoded.vectors])
    assert computed.ar == pytest.approx(-logps.mean())


def changed(p: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    return {name: x + 1e-3 * draw.standard_normal(x.shape) * name.startswith(prefix) for name, x in p.items()}


def dependent(config: Config, p: dict[str, np.ndarray], prefix: str, **options: object) -> str:
    """Return the names of the losses that change if these parameters change, with the same trees."""
    sentences = drawn_sentences(0, [4, 1, 5])
    a, b = losses(config, p, sentences, **options), losses(config, changed(p, prefix), sentences, **options)
    assert a.trees == b.trees
    return " ".join(name for name in ("ae", "height", "parser", "ar") if getattr(a, name) != getattr(b, name))


def test_parameters_that_change_each_loss() -> None:
    """GPST-1 L1, GPST-4 L4, GPST-5 L3."""
    config = replace(CONFIG, window=1, height_threshold=0.5)
    p = drawn_parameters(4)
    p = {name: x * (0.01 if name.startswith("composition.inside") else 1) for name, x in p.items()}
    assert dependent(config, p, "parser.split") == "parser"
    assert dependent(config, p, "composition.compose") == "ae ar"
    assert dependent(config, p, "composition.decompose") == "ae"
    assert dependent(config, p, "composition.outside") == "ae"
    assert dependent(config, p, "reconstruct") == "ae"
    assert dependent(config, p, "up") == "ar"
    for prefix in ("type", "token", "action", "word", "position", "bos"):
        assert dependent(config, p, prefix) == "ar"
    without = replace(config, surrogate=False)
    p = drawn_parameters(4, Sizes(config=without))
    assert dependent(without, p, "composition.compose") == "ae"
    assert dependent(without, p, "down") == "ae"
    assert dependent(without, p, "placeholder") == "ar"


def test_gradient_stop() -> None:
    """GPST-5 L1 and L2: with constant weights, L_ar does not depend on the scores; without, it does."""
    sentences = drawn_sentences(1, [5, 2, 4])
    config = replace(CONFIG, window=3, height_threshold=1.0)
    n_same_trees = 0
    for seed in range(6):
        p = drawn_parameters(seed)
        weights = [encode(config, p, ids)[2].weights for ids in sentences]
        free, stopped = losses(config, p, sentences), losses(config, p, sentences, weights=weights)
        assert free == stopped
        nudged = changed(p, "composition.inside")
        free_after = losses(config, nudged, sentences)
        stopped_after = losses(config, nudged, sentences, weights=weights)
        if free_after.trees == free.trees:
            n_same_trees += 1
            assert stopped_after.ar == stopped.ar and free_after.ar != free.ar
            assert stopped_after.ae == free_after.ae != free.ae
            assert stopped_after.height == free_after.height != free.height
    assert n_same_trees > 3


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [1, 3]])
def test_one_word(lengths: list[int]) -> None:
    """GPST-5 L5."""
    p, sentences = drawn_parameters(0), drawn_sentences(0, lengths)
    for config, seed in product((CONFIG, replace(CONFIG, surrogate=False), replace(CONFIG, head="dot")), (None, 1)):
        computed = losses(config, p | {"placeholder": p["bos"]}, sentences, seed)
        assert np.isfinite([computed.ae, computed.height, computed.parser, computed.ar]).all()
        if max(lengths) == 1:
            assert computed.parser == computed.height == 0 and computed.trees == [[]] * len(lengths)


@given(seed=seeds, n=st.integers(2, 6), window=st.integers(1, 6), noise=st.booleans(), a=st.integers(0, 5))
def test_atoms_are_never_split(seed: int, n: int, window: int, noise: bool, a: int) -> None:
    """GPST-5 L6: the induced tree is the one with all atoms as nodes in which each split is its span's best."""
    config = replace(CONFIG, window=window)
    p, ids = drawn_parameters(seed), drawn_sentences(seed, [n])[0]
    atoms = [(i, j) for i, j in ((a, a + 1), (a + 2, a + 4)) if j < n]
    computed = losses(config, p, [ids], seed if noise else None, atoms=[atoms])
    draws = gumbel(np.arange(n - 1), seed) if noise else None
    scores, chart, encoded = encode(config, p, ids, draws, atoms)
    consistent = []
    for tree in brute.binary_trees(0, n - 1):
        nodes = {(i, j) for i, _, j in tree}
        others = {(i, j): [k for k in chart.cells.get((i, j), ()) if k not in inner(atoms, i, j)] for i, j in nodes}
        if nodes >= set(atoms) and all(
            k in others[i, j] and k == max(others[i, j], key=lambda k: (value(chart, encoded, i, j, k), -k))
            for i, k, j in tree
        ):
            consistent.append(sorted(tree))
    assert consistent == [sorted(computed.trees[0])]
    parser = [math.log(sum(math.exp(x - scores[k]) for x in scores[i:j])) for i, k, j in computed.trees[0]]
    assert computed.parser == pytest.approx(sum(parser) / (n - 1))
    logps = action_logps(config, p, [ids], computed.trees, [encoded.vectors])
    assert computed.ar == pytest.approx(-logps.mean())
    assert losses(config, p, [ids], atoms=[[]]) == losses(config, p, [ids])


def inner(atoms: list[tuple[int, int]], i: int, j: int) -> set[int]:
    """Return the points inside of the atoms that do not contain the span."""
    return {k for a, b in atoms if not a <= i < j <= b for k in range(a, b)}


def value(chart: Chart, encoded: Inside, i: int, j: int, k: int) -> float:
    """Return the inside score of the span (i, j) split at k."""
    return float(encoded.scores[i, j][chart.cells[i, j].index(k)])
