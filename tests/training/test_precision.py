"""`grove train --precision` and `--kernels`: trained on the stand-in for a GPU, refused wherever they do not apply."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accel import KERNELS, cli
from accel.cpu.support import bfloat16
from accel.cuda import device, forms
from accel.cuda.support import tensor_attention
from accel.training.checkpoint import read_state
from accel.training.run import BEST, NEWEST
from benchmarks import precision
from tests.fixtures.command_line import settings, with_options
from tests.fixtures.stand_in_gpu import host_backend
from tests.fixtures.text_files import LANGUAGE_MODEL, write_text
from tests.fixtures.toy_house import TINY, House, train
from tests.fixtures.toy_run import metrics

__all__ = ["host_backend"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"), ())


def losses(house: House, out: Path, *options: str, backend: str = "cuda") -> list[float]:
    """Train on the stand-in, or on the processor, and return the losses of all steps."""
    arguments = (
        "--validation",
        str(house.valid),
        "--backend",
        backend,
        "--steps",
        "2",
        "--batch-size",
        "4",
        "--set",
        "n_layers=1",
    )
    assert cli.main(train(out, house.data, *arguments, *options)) == 0
    return [line["loss"] for line in metrics(out)]


def test_precisions_train_and_are_kept(
    house: House, host_backend: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bf16 has nearly the losses of float32; both forms of kernels agree, but fast ones also round attention.

    A resumed run keeps its precision.
    """
    exact = losses(house, tmp_path / "float32")
    with_attention = losses(house, tmp_path / "attention", "--precision", "bf16", "--kernels", "fast")
    monkeypatch.setattr(tensor_attention, "fits", lambda q, r: False)
    of_form = [losses(house, tmp_path / form, "--precision", "bf16", "--kernels", form) for form in KERNELS]
    assert of_form[0] != exact and of_form[0] == pytest.approx(exact, rel=1e-3)
    assert of_form[0] == pytest.approx(of_form[1], rel=1e-5)
    assert with_attention != of_form[1] and with_attention == pytest.approx(exact, rel=1e-3)
    assert losses(house, tmp_path / "tf32", "--set", "precision=tf32") == pytest.approx(exact, rel=1e-4)
    assert forms.current() == forms.Forms()
    with precision.rounded_products("bf16"):
        here = losses(house, tmp_path / "cpu", backend="cpu")
    assert here[0] == pytest.approx(of_form[0][0], rel=1e-6) and here == pytest.approx(of_form[0], rel=3e-4)
    run = tmp_path / "plain"
    assert {read_state(run / name)["training"]["precision"] for name in (NEWEST, BEST)} == {"bf16"}
    resumed = ("train", "--resume", "--out", str(run), "--steps", "3", "--backend", "cuda")
    assert cli.main(list(resumed)) == 0 and read_state(run / NEWEST)["step"] == 3
    options = json.loads((run / "config.json").read_text())["options"]
    assert options["precision"] == "bf16" and "kernels" not in options


def test_what_cannot_be_is_refused(
    house: House, host_backend: ModuleType, tmp_path: Path, mistake: Callable[..., str]
) -> None:
    """A resumed run refuses another precision, and a processor refuses precisions and kernels that it does not have."""
    losses(house, tmp_path / "run")
    resumed = ("train", "--resume", "--out", tmp_path / "run", "--backend", "cuda", "--precision", "bf16")
    assert "a resumed run keeps its settings: --precision: float32, now bf16" in mistake(*resumed)
    cpu = "the backend cpu has {} {} only; use --backend cuda, or --{} {}"
    cases = ("precision", "tf32", "float32 and bf16", "float32"), ("kernels", "fast", "plain", "plain")
    for name, value, choices, default in cases:
        refused = mistake(*train(tmp_path / "new", house.data, f"--{name}", value))
        assert f"--{name} {value}: {cpu.format(name, choices, name, default)}" in refused
    refused = mistake(*train(tmp_path / "new", house.data, "--precision", "bf16"))
    none = "on a processor it rounds hidden states of recurrences only, and tg has none"
    assert f"--precision bf16: {none}; use --precision float32" in refused
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("name", "default"), [("kernels", "plain"), ("precision", "float32")])
def test_an_old_gpu_has_plain_kernels_only(
    house: House, host_backend: ModuleType, tmp_path: Path, mistake: Callable[..., str], name: str, default: str
) -> None:
    value = {"kernels": "fast", "precision": "bf16"}[name]
    device.use(replace(device._current(), capability=75))
    refused = mistake(*train(tmp_path / "new", house.data, "--backend", "cuda", f"--{name}", value))
    need = "needs compute capability 8.0, but this GPU has compute capability 7.5"
    assert f"--{name} {value}: {need}; use --{name} {default}" in refused
    assert len(losses(house, tmp_path / "plain")) == 2 and not (tmp_path / "new").exists()


