"""GPST's steps, and the search over many hypotheses of many sentences, against the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.autodiff.arrays import host
from accel.models.gpst import model as gpst
from accel.models.gpst.config import Config
from accel.parsing.gpst import left_to_right_spans
from accel.search import gpst_steps
from accel.search.gpst_steps import COMP, START, no_actions
from accel.search.lists import taken
from accel.search.pools import Limits, log_softmax
from accel.search.word_level import limits_of, sample, surprisals, word_level_search
from accel.verify.strategies import seeds
from refimpl.brute import binary_trees
from refimpl.gpst.generator import step_logps
from tests.fixtures.comparisons import close
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.enumerated_trees import catalan
from tests.fixtures.gpst_batches import V, batch_with, config_of, parameters_of, reference_config
from tests.fixtures.gpst_search import bits_of, draw_actions, draw_text, search, without_start
from tests.fixtures.searched_gpst import held, limits, saved, steps_of

VARIANTS: list[dict[str, Any]] = [{}, {"surrogate": False}, {"type_layers": 0}]


def drawn(seed: int, lengths: list[int]) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, V, n).tolist() for n in lengths]


def model_of(config: Config) -> Callable[[Sequence[int]], tuple[float, float, np.ndarray]]:
    return partial(step_logps, reference_config(config), parameters_of(config))


def best_of(parses: list) -> list[tuple[tuple[int, ...], float]]:
    return [(h.actions, pytest.approx(h.logp, rel=1e-9)) for h in parses]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_steps_are_the_reference(backend: ModuleType, changes: dict[str, Any]) -> None:
    """GPST-6 for hypotheses that branch, wait, continue, and are dropped."""
    config = config_of(**changes)
    steps, model = steps_of(backend, config), model_of(config)
    texts = [(1, 2, COMP, 3, 0, COMP, COMP), (1, 2, 3, COMP, 4), (1, 4, COMP), (1,)]
    states, branches = no_actions(1), [()]
    for t in count():
        last, generates = [actions[-1] if actions else START for actions in branches], np.ones(len(branches), bool)
        states, of_kinds, hidden = steps.read(states, np.array(last), generates)
        words, logps = steps.best_words(hidden, V)
        for actions, pair, ids, several in zip(branches, of_kinds, words, logps, strict=True):
            comp, gen, expected = model(actions)
            close(pair, [comp, gen])
            close(several, expected[1:])
            assert ids.tolist() == list(range(1, V))
        words_asked = 1 + np.arange(len(words)) % (V - 1)
        close(steps.word_logps(hidden, words_asked), logps[np.arange(len(words)), words_asked - 1])
        number = {actions: i for i, actions in enumerate(branches)}
        branches = sorted({text[: t + 1] for text in texts if len(text) > t})
        if not branches:
            break
        states = steps.keep(taken(states, [number[actions[:t]] for actions in branches]))
        assert steps.size == len({actions[:i] for actions in branches for i in range(t + 1)})


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("sync", [True, False])
def test_search_is_the_reference(backend: ModuleType, changes: dict[str, Any], sync: bool) -> None:
    """WS-2 for a batch of sentences: parses, their scores, and the scores of all prefixes."""
    config, sentences = config_of(**changes), drawn(1, [4, 1, 2, 5])
    for beam in (1, 3, 20):
        results = word_level_search(*held(backend, config), sentences, limits(beam), sync=sync)
        for sentence, (parses, prefix_logps) in zip(sentences, results, strict=True):
            expected = search(model_of(config), beam, sentence, sync=sync)
            assert [(h.actions, h.logp) for h in parses] == best_of(expected[0])
            assert prefix_logps == pytest.approx(expected[1], rel=1e-9)


@given(seed=seeds, lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_a_wide_beam_is_exact(seed: int, lengths: list[int]) -> None:
    """WS-1 L1 and L2, WS-2 L1: the beam holds all trees, and all prefixes are exact.

    At window 1 the induced tree has the log-probability of teacher forcing.
    """
    config, sentences = config_of(window=1), drawn(seed, lengths)
    model = model_of(config)
    for ids, (parses, prefix_logps) in zip(
        sentences, word_level_search(*held(CPU, config), sentences, limits(catalan(max(lengths)))), strict=True
    ):
        assert len(parses) == len({h.actions for h in parses}) == catalan(len(ids))
        batch = batch_with(np.array(ids, np.int32), [len(ids)])
        spans, *_ = gpst.induced_trees(CPU, config, parameters_of(config), batch.ids, batch.offsets)
        actions = tuple(ids[i] if i == j else COMP for i, j in spans.tolist())
        forced = gpst.token_logps(CPU, config, parameters_of(config), batch)[0].sum()
        assert {h.actions: h.logp for h in parses}[actions] == pytest.approx(forced, rel=1e-9)
        beginnings = search(model, 10**6, ids)[1]
        assert prefix_logps == pytest.approx(beginnings, rel=1e-9)


def test_sentences_side_by_side_are_as_alone() -> None:
    """It holds in float32, with beams that only some sentences fill."""
    config, sentences = config_of(), drawn(11, [9, 1, 4, 12, 2, 9, 3])
    single = {name: value.astype(np.float32) for name, value in parameters_of(config).items()}
    model = replace(saved(config), parameters=single)
    for sync in (True, False):
        together = word_level_search(CPU, model, sentences, limits(6), sync=sync)
        for sentence, (parses, prefix_logps) in zip(sentences, together, strict=True):
            ((alone, prefix_logps_alone),) = word_level_search(CPU, model, [sentence], limits(6), sync=sync)
            assert [(h.actions, h.complete) for h in parses] == [(h.actions, h.complete) for h in alone]
            assert [h.logp for h in parses] == pytest.approx([h.logp for h in alone], rel=1e-5)
            assert prefix_logps == pytest.approx(prefix_logps_alone, rel=1e-5)


def test_surprisals_are_the_reference(backend: ModuleType) -> None:
    """WS-3 L1: later words and other sentences change nothing; the last word of a full context has bits, too."""
    config, sentences = config_of(), drawn(2, [5, 3, 1, 6])
    sentences.append(sentences[0][:3])
    bits_of_sentences = list(surprisals(*held(backend, config), sentences, limits(4), batch_size=3))
    for sentence, bits in zip(sentences, bits_of_sentences, strict=True):
        assert bits == pytest.approx(bits_of(model_of(config), 4, sentence), rel=1e-9)
    assert bits_of_sentences[4] == pytest.approx(bits_of_sentences[0][:3], rel=1e-9)
    long = drawn(3, [config.n_positions - 1])
    assert len(next(surprisals(*held(CPU, config), long, limits(1)))) == config.n_positions - 1


@pytest.mark.parametrize("prefix", [[], [3], [1, 4, 2]])
def test_samples_are_the_reference(backend: ModuleType, prefix: list[int]) -> None:
    """WS-4: the drawn texts agree word by word."""
    config = config_of()
    model = without_start(model_of(config))
    for seed, beam in ((0, 1), (1, 2), (2, 5)):
        texts = list(islice(sample(*held(backend, config), limits(beam), seed=seed, prefix=prefix), 3))
        assert texts == [draw_text(model, beam, n, seed, prefix) for n in (1, 2, 3)]
    full = draw_text(model, 3, 4, 7)
    end = [a for a in full if a >= 0][2]
    samples = list(sample(*held(backend, config), limits(3), seed=7, end=end))
    assert samples[-1] == draw_text(model, 3, 9, 7, end=end) and samples[-1][-1] == end


@pytest.mark.parametrize("prefix", [[], [1, 4, 2]])
def test_samples_without_sync_are_the_reference(backend: ModuleType, prefix: list[int]) -> None:
    """WS-4, where every action counts as a word; each text that is yielded ends with a word."""
    config, texts = config_of(), set()
    for seed, beam in ((0, 1), (1, 2), (2, 5), (3, 5)):
        options = {"seed": seed, "prefix": prefix, "sync": False}
        *_, text = islice(sample(*held(backend, config), limits(beam), **options), 4)
        model = without_start(model_of(config))
        assert text == draw_actions(model, beam, len(text), seed, prefix) and text[-1] >= 0
        assert sum(action >= 0 for action in text) == len(prefix) + 4
        texts.add(text)
    assert any(COMP in text for text in texts) and len(texts) > 1


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_sentences_before_are_read_as_the_reference_reads_them(backend: ModuleType, changes: dict[str, Any]) -> None:
    """They are read with induced trees and vectors, at window 2; each sentence has another context."""
    config, sentences = config_of(**changes), drawn(5, [3, 1, 4, 2])
    contexts = [drawn(6, [5, 1]), [], drawn(7, [1]), drawn(8, [2, 4, 6])]
    models = [
        partial(step_logps, *model_of(config).args, context=[np.array(ids) for ids in context]) for context in contexts
    ]
    for beam in (2, 7):
        arguments = *held(backend, config), sentences, limits(beam)
        results = word_level_search(*arguments, contexts=contexts)
        bits = surprisals(*arguments, contexts=contexts, batch_size=3)
        for sentence, model, (parses, prefix_logps), of_words in zip(sentences, models, results, bits, strict=True):
            expected = search(model, beam, sentence)
            assert [(h.actions, h.logp) for h in parses] == best_of(expected[0])
            assert prefix_logps == pytest.approx(expected[1], rel=1e-9)
            assert of_words == pytest.approx(bits_of(model, beam, sentence), rel=1e-9)
    for prefix in ([], [3, 1]):
        options = {"seed": 2, "prefix": prefix, "context": contexts[3]}
        texts = list(islice(sample(*held(backend, config), limits(3), **options), 2))
        assert texts == [draw_text(without_start(models[3]), 3, n, 2, prefix) for n in (1, 2)]


@pytest.mark.parametrize(("window", "piece"), [(1, 1), (1, 128), (2, 7)])
def test_search_in_a_context_agrees_with_teacher_forcing(
    window: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds for the last sentence of a context, whatever number of earlier words is read at a time.

    At window 2 the sentence has two words.
    """
    monkeypatch.setattr(gpst_steps, "PIECE", piece)
    config, lengths = config_of(window=window), [3, 1, 9, 4, 2 if window == 2 else 5]
    sentences = drawn(9, lengths)
    batch = batch_with(np.concatenate(sentences).astype(np.int32), lengths)
    spans, bounds, _ = gpst.induced_trees(CPU, config, parameters_of(config), batch.ids, batch.offsets)
    actions = tuple(sentences[-1][i] if i == j else COMP for i, j in spans[bounds[-2] :].tolist())
    forced = gpst.token_logps(CPU, config, parameters_of(config), batch)[0][-lengths[-1] :].sum()
    all_trees = limits(catalan(lengths[-1]))
    ((parses, _),) = word_level_search(*held(CPU, config), sentences[-1:], all_trees, contexts=[sentences[:-1]])
    assert {h.actions: h.logp for h in parses}[actions] == pytest.approx(forced, rel=1e-9)


