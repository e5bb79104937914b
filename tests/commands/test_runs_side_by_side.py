"""Runs in one table: every row has a name, and seeds of one model are told from other models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accel.trained.opening import configuration
from accel.training.checkpoint import Checkpoint, load, read_state, save
from accel.training.directory import save_settings
from tests.fixtures.tiny_runs import TREES, save_tiny


def tuned(folder: Path, kind: str) -> Path:
    """Write a run of the task glue, with its figures; `grove glue` reads no weights."""
    run = save_tiny(folder / kind, kind)
    save_settings(run, None, {"task": "glue", "name": "cola", "checkpoint": None})
    (run / "evaluation.json").write_text('{"matthews": 0.5}')
    path = run / "best.safetensors"
    state = read_state(path)
    module, config = configuration(path, state)
    parameters = load(path, module.parameter_shapes(config)).parameters
    save(path, Checkpoint(parameters, state | {"training": {"seed": 0}}))
    return run


@pytest.mark.parametrize("kinds", [("gpst", "classifier"), ("fasttrees", "lstm")])
def test_models_of_two_kinds_are_no_seeds(tmp_path: Path, kinds: tuple[str, str], mistake: Callable[..., str]) -> None:
    """The second pair differs in nothing else, and its mean was once printed as that of two seeds."""
    one, other = (tuned(tmp_path, kind) for kind in kinds)
    first, second = ("fasttrees classifier" if kind == "classifier" else kind for kind in kinds)
    reason = f"A: kind is {second}, and {first} in {one}; use NAME={other} with another name"
    assert mistake("glue", f"A={one}", f"A={other}") == f"{other}: {reason}"


def test_a_run_in_the_current_directory_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grove: Callable[..., str]
) -> None:
    (tmp_path / "gold").write_text("".join(f"{tree}\n" for tree in TREES))
    for name in ("one", "two"):
        save_tiny(tmp_path / name, "fasttrees")
    monkeypatch.chdir(tmp_path / "one")
    parse = ("parse", "--gold", tmp_path / "gold", "--convention", "plain", "--layer", 1)
    table = grove(*parse, "--checkpoint", ".", "--checkpoint", "../two")
    assert [line.split()[0] for line in table.splitlines() if line.startswith(("one", "two"))] == ["one", "two"]
