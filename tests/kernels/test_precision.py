"""Kernels that declare a precision: right results pass; results of a lower precision, and wrong ones, do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel import cpu
from accel.verify import test_gradients as test_grads
from accel.verify import test_values as test_ops
from accel.verify.compare import PRECISIONS, rounded
from accel.verify.op import example_case
from accel.verify.ops.table import OPS
from accel.verify.own_backend import OwnBackendError, import_own
from accel.verify.precision import declared
from accel.verify.sizes import cases_at_sizes
from accel.verify.values import check_error, check_neighbours_at_size
from tests.fixtures.conformance import first_failure

ROWS = {op.name: op for op in OPS}
Kernel = Callable[..., tuple[Any, ...]]


def layer_norm_in(name: str) -> Kernel:
    """Return a kernel of LAY-1 that rounds every intermediate result."""

    def low(x: Any) -> Any:
        return rounded(x, PRECISIONS[name])

    def kernel(x: Any, scale: Any, bias: Any) -> tuple[Any]:
        c = low(x - low(low(x.sum(axis=1, keepdims=True)) / x.shape[1]))
        deviation = low(np.sqrt(low(low(low(c * c).sum(axis=1, keepdims=True)) / x.shape[1] + 1e-5)))
        return (np.float32(low(low(scale * low(c / deviation)) + bias)),)

    return kernel


def layer_norm_vjp(d_out: Any, outputs: Any, x: Any, scale: Any, bias: Any) -> tuple[Any, ...]:
    """Return the gradients of bfloat16 inputs, computed in float64 and rounded to bfloat16."""
    wide = [np.float64(a) for a in (x, scale, bias)]
    gradients = cpu.layer_norm_vjp(np.float64(d_out), cpu.layer_norm(*wide), *wide)
    return tuple(np.float32(rounded(g, PRECISIONS["bfloat16"])) for g in gradients)


def with_precision(precision: str, kernel: Kernel, vjp: Kernel = layer_norm_vjp) -> Any:
    backend = SimpleNamespace(xp=np, layer_norm=kernel, layer_norm_vjp=vjp, precision={"layer_norm": precision})
    backend.__name__ = "low"
    return backend


def zeros(x: Any, scale: Any, bias: Any) -> tuple[Any]:
    return (np.zeros_like(x),)


def without_bias(x: Any, scale: Any, bias: Any) -> tuple[Any]:
    return layer_norm_in("bfloat16")(x, scale, 0 * bias)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "tfloat32", "float32"])
@pytest.mark.parametrize("test", [test_ops.test_ops, test_ops.test_permuted], ids=["values", "permuted"])
def test_a_kernel_is_held_to_its_precision(name: str, test: Any) -> None:
    assert first_failure(test, with_precision(name, layer_norm_in(name)), ROWS["layer_norm"]) is None


def test_neighbours_are_tested_in_the_declared_precision() -> None:
    backend = with_precision("bfloat16", layer_norm_in("bfloat16"))
    assert first_failure(test_ops.test_neighbours, backend, ROWS["layer_norm"], filling=np.nan) is None


def test_neighbours_at_sizes_are_tested_in_the_declared_precision() -> None:
    """The kernel always returns float32, so it is not tested in float64."""
    backend, row = with_precision("bfloat16", layer_norm_in("bfloat16")), ROWS["layer_norm"]
    cases = [case for _, case in cases_at_sizes(backend, row) if len(case.examples) > 1]
    assert cases
    for case in cases:
        check_neighbours_at_size(backend, row, case)


@pytest.mark.parametrize(
    ("precision", "kernel"),
    [("float32", layer_norm_in("float16")), ("float16", layer_norm_in("bfloat16")), ("bfloat16", zeros),
     ("bfloat16", without_bias)],
    ids=["float16 is no float32", "bfloat16 is no float16", "zeros", "no bias"],
)  # fmt: skip
def test_a_coarser_or_wrong_kernel_fails(precision: str, kernel: Kernel) -> None:
    assert first_failure(test_ops.test_ops, with_precision(precision, kernel), ROWS["layer_norm"])


def test_gradients_are_held_to_the_precision() -> None:
    """Gradients that are rounded once pass; those without the mean's part, or below the declared precision, fail."""
    row, kernel = ROWS["layer_norm"], layer_norm_in("bfloat16")

    def without_mean(d_out: Any, outputs: Any, x: Any, scale: Any, bias: Any) -> tuple[Any, ...]:
        d_x, *rest = layer_norm_vjp(d_out, outputs, x, scale, bias)
        return d_x + d_out * scale, *rest

    assert first_failure(test_grads.test_gradients, with_precision("bfloat16", kernel), row) is None
    assert first_failure(test_grads.test_gradients, with_precision("bfloat16", kernel, without_mean), row)
    assert first_failure(test_grads.test_gradients, with_precision("float32", kernel), row)


@pytest.mark.parametrize(
    ("precision", "message"),
    [({"layer_norm": "bfloat"}, "precision: layer_norm: 'bfloat' is unknown: did you mean bfloat16?"),
     ({"layer_norm": 8}, "precision: layer_norm: 8 is unknown: choose one of float32, tfloat32, float16, bfloat16"),
     ({"double_closing": "float16"}, "precision: double_closing is compared exactly, and has no precision: "
      "leave it out")],
)  # fmt: skip
def test_unknown_precisions_are_refused(precision: dict[str, Any], message: str) -> None:
    [name] = precision
    with pytest.raises(ValueError) as caught:
        declared(with_functions(precision), ROWS[name])
    assert str(caught.value) == message


def with_functions(precision: dict[str, Any]) -> Any:
    return SimpleNamespace(layer_norm=zeros, double_closing=zeros, precision=precision)


def test_a_precision_of_no_operation_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = "import numpy as xp\n\n\ndef embedding(table, ids):\n    return (table[ids],)\n\n\n"
    for name, declaration, message in [
        ("near", '{"embeding": "float16"}', "this backend exports no embeding: did you mean embedding?"),
        ("typo", '{"embedding": "half"}', "embedding: 'half' is unknown: choose one of float32, tfloat32, float16, "
         "bfloat16"),
    ]:  # fmt: skip
        file = tmp_path / f"{name}_precision.py"
        file.write_text(f"{kernel}precision = {declaration}\n")
        with pytest.raises(OwnBackendError) as caught:
            import_own(file.name, ROWS)
        assert str(caught.value) == f"{file.name}: precision: {message}"


def test_a_kernel_without_float64_is_not_asked_for_it() -> None:
    """Bad inputs and neighbours are tested in the declared type, too."""

    def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
        for name, array in {"x": x, "scale": scale, "bias": bias}.items():
            if array.dtype != np.float32:
                raise ValueError(f"{name}: {array.dtype}, but this kernel takes float32")
        return cpu.layer_norm(x, scale, bias)

    backend = SimpleNamespace(xp=np, layer_norm=layer_norm, precision={"layer_norm": "float32"}, __name__="narrow")
    row = ROWS["layer_norm"]
    case = example_case(row)
    check_neighbours_at_size(backend, row, case)
    for number in range(len(row.errors)):
        check_error(backend, row, case, number)
