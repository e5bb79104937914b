"""For every model, the loss and the gradients of a batch of 64 sequences are the sums over its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.data.batches.constituents import Encoded, assemble, span_number
from accel.data.batches.sequence_pairs import PairBatch, assemble_pairs
from accel.data.batches.trees import Batches
from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.affixes import AFFIXES
from accel.data.vocabularies.building import build
from accel.models import passes
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.fasttrees import language_model, sentence_classifier
from accel.models.gpst import model as gpst
from accel.models.transformer_grammars import model as transformer_grammar
from accel.models.transformer_grammars import span_parser
from accel.verify.strategies import SHAPES, make_tree
from tests.fixtures import encoder_decoder_models, gpst_batches, toy_text
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.gpst_batches import batch_with
from tests.fixtures.transformer_grammar_models import VARIANTS
from tests.fixtures.transformer_grammar_models import parameters_of as grammar_parameters

N = 64
PARTS = (7, 8, 1, 20, 28)
"""The number of sequences in each part."""
LENGTHS = [1 + b * 7 % 5 for b in range(N)]


@dataclass(frozen=True)
class Case:
    model: Any  # the module
    config: Any
    parameters: dict[str, np.ndarray]
    batch_of: Callable[[ModuleType, int, int], Any]  # the sequences from the first to before the last


def on(ops: ModuleType, batch: Any) -> Any:
    """Return the batch with the backend's arrays."""
    arrays = {name: ops.xp.asarray(x) for name, x in vars(batch).items() if isinstance(x, np.ndarray)}
    return replace(batch, **arrays)


def grammars(name: str) -> Case:
    trees = [make_tree(SHAPES[b % 5], n, b) for b, n in enumerate(LENGTHS)]
    vocabulary = build(trees)
    config = replace(VARIANTS[name], vocabulary_size=len(vocabulary), segment_length=40, n_layers=2)

    def batch_of(ops: ModuleType, first: int, last: int) -> Any:
        corpus = encode_trees(trees[first:last], vocabulary)
        return next(Batches(corpus, vocabulary, config, batch_size=last - first, ops=ops, epochs=1, prefetch=0))

    return Case(transformer_grammar, config, grammar_parameters(config), batch_of)


def texts(kind: str) -> Case:
    config = replace(toy_text.TEXTS[kind], alpha=0.0, beta=0.0)  # means over the whole batch, no sums
    ids, labels = np.random.default_rng(0).integers(0, toy_text.VOCABULARY, (2, N, 5)).astype(np.int32)

    def batch_of(ops: ModuleType, first: int, last: int) -> Any:
        words = [(ids[b, :n], labels[b, :n]) for b, n in enumerate(LENGTHS)][first:last]
        toy = toy_text.toy(ops, LENGTHS[first:last], 0)
        columns = (ops.xp.asarray(np.concatenate(column)) for column in zip(*words, strict=True))
        return toy._replace(**dict(zip(("ids", "labels"), columns, strict=True)))

    return Case(language_model, config, toy_text.parameters_of(language_model, config), batch_of)


def classes(name: str) -> Case:
    """Return sequences, or pairs, whose left sides all stand before all right sides."""
    config = toy_text.PAIRS[name]
    width = 1 + config.pair
    lengths = LENGTHS + LENGTHS[::-1]
    random = np.random.default_rng(0)
    ids = random.integers(0, toy_text.VOCABULARY, (len(lengths), 5)).astype(np.int32)
    labels = random.integers(0, toy_text.CLASSES, N).astype(np.int32)

    def batch_of(ops: ModuleType, first: int, last: int) -> Any:
        rows = [side * N + b for side in range(width) for b in range(first, last)]
        toy = toy_text.toy(ops, [lengths[row] for row in rows], 0, width)
        words = ops.xp.asarray(np.concatenate([ids[row, : lengths[row]] for row in rows]))
        return toy._replace(ids=words, labels=ops.xp.asarray(labels[first:last]))

    return Case(sentence_classifier, config, toy_text.parameters_of(sentence_classifier, config), batch_of)


def pairs(config: Any) -> Case:
    examples = encoder_decoder_models.pairs_of([(n, 1 + b * 3 % 4) for b, n in enumerate(LENGTHS)])

    def batch_of(ops: ModuleType, first: int, last: int) -> PairBatch:
        return on(ops, assemble_pairs(examples[first:last], CPU))

    return Case(encoder_decoder, config, encoder_decoder_models.parameters_of(config), batch_of)


