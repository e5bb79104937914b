"""The activation fused with dropout gives the bits of `dropout` after the activation."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.cuda.gelu import COLUMN_THREADS, ROWS, THREADS
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

SHAPES = ((0, 3), (1, 1), (ROWS + 1, COLUMN_THREADS + 1), (2, 2 * THREADS))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["bias_gelu", "bias_erf_gelu"])
def test_values_and_gradients(host_backend: ModuleType, name: str, dtype: Any) -> None:
    forward, backward = getattr(host_backend, name), getattr(host_backend, f"{name}_vjp")
    for n, f in SHAPES:
        x, d_y, bias = (array.astype(dtype) for array in draw((n, f), (n, f), f))
        for draws in ((0.0, 0), (0.3, 7)):
            outputs = forward(x, bias)
            [expected] = host_backend.dropout(*outputs, *draws)
            dropped = getattr(host_backend, f"dropped_{name}")(x, bias, *draws)
            np.testing.assert_array_equal(dropped[0], expected)
            [gradients] = host_backend.dropout_vjp(d_y, (expected,), *outputs, *draws)
            theirs = backward(gradients, outputs, x, bias)
            ours = getattr(host_backend, f"dropped_{name}_vjp")(d_y, dropped, x, bias, *draws)
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["dropped_bias_gelu", "dropped_bias_erf_gelu"])
def test_what_is_wrong_is_named(host_backend: ModuleType, name: str) -> None:
    x, bias = draw((2, 3), 3)
    cases = ((x, bias, 1.0, 7), "rate: 1.0"), ((x, bias[:2], 0.3, 7), "bias"), ((bias, bias, 0.0, 0), "x")
    for wrong, message in cases:
        with pytest.raises(ValueError, match=f"^{message}"):
            getattr(host_backend, name)(*wrong)
