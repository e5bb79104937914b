// Parts of a Transformer's sublayers: a rectified linear unit, and what is added to the residual, each with a bias and
// dropout. One thread an element, or, of the gradients, a part of a column.
#include "support/warp.cu"
#include "support/rows.cu"

// y = dropout(max(x + bias, 0)), of `size` elements in rows of f.
extern "C" __global__ void bias_relu_forward(
    const REAL* x, const REAL* bias, REAL* y, Long size, Long f, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL z = x[i] + bias[i % f];
    y[i] = (z < 0 ? REAL(0) : z) * keep(seed, threshold, kept, i);  // NaN stays NaN
}

// out = x + dropout(y + bias), without the bias if it is not `biased`.
extern "C" __global__ void residual_forward(
    const REAL* x, const REAL* y, const REAL* bias, REAL* out, Long size, Long d, Long biased, Bits seed,
    Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = x[i] + (biased ? y[i] + bias[i % d] : y[i]) * keep(seed, threshold, kept, i);
}

// Blocks: (`rows` rows, part of the columns). d_x: the gradients of x, where x + bias is positive; or, without x, of
// y. partial [blocks of rows, f]: the sums of the columns of d_x over these rows.
__device__ void gradients_and_sums(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, REAL* partial, Long rows, Long N, Long f, Bits seed,
    Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    write_and_sum_columns(d_x, partial, rows, N, f, [&](Long i, Long column) {
        const bool passes = !x || x[i] + bias[column] > 0;
        return passes ? d_y[i] * keep(seed, threshold, kept, i) : REAL(0);
    });
}

extern "C" __global__ void bias_relu_backward(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, REAL* partial, Long rows, Long N, Long f, Bits seed,
    Bits threshold, REAL kept)
{
    gradients_and_sums(d_y, x, bias, d_x, partial, rows, N, f, seed, threshold, kept);
}

extern "C" __global__ void residual_backward(
    const REAL* d_out, REAL* d_y, REAL* partial, Long rows, Long N, Long d, Bits seed, Bits threshold, REAL kept)
{
    gradients_and_sums(d_out, nullptr, nullptr, d_y, partial, rows, N, d, seed, threshold, kept);
}