def sentences() -> Case:
    """Return sentences of the span parser; the gold tree of each is one constituent over all words."""
    config = span_parser.Config(
        vocabulary_size=15, n_labels=3, d_model=8, n_layers=1, n_heads=2, d_ff=10, d_span=6, max_words=6, dropout=0.0
    )
    random = np.random.default_rng(0)
    encoded = [
        Encoded(
            [[int(x)] for x in random.integers(3, 9, n)],
            np.zeros((n, AFFIXES), np.int32),
            np.array([span_number(n, 0, n - 1)], np.int32),
            random.integers(0, 3, 1).astype(np.int32),
        )
        for n in LENGTHS
    ]
    parameters = {
        name: x + 0.3 * random.standard_normal(x.shape) for name, x in span_parser.initialise(config, 7).items()
    }
    return Case(span_parser, config, parameters, lambda ops, first, last: assemble(encoded[first:last], ops))


def contexts(**changes: Any) -> Case:
    """Return sentences of GPST, each in a context of its own."""
    config = gpst_batches.config_of(**changes)
    ids = np.split(gpst_batches.ids_of(LENGTHS), np.cumsum(LENGTHS)[:-1])

    def batch_of(ops: ModuleType, first: int, last: int) -> Any:
        words = np.concatenate(ids[first:last])
        return batch_with(words, LENGTHS[first:last], tuple(range(1, last - first)), ops)

    return Case(gpst, config, gpst_batches.parameters_of(config), batch_of)


CASES: dict[str, Callable[[], Case]] = {
    "transformer-grammar": lambda: grammars("tg"),
    "transformer-xl": lambda: grammars("txl_cc"),
    **{kind: lambda kind=kind: texts(kind) for kind in ("on_lstm", "fasttrees", "conv_fasttrees", "faster_fasttrees")},
    "pairs-of-sentences": lambda: classes("fasttrees"),
    "sentences": lambda: classes("single"),
    "encoder-decoder": lambda: pairs(encoder_decoder_models.config_of("positionwise")),
    "treeformer": lambda: pairs(
        encoder_decoder.Config(encoder_decoder_models.V, chart="paper", max_height=3, **encoder_decoder_models.SIZES)
    ),
    "span-parser": sentences,
    "gpst": contexts,
}


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_the_sum_of_its_parts(backend: ModuleType, name: str) -> None:
    if backend.name == "ref":
        pytest.skip("the reference has no gradients")
    case = CASES[name]()
    parameters, loss_and_grad = on_device(backend, case.parameters), case.model.loss_and_grad
    whole = case.batch_of(backend, 0, N)
    loss, gradients, _ = loss_and_grad(backend, case.config, parameters, whole)
    bounds = np.cumsum([0, *PARTS]).tolist()
    parts = [case.batch_of(backend, first, last) for first, last in zip(bounds[:-1], bounds[1:], strict=True)]
    counts = {"whole": gpst.counts(case.config, whole)} if case.model is gpst else {}
    losses, totals = [], {name: np.zeros(x.shape) for name, x in case.parameters.items()}
    for part in parts:
        part_loss, part_gradients, _ = loss_and_grad(backend, case.config, parameters, part, **counts)
        losses.append(part_loss)
        for key, gradient in part_gradients.items():
            totals[key] += host(gradient)
    assert loss == pytest.approx(sum(losses), rel=1e-10)
    for key, total in totals.items():
        np.testing.assert_allclose(host(gradients[key]), total, rtol=1e-9, atol=1e-10, err_msg=key)
    assert np.mean([np.abs(total).max() > 0 for total in totals.values()]) > 0.9


@pytest.mark.parametrize("name", ["encoder-decoder", "treeformer", "gpst"])
def test_the_most_probable_words_in_parts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Computing few logits at a time gives the same right words, also if the last part is smaller."""
    case = CASES[name]()
    batch = case.batch_of(CPU, 0, N)
    logp, right, _ = case.model.scores(CPU, case.config, case.parameters, batch)
    assert 0 < right.sum() < len(right)
    size = case.config.vocabulary_size
    for logits in (size - 1, size, 5 * size, len(right) * size - 1, len(right) * size):
        monkeypatch.setattr(passes, "LOGITS", logits)
        again, in_parts, _ = case.model.scores(CPU, case.config, case.parameters, batch)
        np.testing.assert_array_equal(in_parts, right)
        np.testing.assert_array_equal(again, logp)
