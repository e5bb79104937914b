"""The batched beam search gives the reference's result for every sequence."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel.data.vocabularies.vocabulary import END_ID, START_ID
from accel.models.encoder_decoder import model as encoder_decoder
from accel.search.beam import beam_search, translate
from accel.verify.strategies import seeds
from refimpl import transformer as reference
from tests.fixtures.device_parameters import on_device
from tests.fixtures.encoder_decoder_models import GATES, config_of, parameters_of
from tests.fixtures.sequence_models import step_logps


def advancing(models: list):
    """Return a function that continues hypotheses, as `beam_search` takes it, for one model of sequences a source."""
    histories: list[list[int]] = []

    def advance(parents: np.ndarray, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        nonlocal histories
        before = [histories[i] for i in parents] if histories else [[] for _ in models]
        histories = [[*history, int(token)] for history, token in zip(before, tokens, strict=True)]
        owners = np.repeat(np.arange(len(models)), np.diff(offsets))
        return np.array([models[b](history[1:]) for b, history in zip(owners, histories, strict=True)])

    return advance


def score(step_logp, tokens: list[int], penalty: float, max_length: int, end: int) -> float:
    """Return the length-normalised score of a finished sequence."""
    whole = tokens if len(tokens) == max_length and (end not in tokens) else [*tokens, end]
    logp = sum(float(step_logp(whole[:i])[token]) for i, token in enumerate(whole))
    return logp / ((5 + len(whole)) / 6) ** penalty


@given(
    sources=st.lists(st.tuples(seeds, st.integers(1, 5)), min_size=1, max_size=4),
    v=st.integers(1, 5), beam=st.integers(1, 6), penalty=st.sampled_from([0.0, 0.6, 1.5]), holes=st.booleans(),
)  # fmt: skip
def test_batched_search_is_the_reference(
    sources: list[tuple[int, int]], v: int, beam: int, penalty: float, holes: bool
) -> None:
    """ED-6 for every source of a batch; if a source has no possible sequence, the error names its number."""
    models = [step_logps(seed, v, 0.3 * holes) for seed, _ in sources]
    limits = [limit for _, limit in sources]
    expected, impossible = [], []
    for b, (model, limit) in enumerate(zip(models, limits, strict=True)):
        try:
            expected.append(reference.beam_search(model, beam, penalty, limit, end=0))
        except ValueError:
            impossible.append(b)
    if impossible:
        with pytest.raises(ValueError, match=f"source {impossible[0]}: no sequence"):
            beam_search(np, advancing(models), limits, beam=beam, length_penalty=penalty, start=-1, end=0)
        return
    assert beam_search(np, advancing(models), limits, beam=beam, length_penalty=penalty, start=-1, end=0) == expected


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_of_equals_the_first_goes_on(beam: int) -> None:
    """ED-6: the reference's sequence is found even if more tokens are equally probable than the beam holds."""

    def tied(seed: int):
        def step_logp(tokens: list[int]) -> np.ndarray:
            numbers = np.random.default_rng([seed, len(tokens), *tokens]).integers(1, 4, 40)
            return -1.0 * numbers  # sums of whole numbers, so that no rounding parts equals

        return step_logp

    models, limits = [tied(seed) for seed in range(20)], [3] * 20
    expected = [reference.beam_search(model, beam, 0.6, 3, end=0) for model in models]
    assert beam_search(np, advancing(models), limits, beam=beam, length_penalty=0.6, start=-1, end=0) == expected


@pytest.mark.parametrize("gate", GATES)
def test_translation_is_the_reference(backend: ModuleType, gate: str) -> None:
    """A cache per layer gives the same translations as reading every prefix again."""
    config = config_of(gate)
    parameters, draw = parameters_of(config), np.random.default_rng(2)
    sources = [draw.integers(3, 11, n).astype(np.int32) for n in (4, 1, 3)]
    device_parameters = on_device(backend, parameters)
    translations = translate(backend, config, device_parameters, sources, beam=3, extra_length=2, batch_size=2)
    for source, tokens in zip(sources, translations, strict=True):
        encoded = reference.encode(parameters, np.append(source, END_ID), config.n_heads)

        def step_logp(prefix: list[int], encoded: np.ndarray = encoded) -> np.ndarray:
            logp = reference.decode(parameters, encoded, np.array([START_ID, *prefix]), config.n_heads)[-1]
            return np.where(np.arange(len(logp)) == START_ID, -np.inf, logp)

        expected = reference.beam_search(step_logp, 3, 0.6, len(source) + 3, END_ID)
        scores = [score(step_logp, list(x), 0.6, len(source) + 3, END_ID) for x in (tokens, expected)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-9)


def test_the_start_symbol_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never written, even if the model finds it the most probable."""
    continued = encoder_decoder.continue_sequences

    def liking(*arguments: Any) -> np.ndarray:
        logp = continued(*arguments)
        logp[:, START_ID] = 0.0
        return logp

    monkeypatch.setattr(encoder_decoder, "continue_sequences", liking)
    config, sources = config_of("none"), [np.array([3, 4], np.int32), np.array([5], np.int32)]
    for beam in (1, 3):
        targets = translate(accel.load("cpu"), config, parameters_of(config), sources, beam=beam, extra_length=4)
        assert all(targets) and not any(START_ID in target for target in targets)


def test_nothing_to_translate() -> None:
    config = config_of("none")
    assert translate(accel.load("cpu"), config, parameters_of(config), []) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [({"beam": 0}, "beam"), ({"length_penalty": -1.0}, "length_penalty"), ({"max_lengths": [3, 0]}, "max_lengths")],
)
def test_numbers_out_of_range(change: dict, words: str) -> None:
    arguments = {"max_lengths": [1, 1]} | change
    with pytest.raises(ValueError, match=words):
        beam_search(np, advancing([step_logps(0, 2)] * 2), **arguments)


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        beam_search(np, lambda *_: np.array([[0.0, np.nan]]), [2])
