"""The harness itself: every seeded error must turn its row of the table red."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel import cpu
from accel.verify import test_gradients as test_grads
from accel.verify import test_values as test_ops
from accel.verify.mutants import gpst, span_parser, treeformer
from accel.verify.mutants.table import MUTANTS
from accel.verify.ops.table import OPS
from tests.fixtures.conformance import first_failure

ROWS = {op.name: op for op in OPS}
Function = Callable[..., Any]


@pytest.mark.parametrize(("name", "mutant"), MUTANTS, ids=lambda x: getattr(x, "__name__", x))
def test_every_mutant_is_caught(name: str, mutant: Function) -> None:
    assert fails_in_its_row(name, mutant)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("cky_pool", treeformer.plain),
        ("cky_pool_vjp", treeformer.plain_gradient),
        ("pruned_chart", gpst.plain),
        ("span_logz", span_parser.plain),
        ("span_logz_vjp", span_parser.plain_gradient),
        ("best_trees", span_parser.plain_trees),
    ],
    ids=["cky_pool", "cky_pool_vjp", "pruned_chart", "span_logz", "span_logz_vjp", "best_trees"],
)
def test_the_code_that_mutants_change_is_right(name: str, plain: Function) -> None:
    assert not fails_in_its_row(name, plain)


def fails_in_its_row(name: str, function: Function) -> bool:
    backend = SimpleNamespace(**{k: v for k, v in vars(cpu).items() if not k.startswith("_")})
    setattr(backend, name, function)
    backend.__name__ = "mutant"
    body = test_grads.test_gradients if name.endswith("_vjp") else test_ops.test_ops
    return first_failure(body, backend, ROWS[name.removesuffix("_vjp")]) is not None


def test_the_neighbour_test_can_fail() -> None:
    """A kernel whose output changes when another example is filled with NaN fails."""

    def leaky(x: Any, bias: Any) -> Any:
        return ((cpu.bias_gelu(x, bias)[0] + (0 if np.isfinite(x).all() else 1)).astype(x.dtype),)

    backend = SimpleNamespace(xp=np, bias_gelu=leaky, __name__="leaky")
    assert first_failure(test_ops.test_neighbours, backend, ROWS["bias_gelu"], filling=np.nan)
