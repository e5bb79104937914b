"""The report of `grove verify`: what agrees and what differs, the saved input, and the JSON for programs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accel.cpu
import accel.cuda
from accel.data.files import progress
from accel.verify import replay
from accel.verify.op import Op, example_case
from accel.verify.ops.table import OPS
from accel.verify.sizes import cases_at_sizes
from tests.fixtures.command_line import Grove, forget_modules

RIGHT = """
import numpy as xp
from accel import cpu

tiles = {"layer_norm": {"rows": (40,)}}

def layer_norm(x, scale, bias):
    if scale.shape != bias.shape or scale.shape != x.shape[1:] or x.dtype != bias.dtype:
        raise ValueError("scale: not as wide as x; or bias: not of float32 or float64")
    return cpu.layer_norm(x, scale, bias)

def layer_norm_vjp(d_out, outputs, x, scale, bias):
    return cpu.layer_norm_vjp(d_out, outputs, x, scale, bias)
"""
SPOILT = {
    "leaving": ("return cpu.layer_norm(x, scale, bias)", "raise SystemExit(0)"),
    "later": ("return cpu.layer_norm(x, scale, bias)", "raise NotImplementedError('next week')"),
    "told": ("scale: not as wide", "not as wide"),
    "leaning": ("return cpu.layer_norm_vjp(d_out,", "return cpu.layer_norm_vjp(1.001 * d_out,"),
    "ragged": ("return cpu.layer_norm(x, scale, bias)", "return cpu.layer_norm(x + (len(x) > 6), scale, 2 * bias)"),
    "leaking": ("return cpu", "x = x + 0 * x.sum()\n    return cpu"),
    "writing": ("return cpu", "scale *= 2\n    return cpu"),
    "high": ("return cpu.layer_norm(x, scale, bias)", "return cpu.layer_norm(x[:40], scale, bias)"),
    "few": ("return cpu.layer_norm(x, scale, bias)", "return ()"),
    "short": ("def layer_norm(x, scale, bias):", "def layer_norm(x, scale):\n    bias = scale"),
    "constant": ("def layer_norm_vjp(", "layer_norm = 3\n\ndef layer_norm_vjp("),
    "flat": ("return cpu.layer_norm(x, scale, bias)", "return (x[0, 0],)"),
    "wide": ("return cpu.layer_norm(x, scale, bias)", "return (xp.float64(cpu.layer_norm(x, scale, bias)[0]),)"),
}
COLUMNS = ["values", "ragged batches", "sizes", "neighbours", "permutation", "gradients", "errors", "vectors"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The empty folder in which `grove` is started; the modules are in another folder."""
    (tmp_path / "kernels").mkdir()
    for name, (old, new) in SPOILT.items():
        assert old in RIGHT
        (tmp_path / "kernels" / f"spoilt_{name}.py").write_text(RIGHT.replace(old, new, 1))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(str(tmp_path / "kernels"))
    yield tmp_path / "here"
    forget_modules(tmp_path)


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [
        ("later", "values", "layer_norm, values: raises NotImplementedError: next week (" ),
        ("leaving", "values", "layer_norm, values: raises RuntimeError: SystemExit 0 ("),
        ("few", "values", "layer_norm, values: number of outputs: got 0, wanted 1"),
        ("flat", "values", "layer_norm, values: outputs: got arrays that cannot be cut into examples ("),
        ("short", "values", "layer_norm, values: cannot be called as --describe layer_norm prints: TypeError: layer_n"),
        ("constant", "values", "layer_norm, values: is of type int: export a function"),
        ("told", "errors", "layer_norm: values agree, errors differ: scale [99], not ["),
        ("leaning", "gradients", "layer_norm: values agree, gradients differ: "),
        ("leaking", "neighbours", "layer_norm, neighbours: example 0 beside nan, output 0: [0, 0]: got nan, wanted "),
        ("high", "sizes", "layer_norm, sizes: "),
        ("writing", "values", "layer_norm, values: argument scale after the call: got other values, wanted the same"),
        ("wide", "values", "layer_norm, values: output 0: dtype: got float64, wanted float32"),
    ],
)  # fmt: skip
def test_the_first_failure_is_one_line_and_one_file(
    folder: Path, run_grove: Grove, name: str, column: str, words: str
) -> None:
    status, out, _ = run_grove("verify", f"spoilt_{name}", "--examples", 5)
    header, row, line, again, last = out.splitlines()
    assert status == 1 and header.startswith("operation ") and line.startswith(words), out
    cells = dict(zip(["operation", *COLUMNS], row.split(), strict=True))
    assert cells[column] == "differs"
    in_values = int("values agree" in words)
    assert last == f"0 of 1 operations agree with the reference, {in_values} of 1 in their values"
    file = f"grove-verify-layer_norm-{column}.json"
    assert again == f"  grove verify --replay {file} spoilt_{name}" and [path.name for path in folder.iterdir()] == [
        file
    ]
    status, out, _ = run_grove("verify", "--replay", file, f"spoilt_{name}")
    message = out.splitlines()[-1].removeprefix(f"layer_norm, {column}: differs on the input of {file}: ")
    assert status == 1 and len(message) > 9 and line.endswith(f": {message}")
    assert "  x: float64 [" in out
    status, out, _ = run_grove("verify", "--replay", file, "cpu")
    assert status == 0 and out.splitlines()[-1] == f"layer_norm, {column}: agrees on the input of {file}"