def cuts(i: int, j: int, begins: list[int], n: int) -> bool:
    """Return whether a span has only a part of some word, and also something outside of that word."""
    bounds = [*begins, n]
    return any(a <= j and i < b and not (i <= a and b - 1 <= j) and not (a <= i and j < b)
               for a, b in zip(bounds, bounds[1:], strict=False))  # fmt: skip


@pytest.mark.parametrize("sizes", [[1, 2, 1], [2, 2], [1, 1, 3], [4], [3, 1, 1], [1, 1, 1, 1]])
def test_no_word_is_split(sizes: list[int]) -> None:
    """The search finds exactly the trees in which every word is a constituent; the spans are of one of them."""
    config, n = config_of(), sum(sizes)
    ids = drawn(4, [n])[0]
    begins = np.cumsum([0, *sizes[:-1]]).tolist()
    begins_word = [[k in begins for k in range(n)]]
    (parses, _), = word_level_search(*held(CPU, config), [ids], limits(100), begins_word=begins_word)  # fmt: skip
    free = {h.actions: h.logp for h in word_level_search(*held(CPU, config), [ids], limits(100))[0].hypotheses}
    whole = [tree for tree in binary_trees(0, n - 1) if not any(cuts(i, j, begins, n) for i, _, j in tree)]
    assert len(parses) == len(whole) and all(free[h.actions] == pytest.approx(h.logp) for h in parses)
    word = np.repeat(np.arange(len(sizes)), sizes)
    pieces = [[ids[k] for k in range(n) if word[k] == w] for w in range(len(sizes))]
    (spans,) = left_to_right_spans(CPU, saved(config), [pieces], beam=100)
    trees = [sorted({(int(word[i]), int(word[j])) for i, _, j in tree if word[i] < word[j]},
                    key=lambda span: (span[0], -span[1])) for tree in whole]  # fmt: skip
    assert spans in trees and len(spans) == len(sizes) - 1


