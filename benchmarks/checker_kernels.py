"""Right kernels: the backends, the reference with its sums in five orders, and a few operations in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import accel
import accel.ref

Order = Callable[[np.ndarray], np.ndarray]  # [..., m] -> [...], the sums over the last axis


def in_sequence(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x, axis=-1, dtype=x.dtype)[..., -1]


def in_halves(x: np.ndarray) -> np.ndarray:
    while x.shape[-1] > 1:
        odd = x[..., -1:] if x.shape[-1] % 2 else x[..., :0]
        half = x.shape[-1] // 2
        x = np.concatenate([x[..., :half] + x[..., half : 2 * half], odd], axis=-1)
    return x[..., 0]


def in_lanes(x: np.ndarray, lanes: int = 8) -> np.ndarray:
    padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // lanes) * lanes), x.dtype)
    padded[..., : x.shape[-1]] = x
    by_lane = np.swapaxes(padded.reshape(*x.shape[:-1], -1, lanes), -1, -2)
    return in_halves(in_sequence(by_lane))


def in_drawn_order(x: np.ndarray) -> np.ndarray:
    return in_sequence(x[..., np.random.default_rng(x.shape[-1]).permutation(x.shape[-1])])


ORDERS: dict[str, Order] = {
    "in sequence": in_sequence,
    "from the end": lambda x: in_sequence(x[..., ::-1]),
    "in halves": in_halves,
    "in eight lanes": in_lanes,
    "in a drawn order": in_drawn_order,
}


def with_order(order: Order) -> type[np.ndarray]:
    """Return a kind of array whose sums and matrix products add in that order."""

    class Ordered(np.ndarray):
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
            plain = [x.view(np.ndarray) if isinstance(x, Ordered) else x for x in inputs]
            if out is not None:
                options["out"] = tuple(x.view(np.ndarray) if isinstance(x, Ordered) else x for x in out)
            axis = options.get("axis")
            if ufunc is np.add and method == "reduce" and np.ndim(plain[0]) and np.size(plain[0]):
                y = _summed(plain[0], axis, options.get("keepdims", False), order)
            elif ufunc is np.matmul and method == "__call__" and out is None:
                y = _product(*plain, order)
            else:
                y = getattr(ufunc, method)(*plain, **options)
            return y.view(Ordered) if isinstance(y, np.ndarray) else y

    return Ordered


def _summed(x: np.ndarray, axis: Any, keepdims: bool, order: Order) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in np.atleast_1d(axis))
    other_axes = [a for a in range(x.ndim) if a not in axes]
    y = order(x.transpose(*other_axes, *axes).reshape(*(x.shape[a] for a in other_axes), -1))
    return y.reshape([1 if a in axes else n for a, n in enumerate(x.shape)]) if keepdims else y[()]


def _product(a: np.ndarray, b: np.ndarray, order: Order) -> Any:
    left = a[np.newaxis] if a.ndim == 1 else a
    right = b[:, np.newaxis] if b.ndim == 1 else b
    y = np.zeros((*left.shape[:-1], right.shape[-1]), left.dtype)
    if left.shape[-1] and y.size:
        y = order(left[..., :, np.newaxis, :] * np.swapaxes(right, -1, -2)[..., np.newaxis, :, :])
    if b.ndim == 1:
        y = y[..., 0]
    return y[0] if a.ndim == 1 else y


def reference_in(name: str) -> SimpleNamespace:
    """Return the reference, forward only, with the sums in an order of ORDERS."""
    kind = with_order(ORDERS[name])
    functions = {key: f for key, f in vars(accel.ref).items() if callable(f) and not key.endswith("_vjp")}
    return SimpleNamespace(**functions, xp=SimpleNamespace(asarray=lambda x: np.asarray(x).view(kind)))


def cuda_on_the_host(fused: bool) -> Any:
    """Return the CUDA kernels compiled by g++, with products and sums in one rounding (as a GPU has them) or in two."""
    from accel.verify.cuda_host import launcher

    launcher.use(launcher.Settings(fused=fused))
    return launcher.host_backend()


def in_pytorch() -> SimpleNamespace:
    """Return the operations that PyTorch has, or that are a line of it; gradients by autograd."""
    import torch
    import torch.nn.functional as F

    def gate(a: Any, b: Any, f: Any, x: Any) -> Any:
        forget_gate, input_gate = torch.softmax(a, 1).cumsum(1), 1 - torch.softmax(b, 1).cumsum(1)
        forget_gate, input_gate = (y.repeat_interleave(x.shape[1] // y.shape[1], 1) for y in (forget_gate, input_gate))
        both = forget_gate * input_gate
        return (torch.sigmoid(f) * both + (forget_gate - both)) * x

    def mixed(scores: Any, vectors: Any, offsets: Any) -> Any:
        sizes = torch.diff(offsets).tolist()
        weights = [torch.softmax(group, 0) for group in torch.split(scores, sizes)]
        rows = zip(weights, torch.split(vectors, sizes), strict=True)
        return torch.stack([w @ v for w, v in rows]), torch.cat(weights)

    operations: dict[str, tuple[int, Callable[..., Any]]] = {
        "layer_norm": (3, lambda x, scale, bias: F.layer_norm(x, x.shape[1:], scale, bias, 1e-5)),
        "bias_gelu": (2, lambda x, bias: F.gelu(x + bias, approximate="tanh")),
        "embedding": (1, lambda table, ids: F.embedding(ids, table)),
        "cross_entropy": (
            3,
            lambda h, table, bias, labels: (
                -F.cross_entropy(h @ table.T + bias, labels.long(), ignore_index=-1, reduction="none")
            ),
        ),
        "cumax": (1, lambda z: torch.softmax(z, 1).cumsum(1)),
        "tree_gate": (4, gate),
        "weighted_sum": (2, mixed),
    }

    def forward(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            y = f(*arguments)
            return y if isinstance(y, tuple) else (y,)

        return call

    def backward(f: Callable[..., Any], n: int) -> Callable[..., Any]:
        def call(d_out: Any, outputs: Any, *arguments: Any) -> Any:
            inputs = [x.clone().requires_grad_() for x in arguments[:n]]
            return torch.autograd.grad(forward(f)(*inputs, *arguments[n:])[0], inputs, d_out, materialize_grads=True)

        return call

    functions = {name: forward(f) for name, (_, f) in operations.items()}
    functions |= {f"{name}_vjp": backward(f, n) for name, (n, f) in operations.items()}
    return SimpleNamespace(**functions, xp=torch)


def right_kernels(group: str) -> dict[str, Any]:
    """Return the kernels of a group; one process runs one group, whose environment `benchmarks/checkers.py` sets."""
    if group == "one thread":
        orders = {f"reference, sums {name}": reference_in(name) for name in ORDERS}
        kernels = {"cpu, 1 thread": accel.load("cpu"), "cuda by g++, no FMA": cuda_on_the_host(fused=False)}
        return kernels | {"PyTorch": in_pytorch()} | orders
    if group == "fused":
        return {"cuda by g++, FMA": cuda_on_the_host(fused=True)}
    return {f"cpu, {group}": accel.load("cpu")}
