"""Kernels that share memory, print, end the process or vary; folders and options with which no report can be made."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.command_line import Grove, forget_modules

ROOT = Path(__file__).parents[2]
RIGHT = """
import numpy as xp
from accel.cpu import bias_gelu, bias_gelu_vjp, layer_norm as of_cpu
tiles = {}
"""
KEEPING = """
kept = {}

def keeping(function):
    def kernel(*arguments):
        outputs = function(*arguments)
        for number, x in enumerate(outputs):
            kept.setdefault((function, number, x.shape, x.dtype), x)[...] = x
        return tuple(kept[function, number, x.shape, x.dtype] for number, x in enumerate(outputs))
    return kernel
"""
LAYER_NORM = """
def layer_norm(x, scale, bias):
    if x.dtype != bias.dtype:
        raise ValueError(f"bias: of {bias.dtype}, unlike x")
    return of_cpu(x, scale, bias)
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    """Return a function that writes a module into the folder in which `grove` is started, and returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield lambda name, text: Path(f"{name}.py").write_text(RIGHT + text) and name
    forget_modules(tmp_path)


Write = Callable[[str, str], str]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "bias_gelu = keeping(bias_gelu)",
            "bias_gelu, ragged batches: output 0, after the function was called again: got other values, wanted",
        ),
        (
            "bias_gelu_vjp = keeping(bias_gelu_vjp)",
            "bias_gelu: values agree, gradients differ: bias_gelu_vjp: gradient 0, after another gradient was asked",
        ),
    ],
)
def test_what_is_returned_stays_as_it_is(write: Write, text: str, message: str, run_grove: Grove) -> None:
    """A kernel that overwrites an array it returned earlier gives wrong gradients to a model that calls it twice."""
    status, out, _ = run_grove("verify", write("kept_memory", KEEPING + text), "--examples", 5)
    assert status == 1 and message in out


def test_a_kernel_may_return_more_for_its_gradient(write: Write, run_grove: Grove) -> None:
    """The further outputs may have the kernel's float type, or be integers or truth values."""
    more = """
right, right_vjp = bias_gelu, bias_gelu_vjp

def bias_gelu(x, bias):
    return *right(x, bias), x > 0, xp.argsort(x)

def bias_gelu_vjp(d_out, outputs, x, bias):
    assert outputs[1].dtype == bool and outputs[2].dtype == xp.int64
    return right_vjp(d_out, outputs[:1], x, bias)
"""
    status, out, _ = run_grove("verify", write("generous", more), "--examples", 1)
    assert status == 0, out


def test_a_declared_precision_turns_the_types_of_bad_arguments(write: Write, run_grove: Grove) -> None:
    """If a kernel declares float32, the input of wrong types has x in float32 and the bias in float64."""
    text = LAYER_NORM + 'precision = {"layer_norm": "float32"}'
    status, out, _ = run_grove("verify", write("narrow", text), "--only", "layer_norm", "--examples", 1)
    assert status == 0 and "layer_norm: values: held to float32\n" in out, out


def test_what_ends_no_kernel_ends_no_report(write: Write, run_grove: Grove) -> None:
    """An error that is no Exception, such as a panic in compiled code, fails one kernel; the report goes on."""
    text = "class Panic(BaseException): pass\ndef layer_norm(x, scale, bias):\n    raise Panic('at the disco')\n"
    status, out, _ = run_grove("verify", write("panicking", text), "--examples", 1)
    assert status == 1 and "layer_norm, values: raises RuntimeError: Panic at the disco" in out
    assert out.endswith("1 of 2 operations agree with the reference, 1 of 2 in their values\n")


def test_failures_are_printed_below_their_rows(write: Write, run_grove: Grove) -> None:
    """A failure is printed at once, because a later kernel may end the process."""
    text = "def layer_norm(x, scale, bias):\n    return ()\n"
    lines = run_grove("verify", write("first", text), "--examples", 1)[1].splitlines()
    assert [line.split()[0] for line in lines] == ["operation", "layer_norm", "layer_norm,", "grove", "bias_gelu", "1"]


