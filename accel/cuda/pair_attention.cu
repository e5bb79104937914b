// Attention of two rows to each other and themselves, and residual norms.
#include "support/warp.cu"

// One warp for a head of a pair: its rows hold queries, keys and values [2 P, 3, H, D], with a bias for their role.
// The weight of the pair's first row is a sigmoid of the query's product with the difference of both keys.
extern "C" __global__ void pair_attention_forward(
    const REAL* __restrict__ x, const REAL* __restrict__ bias, const int* roles, REAL* out, REAL* weights,
    Long pairs, Long H, Long D, REAL factor, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long unit = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (unit >= pairs * H) return;
    const Long first = 2 * (unit / H), h = unit % H, d = H * D;
    const REAL* row[2] = {x + first * 3 * d + h * D, x + (first + 1) * 3 * d + h * D};
    const REAL* add[2] = {bias + roles[first] * 3 * d + h * D, bias + roles[first + 1] * 3 * d + h * D};
    REAL score[2] = {0, 0};
    for (Long a = threadIdx.x; a < D; a += 32) {
        const REAL key = (row[0][d + a] + add[0][d + a]) - (row[1][d + a] + add[1][d + a]);
        for (int half = 0; half < 2; half++) score[half] += (row[half][a] + add[half][a]) * key;
    }
    for (int half = 0; half < 2; half++) {
        const Long i = first + half, number = 2 * i * H + h;
        const REAL s = factor * warp_sum(score[half]), u = 1 / (1 + exp(-s)), v = 1 / (1 + exp(s));
        const REAL own = u * keep(seed, threshold, kept, number), other = v * keep(seed, threshold, kept, number + H);
        for (Long a = threadIdx.x; a < D; a += 32)
            out[i * d + h * D + a] = own * (row[0][2 * d + a] + add[0][2 * d + a])
                                   + other * (row[1][2 * d + a] + add[1][2 * d + a]);
        if (threadIdx.x == 0) {
            weights[i * 2 * H + h] = u;
            weights[i * 2 * H + H + h] = v;
        }
    }
}

extern "C" __global__ void pair_attention_backward(
    const REAL* __restrict__ d_out, const REAL* __restrict__ x, const REAL* __restrict__ bias, const int* roles,
    const REAL* weights, REAL* d_x, Long pairs, Long H, Long D, REAL factor, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long unit = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (unit >= pairs * H) return;
    const Long first = 2 * (unit / H), h = unit % H, d = H * D;
    const REAL* row[2] = {x + first * 3 * d + h * D, x + (first + 1) * 3 * d + h * D};
    const REAL* add[2] = {bias + roles[first] * 3 * d + h * D, bias + roles[first + 1] * 3 * d + h * D};
    const REAL* gradient[2] = {d_out + first * d + h * D, d_out + (first + 1) * d + h * D};
    REAL* d_row[2] = {d_x + first * 3 * d + h * D, d_x + (first + 1) * 3 * d + h * D};
    REAL along[2], share[2][2];  // the gradient of each row's score, and its weights after dropout
    for (int half = 0; half < 2; half++) {
        const Long i = first + half, number = 2 * i * H + h;
        const REAL multiplier[2] = {keep(seed, threshold, kept, number), keep(seed, threshold, kept, number + H)};
        REAL difference = 0;
        for (Long a = threadIdx.x; a < D; a += 32)
            difference += gradient[half][a] * (multiplier[0] * (row[0][2 * d + a] + add[0][2 * d + a])
                                          - multiplier[1] * (row[1][2 * d + a] + add[1][2 * d + a]));
        const REAL u = weights[i * 2 * H + h], v = weights[i * 2 * H + H + h];
        along[half] = u * v * factor * warp_sum(difference);
        share[half][0] = u * multiplier[0];
        share[half][1] = v * multiplier[1];
    }
    for (Long a = threadIdx.x; a < D; a += 32) {
        const REAL key = (row[0][d + a] + add[0][d + a]) - (row[1][d + a] + add[1][d + a]);
        REAL d_key = 0;
        for (int half = 0; half < 2; half++) {
            d_row[half][a] = along[half] * key;
            d_key += along[half] * (row[half][a] + add[half][a]);
            d_row[half][2 * d + a] = share[0][half] * gradient[0][a] + share[1][half] * gradient[1][a];
        }
        d_row[0][d + a] = d_key;
        d_row[1][d + a] = -d_key;
    }
}

// One warp a row: x + dropout(y + bias), normalised.
extern "C" __global__ void residual_norm_forward(
    const REAL* x, const REAL* y, const REAL* bias, REAL* out, REAL* rstds, Long N, Long d,
    Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y, begin = row * d;
    if (row >= N) return;
    REAL sum = 0, squares = 0;
    for (Long c = threadIdx.x; c < d; c += 32) {
        out[begin + c] = x[begin + c] + keep(seed, threshold, kept, begin + c) * (y[begin + c] + bias[c]);
        sum += out[begin + c];
    }
    const REAL mean = warp_sum(sum) / d;
    for (Long c = threadIdx.x; c < d; c += 32) squares += (out[begin + c] - mean) * (out[begin + c] - mean);
    const REAL rstd = 1 / sqrt(warp_sum(squares) / d + REAL(1e-5));
    for (Long c = threadIdx.x; c < d; c += 32) out[begin + c] = (out[begin + c] - mean) * rstd;
    if (threadIdx.x == 0) rstds[row] = rstd;
}

// d_y may be d_x where nothing is dropped.
extern "C" __global__ void residual_norm_backward(
    const REAL* d_out, const REAL* normal, const REAL* rstds, REAL* d_x, REAL* d_y, Long N, Long d,
    Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y, begin = row * d;
    if (row >= N) return;
    REAL sum = 0, along = 0;
    for (Long c = begin + threadIdx.x; c < begin + d; c += 32) {
        sum += d_out[c];
        along += d_out[c] * normal[c];
    }
    sum = warp_sum(sum) / d;
    along = warp_sum(along) / d;
    for (Long c = begin + threadIdx.x; c < begin + d; c += 32) {
        const REAL gradient = rstds[row] * (d_out[c] - sum - normal[c] * along);
        d_x[c] = gradient;
        if (threshold > 0) d_y[c] = gradient * keep(seed, threshold, kept, c);
    }
}
