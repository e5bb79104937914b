"""Settings of a model that nothing reads, because of another setting: `dilation` of a model without a convolution."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from accel.models.albert import config as albert
from accel.models.checks import reasons_unread
from accel.models.encoder_decoder import config as encoder_decoder
from accel.models.fasttrees import language_model, sentence_classifier
from accel.models.fasttrees.stack import KINDS
from accel.models.gpst import config as gpst
from accel.models.transformer_grammars import config as transformer_grammars
from accel.models.transformer_grammars import span_parser

Rules = Mapping[str, tuple[str, Collection[Any]]]
_OF_CONVOLUTION = ("kernel_size", "dilation", "conv_dropout", "variant", "convolved")
_OF_STACK: Rules = {
    **dict.fromkeys(_OF_CONVOLUTION, ("kind", ("conv_fasttrees",))),
    "chunk_size": ("kind", set(KINDS) - {"lstm"}),
    "weight_drop": ("kind", set(KINDS) - {"faster_fasttrees"}),
}
_CHARTS = ("paper", "released")
_OF_TREES = (
    "d_compose", "compose_heads", "compose_layers", "decompose_layers", "d_score", "d_parser", "parser_heads",
    "parser_layers", "parser_feed_forward", "window", "surrogate", "gradient_stop", "head", "height_threshold",
    "height_norm", "whole_words", "network_dropout",
)  # fmt: skip
READ_BY: Mapping[type, Rules] = {
    transformer_grammars.Config: dict.fromkeys(("memory", "relative_min", "relative_max"), ("model", ("tg",))),
    span_parser.Config: dict.fromkeys(("n_heads", "d_ff"), ("encoder", ("transformer",))),
    language_model.Config: _OF_STACK,
    sentence_classifier.Config: {**_OF_STACK, "compare": ("pair", (True,))},
    encoder_decoder.Config: {
        "chunk_size": ("gate", ("positionwise", "causal")),
        **dict.fromkeys(("kernel_size", "gate_convolutions"), ("gate", ("causal",))),
        "max_height": ("chart", _CHARTS),
        "output_bias": ("n_classes", (0,)),
    },
    albert.Config: {
        **dict.fromkeys(("max_height", "across"), ("chart", _CHARTS)),
        "class_dropout": ("n_classes", range(1, 2**63)),
    },
    gpst.Config: dict.fromkeys(_OF_TREES, ("model", ("gpst",))),
}
"""For each configuration: a setting, and another one with its values with which the first is read."""


def unread(config: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return one line on the settings among `names` that nothing reads, or none.

    >>> unread(language_model.Config(9, "lstm", hidden_size=8), ["dilation", "hidden_size"])
    ('not read: dilation=1 (kind=lstm)',)
    """
    reasons = reasons_unread(config, names, READ_BY[type(config)])
    parts = [f"{name}={getattr(config, name)} ({reason})" for name, reason in reasons.items()]
    return (f"not read: {', '.join(parts)}",) if parts else ()
