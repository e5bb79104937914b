"""`grove train --precision` and `--kernels`: on the stand-in for a GPU, for everything else refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from accel import KERNELS, cli
from accel.cuda import forms
from accel.training.checkpoint import read_state
from accel.training.run import BEST, NEWEST
from tests.fixtures.stand_in_gpu import host_backend
from tests.fixtures.toy_house import House, train
from tests.fixtures.toy_run import metrics

__all__ = ["host_backend"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"), ())


def losses(house: House, out: Path, *options: str) -> list[float]:
    """Train on the stand-in, and return the losses of all steps."""
    given = ("--validation", str(house.valid), "--backend", "cuda", "--steps", "3", "--batch-size", "4")
    assert cli.main(train(out, house.data, *given, *options)) == 0
    return [line["loss"] for line in metrics(out)]


def test_precisions_train_and_are_kept(house: House, host_backend: ModuleType, tmp_path: Path) -> None:
    """bf16 gives nearly the losses of float32, both forms the same ones; a resumed run keeps its precision."""
    exact = losses(house, tmp_path / "float32")
    of_form = [losses(house, tmp_path / form, "--precision", "bf16", "--kernels", form) for form in KERNELS]
    assert of_form[0] != exact and of_form[0] == pytest.approx(exact, rel=1e-3)
    assert of_form[0] == pytest.approx(of_form[1], rel=1e-5)
    assert losses(house, tmp_path / "tf32", "--set", "precision=tf32") == pytest.approx(exact, rel=1e-4)
    assert forms.current() == forms.Forms()
    run = tmp_path / "plain"
    assert {read_state(run / name)["training"]["precision"] for name in (NEWEST, BEST)} == {"bf16"}
    resumed = ("train", "--resume", "--out", str(run), "--steps", "4", "--backend", "cuda")
    assert cli.main(list(resumed)) == 0 and read_state(run / NEWEST)["step"] == 4
    options = json.loads((run / "config.json").read_text())["options"]
    assert options["precision"] == "bf16" and "kernels" not in options


def test_what_cannot_be_is_refused(
    house: House, host_backend: ModuleType, tmp_path: Path, mistake: Callable[..., str]
) -> None:
    """Another precision of a resumed run, also of one that was trained before there were any; and a processor's."""
    losses(house, tmp_path / "run")
    resumed = ("train", "--resume", "--out", tmp_path / "run", "--backend", "cuda", "--precision", "bf16")
    assert "a resumed run keeps its settings: --precision: float32, now bf16" in mistake(*resumed)
    cpu = "the backend cpu has {} {} only; use --backend cuda, or --{} {}"
    for name, value, default in (("precision", "tf32", "float32"), ("kernels", "fast", "plain")):
        refused = mistake(*train(tmp_path / "new", house.data, f"--{name}", value))
        assert f"--{name} {value}: {cpu.format(name, default, name, default)}" in refused
    assert not (tmp_path / "new").exists()
