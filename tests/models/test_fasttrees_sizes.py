"""The numbers of parameters in FastTrees' tables, and which readings of the paper agree with them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import pytest

from accel.models.fasttrees import language_model, sentence_classifier
from accel.models.fasttrees.sentence_classifier import Config
from accel.models.fasttrees.stack import StackConfig
from accel.tasks import inference, sentiment


def count(shapes: dict[str, tuple[int, ...]]) -> int:
    return sum(map(prod, shapes.values()))


def millions(config: Config, **changes: Any) -> float:
    return round(count(sentence_classifier.parameter_shapes(replace(config, **changes))) / 1e6, 3)


def from_all_to_gates(stack: StackConfig) -> int:
    """Return by how many parameters FastTrees grows if its master gates read a convolution of all features.

    Two taps from all D features to m = 2n, and a bias; the master gates have a matrix m x m in place of m x D.
    """
    inputs = (stack.input_size, *stack.hidden_sizes)
    sizes = [(inputs[layer], 2 * stack.n_masters(layer)) for layer in range(len(stack.hidden_sizes))]
    return sum(2 * m * d + m + m * m - m * d for d, m in sizes)


@pytest.mark.parametrize("kind", ["lstm", "on_lstm", "fasttrees", "conv_fasttrees"])
def test_tables_3_and_4(kind: str) -> None:
    """The word vectors are not counted: they are not learned."""
    assert f"{millions(sentiment.TABLE_3, kind=kind):.1f} {millions(inference.TABLE_4, kind=kind):.1f}" == "2.3 4.9"


@pytest.mark.parametrize("kind", ["on_lstm", "fasttrees", "conv_fasttrees"])
def test_table_1(kind: str) -> None:
    """There are 10,000 words, as in the Penn Treebank; the output layer shares the table of word vectors."""
    assert round(count(language_model.parameter_shapes(language_model.Config(10_000, kind))) / 1e6) == 25


def test_convolutions_to_the_gate_features_have_these_sizes() -> None:
    """Errata S: a convolution to 2n features, of all or of the first 2n; with D features there are too many."""
    of_all = [
        count(shapes) + from_all_to_gates(stack)
        for stack, shapes in (
            (config.stack, module.parameter_shapes(config))
            for module, config in (
                (language_model, language_model.Config(10_000, "fasttrees")),
                (sentence_classifier, replace(sentiment.TABLE_3, kind="fasttrees")),
                (sentence_classifier, replace(inference.TABLE_4, kind="fasttrees")),
            )
        )
    ]
    assert [round(size / 1e6, 3) for size in of_all] == [25.232, 2.294, 4.919]
    conv = {"kind": "conv_fasttrees", "convolved": "inputs"}
    table_1 = language_model.Config(10_000, **conv)
    assert f"{count(language_model.parameter_shapes(table_1)) / 1e6:.1f}" == "30.3"
    assert (millions(sentiment.TABLE_3, **conv), millions(inference.TABLE_4, **conv)) == (2.405, 5.030)
    of_two_layers = count(language_model.parameter_shapes(replace(table_1, kernel_size=1)))
    assert f"{of_two_layers / 1e6:.1f}" == "27.5"


def test_only_one_reading_has_these_sizes() -> None:
    """Errata R: readings differ in word tables, hidden layers, features of a pair, and chunk size."""
    assert (millions(sentiment.TABLE_3, kind="lstm"), millions(inference.TABLE_4, kind="lstm")) == (2.257, 4.882)
    fitting = []
    for tables, layers, compare, chunk in product((1, 2), (1, 2), (False, True), (1, 2, 4, 8, 16, 32)):
        reading = {"n_tables": tables, "mlp_layers": layers, "chunk_size": chunk}
        pairs = [
            (
                millions(sentiment.TABLE_3, kind=k, **reading),
                millions(inference.TABLE_4, kind=k, compare=compare, **reading),
            )
            for k in ("lstm", "on_lstm", "fasttrees")
        ]
        if {f"{one:.1f} {two:.1f}" for one, two in pairs} == {"2.3 4.9"}:
            fitting.append((tables, layers, compare, chunk))
    assert fitting == [(2, 2, True, 16), (2, 2, True, 32)]
