"""Functions that kernels call, compiled without an entry point from Python and without a stored file of their own.

Numba makes both for every function that it compiles, although the code of a function that a kernel calls becomes a
part of the kernel. They would take a fifth of the time of the first step on a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba.core.registry import CPUDispatcher


class InnerKernel(CPUDispatcher):
    """A function that kernels call. If Python calls it, it runs `compiled`, a kernel that the first such call makes."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], kernel: Callable[..., Any]) -> None:
        super().__init__(function, targetoptions={**options, "nopython": True, "no_cpython_wrapper": True})
        self._kernel = kernel

    @cached_property
    def compiled(self) -> Any:
        return self._kernel(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)
