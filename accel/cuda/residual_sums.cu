// Residual sums, x + dropout(y + bias), with the norm that the next sublayer reads; biases of three products.
#include "support/warp.cu"
#include "support/rows.cu"

#define DROPOUT Bits seed, Bits threshold, REAL kept

// One warp a row: out, and out normalised, scaled and shifted.
extern "C" __global__ void sum_layer_norm_forward(
    const REAL* x, const REAL* y, const REAL* bias, const REAL* scale, const REAL* shift, REAL* out, REAL* normal,
    REAL* means, REAL* rstds, Long N, Long d, DROPOUT)
{
    read_seed(seed, threshold);
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y, begin = row * d;
    if (row >= N) return;
    REAL sum = 0, squares = 0;
    for (Long c = threadIdx.x; c < d; c += 32) {
        const REAL total = x[begin + c] + keep(seed, threshold, kept, begin + c) * (y[begin + c] + bias[c]);
        out[begin + c] = total;
        sum += total;
    }
    const REAL mean = warp_sum(sum) / d;
    for (Long c = threadIdx.x; c < d; c += 32) squares += (out[begin + c] - mean) * (out[begin + c] - mean);
    const REAL rstd = 1 / sqrt(warp_sum(squares) / d + REAL(1e-5));
    for (Long c = threadIdx.x; c < d; c += 32)
        normal[begin + c] = scale[c] * (out[begin + c] - mean) * rstd + shift[c];
    if (threadIdx.x == 0) {
        means[row] = mean;
        rstds[row] = rstd;
    }
}

// Blocks: `rows` rows. d_x: the gradients of out, given ones and those of the norm; scaled = d_normal * normalised out.
// partial [3, blocks, d]: the sums of the columns of d_y, scaled and d_normal over these rows. Where nothing is dropped,
// d_y may be d_x: it is neither written nor read then.
extern "C" __global__ void sum_layer_norm_backward(
    const REAL* __restrict__ d_out, const REAL* __restrict__ d_normal, const REAL* __restrict__ out,
    const REAL* __restrict__ scale, const REAL* means, const REAL* rstds, REAL* __restrict__ d_x, REAL* __restrict__ d_y,
    REAL* __restrict__ scaled, REAL* partial, Long rows, Long N, Long d, DROPOUT)
{
    read_seed(seed, threshold);
    const Long first = blockIdx.x * rows, stop = first + rows < N ? first + rows : N;
    for (Long row = first + threadIdx.y; row < stop; row += blockDim.y) {
        const REAL mean = means[row], rstd = rstds[row];
        REAL sum = 0, along = 0;
#pragma unroll 4
        for (Long c = threadIdx.x; c < d; c += 32) {
            const Long i = row * d + c;
            const REAL unit = (out[i] - mean) * rstd, gradient = d_normal[i] * scale[c];
            scaled[i] = d_normal[i] * unit;
            sum += gradient;
            along += gradient * unit;
        }
        sum = warp_sum(sum) / d;
        along = warp_sum(along) / d;
#pragma unroll 4
        for (Long c = threadIdx.x; c < d; c += 32) {
            const Long i = row * d + c;
            const REAL gradient = d_out[i] + rstd * (d_normal[i] * scale[c] - sum - (out[i] - mean) * rstd * along);
            d_x[i] = gradient;
            if (threshold > 0) d_y[i] = gradient * keep(seed, threshold, kept, i);
        }
    }
    __syncthreads();
    sum_columns(threshold > 0 ? d_y : d_x, partial + blockIdx.x * d, first, stop, d);
    sum_columns(scaled, partial + (gridDim.x + blockIdx.x) * d, first, stop, d);
    sum_columns(d_normal, partial + (2 * gridDim.x + blockIdx.x) * d, first, stop, d);
}

// One warp a row: out = x + y, and out divided by the root of its mean square, times scale.
extern "C" __global__ void sum_rms_norm_forward(
    const REAL* x, const REAL* y, const REAL* scale, REAL* out, REAL* normal, REAL* factors, Long N, Long d)
{
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y, begin = row * d;
    if (row >= N) return;
    REAL squares = 0;
    for (Long c = threadIdx.x; c < d; c += 32) {
        const REAL total = x[begin + c] + y[begin + c];
        out[begin + c] = total;
        squares += total * total;
    }
    const REAL factor = 1 / sqrt(warp_sum(squares) / d + REAL(1e-5));
    for (Long c = threadIdx.x; c < d; c += 32) normal[begin + c] = out[begin + c] * factor * scale[c];
    if (threadIdx.x == 0) factors[row] = factor;
}

// Blocks: `rows` rows. scaled = d_normal * out * factor; partial [1, blocks, d]: the sums of its columns.
extern "C" __global__ void sum_rms_norm_backward(
    const REAL* __restrict__ d_out, const REAL* __restrict__ d_normal, const REAL* __restrict__ out,
    const REAL* __restrict__ scale, const REAL* factors, REAL* __restrict__ d_x, REAL* __restrict__ scaled, REAL* partial,
    Long rows, Long N, Long d)
{
    const Long first = blockIdx.x * rows, stop = first + rows < N ? first + rows : N;
    for (Long row = first + threadIdx.y; row < stop; row += blockDim.y) {
        const REAL factor = factors[row];
        REAL along = 0;
#pragma unroll 4
        for (Long i = row * d + threadIdx.x; i < (row + 1) * d; i += 32) {
            const REAL unit = out[i] * factor;
            scaled[i] = d_normal[i] * unit;
            along += d_normal[i] * scale[i - row * d] * unit;
        }
        along = warp_sum(along) / d;
#pragma unroll 4
        for (Long i = row * d + threadIdx.x; i < (row + 1) * d; i += 32)
            d_x[i] = d_out[i] + factor * (d_normal[i] * scale[i - row * d] - out[i] * factor * along);
    }
    __syncthreads();
    sum_columns(scaled, partial + blockIdx.x * d, first, stop, d);
}

// One thread an element of three matrices [N, d], to each of which its bias is added.
extern "C" __global__ void add_biases(
    REAL* rows0, REAL* rows1, REAL* rows2, const REAL* bias0, const REAL* bias1, const REAL* bias2, Long size, Long d)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x, which = i / size, place = i % size;
    if (which == 0) rows0[place] += bias0[place % d];
    else if (which == 1) rows1[place] += bias1[place % d];
    else if (which == 2) rows2[place] += bias2[place % d];
}
