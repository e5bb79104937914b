"""GPT-2 in the search of GPST: there are no trees, so every text has one hypothesis."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accel.autodiff.arrays import host
from accel.models.gpst import model as gpst
from accel.search.pools import Limits
from accel.search.word_level import sample, surprisals
from accel.trained.opening import Model
from tests.fixtures.comparisons import close
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import model_on
from tests.fixtures.gpst_batches import V, batch_with, config_of, parameters_of

CONFIG = config_of(model="gpt2")
PARAMETERS = parameters_of(CONFIG)
MODEL = Model(Path("run"), CONFIG, PARAMETERS, None, None, gpst)


def limits(beam: int) -> Limits:
    return Limits(beam, one_pool=True)


def logps_of(words: list[int]) -> np.ndarray:
    """Return log p of every word given the words before it, from one call for the whole text."""
    return gpst.token_logps(CPU, CONFIG, PARAMETERS, batch_with(np.array(words, np.int32), [len(words)]))[0]


def test_surprisals_are_those_of_the_model(backend: ModuleType) -> None:
    """They agree for texts of any length in one batch, and after contexts; the beam does not matter."""
    draw = np.random.default_rng(2)
    texts = [draw.integers(0, V, n).tolist() for n in (1, 7, 3)]
    contexts = [[], [[3, 1], [4]], [[1, 5, 9, 2, 6, 5, 3, 5, 8]]]
    arguments = backend, model_on(backend, MODEL)
    for beam in (1, 3):
        for text, bits in zip(texts, surprisals(*arguments, texts, limits(beam)), strict=True):
            close(bits, -logps_of(text) / np.log(2))
    for text, context, bits in zip(
        texts, contexts, surprisals(*arguments, texts, limits(1), contexts=contexts), strict=True
    ):
        before = [i for sentence in context for i in sentence]
        close(bits, -logps_of([*before, *text])[len(before) :] / np.log(2))


def test_the_most_probable_word_is_drawn(backend: ModuleType) -> None:
    arguments = backend, model_on(backend, MODEL)
    for seed in (0, 1):
        *_, text = islice(sample(*arguments, limits(1), seed=seed, context=[[3, 1], [4]]), 6)
        for place in range(6):
            prefix = [3, 1, 4, *text[:place]]
            best = max(range(1, V), key=lambda word: float(host(logps_of([*prefix, word]))[-1]))
            assert text[place] == best


def test_words_are_drawn_by_their_probability() -> None:
    """One of the two most probable words is drawn, each in proportion to its probability."""
    logps = np.array([-np.inf, *(logps_of([4, word])[-1] for word in range(1, V))])
    first, second = np.argsort(-logps)[:2].tolist()
    counts = {first: 0, second: 0}
    for seed in range(300):
        counts[next(sample(CPU, MODEL, limits(2), seed=seed, context=[[4]]))[0]] += 1
    share = 1 / (1 + np.exp(logps[second] - logps[first]))
    assert counts[first] / 300 == pytest.approx(share, abs=4 * (share * (1 - share) / 300) ** 0.5)
