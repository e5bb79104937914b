"""What a kernel of an operation takes, returns and must refuse; and the arguments of a saved input."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

import numpy as np

import accel.ref
from accel.verify.errors import changes, quoted
from accel.verify.op import Case, Op, example_case
from accel.verify.sizes import axes

INDENT = "  "


def description(op: Op) -> str:
    """Return the signature, an example batch, the outputs, the gradient and the declared errors, in one screen."""
    function = getattr(accel.ref, op.name)
    case = example_case(op)
    right = op.batched(case)
    names = ", ".join([name for name in right if name not in op.options] + ["*"][: len(op.options)] + list(op.options))
    lines = [
        f"{op.name}{_signature(function)}  # {op.clause}, specs page {op.stem}",
        *(f"{INDENT}{line.strip()}" for line in (inspect.getdoc(function) or "").splitlines() if line.strip()),
        f"arguments, for a batch of {len(case.examples)} examples:",
        *(f"{INDENT}{name}: {_kind(x)}" for name, x in right.items()),
        "outputs, always a tuple:",
        *(f"{INDENT}{_kind(x)}" for x in op.call(accel.ref, right)),
    ]
    if op.diff:
        lines += [
            f"{op.name}_vjp(d_out, outputs, {names}), with d_out the gradient of the first output, returns:",
            f"{INDENT}the gradients of ({', '.join(op.diff)}{',' if len(op.diff) == 1 else ''})",
        ]
    lines += [f"axes whose sizes `tiles` may name: {', '.join(axes(op))}"]
    lines += ["bad arguments, each refused by a ValueError of one line with these words:"]
    lines += [f"{INDENT}{changes(right, spoiler(right))}: {quoted(words.split('|'))}" for words, spoiler in op.errors]
    return "\n".join(lines)


def listing(ops: Collection[Op]) -> str:
    """Return a line for every operation, with its clause and the page of the clause."""
    width = max(len(op.name) for op in ops)
    return "\n".join(f"{op.name:{width}}  {op.clause}, specs page {op.stem}" for op in ops)


def arguments(op: Op, drawn: dict[str, Any]) -> str:
    """Return the arguments of the kernel for what a check has drawn, and what else was drawn, one a line.

    For a check of errors these are the bad arguments; for a check that changes the batch, those before the change.
    """
    lines = []
    for label, value in drawn.items():
        if isinstance(value, Case):
            batch = op.batched(value)
            if "number" in drawn:
                batch = op.errors[drawn["number"]][1](batch)
            lines += [f"{INDENT}{name}: {_kind(x)}{_values(x)}" for name, x in batch.items()]
        else:
            lines.append(f"{INDENT}{label}: {value}")
    return "\n".join(lines)


def _signature(function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(plain))


def _kind(x: Any) -> str:
    return f"{x.dtype} {list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)


def _values(x: Any) -> str:
    if not isinstance(x, np.ndarray):
        return ""
    text = np.array2string(x, max_line_width=100, threshold=60, separator=", ")
    return f" = {text}" if "\n" not in text else "\n" + "\n".join(f"{2 * INDENT}{line}" for line in text.splitlines())
