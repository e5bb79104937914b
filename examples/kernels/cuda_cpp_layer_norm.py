"""LayerNorm in CUDA C++, with its gradient by hand.

CuPy compiles the kernels where there is a GPU. Elsewhere g++ compiles them, and they run on the CPU, thread by thread.

pip install 'grove-lm[verify]', on a GPU 'grove-lm[verify,cuda13]', and g++ without one; then in this folder:
grove verify cuda_cpp_layer_norm
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from accel.verify.cuda_host import launcher

SOURCE = r"""
#define EPSILON REAL(1e-5)

// The sum over the 32 lanes of a warp, in every lane.
__device__ REAL warp_sum(REAL x)
{
    for (int lanes = 16; lanes; lanes /= 2) x += __shfl_xor_sync(0xffffffff, x, lanes);
    return x;
}

// One warp a row x [d]: its mean, and 1 / sqrt(variance + epsilon).
__device__ void moments(const REAL* x, long long d, REAL* mean, REAL* rstd)
{
    REAL sum = 0, squares = 0;
    for (long long c = threadIdx.x; c < d; c += 32) sum += x[c];
    *mean = warp_sum(sum) / d;
    for (long long c = threadIdx.x; c < d; c += 32) squares += (x[c] - *mean) * (x[c] - *mean);
    *rstd = 1 / sqrt(warp_sum(squares) / d + EPSILON);
}

// One warp a row.
extern "C" __global__ void forward(const REAL* x, const REAL* scale, const REAL* bias, REAL* y, long long d)
{
    REAL mean, rstd;
    x += blockIdx.x * d;
    y += blockIdx.x * d;
    moments(x, d, &mean, &rstd);
    for (long long c = threadIdx.x; c < d; c += 32) y[c] = (x[c] - mean) * rstd * scale[c] + bias[c];
}

// One warp a row; scaled = d_y times the normalised row, whose column sums are the gradient of scale.
extern "C" __global__ void backward(
    const REAL* d_y, const REAL* x, const REAL* scale, REAL* d_x, REAL* scaled, long long d)
{
    REAL mean, rstd, sum = 0, along = 0;
    x += blockIdx.x * d;
    d_y += blockIdx.x * d;
    d_x += blockIdx.x * d;
    scaled += blockIdx.x * d;
    moments(x, d, &mean, &rstd);
    for (long long c = threadIdx.x; c < d; c += 32) {
        const REAL normal = (x[c] - mean) * rstd, gradient = d_y[c] * scale[c];
        scaled[c] = d_y[c] * normal;
        sum += gradient;
        along += gradient * normal;
    }
    sum = warp_sum(sum) / d;
    along = warp_sum(along) / d;
    for (long long c = threadIdx.x; c < d; c += 32)
        d_x[c] = rstd * (d_y[c] * scale[c] - sum - (x[c] - mean) * rstd * along);
}
"""
REAL = {"float32": "float", "float64": "double"}


def on_gpu() -> bool:
    if find_spec("cupy") is None:
        return False
    import cupy

    return bool(cupy.cuda.is_available())


if on_gpu():
    import cupy as xp
else:
    xp = np


@cache
def compiled(kernel: str, dtype: str) -> Any:
    options = ("--std=c++17", f"-DREAL={REAL[dtype]}")
    return xp.RawModule(code=SOURCE, options=options).get_function(kernel)


def launch(kernel: str, n_rows: int, *arguments: Any) -> None:
    """Run a kernel with one warp a row."""
    if xp is np:
        launcher.launch_text(SOURCE, kernel, (n_rows,), (32,), arguments, arguments[0].dtype)
    else:
        compiled(kernel, arguments[0].dtype.name)((n_rows,), (32,), arguments)


def layer_norm(x: Any, scale: Any, bias: Any) -> tuple[Any]:
    """Return the rows of x [N, d] at mean 0 and variance 1, times scale [d], plus bias [d]."""
    check(x, scale=scale, bias=bias)
    y = xp.empty_like(x)
    launch("forward", len(x), x, scale, bias, y, np.int64(x.shape[1]))
    return (y,)


def layer_norm_vjp(d_out: Any, outputs: tuple[Any], x: Any, scale: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Return the gradients of x, scale and bias from the gradient d_out [N, d] of the output."""
    d_x, scaled = xp.empty_like(x), xp.empty_like(x)
    launch("backward", len(x), d_out, x, scale, d_x, scaled, np.int64(x.shape[1]))
    return d_x, scaled.sum(axis=0), d_out.sum(axis=0)


def check(x: Any, **vectors: Any) -> None:
    """Raise ValueError, with the name of the vector, if a vector does not fit x."""
    for name, vector in vectors.items():
        if vector.shape != x.shape[1:]:
            raise ValueError(f"{name}: shape {vector.shape}, but the rows of x have {x.shape[1]} elements")
        if vector.dtype != x.dtype:
            raise ValueError(f"{name}: {vector.dtype}, but x is {x.dtype}")
