"""A training names the settings that its model does not read, and they change nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel.models.unread import READ_BY
from accel.trained.opening import open_model
from tests.fixtures.command_line import Grove
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.snapshot_jobs import folder
from tests.fixtures.toy_run import metrics
from tests.house.snapshot_cases import TRAININGS

__all__ = ["folder"]

OTHER_VALUES: dict[str, Any] = {
    "memory": "shift", "positions": "linear", "layer_dropout": 0.37, "embedding_range": 0.5,
    "relative_min": -2, "relative_max": 63, "n_heads": 5, "d_ff": 13, "kernel_size": 3,
    "dilation": 2, "conv_dropout": 0.37, "variant": "released", "convolved": "inputs", "chunk_size": 5,
    "weight_drop": 0.37, "compare": "false", "gate_convolutions": "own", "max_height": 11, "output_bias": "false",
    "across": "true", "class_dropout": 0.37, "d_compose": 24, "compose_heads": 4, "compose_layers": 2,
    "decompose_layers": 2, "d_score": 7, "d_parser": 16, "parser_heads": 4, "parser_layers": 2,
    "parser_feed_forward": 11, "window": 3, "surrogate": "false", "gradient_stop": "false", "head": "dot",
    "height_threshold": 3.7, "height_norm": "excess", "whole_words": "true", "network_dropout": 0.37,
}  # fmt: skip
"""For every setting that some model does not read, a value that no training below has."""
FROZEN = "sentiment_on_lstm --vectors @/vectors --set embedding_size=6 --set projection_size=8 --set n_layers=1"
RUNS = {
    "txl_cc": 4, "words": 4, "tg_64": 2, "parser_lstm": 2, "lm_lstm": 6, "lm_on_lstm": 5, "lm_faster_fasttrees": 6,
    "lm_released": 3, "logic_lstm --set n_layers=1": 7, FROZEN: 8, "acceptability": 7, "acceptability_transformer": 5,
    "agreement": 4, "masked_words": 3, "gpt2": 17,
}  # fmt: skip
"""Trainings of the snapshot, some with more options, and how many settings each does not read."""


@pytest.fixture
def losses(folder: Path, tmp_path: Path, run_grove: Grove) -> Callable[..., tuple[list[float], list[str]]]:
    def losses(run: str, *settings: str) -> tuple[list[float], list[str]]:
        """Return the losses of three steps, and the lines on settings that are not read."""
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        name, *more = run.split()
        command = [part.replace("@/", f"{folder}/") for part in (*TRAININGS[name], *more)]
        command[command.index("20")] = "3"
        options = [part for setting in settings for part in ("--set", setting)]
        status, _, err = run_grove(*command, "--out", tmp_path / "run", *options)
        assert status == 0, err
        lines = [line for line in err.splitlines() if line.startswith("not read: ")]
        return [line["loss"] for line in metrics(tmp_path / "run")], lines

    return losses


@pytest.mark.parametrize("name", RUNS)
def test_settings_that_are_not_read_change_nothing(
    name: str, losses: Callable[..., tuple[list[float], list[str]]], tmp_path: Path
) -> None:
    expected, _ = losses(name)
    config = open_model(CPU, tmp_path / "run").config
    reasons = {
        x: f"{other}={getattr(config, other)}"
        for names, other, values in reversed(READ_BY[type(config)]) for x in names
        if getattr(config, other) not in values
    }  # fmt: skip
    assert len(reasons) == RUNS[name]
    values, lines = losses(name, *(f"{x}={OTHER_VALUES[x]}" for x in reasons))
    assert values == expected and len(lines) == 1
    parts = lines[0].removeprefix("not read: ").split(", ")
    assert {part.partition("=")[0]: part.partition(" ")[2] for part in parts} == {
        x: f"({reason})" for x, reason in reasons.items()
    }


def test_every_rule_has_another_value() -> None:
    assert {name for rules in READ_BY.values() for names, *_ in rules for name in names} == set(OTHER_VALUES)


def test_settings_that_are_read_are_not_named(losses: Callable[..., tuple[list[float], list[str]]]) -> None:
    expected, lines = losses("lm_conv_fasttrees", "dilation=1")
    values, more_lines = losses("lm_conv_fasttrees", "dilation=2", "convolved=inputs")
    assert not lines and not more_lines and values[0] != expected[0]
