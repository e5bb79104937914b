// The end of a sublayer: x + dropout(y + bias), normalised, scaled and shifted; one warp a row.
#include "support/warp.cu"
#include "support/rows.cu"

extern "C" __global__ void residual_layer_norm_forward(
    const REAL* __restrict__ x, const REAL* __restrict__ y, const REAL* __restrict__ bias,
    const REAL* __restrict__ scale, const REAL* __restrict__ shift, REAL* out, REAL* means, REAL* rstds, Long N, Long d,
    Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y, begin = row * d;
    if (row >= N) return;
    out += begin;
    REAL sum = 0, squares = 0;
#pragma unroll 4
    for (Long c = threadIdx.x; c < d; c += 32) {
        out[c] = x[begin + c] + keep(seed, threshold, kept, begin + c) * (y[begin + c] + bias[c]);
        sum += out[c];
    }
    const REAL mean = warp_sum(sum) / d;
    for (Long c = threadIdx.x; c < d; c += 32) squares += (out[c] - mean) * (out[c] - mean);
    const REAL rstd = 1 / sqrt(warp_sum(squares) / d + REAL(1e-5));
    for (Long c = threadIdx.x; c < d; c += 32) out[c] = scale[c] * (out[c] - mean) * rstd + shift[c];
    if (threadIdx.x == 0) {
        means[row] = mean;
        rstds[row] = rstd;
    }
}

// Blocks: `rows` rows. scaled = d_out * normalised sum, whose column sums are the gradient of `scale`. Where nothing is
// dropped, d_y may be d_x: it is neither written nor read then. partial [3, blocks, d] are the sums of the columns of d_y,
// scaled and d_out over these rows.
extern "C" __global__ void residual_layer_norm_backward(
    const REAL* __restrict__ d_out, const REAL* __restrict__ x, const REAL* __restrict__ y,
    const REAL* __restrict__ bias, const REAL* __restrict__ scale, const REAL* means, const REAL* rstds,
    REAL* __restrict__ d_x, REAL* __restrict__ d_y, REAL* __restrict__ scaled, REAL* partial, Long rows, Long N, Long d,
    Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long first = blockIdx.x * rows, stop = first + rows < N ? first + rows : N;
    for (Long row = first + threadIdx.y; row < stop; row += blockDim.y) {
        const Long begin = row * d;
        const REAL mean = means[row], rstd = rstds[row];
        REAL sum = 0, along = 0;
#pragma unroll 4
        for (Long c = threadIdx.x; c < d; c += 32) {
            const Long i = begin + c;
            const REAL normal = (x[i] + keep(seed, threshold, kept, i) * (y[i] + bias[c]) - mean) * rstd;
            const REAL gradient = d_out[i] * scale[c];
            d_x[i] = normal;
            scaled[i] = d_out[i] * normal;
            sum += gradient;
            along += gradient * normal;
        }
        sum = warp_sum(sum) / d;
        along = warp_sum(along) / d;
#pragma unroll 4
        for (Long c = threadIdx.x; c < d; c += 32) {
            const Long i = begin + c;
            const REAL gradient = rstd * (d_out[i] * scale[c] - sum - d_x[i] * along);
            d_x[i] = gradient;
            if (threshold > 0) d_y[i] = gradient * keep(seed, threshold, kept, i);
        }
    }
    __syncthreads();
    sum_columns(threshold > 0 ? d_y : d_x, partial + blockIdx.x * d, first, stop, d);
    sum_columns(scaled, partial + (gridDim.x + blockIdx.x) * d, first, stop, d);
    sum_columns(d_out, partial + (2 * gridDim.x + blockIdx.x) * d, first, stop, d);
}
