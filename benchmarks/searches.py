"""Searches from left to right: how many sentences a second, with random parameters and words, one process a thread.

A random Transformer Grammar gives all actions similar probabilities. Here labels get the greater share, as in a trained
one, so that a search opens constituents before it reads a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from accel import cpu as ops
from accel.cpu.support.threads import available_threads
from accel.data.vocabularies.building import build
from accel.models.gpst import model as gpst
from accel.models.gpst.config import Config, initialise
from accel.models.transformer_grammars import model as transformer_grammar
from accel.parsing.gpst import left_to_right_spans
from accel.scoring.surprisals import bits_of_words
from accel.trained.opening import Model
from benchmarks.timing import Clock, Row
from refimpl.trees import ActionType, Tree

WORDS = 10_000
"""Of the vocabulary."""


def left_to_right(clock: Clock, sentences: int = 160, n: int = 20, beam: int = 20) -> Iterator[Row]:
    """The sizes of examples/gpst, with a vocabulary of text."""
    sizes = {"d_model": 128, "n_heads": 4, "type_layers": 1, "token_layers": 2, "d_compose": 64}
    config = Config(WORDS, **sizes, dropout=0, network_dropout=0)
    model = Model(Path("random"), config, initialise(config, 0), None, None, gpst)
    words = np.random.default_rng(0).integers(0, WORDS, (sentences, n, 1)).tolist()
    search: dict[str, Any] = {"beam": beam, "processes": available_threads()}
    (ours,) = clock.times(lambda: list(left_to_right_spans(ops, model, words, **search)))
    rate = sentences / ours.median
    name = f"GPST from left to right, d 128, beam {beam}, {sentences} sentences of {n} words, 32 side by side"
    yield Row(name, ours, None, f"{rate:.1f} sentences a second", ">= 20 on two threads", rate >= 20)


def minimal_pairs(clock: Clock, pairs: int = 60, n: int = 9) -> Iterator[Row]:
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
    sentences = [[vocabulary.symbols[word] for word in sentence] for sentence in words.tolist()]
    (ours,) = clock.times(lambda: list(bits_of_words(ops, model, sentences, processes=available_threads())))
    rate = len(words) / ours.median
    name = f"surprisals by a Transformer Grammar, d 128, beam 100, {pairs} minimal pairs of {n} words"
    figure = f"{rate:.1f} sentences a second, BLiMP's 134,000 in {134e3 / rate / 3600:.1f} hours"
    yield Row(name, ours, None, figure, "<= 2 hours on two threads", rate >= 134e3 / 7200)
