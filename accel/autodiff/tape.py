"""Reverse-mode differentiation on arrays: the one place where gradients are chained.

A forward pass records, for each array that it makes, how to turn the gradient of that array into the gradients of the
arrays that it came from. `Tape.backward` runs the record from its end, and drops each entry with its saved arrays as
soon as the entry has been used. Kernels and their gradients are the backend's `f` and `f_vjp`; this file holds only
the array operations between them, and `accel.autodiff.products` the products of its linear maps. Nothing depends on the
array module: NumPy and CuPy arrays pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from accel.autodiff.arrays import Array
from accel.autodiff.products import Products
from accel.autodiff.variables import Variable

OnOp = Callable[[str, Sequence[Any], Mapping[str, Any], tuple[Array, ...]], None]
"""Called with the name, the inputs, the options and the outputs of an op of the backend."""


class Tape:
    """A record of the operations of one forward pass. It runs backwards once, or several times if it is kept.

    With `recording=False` nothing is kept: the same model code then costs no memory beyond its arrays. With `recompute`
    the layers of a model keep nothing, see `accel.autodiff.recomputation`. `on_op` is called with every op of the
    backend, so that a caller can inspect a model. `on_final` is called with every parameter that the record reads, once
    nothing is to be added to its gradient any more.
    """

    def __init__(
        self,
        ops: ModuleType,
        *,
        recording: bool = True,
        recompute: bool = False,
        on_op: OnOp | None = None,
        on_final: Callable[[Variable], None] | None = None,
    ) -> None:
        self.ops = ops
        self.xp = ops.xp
        self.products = Products(ops)
        self.matmul, self.matmul_all, self.factor = self.products.matmul, self.products.matmul_all, self.products.factor
        self.recording = recording
        self.recompute = recompute
        self.on_op = on_op
        self.on_final = on_final
        self.entries: list[tuple[Variable, Callable[[Array], None]]] = []
        self.first_readers: dict[Variable, int] = {}  # parameter -> place of the first entry that reads it

    def record(self, value: Array, inputs: Sequence[Variable], backward: Callable[[Array], None]) -> Variable:
        """Return a variable that holds `value`; `backward` takes its gradient and accumulates into `inputs`.

        `backward` must not change the array that it receives.
        """
        needs_gradient = self.recording and any(x.needs_gradient for x in inputs)
        self.note_readers(x for x in inputs if x.buffer is not None)
        output = Variable(value, needs_gradient=needs_gradient)
        if needs_gradient:
            self.entries.append((output, backward))
        return output

    def record_several(
        self, values: Sequence[Array], inputs: Sequence[Variable], backward: Callable[[dict[int, Array]], None]
    ) -> list[Variable]:
        """Return variables of one entry; `backward` takes a dictionary of their gradients, by number.

        A variable that nothing used is not in it. `backward` accumulates into `inputs`, as for `record`.
        """
        together = self.record(values, inputs, backward)

        def output(number: int) -> Variable:
            def collect(d_out: Array) -> None:
                together.gradient = (together.gradient or {}) | {number: d_out}

            return self.record(values[number], [together], collect)

        return [output(number) for number in range(len(values))]

    def note_readers(self, parameters: Iterable[Variable]) -> None:
        """Note that the next entry reads these parameters."""
        for parameter in parameters:
            self.first_readers.setdefault(parameter, len(self.entries))

    def backward(self, output: Variable, gradient: Array, *, keep: bool = False, last: bool = False) -> None:
        """Accumulate the gradient of sum(gradient * output) into every variable that `output` depends on.

        With `keep` the record stays for another backward pass, which adds its gradients to those of the parameters, and
        runs the entries that wait for it; with `last` they run in this pass.
        """
        output.accumulate(gradient, owned=False)
        final: dict[int, list[Variable]] = {}  # place of an entry -> parameters whose gradients are final after it
        for parameter, place in () if keep or self.on_final is None else self.first_readers.items():
            final.setdefault(place, []).append(parameter)
        for place in range(len(self.entries) - 1, -1, -1):
            variable, backward = self.entries[place] if keep else self.entries.pop()
            if keep and not last and variable.waits:
                continue
            gradient, variable.gradient = variable.gradient, None
            if gradient is not None:
                backward(gradient)
            for parameter in final.get(place, ()):
                self.on_final(parameter)  # type: ignore[misc]

    # Operations. Each takes and returns variables.

    def op(self, name: str, *inputs: Any, **options: Any) -> Variable:
        """Return the first output of the backend's op `name`.

        `inputs` are the op's arguments in order; the op is differentiable in those that are variables.
        """
        return self.op_and_outputs(name, *inputs, **options)[0]

    def op_and_outputs(self, name: str, *inputs: Any, **options: Any) -> tuple[Variable, tuple[Array, ...]]:
        """Return the first output of an op as a variable, and all of them as arrays."""
        values = [x.value if isinstance(x, Variable) else x for x in inputs]
        variables = [x for x in inputs if isinstance(x, Variable)]
        outputs = getattr(self.ops, name)(*values, **options)
        if self.on_op is not None:
            self.on_op(name, values, options, outputs)
        vjp = getattr(self.ops, name + "_vjp")

        def backward(d_out: Array) -> None:
            gradients = vjp(d_out, outputs, *values, **options)
            distinct = len(set(map(id, gradients))) == len(gradients)  # one array may serve several inputs
            for x, gradient in zip(variables, gradients, strict=True):
                x.accumulate(gradient, owned=distinct and gradient is not d_out)

        return self.record(outputs[0], variables, backward), outputs

    def linear(
        self, x: Variable, weight: Variable, bias: Variable | None = None, value: Array | None = None
    ) -> Variable:
        """Return x [N, a] @ weight [a, b] + bias [b]; `value` is this result, if it is already computed."""
        if value is None:
            value = self.matmul(x.value, weight.value, bias=None if bias is None else bias.value)

        def backward(d_out: Array) -> None:
            gradients = self.factor(d_out)
            if x.needs_gradient:
                self.products.accumulate_product(x, gradients, weight.value.T)
            self.products.accumulate_linear(weight, bias, x.value.T, gradients, d_out, "sums_of_b")

        return self.record(value, [x, weight] if bias is None else [x, weight, bias], backward)

    def linear_all(self, x: Variable, weights: Sequence[Variable], biases: Sequence[Variable] = ()) -> list[Variable]:
        """Return x [N, a] @ weight [a, b] for each of several weights of one shape.

        A backend may compute them, and the gradients of x and of the weights, as one batched product. Three weights
        may have biases where a backend has `residual_sums`.
        """
        values = self.matmul_all([x.value] * len(weights), [weight.value for weight in weights])
        if biases:
            self.ops.residual_sums.add_biases(values, [bias.value for bias in biases])

        def backward(gradients: dict[int, Array]) -> None:
            numbers = sorted(gradients)
            rounded = dict(zip(numbers, self.products.factors([gradients[i] for i in numbers]), strict=True))
            if x.needs_gradient:
                self.products.accumulate_sum(x, [rounded[i] for i in numbers], [weights[i].value.T for i in numbers])
            self.products.accumulate_products([weights[i] for i in numbers], x.value.T, [rounded[i] for i in numbers])
            if biases:
                sums = self.ops.residual_sums.bias_gradients([gradients[i] for i in numbers])
                for i, gradient in zip(numbers, sums, strict=True):
                    biases[i].accumulate(gradient)

        return self.record_several(values, [x, *weights, *biases], backward)

    def project(self, x: Variable, weight: Variable, bias: Variable | None = None) -> Variable:
        """Return x [N, a] @ weight [b, a].T + bias [b]: `linear` with a row of weights for each output."""
        value = self.matmul(x.value, weight.value.T, bias=None if bias is None else bias.value)

        def backward(d_out: Array) -> None:
            gradients = self.factor(d_out)
            if x.needs_gradient:
                self.products.accumulate_product(x, gradients, weight.value)
            self.products.accumulate_linear(weight, bias, gradients.T, x.value, d_out, "sums_of_a")

        return self.record(value, [x, weight] if bias is None else [x, weight, bias], backward)

    def add(self, x: Variable, y: Variable) -> Variable:
        """Return x + y, both of one shape."""

        def backward(d_out: Array) -> None:
            x.accumulate(d_out, owned=False)
            y.accumulate(d_out, owned=False)

        return self.record(x.value + y.value, [x, y], backward)

    def multiply(self, x: Variable, y: Variable) -> Variable:
        """Return x * y, both of one shape."""

        def backward(d_out: Array) -> None:
            x.accumulate(d_out * y.value)
            y.accumulate(d_out * x.value)

        return self.record(x.value * y.value, [x, y], backward)

    def scale(self, x: Variable, factor: Array | float) -> Variable:
        """Return x times a constant, which is broadcast to the shape of x."""
        return self.record(x.value * factor, [x], lambda d_out: x.accumulate(d_out * factor))

    def absolute_difference(self, x: Variable, y: Variable) -> Variable:
        """Return |x - y|, both of one shape; its gradient is 0 where they are equal."""
        difference = x.value - y.value

        def backward(d_out: Array) -> None:
            gradient = d_out * self.xp.sign(difference)
            y.accumulate(-gradient)
            x.accumulate(gradient)

        return self.record(abs(difference), [x, y], backward)

    def relu(self, x: Variable) -> Variable:
        """Return max(x, 0); its gradient at 0 is 0."""
        value = self.xp.maximum(x.value, 0)
        return self.record(value, [x], lambda d_out: x.accumulate(d_out * (value > 0)))

    def elu(self, x: Variable) -> Variable:
        """Return x where it is positive, and e^x - 1 elsewhere."""
        value = self.xp.where(x.value > 0, x.value, self.xp.expm1(self.xp.minimum(x.value, 0)))
        return self.record(value, [x], lambda d_out: x.accumulate(d_out * (self.xp.minimum(value, 0) + 1)))

    def reshape(self, x: Variable, *shape: int) -> Variable:
        """Return a view of x with another shape."""
        return self.record(
            x.value.reshape(shape), [x], lambda d_out: x.accumulate(d_out.reshape(x.value.shape), owned=False)
        )

    def transpose(self, x: Variable, *axes: int) -> Variable:
        """Return a contiguous copy of x with its axes in another order."""
        back = sorted(range(len(axes)), key=axes.__getitem__)
        value = self.xp.ascontiguousarray(x.value.transpose(axes))
        return self.record(value, [x], lambda d_out: x.accumulate(d_out.transpose(back), owned=False))

    def part(self, x: Variable, start: int, stop: int, axis: int = 0) -> Variable:
        """Return a contiguous copy of the indices start..stop-1 of x along `axis`."""
        index = (slice(None),) * (axis % x.value.ndim) + (slice(start, stop),)

        def backward(d_out: Array) -> None:
            gradient = self.xp.zeros_like(x.value)
            gradient[index] = d_out
            x.accumulate(gradient)

        return self.record(self.xp.ascontiguousarray(x.value[index]), [x], backward)

    def select(self, condition: Array, x: Variable, y: Variable) -> Variable:
        """Return x where the condition is true, and y elsewhere; x and y have one shape, to which it is broadcast."""

        def backward(d_out: Array) -> None:
            x.accumulate(d_out * condition)
            y.accumulate(d_out * ~condition)

        return self.record(self.xp.where(condition, x.value, y.value), [x, y], backward)

    def take(self, x: Variable, rows: Array) -> Variable:
        """Return x[rows]; no row may be taken twice."""

        def backward(d_out: Array) -> None:
            gradient = self.xp.zeros_like(x.value)
            gradient[rows] = d_out
            x.accumulate(gradient)

        return self.record(x.value[rows], [x], backward)

    def concatenate(self, variables: Sequence[Variable], axis: int = 0) -> Variable:
        """Return the arrays one after another along `axis`."""
        axis %= variables[0].value.ndim

        def backward(d_out: Array) -> None:
            start = 0
            for x in variables:
                stop = start + x.value.shape[axis]
                x.accumulate(d_out[(slice(None),) * axis + (slice(start, stop),)], owned=False)
                start = stop

        return self.record(self.xp.concatenate([x.value for x in variables], axis=axis), variables, backward)
