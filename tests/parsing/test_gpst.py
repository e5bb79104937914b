"""Trees of GPST over words of several pieces against the reference, in any batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.gpst import model as gpst
from accel.parsing.gpst import inside_spans, left_to_right_spans, spans_of
from accel.trained.opening import Model
from refimpl.gpst import parser as exact
from refimpl.gpst.inside_outside import induced_tree, inside
from refimpl.gpst.pruned_chart import merge_order, pruned_chart
from refimpl.layers import embedding, linear
from tests.fixtures.device_parameters import on_device
from tests.fixtures.enumerated_trees import atoms

CONFIG = gpst.Config(
    13, d_model=8, n_heads=2, type_layers=1, token_layers=1, d_compose=4, compose_heads=2, compose_layers=1, d_score=3,
    d_parser=8, parser_heads=2, parser_layers=1, parser_feed_forward=5,
)  # fmt: skip
DRAW = np.random.default_rng(1)
PARAMETERS = {
    name: x.astype(np.float64) + 0.5 * DRAW.standard_normal(x.shape) for name, x in gpst.initialise(CONFIG, 2).items()
}
Sentence = list[list[int]]


def model_of(ops: ModuleType, window: int = 2) -> Model:
    parameters = on_device(ops, PARAMETERS)
    return Model(Path("run"), replace(CONFIG, window=window), parameters, None, None, gpst)


def expected(words: Sentence, window: int = 2) -> list[tuple[int, int]]:
    """Return the spans of the reference's tree, counted in words."""
    config = exact.Config(CONFIG.n_heads, CONFIG.compose_heads, CONFIG.parser_heads)
    ids = np.array([i for pieces in words for i in pieces])
    whole = atoms([k == 0 for pieces in words for k in range(len(pieces))])
    word = [number for number, pieces in enumerate(words) for _ in pieces]
    p = {name.removeprefix("composition."): x for name, x in PARAMETERS.items() if name.startswith("composition.")}
    chart = pruned_chart(merge_order(exact.split_scores(config, PARAMETERS, ids), whole), len(ids), window)
    leaves = linear(embedding(PARAMETERS["embedding"], ids), PARAMETERS["down"], PARAMETERS["down_bias"])
    tree = induced_tree(chart, inside(leaves, chart, p, CONFIG.compose_heads).scores, whole)
    return [(word[i], word[j]) for i, _, j in tree if word[i] < word[j]]


def drawn(seed: int, n_sentences: int, longest: int = 6) -> list[Sentence]:
    draw = np.random.default_rng(seed)
    return [
        [draw.integers(0, 13, draw.integers(1, 4)).tolist() for _ in range(draw.integers(1, longest + 1))]
        for _ in range(n_sentences)
    ]


@pytest.mark.parametrize("window", [1, 2, 30])
def test_trees_are_the_reference_s(backend: ModuleType, window: int) -> None:
    sentences = [*drawn(0, 9), [[3]], [[1, 2, 3]], [[4], [5]]]
    predicted = list(inside_spans(backend, model_of(backend, window), sentences, batch_size=5))
    assert predicted == [expected(words, window) for words in sentences]


@given(st.integers(0, 9999), st.integers(1, 4))
def test_no_word_is_split(seed: int, batch_size: int) -> None:
    """The spans are a binary tree over the words, whether a sentence is parsed alone or in a batch."""
    sentences = drawn(seed, 5, 9)
    cpu = accel.load("cpu")
    together = list(inside_spans(cpu, model_of(cpu), sentences, batch_size=batch_size))
    for words, spans in zip(sentences, together, strict=True):
        assert len(set(spans)) == len(spans) == len(words) - 1
        assert not any(a < i <= b < j for i, j in spans for a, b in spans)
        assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
    assert list(inside_spans(cpu, model_of(cpu), sentences[:1])) == together[:1]


@pytest.mark.parametrize("window", [1, 2])
def test_trees_of_the_split_parser(backend: ModuleType, window: int) -> None:
    """Every span is split where the parser's score is highest, for every window and composition model."""
    model, sentences = model_of(backend, window), [*drawn(3, 9), [[3]], [[1, 2, 3], [4]]]
    predicted = list(spans_of(backend, model, sentences, "parser", batch_size=4))
    assert predicted == [expected(words, 1) for words in sentences]
    inner = {name: -x for name, x in model.parameters.items() if name.startswith("composition.")}
    other = replace(model, parameters=model.parameters | inner)
    assert list(spans_of(backend, other, sentences, "parser")) == predicted


def test_ways_to_parse() -> None:
    cpu, sentences = accel.load("cpu"), drawn(4, 5)
    model = model_of(cpu)
    assert list(spans_of(cpu, model, sentences)) == list(inside_spans(cpu, model, sentences))
    for options in ({"beam": 1}, {"beam": 3, "sync": False}):
        predicted = list(spans_of(cpu, model, sentences, "left-to-right", batch_size=2, **options))
        assert predicted == list(left_to_right_spans(cpu, model, sentences, **options))
    with pytest.raises(ValueError, match="mode: unknown 'upwards': choose one of inside, parser, left-to-right"):
        spans_of(cpu, model, sentences, "upwards")
    for mode in ("inside", "parser", "left-to-right"):
        assert list(spans_of(cpu, model, [], mode)) == []
        with pytest.raises(ValueError, match="batch_size 0: at least 1 is needed"):
            next(spans_of(cpu, model, sentences, mode, batch_size=0))


def test_other_models_have_no_such_trees() -> None:
    cpu = accel.load("cpu")
    plain = replace(model_of(cpu), module=encoder_decoder, config=SimpleNamespace(chart="none", n_classes=0))
    for kind, other in (("an encoder_decoder", plain), ("a gpt2", replace(model_of(cpu), config=GPT2))):
        with pytest.raises(ValueError, match=f"run: holds {kind}, which gives no trees of GPST; models that do: gpst$"):
            next(spans_of(cpu, other, [[[1]]]))


GPT2 = SimpleNamespace(model="gpt2")
