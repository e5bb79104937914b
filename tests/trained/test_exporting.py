"""Exported folders: the files of a model hub, the scores of the run bit for bit, and no path of a machine."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import accel
from accel import trained
from accel.commands.export import _data, command_of
from accel.trained.average import averaged
from accel.trained.interface import TrainedModel
from accel.trained.weights import write_weights
from accel.trained.words import line_reader
from accel.training.checkpoint import Checkpoint, read_state, save
from accel.training.directory import save_settings
from accel.training.last_checkpoints import KEPT
from tests.fixtures.tiny_runs import KINDS, SENTENCES, TREES, runs

__all__ = ["runs"]


def results(model: TrainedModel) -> list[Any]:
    """Return what the model computes, in full precision."""
    kind = model.kind.split()[0]
    if kind in ("tg", "txl_cc", "txl_terminals"):
        return [x.hex() for x in model.tree_score(TREES).tolist()]
    if kind == "span_parser":
        return [(str(tree), logq.hex()) for group in model.propose(SENTENCES, 4) for tree, logq in group]
    if kind == "treeformer" or "classifier" in model.kind:
        return [str(tree) for tree in model.parse(SENTENCES)]
    if kind == "encoder_decoder":
        return [str(target) for target in model.translate(SENTENCES, extra_length=3)]
    return [x.hex() for x in model.sequence_score(SENTENCES)]


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(runs: dict[str, Path], kind: str, tmp_path: Path, grove: Callable[..., str]) -> None:
    folder = tmp_path / "folder"
    assert grove("export", runs[kind], folder) == f"{folder}\n"
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocabulary.json",
        "README.md",
    }
    run, copy = trained.open(runs[kind]), trained.open(folder)
    assert copy.config == run.config and copy.vocabulary == run.vocabulary and copy.model.reading == run.model.reading
    for name, weights in run.parameters.items():
        np.testing.assert_array_equal(copy.parameters[name], weights)
    assert results(copy) == results(run)
    assert set(load_file(folder / "model.safetensors")) == {f"parameters.{name}" for name in run.parameters}
    assert json.loads((folder / "config.json").read_text())["model_type"] == run.kind


def test_commands_take_the_folder(runs: dict[str, Path], tmp_path: Path, grove: Callable[..., str]) -> None:
    (tmp_path / "trees").write_text("".join(f"{tree}\n" for tree in TREES))
    grove("export", runs["tg"], tmp_path / "folder")
    scores = [grove("score", "--checkpoint", path, tmp_path / "trees") for path in (runs["tg"], tmp_path / "folder")]
    assert scores[0] == scores[1]


def test_a_licence_has_a_name(runs: dict[str, Path], tmp_path: Path, mistake: Callable[..., str]) -> None:
    wrong = mistake("export", runs["tg"], tmp_path / "folder", "--license", "free: for all")
    assert wrong == "--license 'free: for all': a name as hubs have them is needed: mit, cc-by-4.0, other"
    assert not (tmp_path / "folder").exists()


def test_card(runs: dict[str, Path], tmp_path: Path, grove: Callable[..., str]) -> None:
    """The card has the digests of the data, the command, figures and licence; no file has a path of this machine."""
    run, data = tmp_path / "run", tmp_path / "data" / "train.trees"
    run.mkdir()
    data.parent.mkdir()
    data.write_text("(S dog)\n")
    for path in runs["tg"].iterdir():
        (run / path.name).write_bytes(path.read_bytes())
    options: dict[str, Any] = {"task": "trees", "data": str(data), "validation": str(tmp_path / "gone.trees")}
    options |= {"contents": {"files": {str(data): 7}}, "model": "tg"}
    options |= {"steps": 7, "keep_tags": True, "set": ["d_model=8", "d_ff=8"], "seed": None}
    save_settings(run, trained.open(run).model.reading, options)
    (run / "evaluation.json").write_text('{"perplexity": 12.5, "accuracy": {"all": 0.25}}')
    grove("export", run, tmp_path / "folder", "--license", "cc-by-4.0")
    card = (tmp_path / "folder" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: grove-lm\nlicense: cc-by-4.0\ntags:\n- grove\n- tg\n---\n\n# folder\n")
    assert re.search(r"- `data`: train.trees, 8 bytes, SHA-256 [0-9a-f]{64}\n", card)
    assert "- `validation`: gone.trees, no longer there at the export\n" in card
    assert "| steps | 7 |\n" in card and "| test perplexity | 12.5000 |\n| test accuracy all | 0.2500 |\n" in card
    (run / "checkpoint.safetensors").write_bytes((run / "best.safetensors").read_bytes())
    grove("export", run / "checkpoint.safetensors", tmp_path / "last")
    assert "test perplexity" not in (tmp_path / "last" / "README.md").read_text()  # the figure of the best checkpoint
    (run / "checkpoint.evaluation.json").write_text('{"perplexity": 99.0}')
    grove("export", run / "checkpoint.safetensors", tmp_path / "tested")
    assert "| test perplexity | 99.0000 |\n" in (tmp_path / "tested" / "README.md").read_text()
    command = "grove train --task trees --out RUN --steps 7 --set d_model=8 --set d_ff=8 --data train.trees"
    assert f"{command} --validation gone.trees" in card and " --keep-tags" in card and "cc-by-4.0. The data" in card
    assert "A model of the kind `tg`, trained with grove-lm " in card
    for path in (tmp_path / "folder").iterdir():
        assert str(tmp_path).encode() not in path.read_bytes(), path
    names: dict[str, Any] = {}
    [block] = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    exec(compile(block.replace('"folder"', repr(str(tmp_path / "folder"))), "README.md", "exec"), names)
    assert names["model"].kind == "tg"


@pytest.mark.parametrize("kind", KINDS)
def test_an_open_model_needs_its_run_no_more(
    runs: dict[str, Path], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once every method read the settings of the run again, and failed in another directory or after a move."""
    shutil.copytree(runs[kind], tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    model = trained.open("run")
    content, expected = pickle.dumps(model), results(model)
    shutil.rmtree("run")
    os.chdir("/")
    assert results(model) == results(pickle.loads(content)) == expected


def test_an_open_model_of_characters_needs_its_run_no_more(runs: dict[str, Path], tmp_path: Path) -> None:
    run = shutil.copytree(runs["encoder_decoder"], tmp_path / "run")
    save_settings(run, None, {"task": "arithmetic"})
    model = trained.open(run)
    shutil.rmtree(run)
    for one in (model, pickle.loads(pickle.dumps(model))):
        assert line_reader(one.model)("1 + 2\n") == list("1 + 2")


def test_an_average_says_of_which_checkpoints(runs: dict[str, Path], tmp_path: Path, grove: Callable[..., str]) -> None:
    run = shutil.copytree(runs["encoder_decoder"], tmp_path / "run")
    model = trained.open(run).model
    parameters = {name: np.asarray(value) for name, value in model.parameters.items()}
    state = read_state(model.path) | {"validation_loss": 2.5}
    for step in (1200, 1300):
        save(run / KEPT.format(step), Checkpoint(parameters, state | {"step": step}))
    grove("export", averaged(accel.load("cpu"), model, last=2).path, tmp_path / "folder")
    card = (tmp_path / "folder" / "README.md").read_text()
    assert "| steps | 1,300 |\n| mean of the checkpoints at steps | 1,200, 1,300 |\n" in card
    assert "validation" not in card.partition("## Figures")[2].partition("##")[0]


def test_fields_and_several_files_on_a_card(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a", "b")]
    for file in files:
        Path(file).write_text(file)
    settings: dict[str, Any] = {"task": "summarisation", "fields": ["document", "summary"], "set": []}
    assert command_of(settings)[-2:] == ["--fields", "document,summary"]
    assert command_of({"task": "gpst", "data": files, "set": ["a=1", "b=2"]})[6:] == [
        *("--set", "a=1", "--set", "b=2", "--data", "a", "b")
    ]  # fmt: skip
    assert [line.partition(",")[0] for line in _data({"data": files})] == ["`data`: a", "`data`: b"]


def test_refusals(runs: dict[str, Path], tmp_path: Path, mistake: Callable[..., str]) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("mine")
    assert mistake("export", runs["tg"], tmp_path / "used") == f"{tmp_path / 'used'}: exists already; name a new folder"
    assert mistake("export", tmp_path / "used", tmp_path / "new").startswith(f"{tmp_path / 'used'}: no run, for it has")
    assert [path.name for path in tmp_path.iterdir()] == ["used"]


def test_an_export_is_not_exported_again(
    runs: dict[str, Path], tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    """Its card would lose the licence, the data and the test figures, which only the run and the first card have."""
    folder, other = tmp_path / "folder", tmp_path / "other"
    grove("export", runs["tg"], folder, "--license", "mit")
    reason = f"{folder}: is an export already: copy this folder, and edit its card, README.md"
    for path in (folder, folder / "model.safetensors"):
        assert mistake("export", path, tmp_path / "again") == reason
    write_weights(folder, other, {})  # has no card
    grove("export", other, tmp_path / "again")
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == load_file(folder / "model.safetensors").keys()
