"""What the benchmarks measure: exactly the products of a step, and times of functions without those they call."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from accel import cpu
from benchmarks.fasttrees import Run, Setting
from benchmarks.products import Products
from benchmarks.profile import STAGES, Times
from benchmarks.timing import Row, beside_products
from benchmarks.timing import Times as Seconds

SETTING = Setting("tiny", (4, 6), 3, 2, {}, 0, {}, chunk_size=3)


def test_the_products_of_a_recurrence_are_those_of_all_its_steps() -> None:
    """Products of a step with two sequences of three steps, forward and for both factors' gradients.

    They are inputs to gates, and hidden states to gates. The first step has no hidden state before it, and needs no
    gradient of one.
    """
    products, run = Products(), Run("on_lstm", SETTING)
    with products.recorded():
        run()
    gates = 4 * 6 + 2 * 2
    shapes = sorted((a[0], b[0], count) for (a, b), count in products.counts.items())
    inputs = [((6, 4), (4, gates), 1), ((6, gates), (gates, 4), 1), ((gates, 6), (6, 4), 1)]
    assert shapes == sorted([*inputs, ((gates, 6), (6, 6), 1)])
    assert {depth: rows for (depth, _, _), rows in products.rows.items()} == {6: 4, gates: 4}
    products.alone()()


def test_a_function_is_timed_without_what_it_calls() -> None:
    clock = iter(range(100))
    times = Times(lambda: float(next(clock)))
    inner = times.timed("inner", lambda: None)
    times.timed("outer", lambda: (inner(), inner()))()
    assert times.seconds == {"inner": 2.0, "outer": 3.0} and times.calls == {"inner": 2, "outer": 1}


def test_every_stage_names_functions_of_the_backend() -> None:
    ours = {"matmul", "add_product", "take"}
    assert all(name in ours or hasattr(cpu, name) for names in STAGES.values() for name in names)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="Nehalem is a processor of x86-64")
def test_the_kernels_of_the_blas_are_named() -> None:
    """Figures depend on them: another OPENBLAS_CORETYPE may halve the speed of all products."""
    program = "from benchmarks.run import blas_kernels; print(blas_kernels())"
    kernels = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env=os.environ | {"OPENBLAS_CORETYPE": "Nehalem"},
    ).stdout.strip()  # fmt: skip
    assert kernels in ("Nehalem", "unknown")


@pytest.mark.parametrize(("most", "words"), [(2.5, "reached"), (1.5, "MISSED")])
def test_a_step_is_compared_with_its_products(most: float, words: str) -> None:
    row = Row("step", Seconds(2.0, 2.0, 2.0), None, "", "", True, Seconds(1.0, 1.0, 1.0), most)
    assert f"2.00 times the products alone (goal <= {most}: {words})" in beside_products(row)
