"""The end of a sublayer and the beginning of the next one in pre-norm layers: a residual sum, and the norm of the sum.

A backend may have kernels for them, `residual_sums`; on other backends separate operations compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accel.autodiff.arrays import Array
from accel.autodiff.layers import DropoutSites, layer_norm, residual_linear
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable

Parameters = Mapping[str, Variable]


def residual_and_norm(
    tape: Tape, p: Parameters, matrix: str, norm: str, x: Variable, inner: Variable, rate: float, sites: DropoutSites
) -> tuple[Variable, Variable]:
    """Return total = x + dropout(inner @ p[matrix] + bias), and total with its rows normalised.

    `matrix` and `norm` name the parameters; the bias is p[matrix + "_bias"].
    """
    parts = getattr(tape.ops, "residual_sums", None)
    if parts is None:
        total = residual_linear(tape, x, inner, p[matrix], p[f"{matrix}_bias"], rate, sites)
        return total, layer_norm(tape, p, norm, total)
    y, bias, drop = tape.linear(inner, p[matrix]), p[f"{matrix}_bias"], tuple(sites.draw(rate).values())
    scale, shift = p[f"{norm}.scale"], p[f"{norm}.bias"]
    outputs = parts.sum_layer_norm(x.value, y.value, bias.value, scale.value, shift.value, *drop)

    def backward(d_out: Array, d_normal: Array) -> None:
        d_x, d_y, *others = parts.sum_layer_norm_vjp(d_out, d_normal, outputs, scale.value, *drop)
        for parameter, gradients in zip((bias, scale, shift), others, strict=True):
            parameter.accumulate(gradients)
        y.accumulate(d_y, owned=d_y is not d_x)
        x.accumulate(d_x, owned=d_y is not d_x)

    return recorded_with_norm(tape, outputs[0], outputs[1], [x, y, bias, scale, shift], backward)


def normed(tape: Tape, p: Parameters, norm: str, x: Variable) -> Variable:
    """Return x with its rows normalised; `norm` names the parameters.

    With `residual_sums`, one kernel computes the gradient of the norm and adds it to the gradient that x has already.
    """
    parts = getattr(tape.ops, "residual_sums", None)
    if parts is None:
        return layer_norm(tape, p, norm, x)
    scale, shift = p[f"{norm}.scale"], p[f"{norm}.bias"]
    outputs = tape.ops.layer_norm(x.value, scale.value, shift.value)

    def backward(d_out: Array) -> None:
        if x.gradient is None:
            d_x, *gradients = tape.ops.layer_norm_vjp(d_out, outputs, x.value, scale.value, shift.value)
        else:
            sum_outputs = x.value, *outputs
            d_x, _, _, *gradients = parts.sum_layer_norm_vjp(x.gradient, d_out, sum_outputs, scale.value, 0.0, 0)
            x.gradient = None
        x.accumulate(d_x)
        scale.accumulate(gradients[0])
        shift.accumulate(gradients[1])

    return tape.record(outputs[0], [x, scale, shift], backward)


def recorded_with_norm(
    tape: Tape, total: Array, normal: Array, inputs: list[Variable], backward: Callable[[Array, Any], None]
) -> tuple[Variable, Variable]:
    """Return a sum and its normalised rows as variables; `backward` takes the gradients of both at once."""
    of_normal: list[Array] = []

    def run(d_out: Array) -> None:
        backward(d_out, of_normal.pop() if of_normal else tape.xp.zeros_like(normal))

    total_variable = tape.record(total, inputs, run)

    def keep(d_normal: Array) -> None:
        of_normal.append(d_normal)
        if total_variable.gradient is None:
            total_variable.accumulate(tape.xp.zeros_like(total))

    return total_variable, tape.record(normal, [total_variable], keep)
