"""What `grove verify` and `pytest --backend` answer to a backend that cannot be tested: one line, with what to type."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from accel import cli

ROOT = Path(__file__).parents[2]
XP = "import numpy as xp\n"
MODULES = {
    "fine": XP + "from accel.cpu import layer_norm\n",
    "lacking": XP + "import nonsense\n",
    "broken": XP + "def f(:\n",
    "dividing": XP + "x = 1 / 0\n",
    "leaving": "import sys\nsys.exit(3)\n",
    "misspelt": XP + "def layer_nrom(x, scale, bias):\n    return x\n",
    "bare": XP,
    "without_xp": "from accel.cpu import layer_norm\n",
    "later": XP + "def cumax(z, offsets=None):\n    raise NotImplementedError('next week')\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules, one of them in a package, in which `grove` is started."""
    for name, text in MODULES.items():
        (tmp_path / f"own_{name}.py").write_text(text)
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "inner.py").write_text(MODULES["fine"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_fine.py", "own_fine.py: a backend is named as in an import: type own_fine"),
        ("own_package/inner.py", "own_package/inner.py: a backend is named as in an import: type own_package.inner"),
        ("abacus.py", "abacus.py: no such file; a backend is named as in an import: my_kernels, not my_kernels.py"),
        ("abacus", "unknown backend 'abacus': choose one of ref, cpu, cuda, or a module that can be imported here"),
        ("own_package.abacus", "unknown backend 'own_package.abacus': choose one of ref, cpu, cuda, or a module that"),
        ("own_lacking", "own_lacking: cannot be imported: {}:2: ModuleNotFoundError: No module named 'nonsense'"),
        ("own_broken", "own_broken: cannot be imported: {}:2: SyntaxError: "),
        ("own_dividing", "own_dividing: cannot be imported: {}:2: ZeroDivisionError: division by zero"),
        ("own_leaving", "own_leaving: cannot be imported: {}:2: SystemExit: 3"),
        ("own_misspelt", "own_misspelt: exports no operation; for layer_nrom, did you mean layer_norm?"),
        ("own_bare", "own_bare: exports no operation; their names are those of accel.ref, such as attend_sets"),
        ("own_without_xp", "own_without_xp: has no xp, the array module of its functions: add `import numpy as xp`"),
    ],
)
def test_what_is_no_backend_is_refused_in_one_line(
    folder: Path, name: str, message: str, mistake: Callable[..., str]
) -> None:
    assert mistake("verify", name).startswith(message.format(folder / f"{name}.py"))


def test_operations_are_named_as_in_the_table(folder: Path, mistake: Callable[..., str]) -> None:
    assert mistake("verify", "cpu", "--op", "layer_nrom") == "unknown operation 'layer_nrom': did you mean layer_norm?"
    assert mistake("verify", "own_fine", "--op", "cumax") == "own_fine: exports no cumax, which --op names"
    elsewhere = folder.parent / "own_elsewhere.py"
    elsewhere.write_text(MODULES["fine"])
    reason = f"a backend is named as in an import: type own_elsewhere in the folder {folder.parent}"
    assert mistake("verify", elsewhere) == f"{elsewhere}: {reason}"


def test_an_operation_that_raises_is_named_with_its_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "own_later"]) == 1
    head, row, reason, last = capfd.readouterr().out.splitlines()
    assert head.split() == ["operation", "clause", "forward", "gradients"]
    assert row.split()[:3] == ["cumax", "FT-1", "FAILS:"] and row.endswith("  -")
    assert reason == "cumax: NotImplementedError: next week" and last.startswith("0 of 1 operations agree")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "own_fine"], "type grove verify MODULE, or pytest --pyargs accel.verify --backend MODULE"),
        (["--pyargs", "accel.verify", "--backend", "own_fine.py"], "own_fine.py: a backend is named as in an import:"),
        (["-p", "accel.verify.plugin", "--backend", "own_fine"], "no test here takes a backend: add --pyargs accel"),
    ],
    ids=["alone", "file", "no tests"],
)
def test_pytest_outside_the_checkout(folder: Path, arguments: list[str], message: str) -> None:
    """As where Grove is installed, which makes pytest load `grove_pytest`."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "-p", "grove_pytest", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    error = [line for line in done.stderr.splitlines() if line]
    assert done.returncode == 4 and len(error) == 1 and message in error[0], done
