"""`grove verify` and `pytest --backend` refuse a backend that cannot be tested, in one line with what to type."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.command_line import Grove, forget_modules

ROOT = Path(__file__).parents[2]
XP = "import numpy as xp\n"
MODULES = {
    "fine": XP + "tiles = {}\nfrom accel.cpu import layer_norm\n",
    "lacking": XP + "import nonsense\n",
    "broken": XP + "def f(:\n",
    "dividing": XP + "x = 1 / 0\n",
    "leaving": "import sys\nsys.exit(3)\n",
    "misspelt": XP + "def layer_nrom(x, scale, bias):\n    return x\n",
    "half": XP + "from accel.cpu import layer_norm, bias_gelu_vjp\n",
    "near": XP + "from accel.cpu import layer_norm\nlayer_norm_vpj = layernorm_kernel = layer_norm\ntile = {}\n",
    "bare": XP,
    "mathematical": "import math as xp\nfrom accel.cpu import layer_norm\n",
    "without_xp": "from accel.cpu import layer_norm\n",
}
PACKAGE = {
    "__init__.py": "",
    "norm.py": "from accel.cpu import layer_norm\n",
    "inner.py": XP + "tiles = {}\nfrom .norm import *\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which `grove` is started; it holds modules, and packages with modules."""
    for name, text in MODULES.items():
        (tmp_path / f"own_{name}.py").write_text(text)
    (tmp_path / "own-dash.py").write_text(MODULES["fine"])
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "numpy.py").write_text(MODULES["fine"])
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "inner.py").write_text(MODULES["fine"])
    (tmp_path / "packed" / "kernels").mkdir(parents=True)
    for name, text in PACKAGE.items():
        (tmp_path / "packed" / "kernels" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    forget_modules(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_half", "own_half: exports bias_gelu_vjp, but no bias_gelu: export both"),
        ("abacus.py", "abacus.py: no such file of Python code; name a .py file, or a module"),
        ("own_package/inner", "own_package/inner: no such file of Python code; did you mean own_package/inner.py?"),
        ("own-dash.py", "own-dash.py: cannot be imported under this name: use letters, digits and _ only"),
        ("taken/numpy.py", "taken/numpy.py: the name numpy is taken by "),
        ("abacus", "unknown backend 'abacus': choose one of ref, cpu, cuda, or a module that can be imported here"),
        ("own_find", "unknown backend 'own_find': did you mean own_fine?"),
        ("own_package.abacus", "unknown backend 'own_package.abacus': choose one of ref, cpu, cuda, or a module that"),
        ("own_lacking", "own_lacking: cannot be imported: {}:2: ModuleNotFoundError: No module named 'nonsense'"),
        ("own_broken", "own_broken: cannot be imported: {}:2: SyntaxError: "),
        ("own_dividing", "own_dividing: cannot be imported: {}:2: ZeroDivisionError: division by zero"),
        ("own_leaving", "own_leaving: cannot be imported: {}:2: SystemExit: 3"),
        ("own_misspelt", "own_misspelt: exports no operation; for layer_nrom, did you mean layer_norm?"),
        ("own_bare", "own_bare: exports no operation; their names are those of accel.ref, such as attend_sets"),
        ("own_mathematical", "own_mathematical: xp: math has neither asarray nor from_dlpack: name a module of arrays"),
        ("own_without_xp", "own_without_xp: has no xp, the array module of its functions: add `import numpy as xp`"),
    ],
)
def test_what_is_no_backend_is_refused_in_one_line(
    folder: Path, name: str, message: str, mistake: Callable[..., str]
) -> None:
    assert mistake("verify", name).startswith(message.format(folder / f"{name}.py"))


def test_names_that_are_nearly_right_are_named(folder: Path, run_grove: Grove) -> None:
    status, _, err = run_grove("verify", "own_near", "--examples", 1)
    assert status == 0 and err.splitlines() == [
        "own_near: layer_norm_vpj is not tested: did you mean layer_norm_vjp?",
        "own_near: tile is not tested: did you mean tiles?",
    ]


def test_operations_are_named_as_in_the_table(folder: Path, mistake: Callable[..., str]) -> None:
    message = "unknown operation 'layer_nrom': did you mean layer_norm?"
    assert mistake("verify", "cpu", "--only", "layer_nrom") == message
    assert mistake("verify", "--describe", "layer_nrom") == message
    wrong = mistake("verify", "own_fine", "--only", "cumax")
    assert wrong == "own_fine: exports no cumax, which --only names; it has layer_norm"
    assert mistake("verify").startswith("BACKEND is missing: type grove verify MODULE")
    for option in ("--examples=0", "--seconds=0", "--seconds=nan"):
        assert "at least one example, and more than 0 seconds" in mistake("verify", "own_fine", option)


def test_races_are_looked_for_on_the_host(folder: Path, mistake: Callable[..., str], run_grove: Grove) -> None:
    words = "verify", "cuda", "--only", "bias_gelu", "--examples", 1
    status, out, _ = run_grove(*words, "--race", "--thread-order", 3)
    assert status == 0 and out.splitlines()[-1] == "1 of 1 operations agree with the reference"
    assert mistake("verify", "cpu", "--race") == (
        "cpu: has no CUDA kernels: leave --race, --fma and --thread-order out"
    )
    assert mistake(*words, "--race", "--require").startswith("--require: --race, --fma and --thread-order run kernels")


@pytest.mark.parametrize("path", ["own_fine.py", "own_package/inner.py", "packed/kernels/inner.py"])
def test_a_backend_may_be_a_file(folder: Path, path: str, run_grove: Grove) -> None:
    """The file may be in a package whose modules import one another."""
    status, out, err = run_grove("verify", folder / path, "--examples", 2)
    assert status == 0 and out.splitlines()[1].split() == ["layer_norm", "2", "2", "-", "4", "2", "-", "2", "1"], err
    assert out.splitlines()[2:] == ["1 of 1 operations agree with the reference"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "own_fine"], "type grove verify MODULE, or pytest --pyargs accel.verify --backend MODULE"),
        (["--pyargs", "accel.verify", "--backend", "own-dash.py"], "own-dash.py: cannot be imported under this name:"),
        (["-p", "accel.verify.plugin", "--backend", "own_fine"], "no test here takes a backend: add --pyargs accel"),
    ],
    ids=["alone", "file", "no tests"],
)
def test_pytest_outside_the_checkout(folder: Path, arguments: list[str], message: str) -> None:
    """Outside the checkout, pytest loads the plugin `grove_pytest`, as it does where Grove is installed."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "-p", "grove_pytest", *arguments]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    error = [line for line in process.stderr.splitlines() if line]
    assert process.returncode == 4 and len(error) == 1 and message in error[0], process
