"""Few kernels copy many arrays, and gradients are copied into their buffers that way."""

from __future__ import annotations

import numpy as np
import pytest

from accel.autodiff.arrays import named_views
from accel.autodiff.learned import SMALL, learned
from accel.autodiff.tape import Tape
from accel.cuda import device
from accel.cuda.support.copies import THREADS, TOGETHER
from accel.verify.cuda_host import cupy_array, launcher


@pytest.mark.parametrize("n", [1, TOGETHER, TOGETHER + 1])
def test_every_array_is_copied_and_nothing_beside_it(n: int) -> None:
    before, gpu = device._device, launcher.host_backend()
    try:
        shapes = {str(k): (k % 3 + 1, THREADS // 2) for k in range(n)}
        target = gpu.xp.zeros(sum(a * b for a, b in shapes.values()) + 7, np.float32)
        views = named_views(target[:-7], shapes)
        sources = [gpu.xp.full(shapes[str(k)], k + 1.0, np.float32) for k in range(n)]
        with cupy_array.counted() as counts:
            gpu.copy_all(list(zip(views.values(), sources, strict=True)))
        assert cupy_array.totals(counts)["kernels"] == -(-n // TOGETHER)
        assert all((views[str(k)].get() == k + 1).all() for k in range(n)) and not target[-7:].get().any()
    finally:
        device.use(before)


def test_small_gradients_are_copied_together_and_large_ones_at_once() -> None:
    before, gpu = device._device, launcher.host_backend()
    try:
        xp = gpu.xp
        parameters = {
            name: xp.full(size, 2.0) for name, size in {"a": 3, "b": 5, "unused": 2, "large": SMALL + 1}.items()
        }
        with learned(gpu, parameters) as learning, cupy_array.counted() as counts:
            tape, p, gradients = Tape(gpu), learning.variables, learning.gradients
            for name, times in (("a", 1), ("b", 2), ("large", 1)):
                for _ in range(times):
                    product = tape.multiply(p[name], p[name])
                    tape.backward(product, xp.full_like(product.value, 1.0))
        assert counts["kernels", "setitem"] == 1  # into the buffer of the large one
        expected = {"a": 4.0, "b": 8.0, "unused": 0.0, "large": 4.0}
        assert all((gradients[name].get() == value).all() for name, value in expected.items())
    finally:
        device.use(before)
