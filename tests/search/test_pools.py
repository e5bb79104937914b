"""The choice of the most probable columns, which all searches share."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from accel.search.pools import most_probable


def test_of_equally_probable_columns_the_first_are_taken(backend: ModuleType) -> None:
    """It holds for more equal columns than fit, and for rows with too few possible columns."""
    xp = backend.xp
    rows = xp.asarray(np.array([[0, 3, 1, 3, 3, 3], [1, 1, 1, 1, 1, 1], [5, 4, 3, 2, 1, 0], [0, 0, 0, 0, 0, 9]]) - 9.0)
    rows[3, 1:5] = -np.inf
    columns = most_probable(xp, rows, 3)
    assert columns.tolist() == [[1, 3, 4], [0, 1, 2], [0, 1, 2], [0, 1, 5]]
    assert most_probable(xp, rows, 7).tolist() == [[0, 1, 2, 3, 4, 5]] * 4
    assert most_probable(xp, rows[:0], 2).shape == (0, 2)
    rows[1], rows[2, 0] = np.nan, np.nan
    assert most_probable(xp, rows, 3)[:3].tolist() == [[1, 3, 4], [0, 1, 2], [0, 1, 2]]
