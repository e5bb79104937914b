"""What the extras install; and that tests run without them, as a machine with a GPU may have no pip."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONAL = (
    "cupy", "numba_cuda", "matplotlib", "sacrebleu", "rouge_score", "scipy", "tensorboardX", "nbclient", "ipykernel",
    "nbformat", "cosmic_ray", "coverage", "torch", "jax", "triton", "transformers", "mpi4py", "xdist", "setuptools",
)  # fmt: skip
PROGRAM = f"""
import sys
from importlib.machinery import PathFinder


class Bare(PathFinder):
    def find_spec(name, path=None, target=None):
        return None if name.split(".")[0] in {OPTIONAL!r} else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
import pytest

sys.exit(pytest.main(sys.argv[1:]))
"""
"""A program that runs pytest as if none of these packages were installed."""


@pytest.mark.parametrize("version", ["12", "13"])
def test_the_extras_for_gpus_bring_the_libraries_of_cuda(version: str) -> None:
    """numba-cuda installs the compiler, but no cuBLAS, and CuPy's extra `ctk` no NCCL.

    From 0.26 on it takes CuPy's arrays without a synchronisation.
    """
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    cupy, nccl, numba = extras[f"cuda{version}"]
    assert cupy.startswith(f"cupy-cuda{version}x[ctk]>=14,") and numba == f"numba-cuda[cu{version}]>=0.26"
    assert nccl.startswith(f"nvidia-nccl-cu{version}>=2.") and nccl.endswith(",<3; sys_platform == 'linux'")


def test_the_tests_are_found_without_any_extra() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", PROGRAM, "--collect-only", "-q", "-p", "no:cacheprovider"]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr
    assert sum(map(int, re.findall(r"\.py: (\d+)$", process.stdout, flags=re.MULTILINE))) > 3000


def test_what_numba_does_with_numpy_is_no_error() -> None:
    """The warning of numba-cuda 0.30.4 beside NumPy 2.5 is ignored, and only this one.

    GPU tests import numba-cuda before the first test.
    """
    warnings.warn_explicit("generic", DeprecationWarning, "helpers.py", 31, "numba.cuda.np.npdatetime_helpers")
    for module in ("accel.cuda.device", "numbastic"):
        with pytest.raises(DeprecationWarning):
            warnings.warn_explicit("generic", DeprecationWarning, "device.py", 1, module)
