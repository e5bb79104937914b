"""Bad input beyond the first block of a kernel that checks it. These tests put NumPy in the place of CuPy."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from accel.cuda.support import check
from accel.verify.sizes import sizes_around
from tests.fixtures.stand_in_gpu import host_backend

__all__ = ["host_backend"]

SIZES = sizes_around((check.THREADS,))


@pytest.mark.parametrize("size", SIZES)
def test_the_last_index_is_checked(host_backend: ModuleType, size: int) -> None:
    index = np.zeros(size, np.int32)
    for outside in (-1, 3):
        index[-1] = outside
        with pytest.raises(ValueError, match=r"ids: outside 0\.\.2"):
            check.indices({"ids": (index, 0, 3)})
    index[-1] = 2
    check.indices({"ids": (index, 0, 3)})


@pytest.mark.parametrize("size", SIZES)
def test_the_last_offset_is_checked(host_backend: ModuleType, size: int) -> None:
    offsets = np.arange(size, dtype=np.int64)
    for last in (size, size - 3):
        offsets[-1] = last
        with pytest.raises(ValueError, match=f"offsets: does not rise from 0 to {size - 1}"):
            check.indices({}, {"offsets": (offsets, size - 1)})
    offsets[-1] = size - 1
    check.indices({}, {"offsets": (offsets, size - 1)})


@pytest.mark.parametrize("size", SIZES)
def test_the_last_number_is_checked(host_backend: ModuleType, size: int) -> None:
    x = np.zeros((size, 1))
    check.finite(x=x)
    for filling in (np.nan, np.inf):
        x[-1] = filling
        with pytest.raises(ValueError, match=f"x: NaN or infinity in row {size - 1}"):
            check.finite(x=x)


def test_rows_of_another_width_than_the_table_are_named(host_backend: ModuleType) -> None:
    table, bias, labels = np.ones((4, 3)), np.ones(4), np.zeros(2, np.int32)
    for h in (np.ones((2, 5)), np.ones((2, 3, 1)), np.ones(3)):
        with pytest.raises(ValueError, match="^h: shape"):
            host_backend.cross_entropy(h, table, bias, labels)
