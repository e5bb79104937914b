"""Fast backends for the algorithms of `refimpl`, and the training that runs on them.

A backend is a module that exports the operations by name. It is chosen by name and passed explicitly; no other backend
ever replaces it silently.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

# Threads without work must sleep. Both pools (OpenMP under Numba, OpenBLAS under NumPy) spin by default, and on a
# machine that does anything else every small kernel then takes up to fifty times as long. OpenBLAS reads its variable
# when NumPy is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

BACKENDS = ("ref", "cpu", "cuda")
KERNELS = ("plain", "fast")  # the forms of the kernels of "cuda", see accel/cuda/forms.py
PRECISIONS = ("float32", "tf32", "bf16")  # of the factors of matrix products, of float32 numbers


class BackendUnavailable(RuntimeError):
    """A backend that cannot run on this machine, with the cause."""


def load(name: str) -> ModuleType:
    """Return the backend module of that name, ready to run.

    Parameters
    ----------
    name : "ref", "cpu" or "cuda"
        "ref" is the reference lifted over a batch: slow, and right by definition.

    Raises
    ------
    ValueError
        Unknown name.
    BackendUnavailable
        The backend cannot run here; the message says why.
    """
    if name not in BACKENDS:
        raise ValueError(f"unknown backend {name!r}: choose one of {', '.join(BACKENDS)}")
    module = import_module(f"accel.{name}")
    module.check_available()
    return module


def available() -> dict[str, str | None]:
    """Return every backend's name with None if it runs here, else the reason why it does not."""
    reasons: dict[str, str | None] = {}
    for name in BACKENDS:
        try:
            load(name)
        except BackendUnavailable as reason:
            reasons[name] = str(reason)
        else:
            reasons[name] = None
    return reasons
