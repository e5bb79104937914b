// Sums of columns by the block that made the rows. Of no use alone: what includes it has warp.cu before.

// By all threads of a block [., 32]: sums[c] = the sum of x[row, c] over its rows first..stop-1, for x [N, d], once all
// threads have passed a barrier since x was written.
__device__ void sum_columns(const REAL* x, REAL* sums, Long first, Long stop, Long d)
{
    for (Long c = threadIdx.y * 32 + threadIdx.x; c < d; c += 32 * blockDim.y) {
        REAL sum = 0;
#pragma unroll 4
        for (Long row = first; row < stop; row++) sum += x[row * d + c];
        sums[c] = sum;
    }
}
