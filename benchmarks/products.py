"""The matrix products of a step: recorded in one run, and computed alone, to know how much of its time they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from accel import cpu
from accel.cpu.support import blas

Factor = tuple[tuple[int, ...], bool, Any]
"""Shape, whether it lies in memory row by row, and the type of its elements."""


class Products:
    """How often a step computes each product, and how many rows the recurrences multiply with weights of each shape.

    For GPST's layers over pairs, `gradients` also counts the rows that make up the gradients of n weights of a shape.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[Factor, Factor]] = Counter()
        self.rows: Counter[tuple[int, int, Any]] = Counter()
        self.gradients: Counter[tuple[int, int, int, Any]] = Counter()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the products of the CPU backend inside: NumPy's, and those of recurrences and pairs, step by step."""
        matmul, add_product = np.matmul, blas.add_product
        recurrence, recurrence_vjp = cpu.recurrence, cpu.recurrence_vjp
        pair_layers, pair_layers_vjp = cpu.pair_layers, cpu.pair_layers_vjp

        def counted(a: Any, b: Any, **options: Any) -> Any:
            self.counts[factor(a), factor(b)] += 1
            return matmul(a, b, **options)

        def added(a: Any, b: Any, out: Any) -> None:
            self.counts[factor(a), factor(b)] += 1
            add_product(a, b, out)

        def forward(gates: Any, weight: Any, bias: Any, h0: Any, *rest: Any, **options: Any) -> Any:
            first = 0 if h0.any() else len(h0)  # steps without a hidden state
            self.rows[(*weight.shape[::-1], weight.dtype)] += len(gates) - first
            return recurrence(gates, weight, bias, h0, *rest, **options)

        def backward(
            d_out: Any, outputs: Any, gates: Any, weight: Any, bias: Any, h0: Any, *rest: Any, **o: Any
        ) -> Any:
            self.rows[(*weight.shape, weight.dtype)] += len(gates) - len(h0)
            return recurrence_vjp(d_out, outputs, gates, weight, bias, h0, *rest, **o)

        def layers(*arguments: Any) -> Any:
            self.count_layers(*arguments)
            return pair_layers(*arguments)

        def layers_vjp(d_out: Any, outputs: Any, *arguments: Any) -> Any:
            self.count_layers(*arguments, backward=True)
            return pair_layers_vjp(d_out, outputs, *arguments)

        with ExitStack() as patches:
            for owner, name, function in (
                (np, "matmul", counted), (blas, "add_product", added), (cpu, "recurrence", forward),
                (cpu, "recurrence_vjp", backward), (cpu, "pair_layers", layers), (cpu, "pair_layers_vjp", layers_vjp),
            ):  # fmt: skip
                patches.enter_context(patch.object(owner, name, function))
            yield

    def count_layers(self, x: Any, *arguments: Any, backward: bool = False) -> None:
        """Count the products of `pair_layers`; those of the first queries, keys and values are not its own."""
        _, _, product, output, _, inner, _, outer = arguments[:8]
        for weight, n in ((product, len(product) - 1), (output, len(output)), (inner, len(inner)), (outer, len(outer))):
            _, depth, width = weight.shape
            if backward and n:
                self.counts[((len(x), width), True, x.dtype), ((width, depth), False, x.dtype)] += n
                self.gradients[depth, width, n, x.dtype] += len(x)
            elif n:
                self.counts[((len(x), depth), True, x.dtype), ((depth, width), True, x.dtype)] += n

    def alone(self) -> Callable[[], None]:
        """Return a call that computes these products, on few arrays.

        The rows of a recurrence are one product, and so are all that make up the gradient of a weight over pairs.
        """
        counts = self.counts.copy()
        for (depth, width, dtype), rows in self.rows.items():
            counts[((rows, depth), True, dtype), ((depth, width), False, dtype)] += 1
        for (depth, width, n, dtype), rows in self.gradients.items():
            counts[((depth, rows), False, dtype), ((rows, width), True, dtype)] += n
        arrays = {x: array(*x) for product in counts for x in product}

        def run() -> None:
            for (a, b), count in counts.items():
                for _ in range(count):
                    cpu.matmul(arrays[a], arrays[b])  # NumPy's, by one thread where it is small

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
