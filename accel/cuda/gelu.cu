// The Gaussian error linear unit of rows plus a bias, some of whose elements are dropped; one thread an element, or, of
// the gradient, a part of a column.
#include "support/warp.cu"
#include "support/rows.cu"

#define SQRT_2_OVER_PI 0.79788456080286535588
#define SQRT_HALF 0.70710678118654752440

// Blocks: (`rows` rows, part of the columns). One thread a column of these rows; partial [blocks of rows, f] its sums.
template <REAL slope_of(REAL)> __device__ void slopes(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, REAL* partial, Long rows, Long N, Long f, Bits seed,
    Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    write_and_sum_columns(d_x, partial, rows, N, f, [&](Long i, Long column) {
        return d_y[i] * keep(seed, threshold, kept, i) * slope_of(x[i] + bias[column]);
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

__device__ REAL slope_of_gelu(REAL z)
{
    const REAL t = tanh(REAL(SQRT_2_OVER_PI) * (z + REAL(0.044715) * z * z * z));
    const REAL slope = REAL(SQRT_2_OVER_PI) * (1 + 3 * REAL(0.044715) * z * z);
    return REAL(0.5) * (1 + t + z * (1 - t * t) * slope);
}

extern "C" __global__ void bias_gelu_backward(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, REAL* partial, Long rows, Long N, Long f, Bits seed,
    Bits threshold, REAL kept)
{
    slopes<slope_of_gelu>(d_y, x, bias, d_x, partial, rows, N, f, seed, threshold, kept);
}

// z Phi(z), the normal distribution written with erfc, which keeps its small values.
extern "C" __global__ void bias_erf_gelu_forward(
    const REAL* x, const REAL* bias, REAL* y, Long size, Long f, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL z = x[i] + bias[i % f];
    y[i] = REAL(0.5) * z * erfc(-z * REAL(SQRT_HALF)) * keep(seed, threshold, kept, i);
}

__device__ REAL slope_of_erf_gelu(REAL z)
{
    const REAL density = REAL(0.5) * REAL(SQRT_2_OVER_PI) * exp(-z * z * REAL(0.5));
    return REAL(0.5) * erfc(-z * REAL(SQRT_HALF)) + z * density;
}

extern "C" __global__ void bias_erf_gelu_backward(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, REAL* partial, Long rows, Long N, Long f, Bits seed,
    Bits threshold, REAL kept)
{
    slopes<slope_of_erf_gelu>(d_y, x, bias, d_x, partial, rows, N, f, seed, threshold, kept);
}
