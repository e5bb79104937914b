"""The operations of `accel.cpu` and `accel.cuda` as operators of PyTorch, `torch.ops.grove.*`.

The functions have the names, arguments and results of `accel.ref`, with tensors for arrays; the device of the first
tensor says which backend computes. Operations with a `_vjp` are differentiable once, in their first output. Tensors and
arrays share memory, by DLPack; only a tensor that is not contiguous is copied. This module is a backend for
`grove verify`, too.
"""

from __future__ import annotations

import inspect
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

import accel
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable

xp = torch
Run = Callable[[Tape, list[Variable]], Sequence[Variable]]
# Types of arguments in a schema; the rest are tensors.
_TYPES = {x: x for x in ("float", "bool", "str")}
_TYPES |= {"int": "SymInt", "int | None": "SymInt?", "tuple[int, ...]": "SymInt[]"}  # known only when a graph runs
_DTYPES = {"b": torch.int8, "i": torch.int32, "l": torch.int64, "d": torch.float64}


def stream_of(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which a backend computes on PyTorch's current stream of that device."""
    if device.type == "cpu":
        return nullcontext()
    from accel.cuda.support.gpu import on_stream

    return on_stream(torch.cuda.current_stream(device).cuda_stream, device.index or 0)


def array_of(ops: Any, name: str, x: Any, device: torch.device) -> Any:
    """Return a tensor as an array of a backend, in the same memory if the tensor is contiguous.

    Seeds become unsigned numbers of 64 bits; other arguments are returned unchanged. Raises ValueError, naming the
    argument, for a tensor on another device, or of floats other than float32 and float64.
    """
    if not isinstance(x, Tensor):
        return tuple(y % 2**64 for y in x) if name == "seeds" else x % 2**64 if name == "seed" else x
    if x.device != device:
        raise ValueError(f"{name}: on {x.device}, but the first tensor is on {device}: move it with .to('{device}')")
    if x.is_floating_point() and x.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name}: {x.dtype}, expected float32 or float64: call .float(), or leave autocast")
    data = x.detach().contiguous()
    return data.numpy() if device.type == "cpu" else ops.xp.from_dlpack(data)  # NumPy 2.0's are read-only


def tensors_of(ops: Any, arrays: Sequence[Any], given: Sequence[Any]) -> tuple[Tensor, ...]:
    """Return arrays as tensors in the same memory; one that is among `given`, or comes again, is copied first."""
    tensors, seen_ids = [], {id(x) for x in given}
    for x in arrays:
        tensors.append(torch.from_dlpack(x.copy() if id(x) in seen_ids else ops.xp.ascontiguousarray(x)))
        seen_ids.add(id(x))
    return tuple(tensors)


def _only(results: tuple[Tensor, ...]) -> Any:
    """Return the results as an operator returns them: a single result without a tuple."""
    return results if len(results) > 1 else results[0]


def _signed(x: Any) -> Any:
    """Return unsigned 64-bit numbers as the signed int that an operator takes; anything else unchanged."""
    return [_signed(y) for y in x] if isinstance(x, tuple | list) else x - 2**64 if type(x) is int and x >= 2**63 else x


