"""Searches from left to right: how many sentences a second, with random parameters and words.

The probabilities of a random Transformer Grammar are all alike; here labels get the greater share, as in a trained one,
so that a search opens constituents before it reads a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from accel import cpu as ops
from accel.data.vocabularies.building import build
from accel.models.gpst import model as gpst
from accel.models.gpst.config import Config, initialise
from accel.models.transformer_grammars import model as transformer_grammar
from accel.search.pools import Limits
from accel.search.word_level import limits_of, surprisals, word_level_search
from accel.trained.opening import Model
from benchmarks.timing import Clock, Row
from refimpl.trees import ActionType, Tree

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


def minimal_pairs(clock: Clock, pairs: int = 12, n: int = 9) -> Iterator[Row]:
    """The surprisals of pairs of sentences, one word of which differs, as `grove minimal_pairs` takes them."""
    trees = [Tree("S", tuple(f"w{i}" for i in range(6000))), *(Tree(f"L{k}", ("w0",)) for k in range(25))]
    vocabulary = build(trees)
    sizes = {"d_model": 128, "d_ff": 256, "n_layers": 3, "n_heads": 4, "segment_length": 64, "memory_length": 64}
    config = transformer_grammar.Config("tg", len(vocabulary), **sizes)
    parameters = transformer_grammar.initialise(config, 0)
    parameters["output_bias"] = np.where(vocabulary.type_of == ActionType.T, 0, 7).astype(np.float32)
    model = Model(Path("random"), config, parameters, vocabulary, None, transformer_grammar)
    draw = np.random.default_rng(0)
    words = np.repeat(draw.integers(2, 6002, (pairs, n)), 2, axis=0)
    words[1::2, n // 2] = draw.integers(2, 6002, pairs)
    (ours,) = clock.times(lambda: list(surprisals(ops, model, words.tolist(), limits_of(), batch_size=8)))
    rate = len(words) / ours.median
    name = f"surprisals by a Transformer Grammar, d 128, beam 100, {pairs} minimal pairs of {n} words"
    figure = f"{rate:.1f} sentences a second, BLiMP's 134,000 in {134e3 / rate / 3600:.1f} hours"
    yield Row(name, ours, None, figure, "<= 2 hours on two threads", rate >= 134e3 / 7200)
