"""GPST's parser and generative model: results computed by hand, laws, and errors, also of the losses."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import floats, seeds
from refimpl import brute
from refimpl.gpst.generator import COMP, GEN, action_logps, step_logps
from refimpl.gpst.inside_outside import induced_tree, post_order
from refimpl.gpst.losses import losses
from refimpl.gpst.parser import Config, encode, rms_norm, rotate, split_scores
from refimpl.gpst.pruned_chart import merge_order, pruned_chart
from refimpl.layers import erf_gelu, softmax
from refimpl.randomness import gumbel
from tests.fixtures.gpst_models import CONFIG, Sizes, drawn_parameters, drawn_sentences, surrogates

lengths = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(seed=seeds, n=st.integers(1, 6), n_layers=st.integers(0, 2))
def test_parser_by_hand(seed: int, n: int, n_layers: int) -> None:
    """GPST-2 L1: the encoder written out, with rotated products as sums of cosines and sines of distances."""
    p = drawn_parameters(seed, Sizes(parser_layers=n_layers, d_parser=8))
    ids, heads, width = np.random.default_rng(seed).integers(0, 5, n), 2, 4
    x = p["parser.embedding"][ids]
    for k in range(n_layers):
        layer = f"parser.{k}"
        z = rms_norm(x, p[f"{layer}.attention_norm"])
        q, key, v = (z @ p[f"{layer}.attention.{m}"] for m in ("query", "key", "value"))
        out = np.zeros_like(x)
        for h, t in product(range(heads), range(n)):
            scores = []
            for u in range(n):
                total = 0.0
                for m in range(width // 2):
                    a, b = h * width + 2 * m, h * width + 2 * m + 1
                    angle = (t - u) * 10 ** (-8 * m / width)
                    total += math.cos(angle) * (q[t, a] * key[u, a] + q[t, b] * key[u, b])
                    total += math.sin(angle) * (q[t, a] * key[u, b] - q[t, b] * key[u, a])
                scores.append(total / math.sqrt(width))
            out[t, h * width : (h + 1) * width] = softmax(np.array(scores)) @ v[:, h * width : (h + 1) * width]
        x = x + out @ p[f"{layer}.attention.output"]
        z = rms_norm(x, p[f"{layer}.feed_forward_norm"])
        gate = z @ p[f"{layer}.gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (z @ p[f"{layer}.up"])) @ p[f"{layer}.down"]
    x = rms_norm(x, p["parser.norm"])
    hidden = [erf_gelu(np.concatenate([a, b]) @ p["parser.split.in"] + p["parser.split.in_bias"])
              for a, b in zip(x[:-1], x[1:], strict=True)]  # fmt: skip
    expected = [float((h @ p["parser.split.out"] + p["parser.split.out_bias"])[0]) for h in hidden]
    np.testing.assert_allclose(split_scores(CONFIG, p, ids), expected, rtol=1e-8, atol=1e-10)


@given(seed=seeds, shift=st.integers(0, 5), d=st.sampled_from([2, 4, 6]))
def test_only_distances_count(seed: int, shift: int, d: int) -> None:
    """GPST-2 L2."""
    q, k = floats("unit", seed, d), floats("unit", seed + 1, d)
    turned_q, turned_k = (rotate(np.tile(x, (12, 1, 1)))[:, 0] for x in (q, k))
    np.testing.assert_allclose(turned_q[4] @ turned_k[1], turned_q[4 + shift] @ turned_k[1 + shift], atol=1e-10)
    np.testing.assert_allclose(turned_q[7] @ turned_q[7], q @ q)


def test_noise_draws_trees() -> None:
    """GPST-2 L3: in 4,000 draws for three points, each of the five trees has the frequency of its probability."""
    v, counts = np.array([0.5, -1.0, 1.0]), Counter()
    for seed in range(4000):
        chart = pruned_chart(merge_order(v + gumbel(np.arange(3), seed)), 4, 1)
        counts[frozenset((i, *splits, j) for (i, j), splits in chart.cells.items())] += 1
    for tree in brute.binary_trees(0, 3):
        p = math.prod(float(softmax(v[i:j])[k - i]) for i, k, j in tree)
        assert abs(counts[frozenset(tree)] - 4000 * p) < 4 * math.sqrt(4000 * p * (1 - p))
    noise = gumbel(np.arange(20000), 7)
    assert np.isfinite(noise).all() and abs(noise.mean() - 0.5772) < 0.03 and abs(noise.var() - math.pi**2 / 6) < 0.06
    assert (gumbel(np.array([3, 5]), 7) == noise[[3, 5]]).all()


@given(seed=seeds, n=st.integers(1, 7))
def test_window_1_is_the_parsers_tree(seed: int, n: int) -> None:
    """GPST-3 L1; and the chart of window 2 contains the parser's tree."""
    p, ids = drawn_parameters(seed), drawn_sentences(seed, [n])[0]
    scores, chart, values = encode(replace(CONFIG, window=1), p, ids)
    tree = induced_tree(chart, values.scores)
    assert len(tree) == n - 1
    for i, k, j in tree:
        assert scores[k] == max(scores[i:j])  # of equal scores either is the parser's
    wider = encode(CONFIG, p, ids)[1].cells
    assert all(k in wider[i, j] for i, k, j in tree)


