// Recurrent layers: LSTM, ON-LSTM and FastTrees, a block a sequence, step by step or all steps at once.
#include "support/cell.cu"

// By one block: y = matrix [rows, columns] times x, a warp a row.
__device__ void block_product(const REAL* matrix, const REAL* x, REAL* y, Long rows, Long columns)
{
    for (Long r = threadIdx.y; r < rows; r += blockDim.y) {
        REAL sum = 0;
        for (Long j = threadIdx.x; j < columns; j += 32) sum += matrix[r * columns + j] * x[j];
        sum = warp_sum(sum);
        if (threadIdx.x == 0) y[r] = sum;
    }
}

// Blocks: sequences that have a step t, at row starts[sequence] + t; longer sequences come first. The products of all
// of them are made between the steps: hidden [*, R] = state [*, H] W^T.
extern "C" __global__ void step_forward(
    const REAL* gates, const REAL* hidden, const REAL* bias, const REAL* c0, const Long* starts,
    REAL* h, REAL* c, REAL* activations, REAL* distance, REAL* state, Long* wrong, Long t, Long n, Long H, Long R)
{
    DYNAMIC_SHARED(rises);
    const Long sequence = blockIdx.x, row = starts[sequence] + t, G = 2 * n + 4 * H;
    row_forward(gates + row * G, hidden + sequence * R, bias, t ? c + (row - 1) * H : c0 + sequence * H,
                h + row * H, c + row * H, activations + row * G, distance + row * 2, state + sequence * H, rises,
                wrong, row, n, H, R);
}

// One block a sequence walks all of its steps, products included. Shared: 2n + H + R.
extern "C" __global__ void walk_forward(
    const REAL* gates, const REAL* weight, const REAL* bias, const REAL* h0, const REAL* c0, const Long* offsets,
    REAL* h, REAL* c, REAL* activations, REAL* distance, Long* wrong, Long n, Long H, Long R)
{
    DYNAMIC_SHARED(rises);
    const Long sequence = blockIdx.x, start = offsets[sequence], stop = offsets[sequence + 1], G = 2 * n + 4 * H;
    REAL *state = rises + 2 * n, *hidden = state + H;
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < H; u += blockDim.y * 32) state[u] = h0[sequence * H + u];
    for (Long row = start; row < stop; row++) {
        __syncthreads();
        block_product(weight, state, hidden, R, H);
        __syncthreads();
        row_forward(gates + row * G, hidden, bias, row > start ? c + (row - 1) * H : c0 + sequence * H,
                    h + row * H, c + row * H, activations + row * G, distance + row * 2, state, rises, wrong, row,
                    n, H, R);
    }
}

// Blocks as in step_forward. d_hidden, d_c [*, H]: gradients through the step after; d_logits [*, R]: the last R of
// d_gates again, for the next product.
extern "C" __global__ void step_backward(
    const REAL* d_h, const REAL* d_hidden, const REAL* c, const REAL* c_before, const REAL* activations,
    const Long* starts, REAL* d_c, REAL* d_gates, REAL* d_logits, Long t, Long n, Long H, Long R)
{
    DYNAMIC_SHARED(shared);
    const Long sequence = blockIdx.x, row = starts[sequence] + t, G = 2 * n + 4 * H;
    d_gates += row * G;
    row_backward(d_h + row * H, d_hidden + sequence * H, d_c + sequence * H, c + row * H, c_before + row * H,
                 activations + row * G, d_gates, shared, n, H);
    __syncthreads();
    for (Long r = threadIdx.y * 32 + threadIdx.x; r < R; r += blockDim.y * 32)
        d_logits[sequence * R + r] = d_gates[G - R + r];
}

// One block a sequence, from its last step to its first; transposed = W^T [H, R]. Shared: 6n + 4H.
extern "C" __global__ void walk_backward(
    const REAL* d_h, const REAL* transposed, const REAL* c, const REAL* c_before, const REAL* activations,
    const Long* offsets, REAL* d_gates, Long n, Long H, Long R)
{
    DYNAMIC_SHARED(shared);
    const Long start = offsets[blockIdx.x], stop = offsets[blockIdx.x + 1], G = 2 * n + 4 * H;
    REAL *d_hidden = shared + 6 * n + 2 * H, *d_c = d_hidden + H;
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < 2 * H; u += blockDim.y * 32) d_hidden[u] = 0;
    for (Long row = stop - 1; row >= start; row--) {
        row_backward(d_h + row * H, d_hidden, d_c, c + row * H, c_before + row * H, activations + row * G,
                     d_gates + row * G, shared, n, H);
        __syncthreads();
        block_product(transposed, d_gates + (row + 1) * G - R, d_hidden, H, R);
    }
}
