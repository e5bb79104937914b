"""The search over many hypotheses of many sentences, against the reference and against teacher forcing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from math import inf
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.building import build
from accel.data.vocabularies.vocabulary import END_ID, Vocabulary
from accel.scoring.trees import event_logps, tree_logps
from accel.search.pools import Limits
from accel.search.word_level import sample, surprisals, word_level_search
from accel.trained.opening import Model
from accel.verify.strategies import seeds
from refimpl.trees import Tree, actions, tree_from_actions
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import model_on
from tests.fixtures.enumerated_trees import WORDS, all_trees, drawn_words, total
from tests.fixtures.searched_models import PIECES, model_of, pieces_model, reference_limits, reference_model
from tests.fixtures.toy_run import VOCABULARY
from tests.fixtures.tree_search import bits_of, draw_actions, draw_text, n_open, search, terminals

SEARCHED: dict[str, dict[str, Any]] = {
    "tg": {},
    "tg_distinct": {"distinct_attention": True},
    "tg_free_head": {"unrestricted_heads": 1},
    "txl_cc": {"model": "txl_cc"},
}
N_TERMINALS = len(VOCABULARY.terminals)


@cache
def searched(variant: str) -> tuple[Model, Callable[[Sequence[str]], np.ndarray]]:
    model = model_of(**SEARCHED[variant])
    return model, reference_model(model)


def spelled(vocabulary: Vocabulary, actions: Sequence[int]) -> tuple[str, ...]:
    return tuple(vocabulary.symbols[i] for i in actions)


def drawn(seed: int, lengths: Sequence[int]) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(2, 2 + N_TERMINALS, n).tolist() for n in lengths]


def best_of(vocabulary: Vocabulary, parses: Sequence[Any]) -> list[tuple[tuple[str, ...], Any]]:
    return [(spelled(vocabulary, h.actions), pytest.approx(h.logp, rel=1e-8)) for h in parses]


@pytest.mark.parametrize("variant", SEARCHED)
@pytest.mark.parametrize(
    "limits",
    [
        Limits(4, 2, 1, max_open=4, max_opens=2),
        Limits(7, None, 0, max_open=3, max_opens=3),
        Limits(1, 1, 0, max_open=5, max_opens=1),
    ],
    ids=str,
)
def test_search_is_the_reference(backend: ModuleType, variant: str, limits: Limits) -> None:
    """WS-6 and WS-7 for a batch of sentences, over segments: parses, scores, prefixes, surprisals."""
    (model, exact), sentences, symbols = searched(variant), drawn(1, [4, 1, 2, 5]), VOCABULARY.symbols
    results = word_level_search(backend, model_on(backend, model), sentences, limits)
    bits = surprisals(backend, model_on(backend, model), sentences, limits, batch_size=3)
    for sentence, (parses, prefix_logps), of_words in zip(sentences, results, bits, strict=True):
        arguments = exact, symbols, spelled(VOCABULARY, sentence), reference_limits(limits)
        expected = search(*arguments)
        assert [(h.actions, h.logp) for h in expected[0]] == best_of(VOCABULARY, parses)
        assert prefix_logps == pytest.approx(expected[1], rel=1e-8)
        assert of_words == pytest.approx(bits_of(*arguments), rel=1e-8)


@pytest.mark.parametrize("complete", [False, True])
def test_sentences_that_begin_alike_are_as_alone(complete: bool) -> None:
    """Some sentences are equal, some begin others, some differ late: common beginnings are searched once."""
    model, limits = model_of(), Limits(6, 3, 1, max_open=3, max_opens=2)
    sentences = [[2, 4, 3, 2], [2, 4, 3], [3], [2, 4, 3, 4], [2, 4, 3], [2, 4]]
    together = word_level_search(CPU, model, sentences, limits, complete=complete)
    for sentence, (parses, prefix_logps) in zip(sentences, together, strict=True):
        ((alone, logps_alone),) = word_level_search(CPU, model, [sentence], limits, complete=complete)
        assert [h.actions for h in parses] == [h.actions for h in alone]
        assert [h.logp for h in parses] == pytest.approx([h.logp for h in alone], rel=1e-12)
        assert prefix_logps == pytest.approx(logps_alone, rel=1e-12)


@given(seed=seeds, lengths=st.lists(st.integers(1, 12), min_size=1, max_size=3), variant=st.sampled_from([*SEARCHED]))
def test_parses_have_the_score_of_teacher_forcing(seed: int, lengths: list[int], variant: str) -> None:
    """WS-6 L5: parses are well-formed trees of the given words, over segments and in float32."""
    model = model_of(**SEARCHED[variant])
    model = replace(model, parameters={name: x.astype(np.float32) for name, x in model.parameters.items()})
    sentences = drawn(seed, lengths)
    for sentence, (parses, _) in zip(sentences, word_level_search(CPU, model, sentences, Limits(5, 3, 1)), strict=True):
        trees = [tree_from_actions(spelled(VOCABULARY, h.actions)) for h in parses]
        spelled_out = [spelled(VOCABULARY, h.actions) for h in parses]
        assert all(VOCABULARY.encode_words(terminals(h)) == sentence for h in spelled_out)
        forced = list(tree_logps(CPU, [model], encode_trees(trees, VOCABULARY)))
        assert [h.logp for h in parses] == pytest.approx(forced, rel=1e-4)


def test_pieces_of_a_word_stay_together(backend: ModuleType) -> None:
    """WS-5: no bracket is inside a word."""
    model, limits = pieces_model(), Limits(6, 3, 1, max_open=3, max_opens=2)
    goes_on = [symbol for symbol, begins in zip(PIECES.symbols, PIECES.begins_word, strict=True) if not begins]
    sentence = PIECES.encode_words(["dogs", "hot"])
    assert len(sentence) > 3
    (parses, prefix_logps), = word_level_search(backend, model_on(backend, model), [sentence], limits)  # fmt: skip
    arguments = reference_model(model), PIECES.symbols, spelled(PIECES, sentence), reference_limits(limits, goes_on)
    expected = search(*arguments)
    assert [(h.actions, h.logp) for h in expected[0]] == best_of(PIECES, parses)
    assert prefix_logps == pytest.approx(expected[1], rel=1e-8)
    for h in parses:
        assert [a for a in PIECES.decode(h.actions) if a[0] != "(" and a[-1] != ")"] == ["dogs", "hot"]


@pytest.mark.parametrize("variant", SEARCHED)
@pytest.mark.parametrize("prefix", [[], [3, 2]])
def test_samples_are_the_reference(backend: ModuleType, variant: str, prefix: list[int]) -> None:
    """WS-7: they agree at every terminal, until a root is closed."""
    model, exact = searched(variant)
    arguments = exact, VOCABULARY.symbols
    for seed, limits in (
        (0, Limits(1)),
        (1, Limits(3, 2, 1, max_open=4, max_opens=2)),
        (2, Limits(4, None, 0, max_open=3, max_opens=2)),
    ):
        texts = list(islice(sample(backend, model_on(backend, model), limits, seed=seed, prefix=prefix), 4))
        for n, text in enumerate(texts, 1):
            expected = draw_text(*arguments, reference_limits(limits), n, seed, spelled(VOCABULARY, prefix))
            assert spelled(VOCABULARY, text) == expected
        if len(texts) < 4:
            assert not n_open(expected)


@pytest.mark.parametrize("size", [1, 0])
@pytest.mark.parametrize(("beam", "word_beam", "fast_track"), [(3, None, 0), (3, 1, 0), (1, None, 2), (3, 2, 2)])
def test_samples_without_sync_are_the_reference(size: int, beam: int, word_beam: int | None, fast_track: int) -> None:
    """WS-4, where every action counts as a word; at size 0 all actions have the same probability."""
    model = model_of()
    model = replace(model, parameters={name: size * x for name, x in model.parameters.items()})
    limits, exact = Limits(beam, word_beam, fast_track, max_open=3, max_opens=2), reference_model(model)
    for seed in range(8):
        *_, text = islice(sample(CPU, model, limits, seed=seed, sync=False), 4)
        expected = draw_actions(exact, VOCABULARY.symbols, reference_limits(limits), len(text), seed)
        assert spelled(VOCABULARY, text) == expected


@pytest.mark.parametrize("sync", [True, False])
def test_nothing_is_random_with_one_hypothesis(sync: bool) -> None:
    """WS-4, L1, also where others are set aside."""
    limits = Limits(1, 1, 2, max_open=3, max_opens=2)
    texts = [list(islice(sample(CPU, model_of(), limits, seed=seed, sync=sync), 4)) for seed in range(9)]
    assert texts == [texts[0]] * 9


def test_samples_go_on_with_whole_words(backend: ModuleType) -> None:
    """WS-7: no piece is added to the last word of a prefix."""
    model, limits, prefix = pieces_model(), Limits(3, 2, 1, max_open=3, max_opens=2), PIECES.encode_words(["dog"])
    goes_on = [symbol for symbol, begins in zip(PIECES.symbols, PIECES.begins_word, strict=True) if not begins]
    arguments = reference_model(model), PIECES.symbols, reference_limits(limits, goes_on)
    for seed in range(4):
        texts = list(islice(sample(backend, model_on(backend, model), limits, seed=seed, prefix=prefix), 2))
        expected = draw_text(*arguments, len(texts), seed, spelled(PIECES, prefix))
        assert spelled(PIECES, texts[-1]) == expected
        assert [a for a in PIECES.decode(texts[-1]) if a[0] != "(" and a[-1] != ")"][0] == "dog"


def test_samples_of_words() -> None:
    """A TXL (terminals) draws one of the most probable words, which may be the end of the sentence."""
    model = model_of(model="txl_terminals")
    texts = [tuple(islice(sample(CPU, model, Limits(2), seed=seed, prefix=[3]), 12))[-1] for seed in range(8)]
    assert len(set(texts)) > 4
    for text in texts:
        assert text[0] == 3 and all(1 <= word < 2 + N_TERMINALS for word in text) and END_ID not in text[:-1]
        words = [i for i in text if i != END_ID]
        tree = Tree(VOCABULARY.labels[0], tuple(VOCABULARY.symbols[i] for i in words))
        (logps,) = event_logps(CPU, [model], encode_trees([tree], VOCABULARY))
        assert (np.exp(logps[1 : len(text)]) > 1 / (2 + N_TERMINALS) / 2).mean() > 0.9


def test_an_impossible_word_has_infinite_surprisal() -> None:
    """So have all words after it; other sentences of the batch do not change."""
    model = model_of()
    bias = model.parameters["output_bias"].copy()
    bias[4] = -inf
    model = replace(model, parameters=model.parameters | {"output_bias": bias})
    first, second, third = surprisals(CPU, model, [[2, 4, 3], [3, 2], [4]], Limits(3, 2, 1, max_open=3, max_opens=2))
    assert np.isfinite(first).tolist() == [True, False, False] and third == [inf]
    alone = next(surprisals(CPU, model, [[3, 2]], Limits(3, 2, 1, max_open=3, max_opens=2)))
    assert second == pytest.approx(alone, rel=1e-13)  # exponentials in vectors and one by one differ in the last bit
    assert [parses.hypotheses for parses in word_level_search(CPU, model, [[4]], Limits(2))] == [[]]


def test_nothing_to_search() -> None:
    assert word_level_search(CPU, model_of(), [], Limits(3)) == []
    assert list(surprisals(CPU, model_of(), [], Limits(3))) == []


def spoiled(value: float) -> Model:
    model = model_of()
    bias = np.full_like(model.parameters["output_bias"], value)
    return replace(model, parameters=model.parameters | {"output_bias": bias})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Limits(0), "beam: 0 is below 1"),
        (lambda: Limits(1, 0), "word_beam: 0 is below 1"),
        (lambda: Limits(1, 1, -1), "fast_track: -1 is below 0"),
        (lambda: Limits(1, max_opens=0), "max_opens: 0 is below 1"),
        (lambda: word_level_search(CPU, model_of(), [[2], []], Limits(3)), "sentence 1: no words"),
        (
            lambda: word_level_search(CPU, model_of(), [[2, END_ID]], Limits(3)),
            "sentence 0: word 1 is 1, not a terminal",
        ),
        (
            lambda: next(surprisals(CPU, model_of(), [[2]], Limits(3), batch_size=0)),
            "batch_size 0: at least 1 is needed",
        ),
        (lambda: next(sample(CPU, model_of(), Limits(3), seed=0, prefix=[99])), "prefix: word 0 is 99"),
        (lambda: next(sample(CPU, model_of(), Limits(3), seed=0, context=[[2]])), "run: contexts, .* are for a GPST"),
        (lambda: next(sample(CPU, model_of(), Limits(3), seed=0, end=END_ID)), "run: .* end: are for a GPST"),
        (
            lambda: word_level_search(CPU, model_of(), [[2]], Limits(3), complete=False, sync=False),
            "complete, sync: with neither there is nothing to search",
        ),
        (
            lambda: word_level_search(CPU, pieces_model(), [PIECES.encode_words(["dogs"])[1:]], Limits(3)),
            "sentence 0: word 0 is [0-9]+, not a piece that begins a word",
        ),
        (lambda: word_level_search(CPU, spoiled(np.nan), [[2]], Limits(3)), "model: log p nan of action"),
        (
            lambda: word_level_search(CPU, model_of(model="txl_terminals"), [[2]], Limits(3)),
            "run: holds a txl_terminals, which gives no labelled trees; models that do: tg, txl_cc",
        ),
    ],
)
def test_bad_input(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("variant", SEARCHED)
@pytest.mark.parametrize(("n", "max_open", "max_opens"), [(6, 2, 2), (6, 3, 1), (4, 3, 3)])
def test_the_marginal_is_that_of_all_trees(variant: str, n: int, max_open: int, max_opens: int) -> None:
    """WS-6 L1: without pruning, sums are those of teacher forcing over all trees within the limits.

    Prefixes are sums over the beginnings of these trees.
    """
    vocabulary = build([Tree("X", WORDS)])
    model = replace(model_of(**SEARCHED[variant], vocabulary_size=len(vocabulary)), vocabulary=vocabulary)
    limits, sentence = Limits(10**6, None, 0, max_open=max_open, max_opens=max_opens), drawn_words(n, n)
    ((parses, prefix_logps),) = word_level_search(CPU, model, [vocabulary.encode_words(sentence)], limits)
    trees = all_trees(sentence, "X", reference_limits(limits))
    events = list(event_logps(CPU, [model], encode_trees(trees, vocabulary)))
    assert total([h.logp for h in parses]) == pytest.approx(total([float(x.sum()) for x in events]), rel=1e-9)
    assert len(parses) == len(trees) > 100
    word_prefixes: list[dict[tuple[str, ...], float]] = [{} for _ in sentence]
    for tree, of_tree in zip(trees, events, strict=True):
        sequence, logps, spoken = actions(tree), np.cumsum(of_tree), 0
        for i, action in enumerate(sequence):
            if action in WORDS:
                word_prefixes[spoken][tuple(sequence[: i + 1])] = float(logps[i])
                spoken += 1
    assert prefix_logps == pytest.approx([total(list(prefixes.values())) for prefixes in word_prefixes], rel=1e-9)
