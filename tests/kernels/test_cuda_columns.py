"""The sums of the columns of matrices, of few rows and of many."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from accel.cuda.support.columns import ADDING_THREADS, ROWS_TOGETHER, THREADS, column_sums
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

WIDTHS = (1, THREADS - 1, THREADS + 1, ADDING_THREADS + 1)


@pytest.mark.parametrize("rows", [0, 1, ROWS_TOGETHER, ROWS_TOGETHER + 1, 3 * ROWS_TOGETHER])
def test_columns_are_summed(host_backend: ModuleType, rows: int) -> None:
    for width in WIDTHS:
        matrices = draw(*[(rows, width)] * 3)
        for count in (1, 2, 3):
            for actual, x in zip(column_sums(*matrices[:count]), matrices, strict=False):
                np.testing.assert_allclose(actual, x.sum(axis=0), rtol=0, atol=1e-13)


def test_other_axes_stay(host_backend: ModuleType) -> None:
    (x,) = draw((2 * ROWS_TOGETHER, 3, 5))
    np.testing.assert_allclose(column_sums(x)[0], x.sum(axis=0), rtol=0, atol=1e-13)
