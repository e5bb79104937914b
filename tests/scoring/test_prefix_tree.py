"""Log-probabilities of prefixes, summed over proposals: against the reference, and errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.building import build
from accel.scoring import trees as score
from accel.scoring.prefix_tree import word_prefix_logps
from accel.trained.opening import Model
from refimpl.transformer_grammars import marginal
from refimpl.trees import ActionType, Tree
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.proposed_trees import CORPUS, GROUPS, PROPOSALS, VOCABULARY, model_of
from tests.fixtures.transformer_grammar_models import VARIANTS, parameters_of


@pytest.mark.parametrize("name", ["tg", "txl_cc"])
def test_beginnings_match_the_reference(backend: ModuleType, name: str) -> None:
    model = model_of(backend, VARIANTS[name])
    events = iter(list(score.event_logps(backend, [model], CORPUS)))
    computed = list(word_prefix_logps(backend, [model], CORPUS, GROUPS))
    assert len(computed) == len(PROPOSALS)
    for trees, logps in zip(PROPOSALS, computed, strict=True):
        expected = marginal.word_prefix_logps(trees, [next(events) for _ in trees])
        np.testing.assert_allclose(logps, expected, rtol=1e-10)


@pytest.mark.parametrize("groups", [None, GROUPS], ids=["by tree", "by prefix"])
def test_log_probabilities_come_to_the_host(groups: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are copied to the host once a batch, not once an event. NumPy cannot read arrays of a GPU."""
    sizes: list[int] = []

    def counted(array: np.ndarray) -> np.ndarray:
        sizes.append(array.size if array.dtype.kind == "f" and array.ndim == 1 else 0)
        return host(array)

    monkeypatch.setattr(score, "host", counted)
    events = list(score.event_logps(CPU, [model_of(CPU, VARIANTS["tg"])], CORPUS, groups=groups))
    assert max(sizes) > max(map(len, events)) and len(events) == sum(GROUPS)


@pytest.mark.parametrize("groups", [None, GROUPS], ids=["by tree", "by prefix"])
def test_final_states_stay_where_they_are(groups: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not copied to the host: a product of models multiplies them by the vocabulary on the device."""
    axes: list[int] = []

    def counted(array: np.ndarray) -> np.ndarray:
        axes.append(array.ndim)
        return host(array)

    monkeypatch.setattr(score, "host", counted)
    models = [model_of(CPU, VARIANTS["tg"])] * 2
    events = list(score.event_logps(CPU, models, CORPUS, ensemble="product", groups=groups))
    assert len(events) == sum(GROUPS) and max(axes) == 1


def test_an_empty_corpus_is_refused() -> None:
    nothing = encode_trees([], VOCABULARY)
    for groups in (None, []):
        with pytest.raises(ValueError, match="an empty corpus"):
            list(score.event_logps(CPU, [model_of(CPU, VARIANTS["tg"])], nothing, groups=groups))


def test_a_word_ends_with_its_last_piece(backend: ModuleType) -> None:
    spoken = ["a", "bee", "sees", "bees", "unseen"]
    trees = [Tree("S", (*spoken[:i], Tree("X", tuple(spoken[i:j])), *spoken[j:])) for i in (0, 1) for j in (2, 4)]
    vocabulary = build(trees, "sentencepiece", 270)
    corpus = encode_trees(trees, vocabulary)
    assert (corpus.terminals > corpus.words).all()
    config = replace(VARIANTS["tg"], vocabulary_size=len(vocabulary))
    model = Model(Path("run"), config, on_device(backend, parameters_of(config)), vocabulary, None)
    [computed] = word_prefix_logps(backend, [model], corpus, [len(trees)])
    ends = np.cumsum([len(vocabulary.encode_words([word])) for word in spoken]).tolist()
    word_prefixes: list[dict[bytes, float]] = [{} for _ in spoken]
    for tree, logps in enumerate(score.event_logps(backend, [model], corpus)):
        ids = corpus[tree]
        pieces = np.flatnonzero(vocabulary.type_of[ids] == ActionType.T)
        for word, end in enumerate(ends):
            last = pieces[end - 1]
            word_prefixes[word][ids[: last + 1].tobytes()] = logps[: last + 1].sum()
    expected = [marginal.sentence_logp(list(prefixes.values())) for prefixes in word_prefixes]
    np.testing.assert_allclose(computed, expected, rtol=1e-10)


def test_bad_proposals_are_named(backend: ModuleType) -> None:
    model = model_of(backend, VARIANTS["txl_cc"])
    words = replace(model, config=replace(model.config, model="txl_terminals"))
    proposals = [Tree("S", ("a", "b")), Tree("S", ("a", "c")), Tree("S", ("a",))]
    for models, trees, groups, reason in (
        ([words], proposals, [3], "run: a model of words needs no proposals"),
        ([model], proposals[:2], [2], "sentence 1: proposals over different words"),
        ([model], proposals[1:], [2], "sentence 1: proposals over different words"),
        ([model], proposals, [1, 0, 2], "sentence 2: no proposals"),
    ):
        with pytest.raises(ValueError, match=f"^{reason}$"):
            list(word_prefix_logps(backend, models, encode_trees(trees, VOCABULARY), groups))
