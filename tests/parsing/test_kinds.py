"""The abilities of each kind of model, and the error for a missing one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accel.models.encoder_decoder import model as encoder_decoder
from accel.models.fasttrees import language_model, sentence_classifier
from accel.models.gpst import model as gpst
from accel.models.transformer_grammars import model as transformer_grammar
from accel.models.transformer_grammars import span_parser
from accel.parsing.spans import OPTIONS, SPANS_OF
from accel.scoring.surprisals import SURPRISALS_OF
from accel.trained.kinds import ABILITIES, PROPOSALS, SPANS, SURPRISALS, able, can, kind_of, network_of, require
from accel.trained.opening import Model

MODELS = {
    "tg": (transformer_grammar, {"model": "tg"}),
    "txl_terminals": (transformer_grammar, {"model": "txl_terminals"}),
    "span_parser": (span_parser, {}),
    "gpst": (gpst, {"model": "gpst"}),
    "gpt2": (gpst, {"model": "gpt2"}),
    "lstm": (language_model, {"kind": "lstm"}),
    "fasttrees": (language_model, {"kind": "fasttrees"}),
    "fasttrees classifier": (sentence_classifier, {"kind": "fasttrees"}),
    "encoder_decoder": (encoder_decoder, {"chart": "none", "n_classes": 0}),
    "treeformer": (encoder_decoder, {"chart": "paper", "n_classes": 0}),
    "treeformer_released classifier": (encoder_decoder, {"chart": "released", "n_classes": 3}),
}


def model_of(kind: str) -> Model:
    module, config = MODELS[kind]
    settings: Any = SimpleNamespace(**config)
    return Model(Path("run"), settings, {}, None, None, module)


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_has_a_kind(kind: str) -> None:
    model = model_of(kind)
    assert kind_of(model) == kind and network_of(model) == kind.split()[0]
    for ability in set().union(*ABILITIES.values()):
        assert can(model, ability) is (kind in able(ability))


def test_every_ability_has_functions() -> None:
    assert set(SPANS_OF) == set(able(SPANS)) and set(SURPRISALS_OF) == set(able(SURPRISALS))
    assert set().union(*map(able, OPTIONS.values())) == set(able(SPANS))


def test_missing_abilities_are_named() -> None:
    require(model_of("span_parser"), PROPOSALS)
    wrong = "^run: holds a fasttrees classifier, which gives no proposal trees; models that do: span_parser$"
    with pytest.raises(ValueError, match=wrong):
        require(model_of("fasttrees classifier"), PROPOSALS)
