"""Recomputation saves memory: layers are computed again in the backward pass. And the bytes that a tape keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from accel.autodiff.arrays import Array
from accel.autodiff.layers import DropoutSites
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable


def recomputed(layer: Callable[..., Any], f: Any, *arguments: Any) -> Any:
    """Return `layer(f, *arguments)`: a variable, or a tuple of a variable and arrays that need no gradient.

    If the tape of `f` recomputes layers, it keeps no array from inside the layer. The backward pass computes the layer
    again, with the same draws of dropout, and adds to the gradients in the same order: they are the same bit for bit.
    `f` is a dataclass with the fields `tape` and `sites`; one of the arguments is a variable that needs a gradient.
    """
    if not (f.tape.recompute and f.tape.recording):
        return layer(f, *arguments)
    seed, first = f.sites.seed, f.sites.count
    inner = Tape(f.tape.ops, recording=False, on_op=f.tape.on_op)
    result = layer(replace(f, tape=inner), *arguments)
    output, *others = result if isinstance(result, tuple) else (result,)

    def backward(d_out: Array) -> None:
        tape = Tape(f.tape.ops)
        again = layer(replace(f, tape=tape, sites=DropoutSites(seed, first)), *arguments)
        tape.backward(again[0] if isinstance(again, tuple) else again, d_out)

    f.tape.note_readers(inner.first_readers)
    inputs = [*(x for x in arguments if isinstance(x, Variable)), *inner.first_readers]
    variable = f.tape.record(output.value, inputs, backward)
    return (variable, *others) if others else variable


def saved_bytes(tape: Tape, without: Sequence[Array] = ()) -> int:
    """Return the bytes of all arrays that a tape keeps for its backward pass.

    Arrays in `without`, such as the vector of all parameters, and their views are not counted.
    """
    agenda: list[Any] = [backward for _, backward in tape.entries]
    seen_ids = {id(array) for array in without}
    total = 0
    while agenda:
        item = agenda.pop()
        if id(item) in seen_ids:
            continue
        seen_ids.add(id(item))
        if isinstance(item, Variable):
            agenda += [] if item.buffer is not None else [item.value]
        elif isinstance(item, tuple | list):
            agenda += item
        elif getattr(item, "base", None) is not None:  # a view keeps its base in memory
            agenda.append(item.base)
        elif hasattr(item, "nbytes"):
            total += item.nbytes
        else:
            agenda += [cell.cell_contents for cell in getattr(item, "__closure__", None) or ()]
    return total
