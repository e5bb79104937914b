"""Arrays of a backend's own library: NumPy arrays go in, NumPy arrays come out, and the autograd of PyTorch or JAX.

A backend names its library as `xp`: any module whose `asarray` takes a NumPy array, or whose `from_dlpack` does. It may
name its `device`, such as "cuda". Its arrays come back by DLPack. Both ways copy: a kernel that writes into its
arguments, or into arrays that it returned before, does not change the arrays that it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

CPU = 1  # the number of the CPU among the devices of DLPack
Arguments = tuple[list[Any], dict[str, Any]]  # those by position, and those by keyword
X64 = 'type jax.config.update("jax_enable_x64", True) at the top of the module'


class ArrayError(TypeError):
    """An array that cannot go in or come out; the message is one line that says what to type instead."""


class NoGradient(ArrayError):
    """An operation that exports no gradient, and that its library's autograd cannot differentiate."""


def to_library(x: np.ndarray, backend: Any) -> Any:
    """Return a copy of `x` as an array of the backend's library, of the same dtype, on the backend's device.

    Raises ArrayError if the library is unknown, refuses the array, or makes another dtype of it.
    """
    xp = backend.xp
    name = getattr(xp, "__name__", type(xp).__name__)
    convert = getattr(xp, "asarray", None) or getattr(xp, "from_dlpack", None)
    if convert is None:
        raise ArrayError(
            f"xp: {name} has neither asarray nor from_dlpack: name a module of arrays, such as numpy or jax.numpy"
        )
    try:
        array = convert(x.copy(), **_placed(name, backend))
    except Exception as error:
        raise ArrayError(f"xp: {name} makes no array of {x.dtype}: {' '.join(str(error).split())}") from error
    dtype = dtype_name(array)
    if dtype != x.dtype.name:
        advice = X64 if library_of(array) == "jax" else f"name a module of arrays that holds {x.dtype}"
        raise ArrayError(f"xp: {name} makes {dtype} of {x.dtype}: {advice}")
    return array


def to_numpy(x: Any, what: str = "array") -> np.ndarray:
    """Return a copy of a backend's array in NumPy, detached from the library's autograd.

    Raises ArrayError, whose message begins with `what`, if it is no array or has a dtype that NumPy lacks.
    """
    if isinstance(x, np.ndarray | np.generic):
        return np.array(x)
    if not hasattr(x, "__dlpack__"):
        raise ArrayError(f"{what} is a {type(x).__name__}: return an array of NumPy, or one with __dlpack__")
    try:
        return np.array(np.from_dlpack(_on_host(x)))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ArrayError(f"{what} of {dtype_name(x)} cannot become an array of NumPy: {reason}") from error


def memory_of(x: Any) -> np.ndarray | None:
    """Return an array of NumPy in the memory of `x`; None if it is not the CPU's, or not one that NumPy can show."""
    if isinstance(x, np.ndarray):
        return x
    if library_of(x) == "jax" or not hasattr(x, "__dlpack_device__") or x.__dlpack_device__()[0] != CPU:
        return None
    try:
        return np.from_dlpack(_on_host(x))
    except (BufferError, RuntimeError, TypeError, ValueError):  # `to_numpy` says why
        return None


def check_library(backend: Any) -> None:
    """Raise ArrayError unless float64 and int64 go into the backend's library and come back."""
    for x in (np.array([1 / 3]), np.array([2**40])):
        if (to_numpy(to_library(x, backend)) != x).any():
            raise ArrayError(f"xp: {backend.xp.__name__} changes numbers of {x.dtype}")


def has_autograd(backend: Any) -> bool:
    """Return whether the backend's library differentiates functions itself: PyTorch or JAX."""
    return library_of(to_library(np.zeros(1), backend)) in ("torch", "jax")


def autograd_vjp(
    function: Callable[..., Sequence[Any]], calls: Sequence[Arguments], wanted: Sequence[int], d_out: Any
) -> tuple[Any, ...] | None:
    """Return the gradients of <d_out, function(...)[0]> for the first call's arguments at the places `wanted`.

    The other calls come between the first one and its gradient. None if the library's autograd cannot see into the
    function: the backend must then export a gradient.
    """
    vjp_of_library = _torch_vjp if library_of(d_out) == "torch" else _jax_vjp
    return vjp_of_library(function, calls, wanted, d_out)


def _torch_vjp(
    function: Callable[..., Any], calls: Sequence[Arguments], indices: Sequence[int], d_out: Any
) -> tuple[Any, ...] | None:
    import torch

    leaves, *_ = [[arguments[i].requires_grad_() for i in indices] for arguments, _ in calls]
    out, *_ = [function(*arguments, **options)[0] for arguments, options in calls]
    if not out.requires_grad:
        return None
    # an argument that the output does not depend on has a gradient of zeros
    gradients: tuple[Any, ...] = torch.autograd.grad(out, leaves, d_out, allow_unused=True, materialize_grads=True)
    return gradients


def _jax_vjp(
    function: Callable[..., Any], calls: Sequence[Arguments], indices: Sequence[int], d_out: Any
) -> tuple[Any, ...] | None:
    import jax

    (arguments, options), *others = calls

    def of_wanted(*values: Any) -> Any:
        tracers = dict(zip(indices, values, strict=True))
        return function(*(tracers.get(i, x) for i, x in enumerate(arguments)), **options)[0]

    try:
        _, vjp = jax.vjp(of_wanted, *(arguments[i] for i in indices))
    except jax.errors.TracerArrayConversionError:
        return None
    for other_arguments, other_options in others:
        function(*other_arguments, **other_options)
    gradients: tuple[Any, ...] = vjp(d_out)
    return gradients


def library_of(array: Any) -> str:
    """Return the name of the package that an array comes from: "numpy", "cupy", "torch", "jax" or another."""
    name = type(array).__module__.partition(".")[0]
    return "jax" if name == "jaxlib" else name


def dtype_name(array: Any) -> str:
    """Return the name of an array's dtype, such as "float64" for torch.float64; for a list, "a list"."""
    return str(array.dtype).rpartition(".")[2] if hasattr(array, "dtype") else f"a {type(array).__name__}"


def _placed(name: str, backend: Any) -> dict[str, Any]:
    """Return the keyword that puts an array on the device that the backend names, if it names one."""
    device = getattr(backend, "device", None)
    if device is None or isinstance(device, ModuleType) or name == "cupy":  # CuPy's arrays are always on the GPU
        return {}
    if name == "jax.numpy" and isinstance(device, str):
        import jax

        return {"device": jax.devices(device)[0]}
    return {"device": device}


def _on_host(x: Any) -> Any:
    """Return the array in the memory of the CPU, detached from PyTorch's autograd."""
    library = library_of(x)
    if library == "torch":
        return x.detach().cpu()
    if library == "cupy":
        return x.get()
    if x.__dlpack_device__()[0] == CPU:
        return x
    if library == "jax":
        import jax

        return jax.device_get(x)
    return x.to_device("cpu")
