"""Every training step on a GPU has budgets for kernels, synchronisations and copies, which may only go down.

No GPU is needed: the stand-in for CuPy counts. The figures are for small batches. Where a model walks step by step,
they grow with the length of the sequences.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accel.cuda import forms
from accel.verify.cuda_host import cupy_array, cupy_stand_in
from tests.fixtures.stand_in_gpu import gpu_without_stream
from tests.fixtures.training_steps import STEPS, WITHOUT_GRAPHS, counts_of

__all__ = ["gpu_without_stream"]

FORMS = {"_fast": forms.Forms("fast"), "_bf16": forms.Forms("fast", "bf16")}  # by the end of a name
BUDGETS = tomllib.loads(Path(__file__).with_name("budgets.toml").read_text(encoding="utf-8"))


def test_every_model_has_a_budget() -> None:
    names = [name for name in BUDGETS if not name.endswith(tuple(FORMS))]
    assert names == [*STEPS, *WITHOUT_GRAPHS, "graph"]  # the last one is held by tests/training/test_graphs.py


@pytest.mark.parametrize("name", [name for name in BUDGETS if name != "graph"])
def test_a_step_keeps_its_budget(gpu: ModuleType, name: str) -> None:
    model, end = (name[:-5], name[-5:]) if name.endswith(tuple(FORMS)) else (name, "")
    with forms.use(FORMS.get(end, forms.Forms())):
        counts = counts_of(model, gpu)
    totals, most = cupy_array.totals(counts), counts.most_common(12)
    for kind, budget in BUDGETS[name].items():
        assert totals[kind] <= budget, f"{name}: {totals[kind]} {kind}, more than {budget}; most are {most}"
        assert totals[kind] >= 0.95 * budget, f"{name}: only {totals[kind]} {kind}: lower the budget of {budget}"


def test_the_counts_are_those_of_a_small_program(gpu: ModuleType) -> None:
    xp = gpu.xp
    with cupy_array.counted() as counts:
        x = xp.asarray(np.arange(6.0).reshape(2, 3))  # a copy
        y = x[:, ::-1].T + 1  # views, and a kernel
        y += xp.dot(x.T, x[:, :2])  # a product, a copy of its second operand, which has gaps, and the sum
        assert float(y.sum()) > 0  # a kernel, a synchronisation
        x[x > 2] = 0  # a comparison; a mask: three kernels, a synchronisation, and the writing
        xp.argsort(x[0])
        y.get()
    assert cupy_array.totals(counts) == {"kernels": 6 + 4 + 8, "copies": 1, "synchronisations": 3}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda xp, x: x + np.ones(3), "Unsupported type <class 'numpy.ndarray'>"),
        (lambda xp, x: xp.concatenate([x, np.ones(3)]), "Unsupported type"),
        (lambda xp, x: np.asarray(x), "Implicit conversion to a NumPy array"),
        (lambda xp, x: x.__setitem__(0, np.ones(3)), "Unsupported type"),
        (lambda xp, x: xp.dot(x, np.ones(3)), "no array of the device"),
        (lambda xp, x: xp.repeat(x, x), "repeat: CuPy takes an int"),
        (lambda xp, x: xp.lexsort((x, x)), "lexsort: CuPy takes one array"),
        (lambda xp, x: xp.einsum("i->", x), "no attribute 'einsum'"),
        (lambda xp, x: np.add.reduce(x), "numpy.add .reduce."),
    ],
)
def test_what_cupy_refuses_is_refused(gpu: ModuleType, wrong: object, message: str) -> None:
    xp = gpu.xp
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        wrong(xp, xp.zeros(3))  # type: ignore[operator]
    assert np.isnan(xp.empty((2, 2)).get()).all()


def test_a_kernel_takes_arrays_of_the_device_only(gpu: ModuleType) -> None:
    x = np.ones((2, 3))
    with pytest.raises((TypeError, ValueError)):
        gpu.layer_norm(x, np.ones(3), np.ones(3))


def test_the_stand_in_has_no_name_that_cupy_lacks() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not here (pip install cupy-cuda12x)")
    names = [name for name in vars(cupy_stand_in.MODULE) if not name.startswith("__")]
    assert [name for name in names if not hasattr(cupy, name)] == []
    extras = {"on_device", "_to_host", "__weakref__", "__slots__"}
    assert [x for x in vars(cupy_array.ndarray) if x not in extras and not hasattr(cupy.ndarray, x)] == []