def _tuple(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def _run(name: str, arguments: Mapping[str, Any], *before: Tensor) -> Any:
    """Return the results of an operation, or of its gradient: then `before` are d_out and the outputs."""
    device = next(iter(arguments.values())).device
    ops = accel.load(device.type)
    with stream_of(device):
        arrays = {key: array_of(ops, key, x, device) for key, x in arguments.items()}
        gradients = [array_of(ops, "d_out or an output", x, device) for x in before]
        positional = (gradients[0], tuple(gradients[1:])) if before else ()
        return _only(tensors_of(ops, getattr(ops, name)(*positional, **arrays), [*gradients, *arrays.values()]))


def _shapes(spec: str, arguments: Mapping[str, Any]) -> Any:
    """Return empty outputs of the shapes in `spec`.

    "x=Nd offsets=B+ > Nd iB" gives [N, d] of the type of the first argument, and [B] int32. `B+` is B + 1. A letter
    that no argument has is a size that depends on the numbers in the arguments.
    """
    inputs, _, outputs = spec.partition(" > ")
    sizes: dict[str, Any] = {"2": 2, "W": 0 if arguments.get("kind") == "lstm" else 2}  # W: distances a step
    for name, axes in (argument.split("=") for argument in inputs.split()):
        for axis, size in zip(re.findall(r"\w\+?", axes), arguments[name].shape, strict=True):
            sizes[axis[0]] = size - len(axis) + 1
    results = []
    for kind, axes in re.findall(r"([bild](?=[A-Z]))?([\w+]+)", outputs):
        sizes |= {axis: torch.library.get_ctx().new_dynamic_size() for axis in set(axes) - {*sizes, "+"}}
        shape = [sizes[axis[0]] + len(axis) - 1 for axis in re.findall(r"\w\+?", axes)]
        results.append(next(iter(arguments.values())).new_empty(shape, dtype=_DTYPES.get(kind)))
    return _only(tuple(results))


def _defined(name: str, declared: str, n_results: int, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Return the operator `grove::name` and the function that returns its results as a tuple."""
    schema = f"({declared}) -> ({', '.join(['Tensor'] * n_results)})"
    operator = torch.library.custom_op(f"grove::{name}", run, mutates_args=(), schema=schema)
    operator.register_fake(fake)

    def function(*arguments: Any, **options: Any) -> tuple[Tensor, ...]:
        return _tuple(operator(*map(_signed, arguments), **{key: _signed(x) for key, x in options.items()}))

    function.__name__, function.__doc__ = name, f"Return the results of `accel.ref.{name}`, for tensors."
    return operator, function


def _operation(name: str, spec: str, n_gradients: int = 0) -> Any:
    """Return the function of an operation; if its first `n_gradients` arguments have gradients, its vjp as well."""
    parameters = inspect.signature(getattr(accel.load("cpu"), name)).parameters.values()
    names, n_outputs = [p.name for p in parameters], len(spec.partition(" > ")[2].split())
    arguments = (f"{_TYPES.get(p.annotation, 'Tensor')} {p.replace(annotation=p.empty)}" for p in parameters)
    declared = ", ".join(arguments).replace("'", '"')

    def named(values: tuple[Any, ...]) -> dict[str, Any]:  # PyTorch leaves out options that have their defaults
        return dict(zip(names, values, strict=False))

    operator, function = _defined(
        name, declared, n_outputs, lambda *x: _run(name, named(x)), lambda *x: _shapes(spec, named(x))
    )
    if not n_gradients:
        return function
    vjp, vjp_function = _defined(
        f"{name}_vjp", f"Tensor d_out, Tensor[] outputs, {declared}", n_gradients,
        lambda d_out, outputs, *x: _run(f"{name}_vjp", named(x), d_out, *outputs),
        lambda d_out, outputs, *x: _only(tuple(y.new_empty(y.shape) for y in x[:n_gradients])),
    )  # fmt: skip

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(*_tuple(output)[1:])
        ctx.save_for_backward(*_tuple(output), *(x for x in inputs if isinstance(x, Tensor)))
        ctx.others = tuple(x for x in inputs if not isinstance(x, Tensor))  # tensors come first

    def backward(ctx: Any, d_out: Tensor, *_: Any) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # read once: checkpointing refuses a second time
        d_inputs = _tuple(vjp(d_out, list(saved[:n_outputs]), *saved[n_outputs:], *ctx.others))
        return *d_inputs, *[None] * (len(names) - n_gradients)

    operator.register_autograd(backward, setup_context=setup)
    return function, vjp_function


class _Taped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, *tensors: Tensor) -> tuple[Tensor, ...]:
        device, ops = tensors[0].device, accel.load(tensors[0].device.type)
        with stream_of(device):
            ctx.inputs = [Variable(array_of(ops, "a parameter or x", x, device)) for x in tensors]
            ctx.tape = Tape(ops, recording=any(ctx.needs_input_grad))
            weakref.finalize(ctx, ctx.tape.entries.clear)  # they refer to the tape: only gc would free the arrays
            ctx.outputs = list(run(ctx.tape, ctx.inputs))
            results = tensors_of(ops, [y.value for y in ctx.outputs], [x.value for x in ctx.inputs])
        ctx.save_for_backward(*tensors, *results)  # PyTorch refuses tensors that were changed in place since
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *d_outputs: Tensor) -> tuple[Any, ...]:
        device, ops = ctx.saved_tensors[0].device, ctx.tape.ops
        with stream_of(device):
            d_outs = [array_of(ops, "d_out", x, device) for x in d_outputs]
            for y, d_out in zip(ctx.outputs[:-1], d_outs, strict=False):
                y.accumulate(d_out, owned=False)
            ctx.tape.backward(ctx.outputs[-1], d_outs[-1], keep=True, last=True)
            gradients = [x.gradient if x.gradient is not None else ops.xp.zeros_like(x.value) for x in ctx.inputs]
            for x in ctx.inputs:
                x.gradient = None
            return None, *tensors_of(ops, gradients, d_outs)


@torch.compiler.disable
def taped(run: Run, *tensors: Tensor) -> Any:
    """Return the outputs of `run`, which takes a tape and a variable for each of the float tensors.

    The outputs are differentiable once. `torch.compile` does not trace `run`.
    """
    return _Taped.apply(run, *(x if torch.is_grad_enabled() else x.detach() for x in tensors))


bias_erf_gelu, bias_erf_gelu_vjp = _operation("bias_erf_gelu", "x=Nf > Nf", 2)
bias_gelu, bias_gelu_vjp = _operation("bias_gelu", "x=Nf > Nf", 2)
causal_attention, causal_attention_vjp = _operation("causal_attention", "q=NHD > NHD NH", 6)
cky_pool, cky_pool_vjp = _operation("cky_pool", "tokens=Nd > Md P Rd Sd", 3)
cross_entropy, cross_entropy_vjp = _operation("cross_entropy", "h=Nd table=Vd > N N KV", 3)
cumax, cumax_vjp = _operation("cumax", "z=ND > ND", 1)
dot_product_attention, dot_product_attention_vjp = _operation("dot_product_attention", "q=NHD > NHD NH", 3)
dropout, dropout_vjp = _operation("dropout", "x=Nd > Nd", 1)
embedding, embedding_vjp = _operation("embedding", "table=Vd ids=N > Nd", 1)
layer_norm, layer_norm_vjp = _operation("layer_norm", "x=Nd > Nd N N", 3)
linear_recurrence, linear_recurrence_vjp = _operation("linear_recurrence", "gates=NG c0=BH > NH NH NG N2", 1)
locked_dropout, locked_dropout_vjp = _operation("locked_dropout", "x=Nd > Nd", 1)
pair_attention, pair_attention_vjp = _operation("pair_attention", "x=NT > Nd Nh", 2)
pair_layers, pair_layers_vjp = _operation("pair_layers", "x=Nd > Pd S", 10)
recurrence, recurrence_vjp = _operation("recurrence", "gates=NG c0=BH > NH NH NG NW", 3)
residual_layer_norm, residual_layer_norm_vjp = _operation("residual_layer_norm", "x=Nd > Nd N N", 5)
residual_norm, residual_norm_vjp = _operation("residual_norm", "x=Nd > Nd N", 3)
span_logz, span_logz_vjp = _operation("span_logz", "scores=SL offsets=B+ > B", 1)
sparse_attention, sparse_attention_vjp = _operation("sparse_attention", "q=NHD > NHD NH", 6)
tree_gate, tree_gate_vjp = _operation("tree_gate", "x=Nd > Nd", 4)
weight_drop, weight_drop_vjp = _operation("weight_drop", "weight=RH > RH", 1)
weighted_sum, weighted_sum_vjp = _operation("weighted_sum", "vectors=Pd offsets=C+ > Cd P", 2)
attend_sets = _operation("attend_sets", "types=N > lN+ iE iE iN")
best_trees = _operation("best_trees", "offsets=B+ > lB+ dT lT+ iK2 iK")
chart_trees = _operation("chart_trees", "offsets=B+ > iS2 lB+")
distance_trees = _operation("distance_trees", "offsets=B+ > iS2 lB+")
double_closing = _operation("double_closing", "types=N offsets=B+ > bM iM lB+")
pruned_chart = _operation("pruned_chart", "offsets=B+ > iC2 iC lC+ iP iP lT iB")
