// LayerNorm, dropout and the softmax of the output layer; matrix products are the array module's.
#include "support/wide.cu"
#include "support/rows.cu"

// One warp a row.
extern "C" __global__ void layer_norm_forward(
    const REAL* x, const REAL* scale, const REAL* bias, REAL* y, REAL* means, REAL* rstds, Long N, Long d)
{
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    const int lane = threadIdx.x;
    if (row >= N) return;
    x += row * d;
    REAL sum = 0, squares = 0;
    for (Long c = lane; c < d; c += 32) sum += x[c];
    const REAL mean = warp_sum(sum) / d;
    for (Long c = lane; c < d; c += 32) squares += (x[c] - mean) * (x[c] - mean);
    const REAL rstd = 1 / sqrt(warp_sum(squares) / d + REAL(1e-5));
    for (Long c = lane; c < d; c += 32) y[row * d + c] = scale[c] * (x[c] - mean) * rstd + bias[c];
    if (lane == 0) {
        means[row] = mean;
        rstds[row] = rstd;
    }
}

// Blocks: `rows` rows. scaled = d_y * normalised x, whose column sums are the gradient of `scale`. partial [2, blocks, d]
// are the sums of the columns of scaled and d_y over these rows.
extern "C" __global__ void layer_norm_backward(
    const REAL* __restrict__ d_y, const REAL* __restrict__ x, const REAL* __restrict__ scale, const REAL* means,
    const REAL* rstds, REAL* __restrict__ d_x, REAL* __restrict__ scaled, REAL* partial, Long rows, Long N, Long d)
{
    const Long first = blockIdx.x * rows, stop = first + rows < N ? first + rows : N;
    for (Long row = first + threadIdx.y; row < stop; row += blockDim.y) {
        const REAL mean = means[row], rstd = rstds[row];
        REAL sum = 0, along = 0;
#pragma unroll 4
        for (Long c = row * d + threadIdx.x; c < (row + 1) * d; c += 32) {
            const REAL normal = (x[c] - mean) * rstd, gradient = d_y[c] * scale[c - row * d];
            scaled[c] = d_y[c] * normal;
            sum += gradient;
            along += gradient * normal;
        }
        sum = warp_sum(sum) / d;
        along = warp_sum(along) / d;
#pragma unroll 4
        for (Long c = row * d + threadIdx.x; c < (row + 1) * d; c += 32)
            d_x[c] = rstd * (d_y[c] * scale[c - row * d] - sum - (x[c] - mean) * rstd * along);
    }
    __syncthreads();
    sum_columns(scaled, partial + blockIdx.x * d, first, stop, d);
    sum_columns(d_y, partial + (gridDim.x + blockIdx.x) * d, first, stop, d);
}

// One thread 16 bytes.
extern "C" __global__ void dropout(const REAL* x, REAL* y, Long size, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long i = wide_place(x), left = size - i;
    if (left <= 0) return;
    Wide<REAL> piece = load_wide(x + i, left);
    for (int e = 0; e < WIDTH(REAL); e++) piece.x[e] *= keep(seed, threshold, kept, i + e);
    store_wide(y + i, piece, left);
}

// One block a row of logits [n, V]: lse = log sum exp(logit + bias), logp = logit + bias of the label - lse; 0 for
// the label -1.
extern "C" __global__ void label_logp(
    const REAL* logits, const REAL* bias, const int* labels, REAL* logp, REAL* lse, Long V)
{
    __shared__ REAL parts[32];
    const Long row = blockIdx.x;
    const int thread = threadIdx.y * 32 + threadIdx.x, n_threads = blockDim.y * 32;
    logits += row * V;
    REAL largest = minus_infinity(), sum = 0;
    for (Long c = thread; c < V; c += n_threads) largest = fmax(largest, logits[c] + bias[c]);
    largest = warp_max(largest);
    if (threadIdx.x == 0) parts[threadIdx.y] = largest;
    __syncthreads();
    for (int w = 0; w < blockDim.y; w++) largest = fmax(largest, parts[w]);
    __syncthreads();
    for (Long c = thread; c < V; c += n_threads) sum += exp(logits[c] + bias[c] - largest);
    sum = warp_sum(sum);
    if (threadIdx.x == 0) parts[threadIdx.y] = sum;
    __syncthreads();
    if (thread > 0) return;
    sum = 0;
    for (int w = 0; w < blockDim.y; w++) sum += parts[w];
    lse[row] = largest + log(sum);
    const int label = labels[row];
    logp[row] = label < 0 ? REAL(0) : logits[label] + bias[label] - largest - log(sum);  // - lse is not exact near 0
}

// Blocks: (row, part of the columns). Logits [n, V] become the gradients of sum(d_logp * logp).
extern "C" __global__ void label_logp_backward(
    REAL* logits, const REAL* bias, const int* labels, const REAL* lse, const REAL* d_logp, Long V)
{
    const Long row = blockIdx.x, column = (Long)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= V) return;
    const REAL probability = exp(logits[row * V + column] + bias[column] - lse[row]);
    const REAL gradient = labels[row] < 0 ? REAL(0) : d_logp[row];
    logits[row * V + column] = gradient * ((column == labels[row] ? 1 : 0) - probability);
}

// One warp a row of logits [n, V]: gains = of_label times logp of the label, plus of_others times that of all others.
extern "C" __global__ void smoothed_logp(
    const REAL* logits, const REAL* bias, const int* labels, REAL* gains, REAL* lse, Long V, REAL of_label,
    REAL of_others)
{
    const Long row = blockIdx.x, label = labels[row];
    logits += row * V;
    REAL largest = minus_infinity(), sum = 0, total = 0;
    for (Long c = threadIdx.x; c < V; c += 32) largest = fmax(largest, logits[c] + bias[c]);
    largest = warp_max(largest);
    for (Long c = threadIdx.x; c < V; c += 32) {
        const REAL below = logits[c] + bias[c] - largest;
        sum += exp(below);
        total += below;
    }
    const Long at = label < 0 ? 0 : label;  // a row without a label, which a graph reads with others, gains nothing
    const REAL log_sum = log(warp_sum(sum)), logp = logits[at] + bias[at] - largest - log_sum;
    total = warp_sum(total);
    if (threadIdx.x > 0) return;
    lse[row] = largest + log_sum;
    gains[row] = label < 0 ? REAL(0) : of_label * logp + of_others * (total - V * log_sum - logp);
}

// As label_logp_backward, of smoothed_logp.
extern "C" __global__ void smoothed_logp_backward(
    REAL* logits, const REAL* bias, const int* labels, const REAL* lse, const REAL* d_gains, Long V, REAL of_label,
    REAL of_others)
{
    const Long row = blockIdx.x, column = (Long)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= V) return;
    const REAL probability = exp(logits[row * V + column] + bias[column] - lse[row]);
    const REAL target = column == labels[row] ? of_label : of_others;
    const REAL gradient = labels[row] < 0 ? REAL(0) : d_gains[row];
    logits[row * V + column] = gradient * (target - (of_label + (V - 1) * of_others) * probability);
}
