// Softmax within groups of rows, and their weighted sums: a block a group of few rows.
#include "support/warp.cu"

extern "C" __global__ void weighted_sum_forward(
    const REAL* scores, const REAL* __restrict__ vectors, const Long* offsets, REAL* mixed, REAL* weights, Long d)
{
    const Long begin = offsets[blockIdx.x], count = offsets[blockIdx.x + 1] - begin;
    if (threadIdx.y == 0 && count) warp_softmax(scores + begin, weights + begin, count);
    __syncthreads();
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < d; u += blockDim.y * 32) {
        REAL sum = 0;
        for (Long k = begin; k < begin + count; k++) sum += weights[k] * vectors[k * d + u];
        mixed[(Long)blockIdx.x * d + u] = sum;
    }
}

extern "C" __global__ void weighted_sum_backward(
    const REAL* d_mixed, const REAL* __restrict__ vectors, const REAL* weights, const Long* offsets,
    REAL* d_scores, REAL* d_vectors, Long d)
{
    const Long begin = offsets[blockIdx.x], end = offsets[blockIdx.x + 1];
    const REAL* gradient = d_mixed + (Long)blockIdx.x * d;
    for (Long k = begin + threadIdx.y; k < end; k += blockDim.y) {
        REAL along = 0;
        for (Long u = threadIdx.x; u < d; u += 32) {
            along += vectors[k * d + u] * gradient[u];
            d_vectors[k * d + u] = weights[k] * gradient[u];
        }
        along = warp_sum(along);
        if (threadIdx.x == 0) d_scores[k] = along;
    }
    __syncthreads();
    if (threadIdx.y > 0) return;
    REAL mean = 0;
    for (Long k = begin + threadIdx.x; k < end; k += 32) mean += weights[k] * d_scores[k];
    mean = warp_sum(mean);
    for (Long k = begin + threadIdx.x; k < end; k += 32) d_scores[k] = weights[k] * (d_scores[k] - mean);
}