def test_the_command_that_runs_an_input_again_is_quoted(folder: Path, run_grove: Grove) -> None:
    Path("my kernels").mkdir()
    Path("my kernels/spaced.py").write_text(RIGHT.replace(*SPOILT["few"]))
    again = run_grove("verify", "my kernels/spaced.py", "--examples", 1)[1].splitlines()[-2]
    assert again == "  grove verify --replay grove-verify-layer_norm-values.json 'my kernels/spaced.py'"


def test_a_slow_kernel_shows_its_inputs(folder: Path, run_grove: Grove, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("right.py").write_text(RIGHT)
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    status, out, err = run_grove("verify", "right.py", "--examples", 1)
    lines = [line for line in err.splitlines() if line.startswith("grove: layer_norm: ")]
    n_inputs = sum(int(cell) for cell in out.splitlines()[1].split()[1:] if cell != "-")
    assert status == 0 and lines[-1].startswith(f"grove: layer_norm: {n_inputs - 1} inputs, ")


def test_failures_before_an_interruption_are_printed(folder: Path, run_grove: Grove) -> None:
    """The test of `bias_gelu` is interrupted after that of `layer_norm` has failed."""
    stop = "def bias_gelu(x, bias):\n    raise KeyboardInterrupt\n"
    Path("stopped.py").write_text(RIGHT.replace(*SPOILT["few"]) + stop)
    status, out, err = run_grove("verify", "stopped.py", "--examples", 1)
    assert status == 130 and "layer_norm, values: number of outputs: got 0, wanted 1" in out
    assert "interrupted while bias_gelu was tested" in err


def test_the_saved_input_is_shrunk(folder: Path, run_grove: Grove) -> None:
    """The kernel is wrong for ragged inputs; the saved input is shrunk to one number."""
    assert run_grove("verify", "spoilt_ragged", "--examples", 25)[0] == 1
    saved = replay.load(Path("grove-verify-layer_norm-values.json"))
    case = saved.drawn["case"]
    assert saved.check == "single" and len(case.examples[0]["x"]) == 1
    assert "got" in saved.failure and "wanted" in saved.failure and "allowed" in saved.failure


def test_the_report_as_json(folder: Path, run_grove: Grove) -> None:
    status, out, _ = run_grove("verify", "spoilt_told", "--json", "--examples", 3)
    report = json.loads(out)
    assert status == 1 and list(report) == [
        "format", "version", "grove", "backend", "operations", "agree", "agree_in_values"
    ]  # fmt: skip
    assert (report["format"], report["version"], report["backend"]) == ("grove-verify-report", 1, "spoilt_told")
    assert (report["agree"], report["agree_in_values"]) == (0, 1)
    (row,) = report["operations"]
    assert list(row) == ["operation", "clause", "agrees", "values_agree", "verdict", "input", "checks"]
    assert row["verdict"] == "values agree, errors differ" and Path(row["input"]).is_file()
    assert list(row["checks"]) == COLUMNS
    n_inputs = {name: check["inputs"] for name, check in row["checks"].items()}
    assert n_inputs == dict(zip(COLUMNS, [3, 3, 4, 10, 3, 7, 1, 1], strict=True))
    failure = row["checks"]["errors"]["failure"]
    assert list(failure) == ["check", "message", "repeats", "what", "place", "got", "wanted", "allowed"]
    assert failure["wanted"] == "a ValueError with 'scale'" and failure["what"] == "LAY-1 layer_norm"
    assert row["checks"]["values"]["failure"] is None
    page = (Path(__file__).parents[2] / "accel/verify/README.md").read_text(encoding="utf-8")
    fields = [*report, *row, *row["checks"]["errors"], *failure]
    assert [field for field in fields if f"`{field}`" not in page] == []
    assert [column for column in COLUMNS if f"\n| {column} |" not in page] == []


def test_what_a_kernel_prints_is_not_in_the_report(folder: Path, run_grove: Grove) -> None:
    Path("talking.py").write_text(RIGHT.replace("    return cpu", "    print('here')\n    return cpu"))
    status, out, err = run_grove("verify", "talking", "--json", "--examples", 1)
    assert status == 0 and json.loads(out)["agree"] == 1 and err.startswith("here\n")


@pytest.mark.parametrize(
    ("page", "name", "ours"),
    [
        ("README.md", "bias_gelu", SimpleNamespace()),
        ("accel/verify/README.md", "bias_gelu", SimpleNamespace()),
        ("accel/verify/README.md", "layer_norm", accel.cuda),
        ("accel/commands/README.md", "cumax", accel.cpu),
        ("examples/kernels/README.md", "layer_norm", SimpleNamespace()),
    ],
)
def test_pages_print_the_number_of_sizes(page: str, name: str, ours: Any) -> None:
    [op] = [op for op in OPS if op.name == name]
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    numbers = set(re.findall(rf"^{name} +\S+ +\S+ +(\d+) ", text, re.MULTILINE))
    assert numbers == {str(len(list(cases_at_sizes(ours, op))))}


def test_a_declared_precision_is_shown(folder: Path, run_grove: Grove, mistake: Callable[..., str]) -> None:
    Path("half.py").write_text(RIGHT + 'precision = {"layer_norm": "bfloat16"}\n')
    lines = run_grove("verify", "half", "--examples", 2)[1].splitlines()
    assert lines[2] == "layer_norm: values: held to bfloat16", lines
    for name, text, message in (
        ("odd", 'precision = {"layer_norm": "bfloat61"}', "precision: layer_norm: 'bfloat61' is unknown: did you mean"),
        ("plain", 'precision = "bfloat16"', "plain: precision: 'bfloat16' is no dict: an example is {"),
        ("tiled", 'tiles = {"layer_norm": {"row": (8,)}}', "tiles: layer_norm has no axis 'row': did you mean rows?"),
        ("listed", 'tiles = ["layer_norm"]', "tiles: ['layer_norm'] is no dict of dicts: an example is {"),
        ("flat", 'tiles = {"layer_norm": 128}', "tiles: {'layer_norm': 128} is no dict of dicts: an example is {"),
    ):
        Path(f"{name}.py").write_text(f"{RIGHT}{text}\n")
        assert message in mistake("verify", name)


def test_more_inputs_in_more_seconds(folder: Path, run_grove: Grove) -> None:
    _, out, _ = run_grove("verify", "cpu", "--only", "distance_trees", "--seconds", 0.6)
    assert int(out.splitlines()[1].split()[1]) > 0 and out.endswith("1 of 1 operations agree with the reference\n")
    assert not list(folder.iterdir())


def test_inputs_are_saved_as_they_are(op: Op, tmp_path: Path) -> None:
    case = example_case(op)
    inputs = {"case": case, "order": [1, 0], "direction": 7, "odd": np.array([math.nan, -math.inf, -0.0, 1e-310])}
    replay.save(tmp_path / "x.json", replay.Saved(op.name, "ragged", "x", inputs))
    saved = replay.load(tmp_path / "x.json")
    assert saved.operation == op.name and replay.text_of(saved.drawn) == replay.text_of(inputs)
    for mine, other in zip(op.batched(case).values(), op.batched(saved.drawn["case"]).values(), strict=True):
        assert type(mine) is type(other)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == other.dtype and mine.tobytes() == other.tobytes() and mine.shape == other.shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "x.json: not JSON: "),
        ("[]", "x.json: no input of grove verify: name a file that it has saved"),
        ('{"format": "grove-verify-input", "version": 9}', "x.json: version 9 of the format; this Grove reads version"),
        ('{"format": "grove-verify-input", "version": 1, "operation": "cumax", "check": "ragged", "failure": "",'
         ' "drawn": {"case": {"dtype": "x", "shape": [1], "data": []}}}', "x.json: damaged: "),
        ('{"format": "grove-verify-input", "version": 1, "operation": "cumac", "check": "ragged", "failure": "",'
         ' "drawn": {}}', "unknown operation 'cumac': did you mean cumax?"),
        ('{"format": "grove-verify-input", "version": 1, "operation": "cumax", "check": "rugged", "failure": "",'
         ' "drawn": {}}', "x.json: no check 'rugged' in this version of Grove"),
    ],
)  # fmt: skip
def test_files_that_are_no_input(folder: Path, mistake: Callable[..., str], text: str, message: str) -> None:
    Path("x.json").write_text(text)
    assert mistake("verify", "--replay", "x.json", "cpu").startswith(message)


def test_all_operations_are_listed(run_grove: Grove) -> None:
    status, out, _ = run_grove("verify", "--describe")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == [op.name for op in OPS]
    assert "bias_gelu              LAY-2, specs page layers\n" in out


def test_every_operation_is_described(op: Op, run_grove: Grove) -> None:
    status, out, _ = run_grove("verify", "--describe", op.name)
    assert status == 0 and out.startswith(f"{op.name}(") and len(out.splitlines()) <= 45
    assert all(repr(word) in out for words, _ in op.errors for word in words.split("|"))
    assert not op.diff or f"the gradients of ({', '.join(op.diff)}" in out
