"""`grove info`: what it prints of runs that are new, stopped, trained and finished."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest

from accel.models.transformer_grammars.model import parameter_shapes
from accel.training import checkpoint
from accel.training.lock import LOCK, locked
from tests.fixtures.toy_house import House


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A treebank, and a run of six steps."""
    return House(tmp_path_factory.mktemp("house"), ("tg",))


def rows(text: str) -> dict[str, str]:
    """Return the second column of a printed table, by the first column."""
    return dict(re.split("  +", line, maxsplit=1) for line in text.splitlines() if not line.startswith(" "))


def test_a_run(house: House, grove: Callable[..., str]) -> None:
    run = house.folder / "tg"
    n_parameters = sum(tensor.size for tensor in house.model("tg").parameters.values())
    table = rows(grove("info", run))
    assert table["run"] == str(run) and table["model"] == f"tg, {n_parameters:,} parameters"
    assert table["sizes"].startswith("vocabulary_size=") and "d_model=16 d_ff=24 n_layers=2" in table["sizes"]
    assert table["steps"] == "6 of 6, in checkpoint.safetensors"
    assert table["data"] == str(house.data) and table["validation"] == str(house.valid)
    best = checkpoint.read_state(run / "best.safetensors")
    text = f"{best['validation_loss']:.4f} at step 6"
    assert table["validation loss"] == f"{text}; best {text}" and table["loss"].endswith(" at step 6")
    assert table["process"] == "none trains it"
    shapes = parameter_shapes(house.model("tg").config)
    assert table["parts"].startswith(f"embedding {prod(shapes['embedding']):,}; ")
    assert sum(int(n.replace(",", "")) for n in re.findall(r"\w+ ([\d,]+)(?:;| in|$)", table["parts"])) == n_parameters
    assert all(
        setting in grove("info", run) for setting in ("core_dropout=0.0", "optimizer=adam", "keep_checkpoints=0")
    )
    assert re.fullmatch(r"\d\S* a step, the mean of 5", table["seconds"])
    of_checkpoint = rows(grove("info", run / "best.safetensors"))
    assert of_checkpoint["steps"] == "6 of 6, in best.safetensors" and "loss" not in of_checkpoint


def test_the_process_that_trains(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    run = Path(shutil.copytree(house.folder / "tg", tmp_path / "run"))
    with locked(run):
        lock = (run / LOCK).read_text()
        assert rows(grove("info", run))["process"] == f"{' on '.join(lock.split())} trains it"
    (run / LOCK).write_text(lock.replace(lock.split()[0], str(2**22 + 1)))  # no process has such a number
    assert rows(grove("info", run))["process"].startswith("none: the one that trained it was killed; ")


def test_a_run_before_its_first_checkpoint(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    shutil.copy(house.folder / "tg" / "config.json", tmp_path)
    (tmp_path / "metrics.jsonl").write_text("")
    table = rows(grove("info", tmp_path))
    assert table["checkpoint"] == "none yet" and table["data"] == str(house.data) and "loss" not in table


def test_an_exported_folder(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    grove("export", house.folder / "tg", tmp_path / "exported")
    of_export, of_run = (rows(grove("info", folder)) for folder in (tmp_path / "exported", house.folder / "tg"))
    assert all(of_export[name] == of_run[name] for name in ("model", "sizes", "training", "task"))
    assert of_export["steps"] == "6 of 6, in model.safetensors" and "process" not in of_export


@pytest.mark.parametrize(("length", "shown"), [({}, True), ({"tokens": 99}, False), ({"set": ["steps=6"]}, False)])
def test_seconds_of_an_epoch_are_shown_where_epochs_are_counted(
    length: dict[str, object], shown: bool, house: House, tmp_path: Path, grove: Callable[..., str]
) -> None:
    run = Path(shutil.copytree(house.folder / "tg", tmp_path / "run"))
    content = json.loads((run / "config.json").read_text())
    content["options"] |= {"epochs": 2, "steps": None, "set": []} | length
    (run / "config.json").write_text(json.dumps(content))
    assert rows(grove("info", run))["seconds"].endswith(" an epoch of 3 steps") == shown


def test_what_is_no_run(tmp_path: Path, mistake: Callable[..., str]) -> None:
    assert mistake("info", tmp_path / "nowhere").startswith(f"{tmp_path / 'nowhere'}: does not exist; ")
    assert mistake("info", tmp_path).startswith(f"{tmp_path}: no run, for it has neither ")
    (tmp_path / "text").write_text("a text")
    assert mistake("info", tmp_path / "text").startswith(f"{tmp_path / 'text'}: truncated, or not a safetensors file")
