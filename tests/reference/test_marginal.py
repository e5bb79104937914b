"""The laws of specs/transformer_grammars/marginal.md, also for log-zero, underflow and single models."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accel.data.files.brackets import read_trees
from refimpl.transformer_grammars import marginal
from refimpl.transformer_grammars.marginal import (
    document_logps,
    mixture_logp,
    perplexity,
    product_logp,
    sentence_logp,
    unique_trees,
    word_prefix_logps,
)
from refimpl.trees import ActionType, Tree, action_type, actions, words
from tests.fixtures.enumerated_trees import proposals_of

VECTORS = sorted((Path(__file__).parents[2] / "specs/vectors/transformer_grammars/marginal").glob("*.json"))
INF = math.inf
logps = st.one_of(st.floats(-1e5, 0.0), st.just(-INF), st.just(0.0))


@st.composite
def models(draw: st.DrawFn, normalised: bool = True) -> np.ndarray:
    """Draw log-probabilities [K, T, V] of K models; some events are impossible, but never the last."""
    k, t, v = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.standard_normal((k, t, v)) * draw(st.sampled_from([0.0, 1.0, 300.0]))
    scores[..., :-1][rng.random((k, t, v - 1)) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = -INF
    return scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True) if normalised else scores


def value(x: Any) -> Any:
    """Return a value of a vector file, in which "-inf", "inf" and "nan" are strings, as numbers."""
    return [value(y) for y in x] if isinstance(x, list) else float(x) if isinstance(x, str) else x


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vectors(path: Path) -> None:
    vector = json.loads(path.read_text())
    function = getattr(marginal, vector["function"].rsplit(".", 1)[1])
    fields = vector["inputs"].items()
    inputs = {name: list(read_trees(x)) if name == "proposal_trees" else value(x) for name, x in fields}
    if "error" in vector:
        with pytest.raises(ValueError, match=re.escape(vector["error"].split(": ", 1)[1])):
            function(**inputs)
    else:
        np.testing.assert_allclose(function(**inputs), value(vector["expect"]), rtol=1e-12, atol=1e-15)


@given(st.lists(logps, max_size=8), logps, st.randoms())
@example([], -INF, None)
@example([-INF, -INF], -INF, None)
def test_sentence_laws(tree_logps: list[float], one_more: float, random: Any) -> None:
    bound = sentence_logp(tree_logps)
    assert bound >= max(tree_logps, default=-INF)
    assert sentence_logp([*tree_logps, one_more]) >= bound
    assert sentence_logp([*tree_logps, -INF]) == bound
    assert sentence_logp([one_more]) == one_more
    if random is not None:
        shuffled = random.sample(tree_logps, len(tree_logps))
        assert sentence_logp(shuffled) == pytest.approx(bound, rel=1e-14, abs=1e-14)


@st.composite
def proposals(draw: st.DrawFn) -> tuple[list[Tree], list[list[float]]]:
    """Draw different trees over the same words, and their actions' log-probabilities under a random model."""
    trees = proposals_of(draw(st.integers(1, 6)), draw(st.lists(st.integers(0, 99), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sharpness = draw(st.sampled_from([0.0, 1.0, 300.0]))
    following: dict[tuple[str, ...], dict[str, float]] = {}
    for tree in trees:
        sequence = tuple(actions(tree))
        for i, action in enumerate(sequence):
            following.setdefault(sequence[:i], {})[action] = rng.standard_normal() * sharpness
    for events in following.values():
        total = np.logaddexp.reduce([*events.values(), rng.standard_normal()])
        events.update({action: -INF if rng.random() < 0.05 else float(x - total) for action, x in events.items()})
    logps = [
        [following[sequence[:i]][sequence[i]] for i in range(len(sequence))]
        for sequence in (tuple(actions(t)) for t in trees)
    ]
    return trees, logps


@given(proposals())
def test_prefix_laws(drawn: tuple[list[Tree], list[list[float]]]) -> None:
    trees, logps = drawn
    bounds = word_prefix_logps(trees, logps)
    assert len(bounds) == len(words(trees[0]))
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise([0.0, *bounds]))
    assert bounds[-1] >= sentence_logp([sum(events) for events in logps]) - 1e-9
    spoken = [i for i, action in enumerate(actions(trees[0])) if action_type(action) == ActionType.T]
    fewer = [sum(logps[0][: i + 1]) for i in spoken]
    np.testing.assert_allclose(word_prefix_logps(trees[:1], logps[:1]), fewer, rtol=1e-12)
    for n in range(1, len(trees) + 1):
        more = word_prefix_logps(trees[:n], logps[:n])
        assert all(x >= y - 1e-9 for x, y in zip(more, fewer, strict=True))
        fewer = more
    again = word_prefix_logps([*trees[::-1], trees[0]], [*logps[::-1], logps[0]])
    np.testing.assert_allclose(again, bounds, rtol=1e-12, atol=1e-12)


@given(st.lists(st.lists(logps, min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_document_laws(costs: list[list[float]], seed: int) -> None:
    """In this model the score of a tree depends on its sentence, on itself, and on every tree before."""
    draw = np.random.default_rng(seed).standard_normal((len(costs), len(costs), 5))
    proposals = [[Tree(f"S{i}", (f"{j}",)) for j in range(len(row))] for i, row in enumerate(costs)]

    def model(before: Sequence[Tree], tree: Tree) -> float:
        i, j = len(before), int(tree.children[0])
        return costs[i][j] - sum(abs(draw[i, k, int(x.children[0])]) for k, x in enumerate(before))

    values = document_logps(model, proposals)
    assert values[0] == sentence_logp(costs[0])
    assert document_logps(model, proposals[:-1]) == values[:-1]
    best: list[Tree] = []
    for trees in proposals:
        best.append(trees[int(np.argmax([model(best, tree) for tree in trees]))])
    single = document_logps(model, [[tree] for tree in best])
    assert single == [model(best[:i], tree) for i, tree in enumerate(best)]
    assert all(more >= less for more, less in zip(values, single, strict=True))


def test_unique_trees() -> None:
    np_bird, vp_bird = Tree("NP", ("bird",)), Tree("VP", ("bird",))
    proposals = [np_bird, vp_bird, Tree("NP", ("bird",)), vp_bird]
    assert unique_trees(proposals) == [np_bird, vp_bird]
    assert unique_trees(unique_trees(proposals)) == [np_bird, vp_bird]
    assert unique_trees([]) == []
    deep = [np_bird, np_bird]
    for _ in range(50_000):
        deep = [Tree("NP", (tree,)) for tree in deep]
    assert len(unique_trees(deep)) == 1


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.floats(1.0, 1e4), logps)
def test_perplexity_laws(lengths: list[int], branching: float, lower: float) -> None:
    uniform = [-n * math.log(branching) for n in lengths]
    ppl = perplexity(uniform, sum(lengths))
    assert ppl == pytest.approx(branching, rel=1e-12)
    assert perplexity([uniform[0] + lower, *uniform[1:]], sum(lengths)) >= ppl * (1 - 1e-12)
    assert perplexity([-INF, *uniform], sum(lengths)) == INF
    n, ends = sum(lengths), len(lengths)
    assert perplexity(uniform, n + ends) == pytest.approx(ppl ** (n / (n + ends)), rel=1e-12)


def test_ends_in_the_paper_s_tables() -> None:
    """Point f: the page's figures follow from Tables 1 and 2 and the counts in footnote 2."""
    page = (Path(__file__).parents[2] / "specs/transformer_grammars/marginal.md").read_text(encoding="utf-8")
    columns = []
    for n_words, n_sentences, terminals, cc in (
        (72_455, 3_000, (31.2, 23.1), (29.8, 22.1)),  # sentences, documents
        (34_925, 1_500, (32.2, 23.3), (30.9, 22.3)),
    ):
        (words_alone, document), (cc_sentence, cc_document) = (map(math.log, pair) for pair in (terminals, cc))
        with_ends = words_alone * (n_words + n_sentences) / n_words
        columns.append([
            document - cc_document, words_alone - cc_sentence, with_ends - cc_sentence,
            cc_sentence - cc_document, words_alone - document, with_ends - document,
        ])  # fmt: skip
    rows = [line.split(" | ")[1:] for line in page.splitlines() if line.startswith("|") and line.count("0.") == 2]
    assert [" | ".join(row).strip(" |") for row in rows] == [
        f"{a:.3f} | {b:.3f}" for a, b in zip(*columns, strict=True)
    ]


@given(models(), st.integers(1, 5))
def test_mixture_laws(p: np.ndarray, copies: int) -> None:
    mixture = mixture_logp(p)
    np.testing.assert_allclose(mixture_logp(np.repeat(p[:1], copies, axis=0)), p[0], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(np.exp(mixture).sum(axis=-1), 1.0, rtol=1e-12)
    assert (mixture >= p.min(axis=0) - 1e-12).all() and (mixture <= p.max(axis=0) + 1e-12).all()
    np.testing.assert_allclose(mixture_logp(p[::-1]), mixture, rtol=1e-13, atol=1e-13)


@given(models(normalised=False), st.integers(1, 5), st.floats(-50.0, 50.0))
def test_product_laws(p: np.ndarray, copies: int, shift: float) -> None:
    product = product_logp(p)
    np.testing.assert_allclose(np.exp(product).sum(axis=-1), 1.0, rtol=1e-12)
    assert np.isneginf(product[np.isneginf(p).any(axis=0)]).all()
    one = product_logp(p[:1])
    np.testing.assert_allclose(product_logp(np.repeat(one[None], copies, axis=0)), one, rtol=1e-12, atol=1e-12)
    shifted = np.concatenate([p[:1] + shift, p[1:]])
    np.testing.assert_allclose(product_logp(shifted), product, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(dtype: type) -> None:
    p = np.log(np.array([[0.5, 0.5], [0.25, 0.75]], dtype=dtype))
    assert mixture_logp(p).dtype == dtype and product_logp(p).dtype == dtype


A_TREE = Tree("S", ("a",))


@pytest.mark.parametrize("bad", [math.nan, INF])
def test_what_is_no_log_probability(bad: float) -> None:
    for call in (
        lambda: sentence_logp([-1.0, bad]),
        lambda: perplexity([-1.0, bad], 3),
        lambda: mixture_logp([[-1.0], [bad]]),
        lambda: product_logp([[-1.0], [bad]]),
        lambda: word_prefix_logps([A_TREE], [[0.0, bad, 0.0]]),
        lambda: document_logps(lambda *_: bad, [[A_TREE]]),
    ):
        with pytest.raises(ValueError, match="_?logps holds a NaN or"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: perplexity([-1.0], 0), "n_words, sentence_logps: 0 words in 1 sentences"),
        (lambda: perplexity([], 3), "n_words, sentence_logps: 3 words in 0 sentences"),
        (
            lambda: mixture_logp(np.zeros((0, 3))),
            r"logps of shape \(0, 3\) needs 1 or more axes, and one or more models",
        ),
        (lambda: product_logp(np.zeros((0, 3))), r"logps of shape \(0, 3\) needs 2 or more axes"),
        (lambda: product_logp([-1.0, -2.0]), r"logps of shape \(2,\) needs 2 or more axes"),
        (lambda: product_logp([[0.0, -INF], [-INF, 0.0]]), "the product of experts is empty"),
        (lambda: word_prefix_logps([], []), "proposal_trees must be one or more, over the same words"),
        (lambda: document_logps(lambda *_: 0.0, [[A_TREE], []]), "sentence 2: no proposals"),
        (lambda: word_prefix_logps([A_TREE], [[0.0, 0.0]]), "argument 2 is shorter"),
        (
            lambda: word_prefix_logps([A_TREE, Tree("S", ("b",))], [[0.0] * 3] * 2),
            "proposal_trees must be one or more, over the same words",
        ),
    ],
)
def test_errors(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