@given(seed=seeds, lengths=lengths)
def test_sentences_apart(seed: int, lengths: list[int]) -> None:
    """GPST-3 L2: trees are those of each sentence alone, and so are losses but L_ar, as means."""
    p, sentences = drawn_parameters(seed), drawn_sentences(seed, lengths)
    config = replace(CONFIG, height_threshold=1.0)
    together, alone = losses(config, p, sentences), [losses(config, p, [ids]) for ids in sentences]
    assert together.trees == [parsed.trees[0] for parsed in alone]
    words, splits = sum(lengths), sum(lengths) - len(lengths)
    assert together.ae == pytest.approx(sum(x.ae * n for x, n in zip(alone, lengths, strict=True)) / words)
    assert together.height == pytest.approx(sum(x.height for x in alone) / len(lengths))
    total = sum(x.parser * (n - 1) for x, n in zip(alone, lengths, strict=True))
    assert together.parser == pytest.approx(total / max(splits, 1))


@given(seed=seeds, lengths=lengths)
def test_causal(seed: int, lengths: list[int]) -> None:
    """GPST-4 L2: another last word, and other vectors of spans with it, change only the last actions."""
    p, sentences = drawn_parameters(seed), drawn_sentences(seed, lengths)
    trees, vectors = [], []
    for ids in sentences:
        _, chart, inner = encode(CONFIG, p, ids)
        trees.append(induced_tree(chart, inner.scores))
        vectors.append(inner.vectors)
    before = action_logps(CONFIG, p, sentences, trees, vectors)
    other = [*sentences[:-1], np.append(sentences[-1][:-1], (sentences[-1][-1] + 1) % 5)]
    other_vectors = [*vectors[:-1], {(i, j): x + (j == lengths[-1] - 1) for (i, j), x in vectors[-1].items()}]
    after = action_logps(CONFIG, p, other, trees, other_vectors)
    last = sum(2 * n - 1 for n in lengths[:-1]) + post_order(trees[-1]).index((lengths[-1] - 1, lengths[-1] - 1))
    assert (before[:last] == after[:last]).all() and before[last] != after[last]


def test_a_surrogate_may_tell_of_later_words() -> None:
    """GPST-5 L4, generator J: two sentences differ in the fifth word only, and have equal trees.

    With W = 2 the splits of the first four words differ, and so does their vector; with all splits it does not.
    """
    p, [ids] = drawn_parameters(336), drawn_sentences(336, [5])
    sentences = ids, np.append(ids[:-1], (ids[-1] + 1) % 5)
    for window, splits in ((2, ([1, 2], [0, 2])), (3, ([0, 1, 2],) * 2)):
        both = [encode(replace(CONFIG, window=window), p, sentence) for sentence in sentences]
        trees = [induced_tree(chart, inner.scores) for _, chart, inner in both]
        assert trees[0] == trees[1] and (0, 3) in post_order(trees[0])
        assert tuple(chart.cells[0, 3] for _, chart, _ in both) == splits
        vectors = [inner.vectors[0, 3] for *_, inner in both]
        assert np.array_equal(*vectors) == (window == 3)


