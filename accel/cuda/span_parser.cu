// All labelled trees of sentences, summed: a block a sentence, spans of one length side by side, a warp a span.
// A sentence of n words has n (n + 1) / 2 rows of scores, shorter spans first, then from the left, and a table of n n
// numbers for each of C, B, N [i, j] and R [j, i], and for the probabilities that N, R and B are used.
#include "support/warp.cu"

// exp(part - whole); 0 if the part is -inf, even if the whole is.
__device__ REAL share(REAL part, REAL whole)
{
    return part > minus_infinity() ? exp(part - whole) : REAL(0);
}

__device__ REAL log_add(REAL x, REAL y)
{
    const REAL most = fmax(x, y);
    return most > minus_infinity() ? most + log1p(exp(fmin(x, y) - most)) : most;
}

// By one warp: the logarithm of the sum of exp(left[k] + right[k]) over k < count, or of exp(right[k]) alone.
__device__ REAL warp_log_sum(const REAL* left, const REAL* right, Long count)
{
    REAL most = minus_infinity(), sum = 0;
    for (Long k = threadIdx.x; k < count; k += 32) most = fmax(most, right[k] + (left ? left[k] : REAL(0)));
    most = warp_max(most);
    for (Long k = threadIdx.x; k < count; k += 32) sum += share(right[k] + (left ? left[k] : REAL(0)), most);
    return most + log(warp_sum(sum));
}

// A warp a span: the log-sum of its labels.
extern "C" __global__ void span_labels(const REAL* __restrict__ scores, REAL* labels, Long spans, Long n_labels)
{
    const Long span = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (span >= spans) return;
    const REAL sum = warp_log_sum(nullptr, scores + span * n_labels, n_labels);
    if (threadIdx.x == 0) labels[span] = sum;
}

extern "C" __global__ void span_inside(
    const REAL* labels, const Long* offsets, const Long* begins, const Long* tables,
    REAL* all_C, REAL* all_B, REAL* all_N, REAL* all_R, REAL* logz)
{
    const Long sentence = blockIdx.x, n = offsets[sentence + 1] - offsets[sentence], table = tables[sentence];
    REAL *C = all_C + table, *B = all_B + table, *N = all_N + table, *R = all_R + table;
    const REAL* own = labels + begins[sentence];
    for (Long longer = 0; longer < n; own += n - longer, longer++) {
        for (Long i = threadIdx.y; i < n - longer; i += blockDim.y) {
            const Long j = i + longer, upper = i * n + j, lower = j * n + i;
            const REAL rows = longer ? warp_log_sum(N + i * n + i, R + j * n + i + 1, longer) : REAL(0);
            if (threadIdx.x > 0) continue;
            B[upper] = longer ? rows : minus_infinity();
            C[upper] = own[i] + rows;
            N[upper] = longer ? C[upper] : log_add(0, C[upper]);
            R[lower] = log_add(N[upper], B[upper]);
        }
        __syncthreads();
    }
    if (threadIdx.y == 0 && threadIdx.x == 0) logz[sentence] = C[n - 1];
}

// From the root down: the probability of a constituent, times the gradient of log Z, and the logarithm that gives the
// share of a label.
extern "C" __global__ void span_outside(
    const REAL* gradients, const Long* offsets, const Long* begins, const Long* tables,
    const REAL* all_C, const REAL* all_B, const REAL* all_N, const REAL* all_R, REAL* all_used,
    REAL* factors, REAL* bases)
{
    const Long sentence = blockIdx.x, n = offsets[sentence + 1] - offsets[sentence], table = tables[sentence];
    const REAL *C = all_C + table, *B = all_B + table, *N = all_N + table, *R = all_R + table;
    REAL* used = all_used + table;  // the probability of B [i, j]
    Long span = begins[sentence + 1];
    for (Long longer = n - 1; longer >= 0; longer--) {
        span -= n - longer;
        for (Long i = threadIdx.y; i < n - longer; i += blockDim.y) {
            const Long j = i + longer, upper = i * n + j, lower = j * n + i;
            REAL first = 0, rest = 0;
            for (Long m = j + 1 + threadIdx.x; m < n; m += 32)
                first += used[i * n + m] * share(N[upper] + R[m * n + j + 1], B[i * n + m]);
            for (Long m = threadIdx.x; m < i; m += 32)
                rest += used[m * n + j] * share(N[m * n + i - 1] + R[lower], B[m * n + j]);
            first = warp_sum(first);
            rest = warp_sum(rest);
            if (threadIdx.x > 0) continue;
            const REAL child = longer == n - 1 ? REAL(1) : first + rest * share(N[upper], R[lower]);
            const REAL here = longer == n - 1 ? child : child * share(C[upper], N[upper]);
            used[upper] = longer ? here + rest * share(B[upper], R[lower]) : REAL(0);
            factors[span + i] = here * gradients[sentence];
            bases[span + i] = (longer ? B[upper] : REAL(0)) - C[upper];
        }
        __syncthreads();
    }
}

// A warp a span: the marginals of its labels, times the gradient of log Z.
extern "C" __global__ void span_marginals(
    const REAL* __restrict__ scores, const REAL* factors, const REAL* bases, REAL* d_scores, Long spans, Long n_labels)
{
    const Long span = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (span >= spans) return;
    const REAL factor = factors[span], base = bases[span];
    for (Long label = span * n_labels + threadIdx.x; label < (span + 1) * n_labels; label += 32)
        d_scores[label] = factor * share(scores[label], -base);
}
