"""The parameters of a training pass: as variables, and with the arrays that hold their gradients at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from accel.autodiff.arrays import Array
from accel.autodiff.variables import Variable, constant

SMALL = 2**14  # on a GPU, gradients of at most so many elements are copied into their arrays together, later

Settle = Callable[[Sequence[str]], None]
OnFinal = Callable[[str, Settle], None]
"""Called with the name of a parameter, once, when its gradient is final: nothing is added to it any more.

The gradient may not be in its array yet. The second argument is a function of names: it copies the gradients of these
parameters, which must be final, into their arrays. Other gradients are copied at the end of the pass.
"""


@dataclass(frozen=True)
class Learned:
    """The parameters as variables, the arrays of their gradients, and the `on_final` that `Tape` takes."""

    variables: dict[str, Variable]
    gradients: dict[str, Array]
    on_final: Callable[[Variable], None] | None


@contextmanager
def learned(
    ops: ModuleType,
    parameters: Mapping[str, Array],
    gradients: dict[str, Array] | None = None,
    add: bool = False,
    on_final: OnFinal | None = None,
) -> Iterator[Learned]:
    """Yield parameters as variables, and the arrays (new ones if None) that hold their gradients on exit.

    A parameter that took no part in the pass has the gradient 0. A parameter without an array in `gradients` is a
    constant. With `add` the gradients are added to what the arrays hold. On a GPU small gradients are summed and copied
    into their arrays together, on exit or when `on_final` asks for it.
    """
    if gradients is None:
        gradients = {name: ops.xp.empty_like(value) for name, value in parameters.items()}
    variables = {
        name: Variable(value, buffer=gradients[name]) if name in gradients else constant(value)
        for name, value in parameters.items()
    }
    for name in gradients if add else ():
        variables[name].gradient, variables[name].owned = gradients[name], True
    on_host = ops.xp is np
    for variable in () if on_host else variables.values():
        variable.late = variable.value.size <= SMALL
    unsummed = nullcontext if on_host else ops.unsummed

    def settle(names: Sequence[str]) -> None:
        copied = []
        for name in names:
            variable, place = variables[name], gradients[name]
            if variable.gradient is None:
                place[...] = 0.0
            elif variable.late and variable.gradient is not place:
                copied.append((place, variable.gradient))
        if copied:
            ops.copy_all(copied)

    if on_final is None:
        with unsummed():
            yield Learned(variables, gradients, None)
        settle([name for name in gradients if name in variables])
        return
    left = {variables[name]: name for name in gradients if name in variables}
    open_names = set(left.values())

    def settle_once(names: Sequence[str]) -> None:
        open_names.difference_update(names)
        settle(names)

    def report(variable: Variable) -> None:
        if variable in left:
            variable.is_final = True
            on_final(left.pop(variable), settle_once)

    with unsummed():
        yield Learned(variables, gradients, report)
    for variable in list(left):  # parameters that took no part
        report(variable)
    settle([name for name in gradients if name in open_names])
