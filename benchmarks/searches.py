"""Searches from left to right: how many sentences a second, with random parameters and words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from accel import cpu as ops
from accel.models.gpst import model as gpst
from accel.models.gpst.config import Config, initialise
from accel.search.pools import Limits
from accel.search.word_level import word_level_search
from accel.trained.opening import Model
from benchmarks.timing import Clock, Row

WORDS = 10_000
"""Of the vocabulary."""


def left_to_right(clock: Clock, sentences: int = 32, n: int = 20, beam: int = 20) -> Iterator[Row]:
    """The sizes of examples/gpst, with a vocabulary of text."""
    sizes = {"d_model": 128, "n_heads": 4, "type_layers": 1, "token_layers": 2, "d_compose": 64}
    config = Config(WORDS, **sizes, dropout=0, network_dropout=0)
    model = Model(Path("random"), config, initialise(config, 0), None, None, gpst)
    words = np.random.default_rng(0).integers(0, WORDS, (sentences, n)).tolist()
    (ours,) = clock.times(lambda: word_level_search(ops, model, words, Limits(beam, one_pool=True)))
    rate = sentences / ours.median
    name = f"GPST from left to right, d 128, beam {beam}, {sentences} sentences of {n} words side by side"
    yield Row(name, ours, None, f"{rate:.1f} sentences a second", ">= 20 on two threads", rate >= 20)
