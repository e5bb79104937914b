// Master gates: what cumax.cu and cell.cu share.
// A row has two halves, input first: p = softmax of the logits [2, n], rises = running sums of p [2, n]; with them
// tilde i = 1 - the rise of the input, and tilde f = the rise of the forget half. Each gate serves H / n units.
#include "warp.cu"

__device__ REAL sigmoid(REAL z)
{
    return 1 / (1 + exp(-z));
}

// The gate of unit u, when n of them serve H units; 0 if there is none.
__device__ Long gate_of(Long u, Long n, Long H)
{
    return n ? (int)u / ((int)H / (int)n) : 0;
}

// The sum of x over this lane and the lanes before it.
__device__ REAL warp_scan(REAL x)
{
    for (int step = 1; step < 32; step *= 2) {
        const REAL before = __shfl_up_sync(ALL_LANES, x, step);
        if (threadIdx.x >= step) x += before;
    }
    return x;
}

// By one warp: y[k] = p[0] + ... + p[k], both [n], in lanes as warp_softmax; they may be the same array. Returns the mean
// of 1 - y.
__device__ REAL warp_rise(const REAL* p, REAL* y, Long n)
{
    REAL carry = 0, rest = 0;
    for (Long first = 0; first < n; first += 32) {
        const Long k = first + threadIdx.x;
        const REAL sum = carry + warp_scan(k < n ? p[k] : REAL(0));
        if (k < n) {
            y[k] = sum;
            rest += 1 - sum;
        }
        carry = __shfl_sync(ALL_LANES, sum, 31);
    }
    return warp_sum(rest) / n;
}

// By one warp: the gradients of the logits of y = cumax of them, p = softmax of them; d_z and p may be the same array.
__device__ void warp_cumax_backward(const REAL* p, const REAL* y, const REAL* d_y, REAL* d_z, Long n)
{
    REAL mean = 0, carry = 0;  // mean: of the gradients of p, under p
    for (Long k = threadIdx.x; k < n; k += 32) mean += d_y[k] * y[k];
    mean = warp_sum(mean);
    for (Long last = n - 1; last >= 0; last -= 32) {
        const Long k = last - threadIdx.x;
        const REAL gradient = carry + warp_scan(k >= 0 ? d_y[k] : REAL(0));
        if (k >= 0) d_z[k] = p[k] * (gradient - mean);
        carry = __shfl_sync(ALL_LANES, gradient, 31);
    }
}

// By one block: the gradients of the logits of both halves, d_z[half] [n], from the gradients of the rises of every
// unit, units [2, H]. Work space d_rises [2, n].
__device__ void masters_backward(
    const REAL* p, const REAL* rises, const REAL* units, REAL* d_rises, REAL* d_input, REAL* d_forget, Long n, Long H)
{
    __syncthreads();
    const Long chunk = H / n;
    for (Long k = threadIdx.y * 32 + threadIdx.x; k < 2 * n; k += blockDim.y * 32) {
        REAL sum = 0;
        for (Long u = 0; u < chunk; u++) sum += units[k * chunk + u];
        d_rises[k] = sum;
    }
    __syncthreads();
    for (Long half = threadIdx.y; half < 2; half += blockDim.y)
        warp_cumax_backward(p + half * n, rises + half * n, d_rises + half * n, half ? d_forget : d_input, n);
}
