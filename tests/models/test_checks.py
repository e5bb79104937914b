"""Every field of every configuration refuses impossible values, with one wording that says what to use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import pytest

from accel.models.checks import at_least, check, check_width, chunk_size
from accel.models.encoder_decoder.config import Config as EncoderDecoder
from accel.models.fasttrees.language_model import Config as LanguageModel
from accel.models.fasttrees.sentence_classifier import Config as Classifier
from accel.models.fasttrees.stack import StackConfig
from accel.models.gpst.config import Config as Gpst
from accel.models.transformer_grammars.config import Config as TransformerGrammar
from accel.models.transformer_grammars.span_parser import Config as SpanParser
from accel.training.settings import TrainingConfig

CONFIGS = {
    "transformer_grammar": TransformerGrammar("tg", 9, 8, 8, 2, 2, 8, 8),
    "span_parser": SpanParser(99, 3),
    "language_model": LanguageModel(9, "fasttrees"),
    "sentence_classifier": Classifier(9, 2, True, "on_lstm"),
    "stack": StackConfig("fasttrees", 10, (20,)),
    "gpst": Gpst(9),
    "encoder_decoder": EncoderDecoder(9),
    "training": TrainingConfig(),
}
MAY_BE_NEGATIVE = ("unrestricted_layers", "relative_min", "relative_max")
ANY_NUMBER_FROM_0 = ("height_threshold",)
WORDING = re.compile(r"(\w+): (.+), but (.+); use (.+)")


def bad_values(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield, for every field, values that it must refuse."""
    for field in fields(config):
        kind = str(field.type)
        if kind in ("int", "int | None"):
            others = (None,) if kind == "int" else ()
            yield from ((field.name, value) for value in (1.5, "many", True, *others))
            if field.name not in MAY_BE_NEGATIVE:
                yield field.name, -1
        elif kind.startswith("float"):
            yield from ((field.name, value) for value in (nan, -0.5))
            if field.name not in ANY_NUMBER_FROM_0:
                yield from ((field.name, value) for value in (inf, "many"))
        elif kind == "bool":
            yield field.name, "no"
        elif kind == "str":
            yield field.name, "nonsense" if field.name != "own_rate_of" else 3
        else:
            assert kind == "tuple[int, ...]", f"{field.name}: what can a {kind} not be?"
            yield from ((field.name, value) for value in ((), (20, 0)))


CASES = [
    pytest.param(config, name, value, id=f"{model}-{name}-{value}")
    for model, config in CONFIGS.items()
    for name, value in bad_values(config)
]


@pytest.mark.parametrize(("config", "name", "value"), CASES)
def test_every_field_refuses_what_it_cannot_be(config: Any, name: str, value: Any) -> None:
    with pytest.raises(ValueError) as error:
        replace(config, **{name: value})
    match = WORDING.fullmatch(str(error.value))
    assert match is not None and match[1] == name and match[2] == repr(value), error.value


@pytest.mark.parametrize("model", CONFIGS)
def test_rates_of_dropout_are_below_1_and_sizes_above_0(model: str) -> None:
    config = CONFIGS[model]
    for field in fields(config):
        if field.name.endswith(("dropout", "weight_drop", "label_smoothing", "beta1", "beta2")):
            with pytest.raises(ValueError, match=f"^{field.name}: 1.0, but a rate is"):
                replace(config, **{field.name: 1.0})
            replace(config, **{field.name: 0})
        if field.name in ("n_layers", "n_heads", "d_model", "hidden_size", "batch_size", "steps", "validate_every"):
            with pytest.raises(ValueError, match=f"^{field.name}: 0, but the least whole number is 1"):
                replace(config, **{field.name: 0})


def test_the_first_bad_field_is_named() -> None:
    with pytest.raises(ValueError, match="^d_parser: 24, but each of its parser_heads, 8, has an odd width; use 32$"):
        Gpst(9, d_parser=24, parser_heads=8)
    with pytest.raises(ValueError, match="^chunk_size: 3, but it does not divide d_model, 128; use 2$"):
        EncoderDecoder(9, chunk_size=3)
    with pytest.raises(ValueError, match="^d_model: 3, but it is odd; use 4$"):
        EncoderDecoder(9, d_model=3)
    check(Gpst(9), d_model=at_least(192))


def test_only_some_widths_are_even() -> None:
    config = SimpleNamespace(width=15, heads=3)
    check_width(config, "width", "heads")
    with pytest.raises(ValueError, match="^width: 15, but it is odd; use 12 or 18$"):
        check_width(config, "width", "heads", even=True)


@pytest.mark.parametrize(("most", "widths", "size"), [(10, (64, 32), 8), (10, (1150, 400), 10), (10, (7, 11), 1)])
def test_the_greatest_chunk(most: int, widths: tuple[int, ...], size: int) -> None:
    assert chunk_size(most, *widths) == size


def test_a_huge_chunk_size_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"^chunk_size: .* does not divide 8, .*; use 8$"):
        StackConfig("on_lstm", 8, (8,), chunk_size=10**18)


@pytest.mark.parametrize("sizes", ["8", 8, (), (2.5,), (True,), (0,)])
def test_hidden_sizes_are_whole_numbers(sizes: Any) -> None:
    with pytest.raises(ValueError, match="^hidden_sizes: "):
        StackConfig("lstm", 8, sizes)
