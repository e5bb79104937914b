"""The kernels of GPST's parser give the results of the array operations that they replace."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.cuda.parser_parts import ROWS, WARPS
from accel.cuda.support.check import THREADS
from accel.models.gpst import parser
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

PARTS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "rms_norm": (parser._rms_norm, ((ROWS + WARPS + 1, 33), (33,))),
    "gated": (parser._gated, ((3, THREADS), (3, THREADS))),
    "rotated": (parser._turn, ((THREADS // 8 + 1, 2, 6),)),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_those_of_array_operations(host_backend: ModuleType, name: str) -> None:
    """Values and gradients agree, for rows and elements in more than one block."""
    part, shapes = PARTS[name]
    *values, gradient = draw(*shapes, shapes[0])
    angles = draw((shapes[0][0], 1, 3))[0]

    def run(ops: ModuleType) -> list[np.ndarray]:
        tape, inputs = Tape(ops), [Variable(x.copy()) for x in values]
        extra = (np.cos(angles), np.sin(angles)) if name == "rotated" else ()
        output = part(tape, *extra, *inputs)
        tape.backward(output, gradient)
        return [output.value, *(x.gradient for x in inputs)]

    for x, expected in zip(run(host_backend), run(CPU), strict=True):
        np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-12)


def test_a_rotation_and_back_is_nothing(host_backend: ModuleType) -> None:
    x, angles = draw((4, 2, 6), (4, 1, 3))
    rotate, turns = host_backend.parser_parts.rotate, (np.cos(angles), np.sin(angles))
    np.testing.assert_allclose(rotate(rotate(x, *turns, False), *turns, True), x, atol=1e-14)
