"""`grove evaluate`: where scores are written, and what is said of a file that does not hold scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.commands.evaluate import RESULTS
from tests.fixtures.tiny_runs import save_tiny


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A language model whose options name no test text."""
    (tmp_path / "a.txt").write_text("the old dog sees her\n")
    (tmp_path / "b.txt").write_text("her cat sees the dog\n")
    return save_tiny(tmp_path / "run", "fasttrees")


def test_every_test_has_its_own_scores(run: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    for name in ("a.txt", "b.txt"):
        grove("evaluate", run, "--data", tmp_path / name)
    scores = {path.name: json.loads(path.read_text()) for path in run.glob("evaluation*.json")}
    assert {name: one["data"] for name, one in scores.items()} == {
        f"evaluation.data={name}.json": str(tmp_path / name) for name in ("a.txt", "b.txt")
    }
    assert len({one["perplexity"] for one in scores.values()}) == 2


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_file_without_scores_is_named(run: Path, tmp_path: Path, mistake: Callable[..., str], text: str) -> None:
    (run / RESULTS).write_text(text)
    (run / "evaluation.data=a.txt.json").write_text(text)
    for name, command in (
        (RESULTS, ("export", run, tmp_path / "exported")),
        ("evaluation.data=a.txt.json", ("evaluate", run, "--data", tmp_path / "a.txt")),
    ):
        advice = f"not the scores of a run: remove it, and run grove evaluate {run} again"
        assert mistake(*command) == f"{run / name}: {advice}"
        assert (run / name).read_text() == text
