// The sum of the terms of a loss, and the slopes of all terms.
#include "support/warp.cu"

#define WARPS 32  // as in loss_terms.py
#define TERMS                                                                                                         \
    const REAL *x0, REAL *slopes0, Long size0, Long sign0, Long count0, const REAL *x1, REAL *slopes1, Long size1,    \
        Long sign1, Long count1, const REAL *x2, REAL *slopes2, Long size2, Long sign2, Long count2, const REAL *x3,  \
        REAL *slopes3, Long size3, Long sign3, Long count3, const REAL *x4, REAL *slopes4, Long size4, Long sign4,    \
        Long count4, const REAL *x5, REAL *slopes5, Long size5, Long sign5, Long count5

// By one block: x[0] + x[1] + ..., added up by each warp, and then by one thread in a fixed order.
__device__ double block_sum(const REAL* x, Long size, double* sums)
{
    double sum = 0;
    for (Long i = threadIdx.y * 32 + threadIdx.x; i < size; i += WARPS * 32) sum += x[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, step);
    __syncthreads();
    if (threadIdx.x == 0) sums[threadIdx.y] = sum;
    __syncthreads();
    sum = 0;
    for (int warp = 0; warp < WARPS; warp++) sum += sums[warp];
    return sum;
}

// total: labels times the sum of sign / count times the sum of each x; the slope of every term of x is labels sign / count.
extern "C" __global__ void weigh_terms(TERMS, Long labels, double* total)
{
    __shared__ double sums[WARPS];
    const REAL* x[6] = {x0, x1, x2, x3, x4, x5};
    REAL* slopes[6] = {slopes0, slopes1, slopes2, slopes3, slopes4, slopes5};
    const Long sizes[6] = {size0, size1, size2, size3, size4, size5}, signs[6] = {sign0, sign1, sign2, sign3, sign4, sign5};
    const Long counts[6] = {count0, count1, count2, count3, count4, count5};
    double all = 0;
#pragma unroll
    for (int k = 0; k < 6; k++) {
        const double factor = (double)labels / counts[k] * signs[k];
        for (Long i = threadIdx.y * 32 + threadIdx.x; i < sizes[k]; i += WARPS * 32) slopes[k][i] = REAL(factor);
        all += factor * block_sum(x[k], sizes[k], sums);
    }
    if (threadIdx.x + threadIdx.y == 0) *total = all;
}
