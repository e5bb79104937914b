"""Adam on the GPU, in place; a thread for 16 bytes of each vector."""

from __future__ import annotations

from accel.cuda import device
from accel.cuda.device import Array
from accel.cuda.support import check

THREADS = 256
SUMMING_BLOCKS = 256


def adam(
    parameters: Array, gradients: Array, first: Array, second: Array, *,
    rate: float | Array, beta1: float, beta2: float, epsilon: float, step: int, scale: float | Array,
) -> None:  # fmt: skip
    """Update parameters, first and second moment in place (Kingma and Ba 2015, Algorithm 1); all [n], of one dtype.

    The gradient is first multiplied by `scale`, a number or an array without axes; `step` counts from 1. For graphs,
    `rate` may be an array [3] float64: the rate, and what `corrections` returns for the step. Raises ValueError naming
    the argument that does not fit.
    """
    arrays = {"parameters": parameters, "gradients": gradients, "first": first, "second": second}
    check.floats(**arrays)
    for name, array in arrays.items():
        check.shape(name, array, parameters.size)
        if not array.flags.c_contiguous:
            raise ValueError(f"{name}: not contiguous, and it is to be updated in place")
    if step < 1:
        raise ValueError(f"step: {step} is not 1 or more")
    xp, dtype = device.xp(), parameters.dtype
    scale = xp.full(1, scale, dtype) if isinstance(scale, int | float) else scale.astype(dtype, copy=False).reshape(1)
    args = (parameters, gradients, first, second, scale, parameters.size, *map(float, (beta1, beta2, epsilon)))
    if isinstance(rate, xp.ndarray):
        check.shape("rate", rate, 3)
        kernel, of_step = "adam_of_step", (rate,)
    else:
        kernel, of_step = "adam", (float(rate), *corrections(beta1, beta2, step))
    device.launch("optimizer", kernel, device.wide_grid(parameters, THREADS), (THREADS,), (*args, *of_step), dtype)


def corrections(beta1: float, beta2: float, step: int) -> tuple[float, float]:
    """Return the factors by which Adam corrects the bias of both moments at a step."""
    return 1 / (1 - beta1**step), 1 / (1 - beta2**step)


def clipped(gradient: Array, n_labels: float | Array, clip_norm: float | None) -> tuple[Array, Array]:
    """Return the norm of the mean gradient over labels, and the factor that turns a summed gradient into the mean.

    gradient: flat, summed over the labels, of which there are `n_labels`, a number or a float64 array without axes. The
    factor, of the gradient's dtype, also limits the norm to about `clip_norm`, None for no limit; the norm is float64.
    Both are arrays without axes. Extra memory: 16 kB.
    """
    xp, dtype = device.xp(), gradient.dtype
    blocks = max(1, min(SUMMING_BLOCKS, -(-gradient.size // THREADS)))
    sums, norm, factor = xp.empty(blocks * THREADS // 32), xp.empty(1), xp.empty(1, dtype)
    device.launch("optimizer", "squares", (blocks,), (THREADS,), (gradient, sums, gradient.size), dtype)
    labels = (-1.0, n_labels) if isinstance(n_labels, xp.ndarray) else (float(n_labels), sums)
    args = (sums, sums.size, *labels, -1.0 if clip_norm is None else float(clip_norm), norm, factor)
    device.launch("optimizer", "clip", (1,), (32,), args, dtype)
    return norm[0], factor[0]
