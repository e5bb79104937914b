"""GPST's word-level search refuses beams below 1, unknown words and contexts without room; it takes empty lists."""

from __future__ import annotations

import math
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.models.gpst.config import Config
from accel.search.gpst_steps import COMP, no_actions
from accel.search.word_level import sample, surprisals, word_level_search
from accel.trained.opening import Model
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_batches import V, config_of
from tests.fixtures.searched_gpst import held, limits, saved, steps_of


def spoiled(config: Config) -> tuple[ModuleType, Model]:
    model = saved(config)
    return CPU, replace(model, parameters=model.parameters | {"bos": np.full(config.d_model, math.nan)})


CONFIG = config_of()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: word_level_search(*held(CPU, CONFIG), [[1]], limits(0)), "beam: 0 is below 1"),
        (lambda: next(surprisals(*held(CPU, CONFIG), [[1]], limits(-1))), "beam: -1 is below 1"),
        (lambda: next(sample(*held(CPU, CONFIG), limits(0), seed=0)), "beam: 0 is below 1"),
        (
            lambda: word_level_search(*held(CPU, CONFIG), [[1], []], limits(1)),
            "sentence 1: 0 words, but a context has room",
        ),
        (
            lambda: word_level_search(*held(CPU, CONFIG), [[1], [2, V]], limits(1)),
            f"sentence 1: word 1 is {V}, outside",
        ),
        (lambda: word_level_search(*held(CPU, CONFIG), [[-1]], limits(1)), "sentence 0: word 0 is -1, outside"),
        (
            lambda: word_level_search(*held(CPU, CONFIG), [[0] * CONFIG.n_positions], limits(1)),
            f"sentence 0: {CONFIG.n_positions} words, but a context has room for 1 to {CONFIG.n_positions - 1}",
        ),
        (
            lambda: next(sample(*held(CPU, CONFIG), limits(1), seed=0, prefix=[0] * CONFIG.n_positions)),
            f"prefix: {CONFIG.n_positions} words, but a context has room",
        ),
        (
            lambda: list(sample(*held(CPU, CONFIG), limits(1), seed=0, prefix=[0] * (CONFIG.n_positions - 2))),
            f"context: {CONFIG.n_positions} words, but the model has {CONFIG.n_positions} positions",
        ),
        (
            lambda: word_level_search(*held(CPU, CONFIG), [[1], [1, 2]], limits(1), contexts=[[], [[0] * 30, [0] * 8]]),
            "sentence 1: 2 words, but a context has room for 1 to 1 after 38 words",
        ),
        (
            lambda: word_level_search(*held(CPU, CONFIG), [[1]], limits(1), contexts=[[[1], []]]),
            "context 0, sentence 1: 0 words, but a context has room",
        ),
        (
            lambda: next(sample(*held(CPU, CONFIG), limits(1), seed=0, context=[[V]])),
            f"context 0, sentence 0: word 0 is {V}, outside",
        ),
        (
            lambda: next(sample(*held(CPU, CONFIG), limits(1), seed=0, context=[[0] * 39, [0]])),
            f"context: 40 words, but the model has {CONFIG.n_positions} positions",
        ),
        (lambda: next(surprisals(*held(CPU, CONFIG), [[1]], limits(1), contexts=[])), "contexts: 0 for 1 sentences"),
        (
            lambda: next(surprisals(*held(CPU, CONFIG), [[1], [2]], limits(1), batch_size=1, contexts=[[], [], []])),
            "contexts: 3 for 2 sentences",
        ),
        (
            lambda: next(sample(*held(CPU, CONFIG), limits(1), seed=0, prefix=[1, 2, 3], end=2)),
            "prefix: holds word 2, the end of a text",
        ),
        (
            lambda: word_level_search(*held(CPU, CONFIG), [[1]], limits(1), complete=False, sync=False),
            "complete, sync: with neither there is nothing to search",
        ),
        (
            lambda: word_level_search(*held(CPU, CONFIG), [[1]], limits(1), others=[saved(CONFIG)]),
            "run: others: a GPST or a GPT-2 makes no ensemble",
        ),
        (
            lambda: next(surprisals(*held(CPU, CONFIG), [[1]], limits(1), ensemble="product")),
            "run: ensemble: a GPST or a GPT-2 makes no ensemble",
        ),
        (lambda: word_level_search(*spoiled(CONFIG), [[1]], limits(1)), "log p nan of action 1 after"),
        (
            lambda: steps_of(CPU, CONFIG).read(no_actions(1), np.array([COMP]), np.ones(1, bool)),
            "actions: -1 with 0 sub-trees",
        ),
        (
            lambda: word_level_search(*held(CPU, config_of(model="gpt2")), [[1]], limits(1)),
            "run: holds a gpt2, which gives no trees of GPST",
        ),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_sentence_has_one_number_in_every_batch(batch_size: int) -> None:
    with pytest.raises(ValueError, match=f"^sentence 2: word 0 is {V}, outside"):
        list(surprisals(*held(CPU, CONFIG), [[1], [1], [V]], limits(1), batch_size=batch_size))


def test_nothing_to_search() -> None:
    assert word_level_search(*held(CPU, CONFIG), [], limits(1)) == []
    assert list(surprisals(*held(CPU, CONFIG), [], limits(1))) == []
