"""Arrays of other libraries: the conversions from and to NumPy, and the gradients of the libraries' autograd."""

from __future__ import annotations

import math
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel import cpu
from accel.verify.arrays import ArrayError, NoGradient, check_library, to_library, to_numpy
from accel.verify.checks import run_operation
from accel.verify.gradients import check_gradients
from accel.verify.op import example_case
from accel.verify.ops.table import OPS
from accel.verify.report import Row, notes

LAYER_NORM = next(op for op in OPS if op.name == "layer_norm")
DTYPES = ["float64", "float32", "int64", "int32", "bool"]


class Foreign:
    """An array of another library, on the CPU or elsewhere, of which NumPy knows nothing but `__dlpack__`."""

    def __init__(self, x: np.ndarray, place: int = 1) -> None:
        self.x, self.dtype, self.place = x, x.dtype, place

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place, 0

    def to_device(self, device: str) -> Foreign:
        assert device == "cpu"
        return Foreign(self.x)


def of(xp: Any, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(xp=xp, __name__="own", **more)


def drawn() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return arguments of layer_norm, and a gradient of its output."""
    draw = np.random.default_rng(3)
    x, d_out = draw.standard_normal((2, 5, 7))
    return {"x": x, "scale": draw.standard_normal(7), "bias": draw.standard_normal(7)}, d_out


@pytest.fixture
def torch() -> ModuleType:
    return pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")


@pytest.fixture
def jax() -> ModuleType:
    package = pytest.importorskip("jax", reason="JAX is not installed: make test-frameworks")
    package.config.update("jax_enable_x64", True)
    return package


def test_both_ways_copy() -> None:
    """Without copies a kernel could write into the tests' arrays, or return the memory of its last answer again."""
    x = np.arange(6.0).reshape(2, 3)
    there = to_library(x, of(np))
    back = to_numpy(there)
    assert not np.shares_memory(there, x) and not np.shares_memory(back, there)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("place", [1, 2])
def test_a_library_that_has_only_dlpack(place: int) -> None:
    library = SimpleNamespace(__name__="foreign", from_dlpack=lambda x: Foreign(np.from_dlpack(x), place))
    check_library(of(library))
    x = np.ones((2, 0))
    assert to_numpy(to_library(x, of(library))).shape == (2, 0)


def test_the_device_is_passed_on() -> None:
    devices = []

    def asarray(x: np.ndarray, device: str) -> np.ndarray:
        devices.append(device)
        return x

    to_library(np.ones(2), of(SimpleNamespace(__name__="placed", asarray=asarray), device="cuda"))
    assert devices == ["cuda"]


@pytest.mark.parametrize(
    ("xp", "message"),
    [
        (math, "xp: math has neither asarray nor from_dlpack: name a module of arrays, such as numpy or jax.numpy"),
        (SimpleNamespace(__name__="narrow", asarray=np.float32), "xp: narrow makes float32 of float64: name a module"),
        (SimpleNamespace(__name__="lists", asarray=np.ndarray.tolist), "xp: lists makes a list of float64"),
        (SimpleNamespace(__name__="strict", asarray=np.linalg.inv), "xp: strict makes no array of float64: "),
        (SimpleNamespace(__name__="adds", asarray=lambda x: x + 1), "xp: adds changes numbers of float64"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_what_is_no_library_of_arrays(xp: Any, message: str) -> None:
    with pytest.raises(ArrayError) as caught:
        check_library(of(xp))
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.ones((5, 7)), "layer_norm returns an object of type ndarray: return a tuple of arrays, such as (y,)"),
        (([1.0],), "layer_norm: output 0 is a list: return an array of NumPy, or one with __dlpack__"),
        ((np.ones(7), 0.5), "layer_norm: output 1 is a float: return an array of NumPy, or one with __dlpack__"),
    ],
    ids=["array", "list", "float"],
)
def test_what_is_no_output(answer: Any, message: str) -> None:
    op = LAYER_NORM
    arguments, _ = drawn()
    with pytest.raises(ArrayError) as caught:
        op.call(of(np, layer_norm=lambda *arguments: answer), arguments)
    assert str(caught.value) == message


def test_the_number_of_gradients() -> None:
    op = LAYER_NORM
    backend = of(np, layer_norm=cpu.layer_norm, layer_norm_vjp=lambda *x: cpu.layer_norm_vjp(*x)[:2])
    with pytest.raises(ArrayError, match="layer_norm_vjp returns 2 arrays: return the gradients of x, scale, bias"):
        op.vjp(backend, *drawn())


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_and_back(torch: ModuleType, dtype: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)
    there = to_library(x, of(torch, device=torch.device("cpu")))
    assert isinstance(there, torch.Tensor) and to_numpy(there).dtype == x.dtype
    np.testing.assert_array_equal(to_numpy(there), x)
    assert to_numpy(there[:0]).shape == (0, 3)


def test_pytorch_autograd(torch: ModuleType) -> None:
    """Gradients by autograd are those of our kernel; an unused argument gets zeros; a result without graph fails."""
    op = LAYER_NORM

    def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
        return (torch.nn.functional.layer_norm(x, x.shape[1:], scale, bias),)

    arguments, d_out = drawn()
    expected = op.vjp(cpu, arguments, d_out)
    gradients = op.vjp(of(torch, layer_norm=layer_norm), arguments, d_out)
    assert op.gradient_source(of(torch, layer_norm=layer_norm)) == "autograd"
    for name in op.diff:
        np.testing.assert_allclose(gradients[name], expected[name], rtol=1e-12, atol=1e-12)
    without = op.vjp(of(torch, layer_norm=lambda x, scale, bias: (x * scale,)), arguments, d_out)
    assert not without["bias"].any() and without["x"].any()
    outside = of(torch, layer_norm=lambda x, scale, bias: (torch.zeros_like(x),))
    assert op.gradient_source(outside) is None
    with pytest.raises(NoGradient, match="layer_norm: no autograd sees into it: export layer_norm_vjp"):
        op.vjp(outside, arguments, d_out)


def test_the_report_says_where_gradients_come_from(torch: ModuleType) -> None:
    def outside(x: Any, scale: Any, bias: Any) -> Any:
        return tuple(map(torch.from_numpy, cpu.layer_norm(*(y.detach().numpy() for y in (x, scale, bias)))))

    def inside(x: Any, scale: Any, bias: Any) -> Any:
        return (torch.nn.functional.layer_norm(x, x.shape[1:], scale, bias),)

    row_notes = [
        notes(Row(LAYER_NORM, run_operation(of(torch, layer_norm=function), LAYER_NORM, 2)))
        for function in (inside, outside)
    ]
    assert row_notes[0] == ["layer_norm: gradients: by autograd"]
    assert row_notes[1] == [
        "layer_norm: gradients: not tested: no layer_norm_vjp, and autograd does not see into layer_norm"
    ]


def test_an_output_that_depends_on_nothing(torch: ModuleType) -> None:
    """A kernel may return new zeros for empty groups: the gradients of other batches are still compared."""
    [op] = [row for row in OPS if row.name == "weighted_sum"]

    def weighted_sum(scores: Any, vectors: Any, offsets: Any) -> Any:
        if not len(scores):
            return torch.zeros(len(offsets) - 1, vectors.shape[1], dtype=vectors.dtype), torch.zeros_like(scores)
        groups = [slice(a, b) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        weights = torch.cat([torch.softmax(scores[group], 0) for group in groups])
        return torch.stack([weights[group] @ vectors[group] for group in groups]), weights

    def steep(scores: Any, vectors: Any, offsets: Any) -> Any:
        return weighted_sum(2 * scores - scores.detach(), vectors, offsets)

    for function, fails in ((weighted_sum, False), (steep, True)):
        results = {result.column: result for result in run_operation(of(torch, weighted_sum=function), op, 25)}
        assert results["gradients"].note == "by autograd" and results["values"].failure is None
        assert (results["gradients"].failure is not None) == fails and results["gradients"].n_inputs > 0


@pytest.mark.parametrize(
    ("fault", "message"),
    [("", ""), ("last call", "size of tensor"), ("argument d_out", "argument d_out"), ("argument x", "argument x")],
)
def test_a_gradient_of_an_autograd_function(torch: ModuleType, fault: str, message: str) -> None:
    """It may neither use what the last call has left behind nor write to what it receives."""
    last: dict[str, Any] = {}

    class Normal(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, x: Any, scale: Any, bias: Any) -> Any:
            centred = x - x.mean(1, keepdim=True)
            steepness = 1 / torch.sqrt((centred**2).mean(1, keepdim=True) + 1e-5)
            ctx.own = last["own"] = x, scale, steepness, centred * steepness
            return centred * steepness * scale + bias

        @staticmethod
        def backward(ctx: Any, d_out: Any) -> Any:
            x, scale, steepness, y = last["own"] if fault == "last call" else ctx.own
            d_y, d_scale, d_bias = d_out * scale, (d_out * y).sum(0), d_out.sum(0)
            d_x = steepness * (d_y - d_y.mean(1, keepdim=True) - y * (d_y * y).mean(1, keepdim=True))
            if fault.startswith("argument"):
                (d_out if fault == "argument d_out" else x).data.zero_()
            return d_x, d_scale, d_bias

    def layer_norm(*arguments: Any) -> Any:
        return (Normal.apply(*arguments),)

    backend, case = of(torch, layer_norm=layer_norm), example_case(LAYER_NORM)
    if not fault:
        check_gradients(backend, LAYER_NORM, case, 0)
        return
    with pytest.raises((AssertionError, RuntimeError), match=message):
        check_gradients(backend, LAYER_NORM, case, 0)


def test_memory_of_pytorch(torch: ModuleType) -> None:
    """Outputs are no views of arguments, and gradients can be added to in place."""
    rows = {op.name: op for op in OPS}

    def dropout(x: Any, rate: float, seed: int) -> Any:
        return (x.view(x.shape),)

    arguments = {"x": np.ones((2, 3)), "rate": 0.0, "seed": 1}
    with pytest.raises(AssertionError, match="dropout, output 0: memory: got a view of an argument"):
        rows["dropout"].require_lasting(of(torch, dropout=dropout), arguments, arguments)
    backend = of(torch, dropout=lambda x, rate, seed: (x.clone(),))
    for fault, answer in (("two views", lambda d: d[:]), ("one number", lambda d: torch.ones(1).double().expand(2, 3))):
        backend.dropout_vjp = lambda d_out, outputs, x, rate, seed, answer=answer: (answer(d_out),)
        with pytest.raises(AssertionError, match=fault):
            rows["dropout"].vjp(backend, arguments, np.ones((2, 3)))


def test_dtypes_that_numpy_lacks(torch: ModuleType) -> None:
    with pytest.raises(ArrayError, match="layer_norm: output 0 of bfloat16 cannot become an array of NumPy"):
        to_numpy(torch.ones(2, dtype=torch.bfloat16), "layer_norm: output 0")


@pytest.mark.parametrize("dtype", DTYPES)
def test_jax_and_back(jax: ModuleType, dtype: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)
    there = to_library(x, of(jax.numpy, device="cpu"))
    assert isinstance(there, jax.Array) and to_numpy(there).dtype == x.dtype
    np.testing.assert_array_equal(to_numpy(there), x)
    assert to_numpy(there[:0]).shape == (0, 3)


def test_jax_must_hold_float64(jax: ModuleType) -> None:
    advice = 'type jax.config.update("jax_enable_x64", True) at the top of the module'
    with jax.enable_x64(False), pytest.raises(ArrayError) as caught:
        check_library(of(jax.numpy))
    assert str(caught.value) == f"xp: jax.numpy makes float32 of float64: {advice}"
    with pytest.raises(ArrayError, match="xp: jax has neither asarray nor from_dlpack"):
        check_library(of(jax))


def test_jax_autograd(jax: ModuleType) -> None:
    op, xp = LAYER_NORM, jax.numpy

    def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
        centred = x - x.mean(axis=1, keepdims=True)
        return (centred / xp.sqrt(centred.var(axis=1, keepdims=True) + 1e-5) * scale + bias,)

    def outside(x: Any, scale: Any, bias: Any) -> Any:
        return (xp.asarray(cpu.layer_norm(*map(np.asarray, (x, scale, bias)))[0]),)

    arguments, d_out = drawn()
    expected = op.vjp(cpu, arguments, d_out)
    gradients = op.vjp(of(xp, layer_norm=layer_norm), arguments, d_out)
    for name in op.diff:
        np.testing.assert_allclose(gradients[name], expected[name], rtol=1e-12, atol=1e-12)
    assert op.gradient_source(of(xp, layer_norm=outside)) is None
    assert op.gradient_source(of(np, layer_norm=layer_norm)) is None
    assert op.gradient_source(of(xp, layer_norm=lambda *x: 1 / 0)) == "autograd"


def test_arrays_of_cupy_come_back_by_get() -> None:
    """NumPy cannot read the memory of a GPU: CuPy copies it."""
    array = type("ndarray", (), {"__module__": "cupy", "__dlpack__": None, "get": lambda self: np.arange(3.0)})()
    np.testing.assert_array_equal(to_numpy(array), np.arange(3.0))
