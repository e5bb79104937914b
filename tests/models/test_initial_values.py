"""Initial parameters have the distributions that the docstrings of `initialise` state; bounds are six deviations."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.models.encoder_decoder import config as encoder_decoder
from accel.models.gpst import config as gpst
from accel.models.transformer_grammars import span_parser

GPST = gpst.Config(300, d_model=96, n_heads=4, token_layers=3, n_positions=80, d_compose=64, n_classes=3)
PAIRS = encoder_decoder.Config(200, d_model=64, d_ff=96, n_heads=4, gate="causal", kernel_size=3)
PARSER = span_parser.Config(300, 20, d_model=64, d_ff=96, d_affix=5)


def branch(n_layers: int) -> float:
    """Return the factor of the matrix that ends a residual branch."""
    return (2.0 * n_layers) ** -0.5


def uniform(limit: float) -> tuple[float, float]:
    """Return the deviation and the greatest value."""
    return limit / 3**0.5, limit


@pytest.mark.parametrize(
    ("module", "config", "name", "deviation", "limit"),
    [
        (gpst, GPST, "embedding", 0.02, None),
        (gpst, GPST, "position", 0.02, None),
        (gpst, GPST, "token.1.attention.query", 0.02, None),
        (gpst, GPST, "token.1.attention.output", 0.02 * branch(3), None),
        (gpst, GPST, "type.0.feed_forward.out", 0.02 * branch(2), None),
        (gpst, GPST, "parser.embedding", 1.0, None),
        (gpst, GPST, "composition.decompose.0.role", 1.0, None),
        (gpst, GPST, "composition.compose.0.attention.key", *uniform(64**-0.5)),
        (gpst, GPST, "parser.0.up", *uniform(64**-0.5)),
        (encoder_decoder, PAIRS, "embedding", 64**-0.5, None),
        (encoder_decoder, PAIRS, "decoder.1.cross_attention.output", *uniform((6 / 128) ** 0.5)),
        (encoder_decoder, PAIRS, "encoder.0.feed_forward.in", *uniform((6 / 160) ** 0.5)),
        (encoder_decoder, PAIRS, "encoder.0.gate.conv.weight", *uniform((6 / 384) ** 0.5)),
        (encoder_decoder, replace(PAIRS, chart="paper", d_model=1024), "chart.w", 1.0, None),
        (encoder_decoder, replace(PAIRS, chart="released", d_model=1024), "chart.w", 0.02, None),
        (span_parser, PARSER, "embedding", 0.1, None),
        (span_parser, PARSER, "affix", 0.1, None),
        (span_parser, PARSER, "span.out", *uniform((3 / 128) ** 0.5)),
        (span_parser, PARSER, "layer.2.attention.query", *uniform((3 / 64) ** 0.5)),
        (span_parser, PARSER, "layer.2.feed_forward.out", *uniform((3 / 96) ** 0.5 * branch(3))),
        (span_parser, replace(PARSER, encoder="lstm"), "layer.1.forward.hh.weight", *uniform(32**-0.5)),
    ],
)
def test_deviation(module: ModuleType, config: Any, name: str, deviation: float, limit: float | None) -> None:
    value = module.initialise(config, 0)[name].astype(float)
    assert np.sqrt((value**2).mean()) == pytest.approx(deviation, rel=6 * (2 * value.size) ** -0.5)
    assert abs(value.mean()) < 6 * deviation * value.size**-0.5
    greatest = np.abs(value).max()
    assert greatest <= limit * (1 + 1e-6) if limit else greatest > 2 * deviation


def test_the_root_is_between_zero_and_one() -> None:
    root = gpst.initialise(replace(GPST, d_compose=1024), 0)["composition.outside_root"]
    assert root.min() >= 0 and root.max() < 1 and root.mean() == pytest.approx(0.5, abs=6 * 12**-0.5 / 32)


@pytest.mark.parametrize(("module", "config"), [(gpst, GPST), (encoder_decoder, PAIRS), (span_parser, PARSER)])
def test_norms_are_the_identity_and_biases_zero(module: ModuleType, config: Any) -> None:
    parameters = module.initialise(config, 0)
    scales = [name for name in parameters if name.endswith(("norm", ".scale"))]
    biases = [name for name in parameters if name.endswith(("_bias", ".bias"))]
    assert scales and biases and all((parameters[name] == 1).all() for name in scales)
    assert not any(parameters[name].any() for name in biases)
