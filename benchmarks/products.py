"""The matrix products of a step: recorded in one run, and computed alone, to know how much of its time they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from accel import cpu

Factor = tuple[tuple[int, ...], bool, Any]
"""Shape, whether it lies in memory row by row, and the type of its elements."""


class Products:
    """How often a step computes each product, and how many rows the recurrences multiply with weights of a shape."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Factor, Factor]] = Counter()
        self.rows: Counter[tuple[int, int, Any]] = Counter()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the products of the CPU backend inside: NumPy's, and those of the steps of recurrences."""
        matmul, recurrence, recurrence_vjp = np.matmul, cpu.recurrence, cpu.recurrence_vjp

        def counted(a: Any, b: Any, **options: Any) -> Any:
            self.counts[factor(a), factor(b)] += 1
            return matmul(a, b, **options)

        def forward(gates: Any, weight: Any, bias: Any, h0: Any, *rest: Any, **options: Any) -> Any:
            first = 0 if h0.any() else len(h0)  # steps without a hidden state
            self.rows[(*weight.shape[::-1], weight.dtype)] += len(gates) - first
            return recurrence(gates, weight, bias, h0, *rest, **options)

        def backward(
            d_out: Any, outputs: Any, gates: Any, weight: Any, bias: Any, h0: Any, *rest: Any, **o: Any
        ) -> Any:
            self.rows[(*weight.shape, weight.dtype)] += len(gates) - len(h0)
            return recurrence_vjp(d_out, outputs, gates, weight, bias, h0, *rest, **o)

        with ExitStack() as patches:
            for owner, name, function in (
                (np, "matmul", counted), (cpu, "recurrence", forward), (cpu, "recurrence_vjp", backward),
            ):  # fmt: skip
                patches.enter_context(patch.object(owner, name, function))
            yield

    def alone(self) -> Callable[[], None]:
        """Return a call that computes these products, on few arrays; the rows of a recurrence are one product."""
        counts = self.counts.copy()
        for (depth, width, dtype), rows in self.rows.items():
            counts[((rows, depth), True, dtype), ((depth, width), False, dtype)] += 1
        arrays = {x: array(*x) for product in counts for x in product}

        def run() -> None:
            for (a, b), count in counts.items():
                for _ in range(count):
                    np.matmul(arrays[a], arrays[b])

        return run


def factor(x: Any) -> Factor:
    return x.shape, bool(x.flags.c_contiguous), x.dtype


def array(shape: tuple[int, ...], in_rows: bool, dtype: Any) -> Any:
    return np.ones(shape, dtype) if in_rows else np.ones(shape[::-1], dtype).T


def products_alone(step: Callable[[], Any]) -> Callable[[], None]:
    """Return a call that computes only the matrix products of a step, which is run once: no step can be faster."""
    products = Products()
    with products.recorded():
        step()
    return products.alone()