def recurrent(out: Path, text: Path, *more: str) -> list[str]:
    """Return the command that trains a small FastTrees."""
    files = ("--task", "language_model", "--data", text, "--validation", text, "--min-count", "1")
    command = ("train", "--out", out, *files, "--length", "6", "--batch-size", "3", *settings(LANGUAGE_MODEL))
    return with_options(command, *more)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    write_text(path, 40, 0)
    return path


@pytest.mark.skipif(not bfloat16.AVAILABLE, reason="this processor has no avx512_bf16 instructions")
def test_recurrences_train_in_bfloat16(text: Path, tmp_path: Path) -> None:
    """Losses differ a little from those of float32; a resumed run keeps its precision and equals a whole run."""
    curves = {}
    for name in ("float32", "bf16"):
        run = tmp_path / name
        assert cli.main(recurrent(run, text, "--precision", name, "--steps", "4")) == 0
        curves[name] = [line["loss"] for line in metrics(run)]
    assert curves["bf16"] != curves["float32"] and curves["bf16"] == pytest.approx(curves["float32"], rel=1e-3)
    assert not bfloat16.is_used(np.zeros(1, np.float32))
    run = tmp_path / "resumed"
    constant = ("--precision", "bf16", "--set", "schedule=constant")
    assert cli.main(recurrent(tmp_path / "whole", text, *constant, "--steps", "4")) == 0
    assert cli.main(recurrent(run, text, *constant, "--steps", "2")) == 0
    assert cli.main(["train", "--resume", "--out", str(run), "--steps", "4"]) == 0
    assert [line["loss"] for line in metrics(run)] == [line["loss"] for line in metrics(tmp_path / "whole")]


@pytest.mark.skipif(not bfloat16.AVAILABLE, reason="this processor has no avx512_bf16 instructions")
def test_curves_of_a_recurrence(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --recurrence, the processor's own bf16 is trained."""
    options = ["--recurrence", "--data", text, "--validation", text, "--out", tmp_path, "--steps", 6, "--seeds", 2]
    precision.main([str(x) for x in (*options, *settings((*LANGUAGE_MODEL, "batch_size=3")))])
    first, _, *rows, _ = capsys.readouterr().out.splitlines()
    assert first.endswith("| bf16: mean | most, of one seed |") and len(rows) == 6
    assert read_state(tmp_path / "bf16-0" / NEWEST)["training"]["precision"] == "bf16"


def test_another_processor_is_refused(
    text: Path, tmp_path: Path, mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bfloat16, "AVAILABLE", False)
    refused = mistake(*recurrent(tmp_path / "run", text, "--precision", "bf16", "--steps", "2"))
    assert "--precision bf16: this processor has no avx512_bf16 instructions; use --precision float32" in refused
    assert not (tmp_path / "run").exists()


def test_curves_stay_within_the_spread_of_seeds(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures of benchmarks/precision.md are computed for a tiny model; complete runs are not made again."""
    options = ["--data", house.data, "--validation", house.valid, "--out", tmp_path, "--steps", 12, "--seeds", 3]
    command = [str(x) for x in (*options, *settings(TINY))]
    precision.main(command)
    output = capsys.readouterr().out
    precision.main(command)
    assert output == capsys.readouterr().out
    _, _, *rows, tf32, bf16 = output.splitlines()
    assert [line.split(" | ")[0] for line in rows] == [f"| {step}" for step in range(2, 13, 2)]
    within = "within the spread of float32 at every validation"
    assert (tf32, bf16) == (f"tf32: {within}", f"bf16: {within}")


def test_a_curve_outside_of_the_spread_shows() -> None:
    curves = {"float32": [{5: 1.0, 10: 0.5}, {5: 1.2, 10: 0.6}], "bf16": [{5: 1.1, 10: 0.7}, {5: 1.1, 10: 0.6}]}
    *_, last, verdict = precision.table(curves)
    assert last == "| 10 | 0.5000, 0.5500, 0.6000 | 0.1000 | 0.6500 | 0.2000 |"
    assert verdict == "bf16: OUTSIDE at 1 validations"
