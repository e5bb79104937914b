// The Gaussian error linear unit of rows plus a bias, some of whose elements are dropped; one thread an element, or, of
// the gradient, a part of a column.
#include "support/warp.cu"
#include "support/rows.cu"
#include "support/erf_gelu.cu"

// Blocks: (`rows` rows, part of the columns). One thread a column of these rows; partial [blocks of rows, f] its sums.
template <REAL derivative(REAL)> __device__ void gradients(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, REAL* partial, Long rows, Long N, Long f, Bits seed,
    Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    write_and_sum_columns(d_x, partial, rows, N, f, [&](Long i, Long column) {
        return d_y[i] * keep(seed, threshold, kept, i) * derivative(x[i] + bias[column]);
    });
}

extern "C" __global__ void bias_gelu_forward(
    const REAL* x, const REAL* bias, REAL* y, Long size, Long f, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL z = x[i] + bias[i % f];
    const REAL value = REAL(0.5) * z * (1 + tanh(REAL(SQRT_2_OVER_PI) * (z + REAL(0.044715) * z * z * z)));
    y[i] = value * keep(seed, threshold, kept, i);
}

__device__ REAL gelu_derivative(REAL z)
{
    const REAL t = tanh(REAL(SQRT_2_OVER_PI) * (z + REAL(0.044715) * z * z * z));
    const REAL derivative = REAL(SQRT_2_OVER_PI) * (1 + 3 * REAL(0.044715) * z * z);
    return REAL(0.5) * (1 + t + z * (1 - t * t) * derivative);
}

extern "C" __global__ void bias_gelu_backward(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, REAL* partial, Long rows, Long N, Long f, Bits seed,
    Bits threshold, REAL kept)
{
    gradients<gelu_derivative>(d_y, x, bias, d_x, partial, rows, N, f, seed, threshold, kept);
}

extern "C" __global__ void bias_erf_gelu_forward(
    const REAL* x, const REAL* bias, REAL* y, Long size, Long f, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    y[i] = erf_gelu(x[i] + bias[i % f]) * keep(seed, threshold, kept, i);
}

extern "C" __global__ void bias_erf_gelu_backward(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, REAL* partial, Long rows, Long N, Long f, Bits seed,
    Bits threshold, REAL kept)
{
    gradients<erf_gelu_derivative>(d_y, x, bias, d_x, partial, rows, N, f, seed, threshold, kept);
}
