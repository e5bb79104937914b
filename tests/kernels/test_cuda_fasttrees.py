"""Recurrences and attention at sizes beyond the table's: more units and gates than a warp or a block has lanes.

Also more steps than a linear recurrence reads at once, and heads wider than a warp. NumPy takes CuPy's place.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel import ref
from accel.cuda import forms
from tests.fixtures.comparisons import same
from tests.fixtures.gradient_checks import directional
from tests.fixtures.stand_in_gpu import draw, host_backend

__all__ = ["host_backend"]

recurrence = import_module("accel.cuda.recurrence")  # the package has the function under this name

OFFSETS = np.array([0, 2, 8, 9])
SIZES = [(1, 1), (6, 3), (33, 33), (70, 7), (66, 1), (550, 55), (1030, 1030)]  # H, n
KINDS = ("lstm", "on_lstm", "fasttrees", "faster_fasttrees")
LAYERS = [(kind, *size, False) for kind in KINDS for size in SIZES]
LAYERS += [(kind, *size, True) for kind in KINDS[:3] for size in SIZES[:5]]  # in one kernel: only if they are small


def layer(kind: str, n_units: int, n: int) -> tuple[str, list[Any], dict[str, str]]:
    """Return the name of the op, its arguments, and its options."""
    n_gates = 4 * n_units + (0 if kind == "lstm" else 2 * n)
    n_rows = 4 * n_units if kind == "fasttrees" else n_gates
    n_rows_before = len(OFFSETS) - 1, n_units
    gates, weight, bias, h0, c0 = draw((9, n_gates), (n_rows, n_units), (n_rows,), n_rows_before, n_rows_before)
    if kind == "faster_fasttrees":
        return "linear_recurrence", [gates, c0, OFFSETS], {}
    return "recurrence", [gates, weight / np.sqrt(n_units), bias, np.tanh(h0), c0, OFFSETS], {"kind": kind}


@pytest.mark.parametrize(("kind", "n_units", "n", "walk"), LAYERS)
def test_layers_wider_than_a_warp_or_a_block(
    host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch, kind: str, n_units: int, n: int, walk: bool
) -> None:
    """The result is the reference's, in one kernel for all steps, or in a product and a kernel for each step."""
    name, args, options = layer(kind, n_units, n)
    monkeypatch.setattr(recurrence, "WALK_BYTES", args[1].nbytes if walk else 0)
    same(getattr(host_backend, name)(*args, **options), getattr(ref, name)(*args, **options))
    directional(host_backend, name, args, 1 if name == "linear_recurrence" else 3, **options)


@pytest.mark.parametrize(("n_units", "n"), SIZES)
def test_gates_wider_than_a_warp_or_a_block(host_backend: ModuleType, n_units: int, n: int) -> None:
    args = draw((3, n), (3, n), (3, n_units), (3, n_units))
    same(host_backend.cumax(args[0]), ref.cumax(args[0]))
    same(host_backend.tree_gate(*args), ref.tree_gate(*args))
    directional(host_backend, "cumax", args[:1], 1)
    directional(host_backend, "tree_gate", args, 4)


@pytest.mark.parametrize("form", ["walk", "step", "persistent"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_is_no_number_gets_through(
    host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch, kind: str, form: str
) -> None:
    """Gates are checked, for an infinite logit may give a finite state. Any other NaN reaches the states.

    The states are checked, too.
    """
    name, args, options = layer(kind, 6, 3)
    monkeypatch.setattr(recurrence, "WALK_BYTES", args[1].nbytes if form == "walk" else 0)
    with forms.use(forms.Forms("fast" if form == "persistent" else "plain")):
        refuses_what_is_no_number(getattr(host_backend, name), args, options)


def refuses_what_is_no_number(op: Callable[..., Any], args: list[Any], options: dict[str, str]) -> None:
    for column in (0, -1):
        for filling in (np.nan, np.inf, -np.inf):
            gates = args[0].copy()
            gates[4, column] = filling
            with pytest.raises(ValueError, match="gates: NaN or infinity in row 4"):
                op(gates, *args[1:], **options)
    for number in range(1, len(args) - 1):
        spoiled = [x.copy() for x in args]
        spoiled[number][-1] = np.nan
        with pytest.raises(ValueError, match="h: NaN or infinity in row"):
            op(*spoiled, **options)


def test_no_sequences(host_backend: ModuleType) -> None:
    """A batch of no sequences has outputs without rows, and all weights have a gradient of 0."""
    for kind in KINDS:
        name, args, options = layer(kind, 6, 3)
        rows = [x[:0] if x.shape[0] in (9, len(OFFSETS) - 1) else x for x in args[:-1]]
        outputs = getattr(host_backend, name)(*rows, OFFSETS[:1], **options)
        assert all(len(x) == 0 for x in outputs)
        gradients = getattr(host_backend, f"{name}_vjp")(outputs[0], outputs, *rows, OFFSETS[:1], **options)
        assert all(not x.any() for x in gradients)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [33, 70])
def test_heads_wider_than_a_warp_and_more_than_one_tile(host_backend: ModuleType, width: int, causal: bool) -> None:
    """Some sequences have no queries or no keys, or fewer keys than queries; both take several tiles."""
    n, s = ([40, 0, 33, 1], [75, 3, 33, 64]) if causal else ([40, 0, 33, 70], [75, 3, 0, 5])
    offsets = [np.concatenate([[0], np.cumsum(lengths)]) for lengths in (n, s)]
    args = [*draw((sum(n), 2, width), (sum(s), 2, width), (sum(s), 2, width)), *offsets]
    for options in ({"causal": causal}, {"causal": causal, "rate": 0.3, "seed": 5}):
        same(host_backend.dot_product_attention(*args, **options), ref.dot_product_attention(*args, **options))
        directional(host_backend, "dot_product_attention", args, 3, **options)
