"""The numbers of parameters that FastTrees' tables print, and which readings of the paper have them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest

from accel.models.fasttrees import sentence_classifier
from accel.models.fasttrees.sentence_classifier import Config
from accel.tasks import inference, sentiment


def millions(config: Config, **changes: object) -> float:
    shapes = sentence_classifier.parameter_shapes(replace(config, **changes))
    return round(sum(prod(shape) for shape in shapes.values()) / 1e6, 3)


@pytest.mark.parametrize("kind", ["lstm", "on_lstm", "fasttrees"])
def test_tables_3_and_4(kind: str) -> None:
    """The word vectors are not counted: they are not learned."""
    assert f"{millions(sentiment.TABLE_3, kind=kind):.1f} {millions(inference.TABLE_4, kind=kind):.1f}" == "2.3 4.9"


def test_only_one_reading_has_these_sizes() -> None:
    """Errata R: of one or two tables, one or two hidden layers, two or four features of a pair, and chunks."""
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
