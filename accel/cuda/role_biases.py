"""What GPST's layers over pairs add to queries, keys and values by role, on the GPU; and which rows have which role.

Mirrors the roles of `refimpl.gpst.composition.compose` and `decompose`.
"""

from __future__ import annotations

from typing import Any

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check
from accel.cuda.support.check import THREADS


def role_biases(roles: Array, product: Array, biases: Array) -> Array:
    """Return [K, R, 3 d]: biases [K, 3 d] + roles [K, R, d] @ product [K, d, 3 d]; for values the biases alone."""
    roles, product, biases = check.floats(roles=roles, product=product, biases=biases)
    sums = device.xp().empty((*roles.shape[:2], product.shape[2]), roles.dtype)
    _launch("role_biases_forward", sums.size, (roles, product, biases, sums, *roles.shape), roles.dtype)
    return sums


def role_biases_vjp(d_added: Array, roles: Array, product: Array, d_product: Array) -> tuple[Array, Array]:
    """Return the gradients of roles and biases, and add that of product to `d_product`, in place."""
    d_added, roles, product = check.floats(d_added=d_added, roles=roles, product=product)
    d_roles = device.xp().empty_like(roles)
    d_biases = device.xp().empty((len(roles), product.shape[2]), roles.dtype)
    args = d_added, roles, product, d_roles, d_product, d_biases, *roles.shape
    _launch("role_biases_backward", d_roles.size + d_product.size + d_biases.size, args, roles.dtype)
    return d_roles, d_biases


def rows_of_roles(roles: Array, n_roles: int, dtype: Any) -> Array:
    """Return [R, N]: 1 where a row has a role, and 0 elsewhere; roles [N] int32."""
    rows = device.xp().empty((n_roles, len(roles)), dtype)
    _launch("rows_of_roles", rows.size, (roles, rows, *rows.shape), dtype)
    return rows


def _launch(kernel: str, count: int, args: tuple[Any, ...], dtype: Any) -> None:
    device.launch("role_biases", kernel, (-(-count // THREADS),), (THREADS,), args, dtype)
