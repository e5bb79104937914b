"""A row of the table in `accel/verify/ops/table.py`, and how cases become batches.

A case is one batch: what its examples share, and the examples, each as the reference takes it. `batched` lays the
examples one after another as the backends take them; `split` cuts a backend's outputs into those of the examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from accel.verify.arrays import ArrayError, NoGradient, autograd_vjp, has_autograd, to_library, to_numpy
from accel.verify.compare import Disagreement
from accel.verify.contract import AGAIN, require_apart, require_own_memory, require_unchanged

Example = dict[str, Any]
Outputs = tuple[np.ndarray, ...]
Spoiler = Callable[[dict[str, Any]], dict[str, Any]]
Attend = Callable[..., Outputs]  # an attention of the reference, or the conditions of its outputs


@dataclass(frozen=True)
class Case:
    """One batch before its examples are joined: `shared` arguments, and `examples`, each with its own arguments."""

    shared: Example
    examples: list[Example]


@dataclass(frozen=True)
class Op:
    name: str  # the same in refimpl.<stem> and in every backend
    stem: str
    clause: str
    cases: st.SearchStrategy[Case]
    reference: Callable[[Example, Example, int], Outputs]  # shared, example, number of its first row in the batch
    batched: Callable[[Case], dict[str, Any]]  # arguments by name, in the backend's order
    split: Callable[[Outputs, Case], list[Outputs]]
    diff: tuple[str, ...] = ()  # arguments with a gradient, in the order in which _vjp returns them
    options: tuple[str, ...] = ()  # shared arguments that go by keyword
    exact: bool = False
    laws: tuple[Callable[[Example, Example, Outputs], None], ...] = ()
    errors: tuple[tuple[str, Spoiler], ...] = ()  # words of the message, with | between; makes bad arguments
    moves: bool = True  # an example's answer does not depend on where it stands in the batch
    finite: bool = False  # a NaN or an infinity anywhere in the examples is refused
    condition: Callable[[Example, Example, int, float], Outputs] | None = None  # of each output; float: unit roundoff
    gradient_conditions: Callable[[dict[str, Any], np.ndarray], Outputs] | None = None  # arguments, d_out; like `diff`
    peaks: Callable[[Case], Case] | None = None  # of a softmax over an axis of any size: `accel/verify/peaks.py`
    saturated: bool = False  # gradients are tested on the inputs as drawn, huge ones included
    sized: tuple[Callable[..., Case], ...] = ()  # cases of given sizes; `accel/verify/sizes.py` says which sizes

    def call(self, backend: Any, arguments: dict[str, Any]) -> Outputs:
        """Run a backend on NumPy arguments and return NumPy outputs; the backend must leave its arguments alone."""
        positional, options = self.arguments(backend, arguments)
        outputs = arrays_of(kernel_of(backend, self.name)(*positional, **options), self.name)
        names = [name for name in arguments if name not in self.options]
        require_unchanged(f"{self.clause} {self.name}", _after(names), positional, [arguments[name] for name in names])
        return tuple(to_numpy(x, f"{self.name}: output {number}") for number, x in enumerate(outputs))

    def vjp(self, backend: Any, arguments: dict[str, Any], d_out: np.ndarray) -> dict[str, np.ndarray]:
        """Return the gradients of the arguments in `diff`, from the backend's NAME_vjp or its library's autograd.

        Raises NoGradient if the backend exports no NAME_vjp, and an autograd does not see into its function.
        """
        if hasattr(backend, f"{self.name}_vjp"):
            gradients = self._own_vjp(backend, arguments, d_out)
        else:
            gradients = self._by_autograd(backend, arguments, d_out) if has_autograd(backend) else None
            if gradients is None and self.gradient_source(backend) is None:
                raise NoGradient(f"{self.name}: no autograd sees into it: export {self.name}_vjp")
            if gradients is None:  # an output of this batch, such as that of empty groups, depends on nothing
                gradients = tuple(np.zeros_like(arguments[name], d_out.dtype) for name in self.diff)
        gradients, expected = arrays_of(gradients, f"{self.name}_vjp"), ", ".join(self.diff)
        if len(gradients) != len(self.diff):
            raise ArrayError(f"{self.name}_vjp returns {len(gradients)} arrays: return the gradients of {expected}")
        results = {}
        for name, g in zip(self.diff, gradients, strict=True):
            results[name] = to_numpy(g, f"{self.name}_vjp: the gradient of {name}")
            if results[name].dtype != d_out.dtype:
                what = f"{self.clause} {self.name}_vjp, {name}"
                raise Disagreement(what, "dtype", results[name].dtype, d_out.dtype)
        return results

    def _own_vjp(self, backend: Any, arguments: dict[str, Any], d_out: np.ndarray) -> Any:
        """Return what the backend's NAME_vjp returns.

        Between the function and its gradient the function is called again, as by other layers, with halved floats and
        with another batch: the gradient may use only `outputs` of the first call, and nothing may change these.
        """
        function, vjp = (kernel_of(backend, name) for name in (self.name, f"{self.name}_vjp"))
        positional, options = self.arguments(backend, arguments)
        returned = arrays_of(function(*positional, **options), self.name)
        outputs = [to_numpy(y) for y in returned]
        halves, _ = self.arguments(backend, {key: x / 2 if is_float(x) else x for key, x in arguments.items()})
        of_halves = function(*halves, **options)
        elsewhere, other_options = self.arguments(backend, self._another_batch(d_out.dtype))
        function(*elsewhere, **other_options)
        places, what = _called_again(len(outputs)), f"{self.clause} {self.name}"
        require_unchanged(what, places, returned, outputs)
        originals = [d_out, *outputs, *(arguments[name] for name in arguments if name not in self.options)]
        inputs = [to_library(x, backend) if isinstance(x, np.ndarray) else x for x in originals]
        d_y, of_function, positional = inputs[0], tuple(inputs[1 : 1 + len(outputs)]), inputs[1 + len(outputs) :]
        gradients = vjp(d_y, of_function, *positional, **options)
        names = ["d_out", *(f"outputs[{n}]" for n in range(len(outputs)))]
        names += [name for name in arguments if name not in self.options]
        require_unchanged(f"{what}_vjp", _after(names), inputs, originals)
        if isinstance(gradients, tuple | list):
            require_apart(f"{what}_vjp", d_y, gradients)
            if d_out.dtype == np.float32:  # once a case: float64 gradients are compared with many others
                values = [to_numpy(x, f"{self.name}_vjp: gradient {n}") for n, x in enumerate(gradients)]
                for _ in range(AGAIN):
                    vjp(to_library(d_out / 2, backend), of_halves, *halves, **options)
                places = [f"gradient {n}, after another gradient was asked for" for n in range(len(values))]
                require_unchanged(f"{what}_vjp", places, gradients, values)
        return gradients

    def require_lasting(self, backend: Any, arguments: Example, others: Example) -> None:
        """Raise Disagreement if an output is a view of an argument, or if the next calls, of `others`, write to it."""
        function = kernel_of(backend, self.name)
        positional, options = self.arguments(backend, arguments)
        returned = arrays_of(function(*positional, **options), self.name)
        outputs = [to_numpy(y) for y in returned]
        require_own_memory(f"{self.clause} {self.name}", returned, positional)
        following, options = self.arguments(backend, others)
        for _ in range(AGAIN):
            function(*following, **options)
        require_unchanged(f"{self.clause} {self.name}", _called_again(len(outputs)), returned, outputs)

    def _another_batch(self, dtype: Any) -> Example:
        """Return the arguments of an ordinary batch, with floats of this dtype."""
        arguments = self.batched(self.sized[0]())
        return {key: x.astype(dtype) if is_float(x) else x for key, x in arguments.items()}

    def gradient_source(self, backend: Any) -> str | None:
        """Return where the gradients come from: "vjp", a function of the backend; "autograd"; None if there is none.

        Whether an autograd sees into the operation is tried on one ordinary batch.
        """
        if not self.diff:
            return None
        if hasattr(backend, f"{self.name}_vjp"):
            return "vjp"
        if not has_autograd(backend):
            return None
        arguments = self.batched(self.sized[0]())
        try:
            gradients = self._by_autograd(backend, arguments, self.call(backend, arguments)[0])
        except Exception:  # the tests will report it
            return "autograd"
        return None if gradients is None else "autograd"

    def _by_autograd(self, backend: Any, arguments: dict[str, Any], d_out: np.ndarray) -> Sequence[Any] | None:
        """Return the gradients of the library's autograd; None if it does not see into the function on this batch.

        As in `_own_vjp`, the function is called again before the gradient is asked for.
        """
        function, d_y = kernel_of(backend, self.name), to_library(d_out, backend)
        names = [name for name in arguments if name not in self.options]
        halves = {key: x / 2 if is_float(x) else x for key, x in arguments.items()}
        calls = [self.arguments(backend, x) for x in (arguments, halves, self._another_batch(d_out.dtype))]
        gradients = autograd_vjp(function, calls, [names.index(name) for name in self.diff], d_y)
        what, originals = f"{self.clause} {self.name}, gradient by autograd", [arguments[name] for name in names]
        require_unchanged(what, _after(["d_out", *names]), [d_y, *calls[0][0]], [d_out, *originals])
        return gradients

    def arguments(self, backend: Any, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return copies of the arguments for the backend: those by position, and those by keyword."""
        positional = [
            to_library(x, backend) if isinstance(x, np.ndarray) else list(x) if isinstance(x, list) else x
            for key, x in arguments.items()
            if key not in self.options
        ]
        return positional, {key: arguments[key] for key in self.options if key in arguments}