@given(seed=seeds, beam=st.integers(1, 4), sync=st.booleans())
def test_left_to_right_spans(seed: int, beam: int, sync: bool) -> None:
    """The spans are a binary tree over the words, the same alone and in a batch."""
    config, draw = config_of(), np.random.default_rng(seed)
    sentences = [drawn(seed + b, draw.integers(1, 4, draw.integers(1, 6)).tolist()) for b in range(4)]
    run = partial(left_to_right_spans, CPU, saved(config), beam=beam, sync=sync)
    together = list(run(sentences, batch_size=3))
    for words, spans in zip(sentences, together, strict=True):
        assert len(set(spans)) == len(spans) == len(words) - 1
        assert not any(a < i <= b < j for i, j in spans for a, b in spans)
    assert list(run(sentences[:1])) == together[:1]


def test_usual_limits_are_shares_of_the_beam() -> None:
    assert limits_of() == Limits(100, 10, 5) and limits_of(4) == Limits(4, 1, 0)
    assert limits_of(50, word_beam=7) == Limits(50, 7, 2) and limits_of(50, fast_track=7) == Limits(50, 5, 7)


def test_great_logits_have_log_probabilities(backend: ModuleType) -> None:
    """The exponentials of such logits are infinite."""
    logits = backend.xp.asarray([[2000.0, 0.0, -2000.0]], dtype=np.float32)
    logps = host(log_softmax(backend.xp, logits))
    np.testing.assert_array_equal(logps, [[0.0, -2000.0, -4000.0]])
