"""What every family of models can do in Python, against the functions and the commands that do the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from math import log
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import trained
from accel.data.corpora.treebank import encode_trees
from accel.scoring.text import sentence_logps
from accel.scoring.trees import tree_logps
from accel.trained.interface import TrainedModel
from accel.trained.opening import open_model
from refimpl.trees import words
from tests.fixtures.stand_in_gpu import host_backend
from tests.fixtures.tiny_runs import KINDS, SENTENCES, TREES, runs

__all__ = ["host_backend", "runs"]

SMALL: dict[str, Any] = {"beam": 8, "max_open": 4, "max_opens": 2}
SEARCHES: dict[str, dict[str, Any]] = {"tg": SMALL, "txl_cc": SMALL, "gpst": {"beam": 6}}
READERS = ("tg", "txl_cc", "txl_terminals", "gpst", "gpt2", "pieces", "fasttrees", "lstm")
PARSERS = ("tg", "txl_cc", "span_parser", "gpst", "pieces", "fasttrees", "classifier", "treeformer")


def typed(options: dict[str, Any]) -> list[object]:
    return [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_run_is_opened(runs: dict[str, Path], kind: str) -> None:
    model = trained.open(runs[kind])
    assert model.path == runs[kind] / "best.safetensors" and model.kind.split()[0] in (kind, "gpst", "fasttrees")
    assert model.config.vocabulary_size == len(model.vocabulary) and "embedding" in " ".join(model.parameters)
    assert repr(model) == f"TrainedModel({str(model.path)!r}, kind={model.kind!r})"


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_pickled_with_its_weights(runs: dict[str, Path], kind: str) -> None:
    """A pool of processes pickles a model. Its run may be gone, and its weights may differ from those of the run."""
    model = trained.open(runs[kind])
    name = next(iter(model.parameters))
    model.parameters[name][:] = 0.5
    for copy in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        assert copy.kind == model.kind and copy.path == model.path and copy.vocabulary == model.vocabulary
        assert copy.config == model.config and copy.model.reading == model.model.reading
        assert copy.ops is model.ops and copy.parameters.keys() == model.parameters.keys()
        assert all(np.array_equal(value, copy.parameters[key]) for key, value in model.parameters.items())
        if kind == "tg":
            assert copy.tree_score(TREES).tolist() == model.tree_score(TREES).tolist()


@pytest.mark.parametrize("kind", READERS)
def test_scores_are_those_of_the_command(
    runs: dict[str, Path], kind: str, tmp_path: Path, grove: Callable[..., str]
) -> None:
    """Token, word and sequence scores, in every unit, agree with the surprisals of the command, for any batch size."""
    model, search = trained.open(runs[kind]), SEARCHES.get(kind, {})
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in SENTENCES))
    rows = grove("surprisal", "--checkpoint", runs[kind], tmp_path / "lines", *typed(search)).splitlines()[1:]
    bits = model.word_surprisals(SENTENCES, **search)
    assert [f"{x:.4f}" for line in bits for x in line] == [row.split("\t")[2] for row in rows]
    scores = model.word_score(SENTENCES, surprisal=True, base_two=True, **search)
    assert scores == [list(zip(s.split(), b.tolist(), strict=True)) for s, b in zip(SENTENCES, bits, strict=True)]
    tokens = model.token_score(SENTENCES, **search)
    sums = model.sequence_score(SENTENCES, reduction=lambda x: x.sum(0).item(), **search)
    np.testing.assert_allclose(sums, [-b.sum() * log(2) for b in bits], rtol=1e-9)
    means = model.sequence_score([s.split() for s in SENTENCES], batch_size=1, **search)
    np.testing.assert_allclose(means, [x / len(t) for x, t in zip(sums, tokens, strict=True)], rtol=1e-4)
    [probs] = model.token_score(SENTENCES[0], prob=True, **search)
    np.testing.assert_allclose(np.log([p for _, p in probs]), [x for _, x in tokens[0]], rtol=1e-4)
    if kind == "pieces":
        assert len(tokens[0]) > len(bits[0]) and "".join(t for t, _ in tokens[0]).startswith("\u2581")
    else:
        assert [t for t, _ in tokens[0]] == SENTENCES[0].split()


def test_scores_of_words_are_exact(runs: dict[str, Path]) -> None:
    model = trained.open(runs["fasttrees"])
    lines = [line.split() for line in SENTENCES]
    expected = [logps[:-1] for logps in sentence_logps(model.ops, model.model, lines)]
    for tokens, logps in zip(model.token_score(SENTENCES), expected, strict=True):
        np.testing.assert_allclose([x for _, x in tokens], logps, rtol=1e-9)
    assert model.token_score("the zebra")[0][1][0] == "<unk>"


def test_surprisals_from_proposals_and_after_lines(runs: dict[str, Path]) -> None:
    tg, parser, gpst = (trained.open(runs[name]) for name in ("tg", "span_parser", "gpst"))
    [first, _] = tg.word_surprisals(SENTENCES, parser=parser, proposals_per_sentence=2)
    best = tg.word_score(SENTENCES[:1], parser=parser, proposals_per_sentence=2, prob=True)
    np.testing.assert_allclose([p for _, p in best[0]], 2.0**-first, rtol=1e-6)
    alone, after = (gpst.word_surprisals(SENTENCES, context_lines=n) for n in (0, 1))
    np.testing.assert_allclose(alone[0], after[0], rtol=1e-4)
    assert not np.allclose(alone[1], after[1], rtol=1e-3)
    unsigned = gpst.word_surprisals(SENTENCES, context_lines=np.uint32(2))  # type: ignore[arg-type]
    np.testing.assert_array_equal(unsigned[1], after[1])


@pytest.mark.parametrize("kind", ["tg", "txl_cc", "txl_terminals"])
def test_trees(runs: dict[str, Path], kind: str, tmp_path: Path, grove: Callable[..., str]) -> None:
    model = trained.open(runs[kind])
    (tmp_path / "trees").write_text("".join(f"{tree}\n" for tree in TREES))
    expected = list(tree_logps(model.ops, [model.model], encode_trees(TREES, model.vocabulary)))
    for trees in (TREES, [str(tree) for tree in TREES], tmp_path / "trees"):
        np.testing.assert_array_equal(model.tree_score(trees), expected)
    output = grove("score", "--checkpoint", runs[kind], tmp_path / "trees").split()
    assert output == [f"{logp:.6f}" for logp in expected]
    twice = model.tree_score(TREES, ensemble_with=[model], ensemble="product")
    np.testing.assert_allclose(twice, expected, rtol=1e-5)
    (tmp_path / "proposals").write_text("".join(f"{tree}\n\n" for tree in TREES))
    results = [model.perplexity(trees=TREES), model.perplexity(proposals=[[tree, str(tree)] for tree in TREES])]
    results.append(model.perplexity(proposals=tmp_path / "proposals", max_words=10))
    for result in results:
        assert result.perplexity == pytest.approx(np.exp(-sum(expected) / 10), rel=1e-5)
        assert result.meaning == ("exact" if kind == "txl_terminals" else "upper bound")


@pytest.mark.parametrize("kind", READERS)
def test_no_sentences_have_no_scores(runs: dict[str, Path], kind: str) -> None:
    model = trained.open(runs[kind])
    assert model.token_score([]) == model.sequence_score([]) == model.word_surprisals([]) == []
    if "tg" in kind or "txl" in kind:
        for ensemble in ("mixture", "product"):
            assert model.tree_score([], ensemble_with=[model], ensemble=ensemble).shape == (0,)


def test_perplexity_of_text(runs: dict[str, Path], tmp_path: Path, grove: Callable[..., str]) -> None:
    model = trained.open(runs["lstm"])
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in SENTENCES))
    result = model.perplexity(tmp_path / "text")
    assert result == model.perplexity(SENTENCES) and result.n_words == 11
    output = grove("perplexity", "--checkpoint", runs["lstm"], "--text", tmp_path / "text")
    assert output.startswith(f"perplexity      {result.perplexity:.4f} (exact)\n")


@pytest.mark.parametrize("kind", PARSERS)
def test_parses(runs: dict[str, Path], kind: str, tmp_path: Path, grove: Callable[..., str]) -> None:
    model = trained.open(runs[kind])
    options = SMALL if kind in ("tg", "txl_cc") else {"layer": 1} if kind == "fasttrees" else {}
    trees = model.parse(SENTENCES, **options)
    assert [words(tree) for tree in trees if tree] == [line.split() for line in SENTENCES]
    if kind == "span_parser":
        proposed = model.propose(SENTENCES, 3)
        assert [group[0][0] for group in proposed] == trees and proposed[0][0][1] >= proposed[0][1][1]
    else:
        (tmp_path / "lines").write_text("".join(f"{line}\n" for line in SENTENCES))
        lines = grove("parse", "--checkpoint", runs[kind], tmp_path / "lines", *typed(options)).splitlines()
        assert lines == [str(tree) for tree in trees]


@pytest.mark.parametrize("kind", ["tg", "txl_terminals", "gpst", "gpt2", "pieces"])
def test_samples(runs: dict[str, Path], kind: str, grove: Callable[..., str]) -> None:
    model = trained.open(runs[kind])
    text = model.sample("the old", words=3, top_k=2, seed=4)
    command = ("generate", "--checkpoint", runs[kind], "--prefix", "the old", "--words", 3, "--seed", 4)
    assert grove(*command) == f"{text}\n" and 2 <= len(text.words) <= 5
    assert model.sample("the old", words=3, top_k=2, seed=np.int64(4)) == text
    if kind == "gpst":
        assert model.sample("the", context=SENTENCES, words=2).words[0] == "the"


def test_vectors(runs: dict[str, Path]) -> None:
    model = trained.open(runs["gpst"])
    first, second = model.embed(SENTENCES, batch_size=1)
    assert first.words == tuple(SENTENCES[0].split()) and first.spans.shape == (9, 2) and first.vectors.shape == (9, 4)
    assert first.spans[-1].tolist() == [0, 4] and second.vectors.dtype == np.float32
    np.testing.assert_allclose(model.embed(SENTENCES)[1].vectors, second.vectors, rtol=1e-4, atol=1e-6)


def test_translations(runs: dict[str, Path], tmp_path: Path, run_grove: Callable[..., tuple[int, str, str]]) -> None:
    model = trained.open(runs["treeformer"])
    targets = model.translate(SENTENCES, beam=2, extra_length=3)
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in SENTENCES))
    command = ("translate", "--checkpoint", runs["treeformer"], tmp_path / "lines", "--beam", 2, "--extra-length", 3)
    status, output, _ = run_grove(*command)
    assert output == "".join(f"{target}\n" for target in targets)
    assert status == (2 if any(target.limit for target in targets) else 0)


def test_another_backend_gives_the_same(runs: dict[str, Path], host_backend: ModuleType) -> None:
    """Results are arrays of NumPy, also if the backend computes on a device, here on the stand-in for a GPU."""
    for kind in ("tg", "gpst", "fasttrees"):
        there, here = TrainedModel(host_backend, open_model(host_backend, runs[kind])), trained.open(runs[kind])
        line = SENTENCES[0].split()[:3]
        options = {"beam": 3, "max_open": 3, "max_opens": 2} if kind == "tg" else {}
        np.testing.assert_allclose(
            there.sequence_score([line], **options), here.sequence_score([line], **options), 1e-4
        )
        if kind == "tg":
            np.testing.assert_allclose(there.tree_score(TREES), here.tree_score(TREES), rtol=1e-4)
        else:
            assert there.parse([line]) == here.parse([line])
        if kind == "gpst":
            [vectors] = there.embed([line])
            assert type(vectors.vectors) is np.ndarray
            np.testing.assert_allclose(vectors.vectors, here.embed([line])[0].vectors, rtol=1e-3, atol=1e-5)
