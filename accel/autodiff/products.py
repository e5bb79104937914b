"""Matrix products, and how they are added to gradients, for the linear maps of a tape.

A backend may have its own functions: for several products at once, for a factor that is rounded once for several
products, or for a product that also sums the columns of a factor. Otherwise separate operations of its array module
compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType

from accel.autodiff.arrays import Array
from accel.autodiff.variables import Variable


class Products:
    """The matrix products of a backend, as functions of arrays, and methods that add them to gradients of variables."""

    def __init__(self, ops: ModuleType) -> None:
        self.ops = ops
        self.matmul, self.matmul_all, self.factor = product_of(ops), products_of(ops), factor_of(ops)
        self.factors: Callable[[Sequence[Array]], Sequence[Array]] = getattr(ops, "factors", list)  # for several
        self.fuses_sums: Callable[[Array], bool] = getattr(ops, "fuses_sums", lambda x: False)
        self.matmul_sum: Callable[..., Array] | None = getattr(ops, "matmul_sum", None)

    def accumulate_linear(
        self, weight: Variable, bias: Variable | None, a: Array, b: Array, d_out: Array, which: str
    ) -> None:
        """Add a @ b to the gradient of a weight, and the sums of d_out's columns to that of a bias.

        One of a and b is made of d_out. A backend may sum that factor during the product; `which` is the name of the
        product's argument for these sums, "sums_of_a" or "sums_of_b".
        """
        if bias is None or not (weight.needs_gradient and weight.value.size and self.fuses_sums(d_out)):
            self.accumulate_product(weight, a, b)
            if bias is not None:
                bias.accumulate(d_out.sum(axis=0))
        else:
            sums = self.ops.xp.empty(bias.value.shape, d_out.dtype)
            self.accumulate_product(weight, a, b, **{which: sums})
            bias.accumulate(sums)

    def accumulate_product(self, x: Variable, a: Array, b: Array, **sums: Array) -> None:
        """Add a @ b to the gradient of x, in place where the array of the gradient may be changed."""
        self._accumulate(x, partial(self.matmul, a, b, **sums))

    def accumulate_sum(self, x: Variable, a: Sequence[Array], b: Sequence[Array]) -> None:
        """Add the sum of a @ b over pairs of matrices of one shape to the gradient of x, at once if a backend can."""
        if self.matmul_sum is not None:
            self._accumulate(x, partial(self.matmul_sum, a, b))
            return
        for factors in zip(reversed(a), reversed(b), strict=True):
            self.accumulate_product(x, *factors)

    def _accumulate(self, x: Variable, product: Callable[..., Array]) -> None:
        """Add the result of `product` to the gradient of x; it overwrites its argument `out`, or adds to it (`add`)."""
        x.require_open()
        if x.gradient is None and x.buffer is not None:
            x.gradient, x.owned = product(out=x.buffer), True
        elif x.gradient is not None and x.owned and x.needs_gradient and x.gradient.flags.c_contiguous:
            product(out=x.gradient, add=True)
        elif x.needs_gradient:
            x.accumulate(product())

    def accumulate_products(self, weights: Sequence[Variable], a: Array, b: Sequence[Array]) -> None:
        """Add a @ b to the gradient of every weight: at once if none of the weights has a gradient yet, or all have."""
        for weight in weights:
            weight.require_open()
        factors, new = ([a] * len(weights), b), [weight.gradient is None for weight in weights]
        if all(new) and all(weight.buffer is not None for weight in weights):
            self.matmul_all(*factors, [weight.buffer for weight in weights])
            for weight in weights:
                weight.gradient, weight.owned = weight.buffer, True
        elif not any(new) and all(weight.gradient is weight.buffer for weight in weights):
            self.matmul_all(*factors, [weight.gradient for weight in weights], add=True)
        else:
            for weight, gradients in zip(weights, b, strict=True):
                self.accumulate_product(weight, a, gradients)


def product_of(ops: ModuleType) -> Callable[..., Array]:
    """Return the matrix product of a backend: its own `matmul`, or that of its array module.

    It takes a [m, k], b [k, n], `out` [m, n], which it overwrites or with `add` adds to, and `bias` [n] for every row.
    """
    function: Callable[..., Array] | None = getattr(ops, "matmul", None)
    return function or partial(_matmul, ops.xp)


def _matmul(
    xp: ModuleType, a: Array, b: Array, out: Array | None = None, *, add: bool = False, bias: Array | None = None
) -> Array:
    if add:
        out += xp.matmul(a, b)
    else:
        out = xp.matmul(a, b, out=out)
    if bias is not None:
        out += bias
    return out


def products_of(ops: ModuleType) -> Callable[..., list[Array]]:
    """Return a backend's function for products of several pairs of matrices: its `matmul_all`, or one product a pair.

    All pairs have one shape. It takes the first factors, the second factors, and the matrices `out`, which it
    overwrites or with `add` adds to.
    """
    function: Callable[..., list[Array]] | None = getattr(ops, "matmul_all", None)
    return function or partial(_matmul_all, product_of(ops))


def _matmul_all(
    matmul: Callable[..., Array], a: Sequence[Array], b: Sequence[Array], out: Sequence[Array] | None = None,
    *, add: bool = False,
) -> list[Array]:  # fmt: skip
    outs = [None] * len(a) if out is None else out
    return [matmul(*factors, add=add) for factors in zip(a, b, outs, strict=True)]


def factor_of(ops: ModuleType) -> Callable[[Array], Array]:
    """Return a backend's function that prepares a factor for several products, for example rounds it once."""
    function: Callable[[Array], Array] | None = getattr(ops, "factor", None)
    return function or (lambda x: x)
