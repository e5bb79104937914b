"""Tiny FastTrees models of every kind, and batches for them."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.models import language_model, sentence_classifier
from accel.models.fasttrees import KINDS, StackConfig
from accel.tape import Array

VOCABULARY, CLASSES, SATURATED = 9, 3, 20.0
STACKS = {kind: StackConfig(kind, 6, (8, 6), chunk_size=2, dilation=2) for kind in KINDS}
PAIRS = {
    kind: sentence_classifier.Config(
        VOCABULARY, CLASSES, pair=True, kind=kind, embedding_size=6, hidden_size=8, n_layers=2, mlp_size=5,
        chunk_size=2, dilation=2, weight_drop=0.3, layer_dropout=0.2,
    )
    for kind in KINDS
}  # fmt: skip
PAIRS["released"] = sentence_classifier.Config(
    VOCABULARY, CLASSES, pair=True, kind="conv_fasttrees", embedding_size=8, hidden_size=8, mlp_size=5, chunk_size=2,
    variant="released",
)  # fmt: skip
PAIRS["single"] = sentence_classifier.Config(
    VOCABULARY, CLASSES, pair=False, kind="fasttrees", embedding_size=5, projection_size=6, hidden_size=8, mlp_size=5,
    chunk_size=2,
)  # fmt: skip
TEXTS = {
    kind: language_model.Config(VOCABULARY, kind, embedding_size=6, hidden_size=8, n_layers=2, chunk_size=2, dilation=2)
    for kind in KINDS
}


class Toy(NamedTuple):
    """A batch of any of the models: columns of text, sentences or pairs."""

    ids: Array
    offsets: Array
    labels: Array
    n_labels: int
    rate_scale: float = 1.0
    fresh: bool = False


def toy(ops: ModuleType, lengths: Sequence[int], seed: int, per_label: int = 0) -> Toy:
    """Return sequences of random words; a label for each word, or a class for each `per_label` sequences."""
    random = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    ids = random.integers(0, VOCABULARY, offsets[-1]).astype(np.int32)
    n_labels, choices = (len(lengths) // per_label, CLASSES) if per_label else (len(ids), VOCABULARY)
    labels = random.integers(0, choices, n_labels).astype(np.int32)
    return Toy(*(ops.xp.asarray(x) for x in (ids, offsets, labels)), n_labels)


def parameters_of(model: Any, config: Any, gates: float = 1.0, seed: int = 0) -> dict[str, np.ndarray]:
    """Return float64 parameters at rest nowhere; the weights of the gates are multiplied by `gates`."""
    random = np.random.default_rng(seed)
    initial = model.initialise(config, seed)
    return {
        name: (x + 0.1 * random.standard_normal(x.shape)) * (gates if ".ih." in name or ".hh." in name else 1.0)
        for name, x in initial.items()
    }
