"""The machine of a report: processor, GPU, driver, the packages that it has, and the commit."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distributions, version
from typing import Any

from benchmarks.gpu_report.records import ROOT, Missing, Row, Setting

PACKAGES = (
    "numpy", "numba", "numba-cuda", "cuda-bindings", "cuda-toolkit", "hypothesis", "pytest", "pytest-xdist", "torch",
    "triton", "safetensors", "sentencepiece", "mpi4py",
)  # fmt: skip
TOOLS = ("nvidia-smi", "nvcc", "compute-sanitizer", "ncu", "g++", "git")
OF_GPU = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
ATTRIBUTES = ("MultiProcessorCount", "MaxSharedMemoryPerBlockOptin", "L2CacheSize", "ClockRate")


def rows(setting: Setting) -> Iterator[Row]:
    yield "commit", commit
    yield "machine", machine
    yield "packages", packages
    yield "driver", driver
    yield "GPU", lambda: gpu(setting)


def commit() -> dict[str, Any]:
    process = subprocess.run(("git", "-C", str(ROOT), "rev-parse", "HEAD"), capture_output=True, text=True, check=False)
    if process.returncode:
        raise Missing("the checkout has no history of git, so that its commit is not known")
    return {"commit": process.stdout.strip()}


def machine() -> dict[str, Any]:
    from benchmarks.run import machine as processor

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    tools = ", ".join(f"{tool}" for tool in TOOLS if shutil.which(tool))
    return processor() | {"system": platform.system(), "memory": f"{memory:.0f} GiB", "tools": tools or "none"}


def packages() -> dict[str, Any]:
    """Return the versions of what a run uses; CuPy's distribution has the version of CUDA in its name."""
    versions = {}
    for name in (*PACKAGES, *sorted(d.name for d in distributions() if d.name.startswith("cupy"))):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return versions


def driver() -> dict[str, Any]:
    if not shutil.which("nvidia-smi"):
        raise Missing("nvidia-smi is not here")
    process = subprocess.run(
        ("nvidia-smi", f"--query-gpu={OF_GPU}", "--format=csv,noheader"), capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise Missing(f"nvidia-smi: {' '.join((process.stdout + process.stderr).split())}")
    words = process.stdout.splitlines()[0].split(",")
    return dict(zip(OF_GPU.split(","), (word.strip() for word in words), strict=True))


def gpu(setting: Setting) -> dict[str, Any]:
    setting.ops()
    if setting.stand_in:
        return {"name": "none: the stand-in on the CPU"}
    import cupy

    device, runtime = cupy.cuda.Device(), cupy.cuda.runtime
    attributes = {name: device.attributes.get(name) for name in ATTRIBUTES}
    name = runtime.getDeviceProperties(device.id)["name"].decode()
    return {"name": name, "capability": device.compute_capability, "runtime": runtime.runtimeGetVersion(), **attributes}
