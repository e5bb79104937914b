"""Variables: arrays and the gradients that a backward pass sums for them.

The gradient of a parameter is added into a buffer that the caller hands over, as a rule a named view of one flat
vector. The first contribution overwrites the buffer, so that it need not be filled with zeros.
"""

from __future__ import annotations

from typing import Any

from accel.autodiff.arrays import Array


class Variable:
    """An array and, while the backward pass runs, the gradient of the loss with respect to it."""

    __slots__ = ("value", "gradient", "buffer", "owned", "needs_gradient", "late", "is_final", "waits")

    def __init__(self, value: Array, *, buffer: Array | None = None, needs_gradient: bool = True) -> None:
        self.value = value
        self.buffer = buffer  # receives the gradient of a parameter
        self.gradient: Array | None = None
        self.owned = False  # whether `gradient` may be changed in place
        self.needs_gradient = needs_gradient
        self.late = False  # whether `learned` copies the gradient into the buffer later, together with others
        self.is_final = False  # whether the gradient was reported as final: it may not change any more
        self.waits = False  # whether a backward pass that keeps the record skips its entry, for the last pass to run

    def accumulate(self, gradient: Array, owned: bool = True) -> None:
        """Add a contribution to the gradient; `owned` says that nobody else reads the array `gradient`."""
        if not self.needs_gradient:
            return
        self.require_open()
        is_late = self.late and self.gradient is None and gradient.shape == self.buffer.shape
        self.gradient, gradient = summed(self.gradient), gradient if is_late else summed(gradient)
        if self.gradient is None and self.buffer is not None and not is_late:
            if gradient is not self.buffer:
                self.buffer[...] = gradient
            self.gradient, self.owned = self.buffer, True
        elif self.gradient is None:
            self.gradient, self.owned = gradient, owned
        elif self.owned:
            self.gradient += gradient
        else:
            self.gradient, self.owned = self.gradient + gradient, True

    def place(self) -> Array | None:
        """Return the buffer if the caller may write the first contribution into it, then accumulate it; else None."""
        return None if self.gradient is not None or self.is_final or not self.needs_gradient else self.buffer

    def require_open(self) -> None:
        """Raise RuntimeError if the gradient is already final: an entry that adds to it did not name the variable."""
        if self.is_final:
            raise RuntimeError(f"a gradient {self.value.shape} changed after it was final: name its variable in record")


def summed(gradient: Any) -> Array:
    """Return a gradient as an array; an `accel.cuda.support.columns.Unsummed` is summed now, others are unchanged."""
    return gradient.summed() if hasattr(gradient, "summed") else gradient


def constant(value: Array) -> Variable:
    """Return a variable without a gradient."""
    return Variable(value, needs_gradient=False)
