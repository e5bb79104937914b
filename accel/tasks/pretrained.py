"""A pre-trained GPST or GPT-2 to train further, from its parameters, with its sizes and its vocabulary."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.models.gpst.config import Config
from accel.trained.kinds import kind_of, with_article
from accel.trained.opening import Model, open_model
from accel.training.run import on_host

FREE = ("window", "gradient_stop", "height_threshold", "height_norm", "whole_words", "dropout", "network_dropout")
"""The settings that may differ from the pre-trained model's."""
FIXED = tuple(field.name for field in fields(Config) if field.name not in FREE)


def open_pretrained(ops: ModuleType, path: Path, kind: str) -> Model:
    """Return the model of a run; ValueError if it is not of this kind."""
    model = open_model(ops, path)
    if kind_of(model) != kind:
        raise ValueError(f"--checkpoint: {model.path}: holds {with_article(kind_of(model))}, not {with_article(kind)}")
    return model


def parameters_of(model: Model) -> dict[str, Any]:
    """Return the parameters on the host, without "classes"."""
    return {name: x for name, x in on_host(model.parameters).items() if name != "classes"}
