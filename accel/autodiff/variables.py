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
        self.late = False  # whether `learned` copies the gradient into the buffer, with others
        self.is_final = False  # whether the gradient is with those who wait for it, and may not change any more
        self.waits = False  # whether its entry waits, while a record is kept, for the last pass, which adds up both

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
        """Return the buffer if the first contribution may be written there, and is then to be accumulated; or None."""
        return None if self.gradient is not None or self.is_final or not self.needs_gradient else self.buffer

    def require_open(self) -> None:
        """Raise RuntimeError if the gradient was final before: an entry that adds to it did not name the variable."""
        if self.is_final:
            raise RuntimeError(f"a gradient {self.value.shape} changed after it was final: name its variable in record")


def summed(gradient: Any) -> Array:
    """Return a gradient that a GPU has not yet summed, an `accel.cuda.support.columns.Unsummed`, as an array."""
    return gradient.summed() if hasattr(gradient, "summed") else gradient


def constant(value: Array) -> Variable:
    """Return a variable without a gradient."""
    return Variable(value, needs_gradient=False)