def test_a_listed_input_is_run_again(write: Write, run_grove: Grove) -> None:
    text = """
import itertools
calls = itertools.count()

def layer_norm(x, scale, bias):
    return (x,) if scale.shape == (99,) and next(calls) == 0 else of_cpu(x, scale, bias)
"""
    words = "verify", write("varying", text), "--only", "layer_norm", "--json", "--examples", 1
    [row] = json.loads(run_grove(*words)[1])["operations"]
    assert row["checks"]["errors"]["failure"]["repeats"] is False


def test_an_input_that_cannot_be_saved(write: Write, run_grove: Grove, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is printed although the input cannot be saved."""
    name = write("homeless", "def layer_norm(x, scale, bias):\n    return ()\n")
    Path("grove-verify-layer_norm-values.json").mkdir()
    status, out, _ = run_grove("verify", name, "--examples", 1)
    assert (
        status == 1 and "number of outputs: got 0, wanted 1\n  its input is not saved: grove-verify-layer_norm" in out
    )


def test_the_report_is_all_that_is_printed(write: Write) -> None:
    """Standard output has the report only; what a module or compiled code prints goes to standard error."""
    text = """
import ctypes
print("imported")

def layer_norm(*arguments):
    ctypes.CDLL(None).puts(b"called")
    return of_cpu(*arguments)
"""
    command = [sys.executable, "-m", "accel.cli", "verify", write("talking", text), "--json", "--examples", "1"]
    process = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    )
    assert json.loads(process.stdout)["agree_in_values"] == 2
    assert "imported\n" in process.stderr and "called\n" in process.stderr


def test_a_saved_input_may_come_from_a_pipe(write: Write, run_grove: Grove, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write("empty_handed", "def layer_norm(x, scale, bias):\n    return ()\n")
    run_grove("verify", name, "--only", "layer_norm", "--examples", 1)
    monkeypatch.setattr(sys, "stdin", io.StringIO(Path("grove-verify-layer_norm-values.json").read_text()))
    status, out, _ = run_grove("verify", "--replay", "-", name)
    assert status == 1 and out.endswith("differs on the input of -: number of outputs: got 0, wanted 1\n")


def test_a_gradient_that_is_not_there_is_asked_for(write: Write, run_grove: Grove) -> None:
    name = write("leaning", "def bias_gelu_vjp(d_out, outputs, x, bias):\n    return 2 * d_out, 0 * bias\n")
    run_grove("verify", name, "--examples", 1)
    Path("without.py").write_text("import numpy as xp\nfrom accel.cpu import bias_gelu\n")
    _, out, _ = run_grove("verify", "--replay", "grove-verify-bias_gelu-gradients.json", "without")
    assert out.endswith("no autograd sees into it: export bias_gelu_vjp\n")


def test_short_runs_draw_an_input_a_check(run_grove: Grove) -> None:
    _, out, _ = run_grove("verify", "cpu", "--only", "bias_gelu", "--seconds", 1e-6)
    assert [cell for cell in out.splitlines()[1].split()[1:] if int(cell) < 1] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plain", "--require"], "--require: is for ref, cpu, cuda: your module says where it runs: leave it out"),
        (["plain", "--replay", "x.json", "--json"], "--json: --replay runs one input again, and prints it: leave"),
        (["--describe", "--only", "cumax"], "--only: --describe runs nothing: leave --only out"),
        (["--describe", "cumax", "--fma"], "--fma: --describe runs nothing: leave --fma out"),
        ([".plain"], "unknown backend '.plain': did you mean plain?"),
        (["listed"], "listed: precision: bias_gelu: ['float32'] is unknown: did you mean float32?"),
        (["lacking"], "lacking: precision: this backend exports no layer_norm: leave it out"),
        (["relative.py"], "relative.py: cannot be imported: "),
    ],
)
def test_what_would_be_ignored_is_refused(
    write: Write, words: list[str], message: str, mistake: Callable[..., str]
) -> None:
    write("plain", "")
    write("listed", 'precision = {"bias_gelu": ["float32"]}')
    write("lacking", 'precision = {"layer_norm": "float32"}')
    write("relative", "from . import plain")
    line = mistake("verify", *words)
    assert line.startswith(message) and (words != ["relative.py"] or line.endswith("add an __init__.py to its folder"))


def test_races_of_no_kernel_are_said(write: Write, run_grove: Grove) -> None:
    status, _, err = run_grove("verify", write("no_cuda", ""), "--race", "--examples", 1)
    assert status == 0 and err == "no_cuda: no CUDA kernel ran on the host: its threads were not watched\n"