@pytest.mark.parametrize(("n", "vocabulary"), [(1, 5), (2, 3), (3, 2)])
def test_probabilities_add_up(n: int, vocabulary: int) -> None:
    """GPST-4 L1, GPST-5 L4: each step's sum is 1; that of all sentences of a length, with all trees, is below 1."""
    config, p = replace(CONFIG, window=1), drawn_parameters(n, Sizes(vocabulary=vocabulary))
    total = 0.0
    for words, tree in product(product(range(vocabulary), repeat=n), brute.binary_trees(0, n - 1)):
        ids = np.array(words)
        logps = action_logps(config, p, [ids], [tree], [surrogates(p, ids, tree)])
        assert logps.shape == (2 * n - 1,) and (logps < 0).all()
        total += math.exp(logps.sum())
    assert 0 < total < 1
    for actions in ([], [0], [0, 1], [0, 1, -1], [0, 1, -1, 1]):
        comp, gen, word_logps = step_logps(config, p, actions)
        assert math.exp(comp) + math.exp(gen) * np.exp(word_logps).sum() == pytest.approx(1)


@pytest.mark.parametrize(("n", "window", "lacks"), [(3, 2, False), (4, 2, True), (5, 3, True)])
def test_trees_inside_the_chart_add_up(n: int, window: int, lacks: bool) -> None:
    """GPST-5 L4: with W >= n - 2 the surrogates are those of the full chart, and the sum is below 1.

    With W = n - 2 a chart lacks some trees: they have no surrogates, and are left out of the sum.
    """
    p, outside_charts, sums = drawn_parameters(n, Sizes(vocabulary=2)), 0, list[float]()
    for words, tree in product(product(range(2), repeat=n), brute.binary_trees(0, n - 1)):
        ids = np.array(words)
        (chart, inner), (_, full) = (encode(replace(CONFIG, window=w), p, ids)[1:] for w in (window, n - 1))
        if all(k in chart.cells.get((i, j), ()) for i, k, j in tree):
            logps = [action_logps(CONFIG, p, [ids], [tree], [x.vectors]) for x in (inner, full)]
            np.testing.assert_allclose(*logps, rtol=1e-12)
            sums.append(float(logps[0].sum()))
        else:
            outside_charts += 1
    assert (outside_charts > 0) == lacks and 0 < sum(map(math.exp, sums)) < 1


@given(seed=seeds, n=st.integers(1, 5), before=st.lists(st.integers(1, 3), max_size=2), surrogate=st.booleans())
def test_steps_agree_with_teacher_forcing(seed: int, n: int, before: list[int], surrogate: bool) -> None:
    """GPST-4 L3, GPST-6 L1: it holds for any tree, also after other sentences."""
    config = replace(CONFIG, window=1, surrogate=surrogate)
    p = drawn_parameters(seed, Sizes(type_layers=2, token_layers=2, config=config))
    *context, ids = drawn_sentences(seed, [*before, n])
    every = list(brute.binary_trees(0, n - 1))
    tree = every[seed % len(every)]
    encoded = [encode(config, p, x)[1:] for x in context]
    trees = [*(induced_tree(chart, inner.scores) for chart, inner in encoded), tree]
    vectors = [*(inner.vectors for _, inner in encoded), surrogates(p, ids, tree)]
    forced = action_logps(config, p, [*context, ids], trees, vectors)[-(2 * n - 1) :]
    actions, stepped = [], []
    for i, j in post_order(tree):
        comp, gen, words = step_logps(config, p, actions, context)
        stepped.append(gen + words[ids[j]] if i == j else comp)
        actions.append(int(ids[j]) if i == j else -1)
    np.testing.assert_allclose(stepped, forced, rtol=1e-9, atol=1e-11)
    if not context:
        computed = losses(config, p, [ids])
        if computed.trees == [tree]:
            assert -computed.ar * (2 * n - 1) == pytest.approx(sum(stepped))


