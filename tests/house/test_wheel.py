"""The wheel has all packages and the vectors as files, and its harness runs where there is no checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = (".py", ".cu", ".h", ".cc", ".toml")
KERNELS = """
import numpy as xp

tiles = {}


def embedding(table, ids):
    if not ((0 <= ids) & (ids < len(table))).all():
        raise ValueError("ids: not all in the table")
    return (table[ids],)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what setuptools puts into the wheel."""
    pytest.importorskip("setuptools", reason="setuptools is not installed: pip install setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    program = "import sys; from setuptools import setup; setup(script_args=sys.argv[1:])"
    egg_info, build = ("egg_info", "--egg-base", str(folder)), ("build_py", "--build-lib", str(folder / "lib"))
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, "-q", *egg_info, *build],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return folder / "lib"


def test_the_wheel_holds_every_file(installed: Path) -> None:
    files = [path for name in ("accel", "refimpl") for path in (ROOT / name).rglob("*") if path.is_file()]
    here = {path.relative_to(ROOT) for path in files if path.suffix in SUFFIXES or path.name == "py.typed"}
    assert {path.suffix for path in here} == {*SUFFIXES, ".typed"}
    assert {path for path in here if not (installed / path).is_file()} == set()
    vectors = {path.relative_to(ROOT / "specs") for path in (ROOT / "specs/vectors").rglob("*.*")}
    there = installed / "accel/verify"
    assert {path.relative_to(there) for path in (there / "vectors").rglob("*.*")} == vectors
    assert not (there / "vectors").is_symlink() and len(vectors) > 400


def test_kernels_are_checked_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    """`grove verify` and pytest check kernels in a folder that has nothing but the kernels."""
    (tmp_path / "my_kernels.py").write_text(KERNELS)
    environment = os.environ | {"PYTHONPATH": str(installed)}

    def run(*words: str) -> str:
        process = subprocess.run(
            [sys.executable, "-P", "-m", *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    report = json.loads(run("accel.cli", "verify", "my_kernels", "--json", "--examples", "3"))
    assert (report["agree"], len(report["operations"])) == (1, 1)
    assert report["operations"][0]["checks"]["vectors"]["inputs"] > 0
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == []
    kit = ("--pyargs", "accel.verify", "--backend", "my_kernels", "--hypothesis-profile", "quick")
    out = run("pytest", "-p", "grove_pytest", *kit, "-p", "no:cacheprovider")
    assert "9 passed" in out.splitlines()[-1], out