def _after(names: Sequence[str]) -> list[str]:
    return [f"argument {name} after the call" for name in names]


def _called_again(n_outputs: int) -> list[str]:
    return [f"output {number}, after the function was called again" for number in range(n_outputs)]


def is_float(x: Any) -> bool:
    """Return whether an array of any library holds floats."""
    return hasattr(x, "shape") and to_numpy(x).dtype.kind == "f"


def kernel_of(backend: Any, name: str) -> Callable[..., Any]:
    """Return a function of a backend; it raises a RuntimeError instead of ending the process.

    Raises ArrayError if the backend exports something else under this name.
    """
    function = getattr(backend, name)
    if not callable(function):
        raise ArrayError(f"{name} is of type {type(function).__name__}: export a function")

    def kernel(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as end:
            raise RuntimeError(f"{type(end).__name__} {end}").with_traceback(end.__traceback__) from end

    return kernel


def arrays_of(outputs: Any, function: str) -> Sequence[Any]:
    """Return the outputs of a function; refuse an array in the place of a tuple with one array."""
    if not isinstance(outputs, tuple):
        raise ArrayError(
            f"{function} returns an object of type {type(outputs).__name__}: return a tuple of arrays, such as (y,)"
        )
    return outputs


def offsets_of(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def joined(parts: list[Any], dtype: Any) -> np.ndarray:
    return np.concatenate([np.asarray(part, dtype) for part in parts])


def pieces(x: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
    return np.split(x, np.cumsum(lengths)[:-1])


def lists_of(example: st.SearchStrategy[Example]) -> st.SearchStrategy[Case]:
    return st.builds(Case, st.just({}), st.lists(example, min_size=1, max_size=4))


def row_too_many(*names: str) -> Spoiler:
    """Return the function that adds to these arguments a row that belongs to no sequence."""
    return lambda arguments: arguments | {name: np.append(x := arguments[name], x[:1], axis=0) for name in names}


def dropping_and_not(sized: Callable[..., Case]) -> tuple[Callable[..., Case], ...]:
    """Return two functions of cases of given sizes, with dropout and without: kernels have a separate loop for each."""
    return partial(sized, rate=0.3), partial(sized, rate=0.0)


def split_by_x(outputs: Outputs, case: Case) -> list[Outputs]:
    lengths = [len(next(iter(e.values()))) for e in case.examples]
    return list(zip(*(pieces(x, lengths) for x in outputs), strict=True))


def batched_rows(*order: str) -> Callable[[Case], dict[str, Any]]:
    """Return a function that joins the examples' arrays and adds the shared ones, in this order."""

    def batched(case: Case) -> dict[str, Any]:
        arrays = {name: np.concatenate([e[name] for e in case.examples]) for name in case.examples[0]}
        return {name: arrays[name] if name in arrays else case.shared[name] for name in order}

    return batched


def example_case(op: Op) -> Case:
    """Return one case with two examples or more, the same at every run."""
    once = settings(phases=[Phase.generate], max_examples=100, derandomize=True, database=None)
    return find(op.cases, lambda case: len(case.examples) >= 2, settings=once)
