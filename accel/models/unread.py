"""Settings of a model that nothing reads, because of another setting: `dilation` of a model without a convolution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from accel.models.albert import config as albert
from accel.models.checks import Rule, at_least, reasons_unread
from accel.models.encoder_decoder import config as encoder_decoder
from accel.models.fasttrees import language_model, sentence_classifier
from accel.models.fasttrees.stack import KINDS
from accel.models.gpst import config as gpst
from accel.models.transformer_grammars import config as transformer_grammars
from accel.models.transformer_grammars import span_parser

_OF_STACK: tuple[Rule, ...] = (
    (("kernel_size", "dilation", "conv_dropout", "variant", "convolved"), "kind", ("conv_fasttrees",)),
    (("kernel_size", "dilation", "convolved"), "variant", ("paper",)),
    (("chunk_size",), "kind", set(KINDS) - {"lstm"}),
    (("weight_drop",), "kind", set(KINDS) - {"faster_fasttrees"}),
    (("layer_dropout",), "n_layers", at_least(2)),
)
_CHARTS = ("paper", "released")
_OF_TREES = (
    "d_compose", "compose_heads", "compose_layers", "decompose_layers", "d_score", "d_parser", "parser_heads",
    "parser_layers", "parser_feed_forward", "window", "surrogate", "gradient_stop", "head", "height_threshold",
    "height_norm", "whole_words", "network_dropout",
)  # fmt: skip
READ_BY: Mapping[type, tuple[Rule, ...]] = {
    transformer_grammars.Config: (
        (("memory", "positions", "relative_min", "relative_max"), "model", ("tg",)),
        (("relative_min", "relative_max"), "positions", ("depth",)),
    ),
    span_parser.Config: ((("n_heads", "d_ff"), "encoder", ("transformer",)),),
    language_model.Config: _OF_STACK,
    sentence_classifier.Config: (
        *_OF_STACK,
        (("compare",), "pair", (True,)),
        (("embedding_range",), "n_tables", (0,)),
    ),
    encoder_decoder.Config: (
        (("chunk_size",), "gate", ("positionwise", "causal")),
        (("kernel_size", "gate_convolutions"), "gate", ("causal",)),
        (("max_height",), "chart", _CHARTS),
        (("output_bias",), "n_classes", (0,)),
    ),
    albert.Config: (
        (("max_height", "across"), "chart", _CHARTS),
        (("class_dropout",), "n_classes", at_least(1)),
    ),
    gpst.Config: ((_OF_TREES, "model", ("gpst",)),),
}
"""For each configuration the rules that say with which values of others its settings are read."""


def unread(config: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return one line on the settings among `names` that nothing reads, or none.

    >>> unread(language_model.Config(9, "lstm", hidden_size=8), ["dilation", "hidden_size"])
    ('not read: dilation=1 (kind=lstm)',)
    """
    reasons = reasons_unread(config, names, READ_BY[type(config)])
    parts = [f"{name}={getattr(config, name)} ({reason})" for name, reason in reasons.items()]
    return (f"not read: {', '.join(parts)}",) if parts else ()
