"""What `grove draw` refuses, each in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.tiny_runs import TREES, save_tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("runs") / "tg", "tg")


def test_heads_and_layers_are_counted_from_1(run: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    draw = ("draw", "attention", TREES[0], "--checkpoint", run, "--out", tmp_path / "x.svg")
    for option in ("--head", "--layer"):
        for number in (0, -1):
            assert mistake(*draw, option, number) == f"{option} {number}: at least 1 is needed"
        assert mistake(*draw, option, 3) == "the model has layers 1 to 1, each with heads 1 to 2"
    assert not (tmp_path / "x.svg").exists()
