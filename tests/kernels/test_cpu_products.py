"""Matrix products of the CPU backend: few rows, small matrices, few keys, sums in place, and the number of threads."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from accel import cpu
from accel.cpu.support import blas
from accel.cpu.support.few_queries import _products
from accel.cpu.support.kernels import kernel
from accel.cpu.support.products import factor, multiply, n_tiles, products
from accel.cpu.support.tiles import add_product


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 3, 1), (7, 50, 33), (20, 9, 64), (23, 40, 17), (90, 30, 40)])
def test_products_of_few_rows(dtype: type, shape: tuple[int, int, int]) -> None:
    """Products agree with NumPy, and a row's result does not depend on the number of rows."""
    most, depth, width = shape
    draw = np.random.default_rng(0)
    x, weight = draw.standard_normal((most, depth)).astype(dtype), draw.standard_normal((depth, width)).astype(dtype)
    panels = factor(weight)
    whole = products(panels, most)
    parts = len(panels) * n_tiles(most)
    multiply(x, panels, most, 0, parts // 2, whole)
    multiply(x, panels, most, parts // 2, parts, whole)
    terms = np.abs(x) @ np.abs(weight)  # in any order, both sums are off by at most `depth` roundings eps / 2 of it
    assert (np.abs(whole[:, :width] - x @ weight) <= depth * np.finfo(dtype).eps * terms).all()
    for count in {1, most // 2 or 1, most}:
        some = np.full_like(whole, np.nan)
        multiply(x, panels, count, 0, len(panels) * n_tiles(count), some)
        np.testing.assert_array_equal(some[:count, :width], whole[:count, :width])
        assert np.isnan(some[count:]).all()


@kernel()
def add_products(a, b, c, turned, shape):
    n_rows, n_inner, n_columns = shape
    steps = (1, a.shape[1]) if turned else (a.shape[1], 1)
    add_product(a, 1, *steps, b, 2, b.shape[1], c, 3, c.shape[1], n_rows, n_inner, n_columns)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_small_matrices(dtype: type, turned: bool) -> None:
    """The product of parts of a and b is added to a part of c; no element outside these parts is read or written."""
    draw = np.random.default_rng(0)
    for n_rows, n_inner, n_columns in ((1, 1, 1), (4, 0, 3), (13, 7, 16), (25, 9, 33), (8, 40, 64), (31, 5, 70)):
        a, b, c = (np.full(shape, np.nan, dtype) for shape in ((40, 41), (41, 80), (40, 90)))
        factors = draw.standard_normal((n_rows, n_inner)), draw.standard_normal((n_inner, n_columns))
        before = draw.standard_normal((n_rows, n_columns))
        if turned:
            a[:n_inner, 1 : n_rows + 1] = factors[0].T
        else:
            a[:n_rows, 1 : n_inner + 1] = factors[0]
        b[:n_inner, 2 : n_columns + 2] = factors[1]
        c[:n_rows, 3 : n_columns + 3] = before
        expected = c.copy()
        terms = np.zeros(c.shape)
        inside = slice(n_rows), slice(3, n_columns + 3)
        expected[inside] += (factors[0] @ factors[1]).astype(dtype)
        terms[inside] = np.abs(factors[0]) @ np.abs(factors[1]) + np.abs(before)
        add_products(a, b, c, turned, (n_rows, n_inner, n_columns))
        np.testing.assert_array_equal(np.isnan(c), np.isnan(expected))
        off = np.abs(np.nan_to_num(c) - np.nan_to_num(expected))  # two sums, two casts and what was there: eps / 2 each
        assert (off <= (n_inner + 4) * np.finfo(dtype).eps * terms).all()


def test_products_with_few_keys_write_theirs_alone() -> None:
    """Only the products with these keys are written: four keys at a time, then the rest one by one."""
    draw = np.random.default_rng(0)
    queries, keys = draw.standard_normal((1, 8)), draw.standard_normal((12, 8))
    for n in range(10):
        products = np.full(12, np.nan)
        _products(queries, 0, keys, 0, 0, 1, 0.5, products[:n])
        np.testing.assert_allclose(products[:n], 0.5 * keys[:n] @ queries[0], rtol=1e-12)
        assert np.isnan(products[n:]).all()


def test_a_small_product_is_computed_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products use one thread and then restore the number of threads; large ones use all threads."""
    counts = [4]
    library = SimpleNamespace(
        scipy_openblas_get_num_threads64_=lambda: counts[-1], scipy_openblas_set_num_threads64_=counts.append
    )
    monkeypatch.setattr(blas, "_libraries", lambda: (library,))
    draw = np.random.default_rng(0)
    a, b, bias = (draw.standard_normal(shape) for shape in ((3, 4), (4, 5), (5,)))
    np.testing.assert_array_equal(cpu.matmul(a, b, bias=bias), a @ b + bias)
    assert counts == [4, 1, 4]
    out = np.ones((3, 5))
    assert cpu.matmul(a, b, out) is out and cpu.matmul(a, b, out, add=True) is out
    np.testing.assert_array_equal(out, 2 * (a @ b))
    width = math.isqrt(blas.LEAST)
    cpu.matmul(np.ones((1, width)), np.ones((width, width)))
    assert counts == [4, 1, 4, 1, 4, 1, 4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["rows", "columns", "slices"])
def test_a_product_is_added_in_place(dtype: type, layout: str) -> None:
    """A product is added in place for factors in row order, in column order, and as slices that are in neither."""
    draw = np.random.default_rng(0)
    make = {"rows": lambda x: x, "columns": np.asfortranarray, "slices": lambda x: np.repeat(x, 2, axis=1)[:, ::2]}
    a, b = (make[layout](draw.integers(-3, 4, shape).astype(dtype)) for shape in ((20, 30), (30, 10)))
    out = np.ones((20, 10), dtype)
    blas.add_product(a, b, out)
    np.testing.assert_array_equal(out, 1 + a @ b)
