// Cumax, a warp a row; and the tree gate of the FastTrees Transformer, a block a row.
#include "support/masters.cu"

extern "C" __global__ void cumax_forward(const REAL* z, REAL* y, Long N, Long n)
{
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= N) return;
    warp_softmax(z + row * n, y + row * n, n);
    warp_rise(y + row * n, y + row * n, n);
}

extern "C" __global__ void cumax_backward(const REAL* d_y, const REAL* y, const REAL* z, REAL* d_z, Long N, Long n)
{
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= N) return;
    warp_softmax(z + row * n, d_z + row * n, n);
    __syncwarp();
    warp_cumax_backward(d_z + row * n, y + row * n, d_y + row * n, d_z + row * n, n);
}

// p and rises of the halves b (input) and a (forget), in shared memory [2, n] each.
__device__ void gate_masters(const REAL* a, const REAL* b, REAL* p, REAL* rises, Long n)
{
    for (Long half = threadIdx.y; half < 2; half += blockDim.y) {
        warp_softmax(half ? a : b, p + half * n, n);
        warp_rise(p + half * n, rises + half * n, n);
    }
    __syncthreads();
}

// y = x * (sigmoid(f) * (A * B) + (A - A * B)), A = cumax(a), B = 1 - cumax(b).
extern "C" __global__ void tree_gate_forward(
    const REAL* a, const REAL* b, const REAL* f, const REAL* x, REAL* y, Long n, Long d)
{
    DYNAMIC_SHARED(p);
    REAL* rises = p + 2 * n;
    const Long row = blockIdx.x;
    gate_masters(a + row * n, b + row * n, p, rises, n);
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < d; u += blockDim.y * 32) {
        const Long i = row * d + u, k = gate_of(u, n, d);
        const REAL tilde_f = rises[n + k], overlap = tilde_f * (1 - rises[k]);
        y[i] = x[i] * (sigmoid(f[i]) * overlap + (tilde_f - overlap));
    }
}

extern "C" __global__ void tree_gate_backward(
    const REAL* d_y, const REAL* a, const REAL* b, const REAL* f, const REAL* x,
    REAL* d_a, REAL* d_b, REAL* d_f, REAL* d_x, Long n, Long d)
{
    DYNAMIC_SHARED(p);
    REAL *rises = p + 2 * n, *d_rises = rises + 2 * n, *units = d_rises + 2 * n;
    const Long row = blockIdx.x;
    gate_masters(a + row * n, b + row * n, p, rises, n);
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < d; u += blockDim.y * 32) {
        const Long i = row * d + u, k = gate_of(u, n, d);
        const REAL tilde_f = rises[n + k], tilde_i = 1 - rises[k], overlap = tilde_f * tilde_i;
        const REAL open = sigmoid(f[i]), d_gate = d_y[i] * x[i];
        d_x[i] = d_y[i] * (open * overlap + (tilde_f - overlap));
        d_f[i] = d_gate * overlap * open * (1 - open);
        units[u] = -d_gate * (open - 1) * tilde_f;
        units[d + u] = d_gate * (1 + (open - 1) * tilde_i);
    }
    masters_backward(p, rises, units, d_rises, d_b + row * n, d_a + row * n, n, d);
}
