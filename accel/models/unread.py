"""Settings of a model that nothing reads, because of another setting: `dilation` of a model without a convolution."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from accel.models.albert import config as albert
from accel.models.encoder_decoder import config as encoder_decoder
from accel.models.fasttrees import language_model, sentence_classifier
from accel.models.gpst import config as gpst
from accel.models.transformer_grammars import config as transformer_grammars
from accel.models.transformer_grammars import span_parser

Rules = Mapping[str, tuple[str, Collection[Any]]]
_WITHOUT_CONVOLUTION = ("kind", ("lstm", "on_lstm", "fasttrees", "faster_fasttrees"))
_OF_STACK: Rules = {
    **dict.fromkeys(("kernel_size", "dilation", "conv_dropout", "variant", "convolved"), _WITHOUT_CONVOLUTION),
    "chunk_size": ("kind", ("lstm",)),
    "weight_drop": ("kind", ("faster_fasttrees",)),
}
_ABOVE_ZERO = range(1, 2**63)
_OF_TREES = (
    "d_compose", "compose_heads", "compose_layers", "decompose_layers", "d_score", "d_parser", "parser_heads",
    "parser_layers", "parser_feed_forward", "window", "surrogate", "gradient_stop", "head", "height_threshold",
    "height_norm", "whole_words", "network_dropout",
)  # fmt: skip
UNREAD: Mapping[type, Rules] = {
    transformer_grammars.Config: dict.fromkeys(
        ("memory", "relative_min", "relative_max"), ("model", ("txl_cc", "txl_terminals"))
    ),
    span_parser.Config: dict.fromkeys(("n_heads", "d_ff"), ("encoder", ("lstm",))),
    language_model.Config: _OF_STACK,
    sentence_classifier.Config: {**_OF_STACK, "compare": ("pair", (False,))},
    encoder_decoder.Config: {
        "chunk_size": ("gate", ("none",)),
        **dict.fromkeys(("kernel_size", "gate_convolutions"), ("gate", ("none", "positionwise"))),
        "max_height": ("chart", ("none",)),
        "output_bias": ("n_classes", _ABOVE_ZERO),
    },
    albert.Config: {
        **dict.fromkeys(("max_height", "across"), ("chart", ("none",))),
        "class_dropout": ("n_classes", (0,)),
    },
    gpst.Config: dict.fromkeys(_OF_TREES, ("model", ("gpt2",))),
}
"""For each configuration: a setting, and another one with the values for which nothing reads the first."""


def unread(config: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return one line on the settings among `names` that nothing reads, or none.

    >>> unread(language_model.Config(9, "lstm", hidden_size=8), ["dilation", "hidden_size"])
    ('not read: dilation=1 (kind=lstm)',)
    """
    rules, parts = UNREAD[type(config)], []
    for name in names:
        other, values = rules.get(name, ("", ()))
        if other and getattr(config, other) in values:
            parts.append(f"{name}={getattr(config, name)} ({other}={getattr(config, other)})")
    return (f"not read: {', '.join(parts)}",) if parts else ()
