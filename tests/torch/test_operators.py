"""Operations as operators of PyTorch: registration, fake tensors, gradients, and what they refuse."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accel
from accel import cpu, cuda
from accel.verify.op import Op
from accel.verify.ops.table import OPS
from tests.fixtures.stand_in_gpu import host_backend

__all__ = ["host_backend"]

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")

from accel.torch import ops  # noqa: E402

ROWS = [op for op in OPS if hasattr(ops, op.name)]
SMOOTH = ["causal_attention", "cky_pool", "cumax", "linear_recurrence", "recurrence", "span_logz", "sparse_attention"]
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def drawn(op: Op, data: Any, dtype: Any = np.float64) -> tuple[list[Any], dict[str, Any]]:
    """Return a batch of the operation as tensors; differentiable arguments are leaves."""
    arguments = op.batched(data.draw(op.cases))
    for name, x in arguments.items():
        if isinstance(x, np.ndarray):
            tensor = torch.from_numpy(x.astype(dtype) if x.dtype == np.float64 else x)
            arguments[name] = tensor.requires_grad_(name in op.diff)
        elif name == "seed":
            arguments[name] = x % 2**63
    options = {name: arguments.pop(name) for name in op.options}
    return list(arguments.values()), options


def test_all_operations_but_two_are_operators() -> None:
    """PyTorch has its own Adam; segments are only for training a Transformer Grammar with memory."""
    assert {op.name for op in OPS} - {op.name for op in ROWS} <= {"adam", "segments"}
    for op in ROWS:
        assert hasattr(ops, op.name + "_vjp") == bool(op.diff)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_both_backends_take_the_same_names(row: Op) -> None:
    """Operators pass arguments by name, except the output's gradient and the outputs."""
    for name, first in ((row.name, 0), (f"{row.name}_vjp", 2)):
        if hasattr(ops, name):
            names = [list(inspect.signature(getattr(backend, name)).parameters)[first:] for backend in (cpu, cuda)]
            assert names[0] == names[1]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=2)
@given(data=st.data())
def test_operators_are_registered_as_pytorch_demands(row: Op, data: st.DataObject) -> None:
    arguments, options = drawn(row, data, np.float32)
    torch.library.opcheck(getattr(torch.ops.grove, row.name).default, arguments, options, test_utils=CHECKS)


@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=1)
@given(data=st.data())
def test_gradcheck(name: str, data: st.DataObject) -> None:
    op = next(op for op in OPS if op.name == name)
    arguments, options = drawn(op, data)
    assert torch.autograd.gradcheck(lambda *x: getattr(ops, name)(*x, **options)[0], arguments, atol=1e-6)


def steps() -> tuple[Any, ...]:
    """Return arguments of `recurrence` for two sequences of 2 and 3 steps, 4 units in 2 chunks."""
    torch.manual_seed(0)
    gates, weight, bias = (torch.randn(*size, requires_grad=True) for size in ((5, 20), (20, 4), (20,)))
    return gates, weight, bias, torch.zeros(2, 4), torch.zeros(2, 4), torch.tensor([0, 2, 5])


def test_compiled_whole() -> None:
    """Forward and backward are traced with fake tensors, as one graph."""
    arguments = steps()

    def loss(*x: Any) -> Any:
        return ops.recurrence(*x, kind="on_lstm")[0].square().sum()

    expected = torch.autograd.grad(loss(*arguments), arguments[:3])
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for x, y in zip(torch.autograd.grad(compiled(*arguments), arguments[:3]), expected, strict=True):
        torch.testing.assert_close(x, y)


def test_memory_is_shared_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, record = steps(), {}

    def spy(**keywords: Any) -> Any:
        record["gates"] = keywords["gates"]
        record["results"] = recurrence(**keywords)
        return record["results"]

    recurrence = cpu.recurrence
    monkeypatch.setattr(cpu, "recurrence", spy)
    h = ops.recurrence(*arguments, kind="on_lstm")[0]
    assert record["gates"].ctypes.data == arguments[0].data_ptr()
    assert h.data_ptr() == record["results"][0].ctypes.data


def test_gradients_do_not_share_memory() -> None:
    """The backend returns one array for both gradients if nothing is dropped; PyTorch adds to gradients in place."""
    x, y, bias = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True), torch.zeros(4)
    ops.residual_norm(x, y, bias, 0.0, 0)[0].square().sum().backward()
    assert x.grad.data_ptr() != y.grad.data_ptr()


def test_other_outputs_have_no_gradient() -> None:
    assert [x.requires_grad for x in ops.recurrence(*steps(), kind="on_lstm")] == [True, False, False, False]


def test_second_derivatives_are_refused() -> None:
    arguments = steps()
    loss = ops.recurrence(*arguments, kind="on_lstm")[0].square().sum()
    [gradient] = torch.autograd.grad(loss, arguments[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="recurrence_vjp"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({0: lambda x: x.bfloat16()}, "gates: torch.bfloat16, expected float32 or float64: call .float()"),
        ({1: lambda x: x.double()}, "weight: float64, but gates is float32"),
        ({5: lambda x: x[:2]}, "offsets: 2 offsets, expected 3|offsets: from 0 to 2"),
        ({0: lambda x: x / 0}, "gates: NaN or infinity in row 0"),
    ],
)
def test_bad_input_is_one_line_that_names_the_argument(changes: dict[int, Any], message: str) -> None:
    arguments = [changes.get(n, lambda x: x)(x.detach()) for n, x in enumerate(steps())]
    with pytest.raises(ValueError, match=message) as error:
        ops.recurrence(*arguments, kind="on_lstm")
    assert "\n" not in str(error.value)


def test_the_code_for_gpus_runs_behind_the_operators(host_backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """g++ compiles the GPU's kernels here; values and gradients are those of the CPU backend."""
    arguments = [x.detach().double() if x.is_floating_point() else x for x in steps()]
    gradients = []
    for backend in (cpu, host_backend):
        monkeypatch.setattr(accel, "load", lambda name, backend=backend: backend)
        leaves = [x.clone().requires_grad_() for x in arguments[:3]]
        h = ops.recurrence(*leaves, *arguments[3:], kind="on_lstm")[0]
        gradients.append([h.detach(), *torch.autograd.grad(h.square().sum(), leaves)])
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_a_gpu_computes_on_the_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[tuple[Any, ...]] = []

    @contextmanager
    def place(*arguments: Any) -> Iterator[None]:
        entered.append(arguments)
        yield

    streams = SimpleNamespace(from_external=lambda stream: place("stream", *stream.__cuda_stream__()))
    places = SimpleNamespace(Device=partial(place, "device"), Stream=streams)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=places))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=77 + device.index))
    with ops.stream_of(torch.device("cuda", 1)):
        assert entered == [("device", 1), ("stream", 0, 78)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")
@pytest.mark.parametrize("aside", [False, True], ids=["null stream", "another stream"])
def test_tensors_on_a_gpu_give_what_those_on_the_cpu_do(aside: bool) -> None:
    """It holds for values and gradients, with PyTorch's own kernels before and after on the same stream."""
    results = []
    for device in ("cpu", "cuda"):
        on_stream = torch.cuda.stream(torch.cuda.Stream()) if aside and device == "cuda" else nullcontext()
        with on_stream:
            arguments = [x.detach().to(device) for x in steps()]
            leaves = [(x * 2).requires_grad_() for x in arguments[:3]]
            h = ops.recurrence(*leaves, *arguments[3:], kind="on_lstm")[0]
            gradients = torch.autograd.grad(h.square().sum(), leaves)
            results.append([x.detach().cpu() for x in (h, *gradients)])
    for theirs, mine in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