def test_noise_is_numbered_by_words() -> None:
    """GPST-2: point k of a sentence has the number of words before the sentence, plus k."""
    p, sentences = drawn_parameters(2), drawn_sentences(2, [3, 5])
    for seed in range(5):
        noise = gumbel(np.arange(8), seed)
        trees = []
        for ids, first in zip(sentences, (0, 3), strict=True):
            _, chart, inner = encode(CONFIG, p, ids, noise[first : first + len(ids) - 1])
            trees.append(induced_tree(chart, inner.scores))
        assert losses(CONFIG, p, sentences, seed).trees == trees


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: losses(CONFIG, p, []), "sentences: 0 is below 1"),
        (lambda p: losses(CONFIG, p, [np.array([], int)]), "n: an empty sentence"),
        (lambda p: losses(CONFIG, p, [np.array([1]), np.array([], int)]), "n: an empty sentence"),
        (lambda p: losses(CONFIG, p, [np.array([5])]), "ids: not all are integers in 0..4"),
        (lambda p: losses(CONFIG, p, [np.array([-1, 2])]), "ids: not all are integers in 0..4"),
        (lambda p: losses(CONFIG, p, [np.zeros(21, int)]), "context: 21 words, but the model has 20 positions"),
        (lambda p: losses(CONFIG, p, [np.zeros(11, int)] * 2), "context: 22 words"),
        (lambda p: action_logps(CONFIG, p, [np.zeros(3, int)], [[(0, 0, 1)]], [{}]), "trees: 1 splits for 3 words"),
        (lambda p: action_logps(CONFIG, p, [np.zeros(2, int)], [[(0, 1, 1)]], [{}]), "tree: "),
        (lambda p: action_logps(CONFIG, p, [], [], []), "sentences: 0 is below 1"),
        (lambda p: action_logps(CONFIG, p, [np.zeros(2, int)], [[(0, 0, 1)]], [{}]), "vectors: no surrogate of span 0"),
        (lambda p: losses(CONFIG, p, [np.array([1, 2])], atoms=[[], []]), "atoms: not one entry for each of 1 "),
        (lambda p: losses(CONFIG, p, [np.array([1, 2])], weights=[]), "weights, atoms: not one entry for each of 1"),
        (lambda p: step_logps(CONFIG, p, [-1]), "actions: -1 with 0 sub-trees: -1, COMP, needs two"),
        (lambda p: step_logps(CONFIG, p, [2, -1]), "actions: -1 with 1 sub-trees"),
        (lambda p: step_logps(CONFIG, p, [7]), "ids: not all are integers in 0..4"),
        (lambda p: step_logps(CONFIG, p, [0] * 20), "context: 20 words"),
        (lambda p: losses(replace(CONFIG, window=0), p, [np.array([1, 2])]), "window: 0"),
        (lambda p: losses(replace(CONFIG, n_heads=3), p, [np.array([1, 2])]), "n_heads: 3 does not divide 4"),
        (lambda p: Config(1, 1, 1, head="bilinear"), "head, height_norm: 'bilinear'"),
        (lambda p: Config(1, 1, 1, height_norm="n"), "head, height_norm: 'mlp', 'n'"),
    ],
)
def test_bad_input(call: object, words: str) -> None:
    """GPST-1 and GPST-3 to 6: every error message is one line."""
    with pytest.raises(ValueError, match=words) as caught:
        call(drawn_parameters(0))
    assert "\n" not in str(caught.value)


def test_context_of_all_positions() -> None:
    """A context may have P - 1 words; with float32 parameters all results are float32."""
    p = {name: x.astype(np.float32) for name, x in drawn_parameters(0).items()}
    ids = np.zeros(19, int)
    scores, chart, inner = encode(CONFIG, p, ids)
    logps = action_logps(CONFIG, p, [ids], [induced_tree(chart, inner.scores)], [inner.vectors])
    assert {scores.dtype, logps.dtype, inner.vectors[0, 18].dtype} == {np.dtype(np.float32)}
    assert COMP == 0 and GEN == 1
