// Recurrent layers: LSTM, ON-LSTM and FastTrees step by step, a block a sequence; Faster FastTrees as a scan, a thread
// a unit. A row of gates: [master input n | master forget n | out H | cell H | in H | forget H]; the LSTM has n = 0.
// Activations, of the same shape: the softmax of both master rows, then sigmoid, tanh, sigmoid, sigmoid.
#include "masters.cu"

struct Unit {
    REAL out, cell, in, forget;       // activations
    REAL tilde_f, tilde_i, overlap;   // its chunk's master gates and their product
    REAL hat_f, hat_i;                // what multiplies the cell before, and the new cell
};

// From the activations of unit u, and the rises [2, n] of its row.
__device__ Unit read_unit(const REAL* activations, const REAL* rises, Long u, Long n, Long H)
{
    const REAL* own = activations + 2 * n + u;
    Unit x = {own[0], own[H], own[2 * H], own[3 * H], 1, 1, 1, 0, 0};
    if (n) {
        const Long k = gate_of(u, n, H);
        x.tilde_f = rises[n + k];
        x.tilde_i = 1 - rises[k];
        x.overlap = x.tilde_f * x.tilde_i;
    }
    x.hat_f = x.forget * x.overlap + (x.tilde_f - x.overlap);
    x.hat_i = x.in * x.overlap + (x.tilde_i - x.overlap);
    return x;
}

// The logits of unit u become activations.
__device__ void activate(REAL* activations, REAL out, REAL cell, REAL in, REAL forget, Long u, Long n, Long H)
{
    REAL* own = activations + 2 * n + u;
    own[0] = sigmoid(out);
    own[H] = tanh(cell);
    own[2 * H] = sigmoid(in);
    own[3 * H] = sigmoid(forget);
}

// Blocks: sequences that have a step t, at row starts[sequence] + t; longer sequences come first. hidden = h W^T [*, R]
// adds to the last R logits, with the bias; h also goes to state [*, H], the factor of the next product.
extern "C" __global__ void step_forward(
    const REAL* gates, const REAL* hidden, const REAL* bias, const REAL* c0, const Long* starts,
    REAL* h, REAL* c, REAL* activations, REAL* distance, REAL* state, Long t, Long n, Long H, Long R)
{
    DYNAMIC_SHARED(rises);
    const Long sequence = blockIdx.x, row = starts[sequence] + t, G = 2 * n + 4 * H, deaf = G - R;
    const REAL *z = gates + row * G, *before = t ? c + (row - 1) * H : c0 + sequence * H;
    hidden += sequence * R;
    activations += row * G;
    for (Long half = threadIdx.y; n && half < 2; half += blockDim.y) {
        REAL* p = activations + half * n;
        for (Long r = half * n + threadIdx.x; r < (half + 1) * n; r += 32)
            activations[r] = deaf ? z[r] : z[r] + (hidden[r] + bias[r]);
        warp_softmax(p, p, n);
        const REAL rest = warp_rise(p, rises + half * n, n);
        if (threadIdx.x == 0) distance[row * 2 + 1 - half] = rest;
    }
    __syncthreads();
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < H; u += blockDim.y * 32) {
        REAL logits[4];
        for (int i = 0; i < 4; i++) {
            const Long r = 2 * n + i * H + u;
            logits[i] = z[r] + (hidden[r - deaf] + bias[r - deaf]);
        }
        activate(activations, logits[0], logits[1], logits[2], logits[3], u, n, H);
        const Unit x = read_unit(activations, rises, u, n, H);
        const REAL now = x.hat_f * before[u] + x.hat_i * x.cell;
        c[row * H + u] = now;
        h[row * H + u] = state[sequence * H + u] = x.out * tanh(now);
    }
}

// By one block: the slopes along a row's logits, d_gates [G]. Slopes along h are the sum of d_h and, if it is not 0, of
// d_hidden. d_c: in, the slope along c through later steps; out, that along the cell before. Shared: 6n + 2H.
__device__ void row_backward(
    const REAL* d_h, const REAL* d_hidden, REAL* d_c, const REAL* c, const REAL* c_before, const REAL* activations,
    REAL* d_gates, REAL* rises, Long n, Long H)
{
    REAL *d_rises = rises + 2 * n, *units = d_rises + 2 * n;
    for (Long half = threadIdx.y; n && half < 2; half += blockDim.y)
        warp_rise(activations + half * n, rises + half * n, n);
    __syncthreads();
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < H; u += blockDim.y * 32) {
        const Unit x = read_unit(activations, rises, u, n, H);
        const REAL squashed = tanh(c[u]), slope = d_hidden ? d_h[u] + d_hidden[u] : d_h[u];
        const REAL along_c = d_c[u] + slope * x.out * (1 - squashed * squashed);
        const REAL along_f = along_c * c_before[u], along_i = along_c * x.cell;
        REAL* own = d_gates + 2 * n + u;
        own[0] = slope * squashed * x.out * (1 - x.out);
        own[H] = along_c * x.hat_i * (1 - x.cell * x.cell);
        own[2 * H] = along_i * x.overlap * x.in * (1 - x.in);
        own[3 * H] = along_f * x.overlap * x.forget * (1 - x.forget);
        d_c[u] = along_c * x.hat_f;
        if (n) {
            const REAL along_overlap = along_f * (x.forget - 1) + along_i * (x.in - 1);
            units[u] = -(along_i + along_overlap * x.tilde_f);
            units[H + u] = along_f + along_overlap * x.tilde_i;
        }
    }
    if (n) masters_backward(activations, rises, units, d_rises, d_gates, d_gates + n, n, H);
}

// Blocks as in step_forward. d_hidden, d_c [*, H]: slopes through the step after; d_logits [*, R]: the last R of
// d_gates again, the factor of the next product.
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

// One warp a half row: the softmax of both master rows into activations, if logits are given, and the rises [N, 2, n].
__device__ void scan_half(const REAL* gates, REAL* activations, REAL* rises, REAL* distance, Long N, Long n, Long H)
{
    const Long number = (Long)blockIdx.x * blockDim.y + threadIdx.y, row = number / 2, half = number % 2;
    if (row >= N) return;
    const Long first = row * (2 * n + 4 * H) + half * n;
    if (gates) warp_softmax(gates + first, activations + first, n);
    const REAL rest = warp_rise(activations + first, rises + number * n, n);
    if (distance && threadIdx.x == 0) distance[row * 2 + 1 - half] = rest;
}

extern "C" __global__ void scan_masters(
    const REAL* gates, REAL* activations, REAL* rises, REAL* distance, Long N, Long n, Long H)
{
    scan_half(gates, activations, rises, distance, N, n, H);
}

extern "C" __global__ void scan_rises(REAL* activations, REAL* rises, Long N, Long n, Long H)
{
    scan_half(0, activations, rises, 0, N, n, H);
}

// Blocks: (sequence, part of the units). One thread a unit walks all steps.
extern "C" __global__ void scan_forward(
    const REAL* __restrict__ gates, const REAL* __restrict__ rises, const REAL* c0, const Long* offsets,
    REAL* __restrict__ h, REAL* __restrict__ c, REAL* __restrict__ activations, Long n, Long H)
{
    const Long sequence = blockIdx.x, u = (Long)blockIdx.y * blockDim.x + threadIdx.x, G = 2 * n + 4 * H;
    if (u >= H) return;
    const Long stop = offsets[sequence + 1];
    REAL now = c0[sequence * H + u];
#pragma unroll 4
    for (Long row = offsets[sequence]; row < stop; row++) {
        const REAL* z = gates + row * G + 2 * n + u;
        activate(activations + row * G, z[0], z[H], z[2 * H], z[3 * H], u, n, H);
        const Unit x = read_unit(activations + row * G, rises + row * 2 * n, u, n, H);
        now = x.hat_f * now + x.hat_i * x.cell;
        c[row * H + u] = now;
        h[row * H + u] = x.out * tanh(now);
    }
}

// Blocks as in scan_forward, from the last step to the first: d_c [N, H], the slopes along c through later steps.
extern "C" __global__ void scan_backward(
    const REAL* __restrict__ d_h, const REAL* __restrict__ c, const REAL* __restrict__ activations,
    const REAL* __restrict__ rises, const Long* offsets, REAL* __restrict__ d_c, Long n, Long H)
{
    const Long sequence = blockIdx.x, u = (Long)blockIdx.y * blockDim.x + threadIdx.x, G = 2 * n + 4 * H;
    if (u >= H) return;
    const Long start = offsets[sequence];
    REAL later = 0;
#pragma unroll 4
    for (Long row = offsets[sequence + 1] - 1; row >= start; row--) {
        const Unit x = read_unit(activations + row * G, rises + row * 2 * n, u, n, H);
        const Long i = row * H + u;
        const REAL squashed = tanh(c[i]);
        d_c[i] = later;
        later = (later + d_h[i] * x.out * (1 - squashed * squashed)) * x.hat_f;
    }
}

// One block a row: after scan_backward, all rows at once.
extern "C" __global__ void scan_backward_rows(
    const REAL* d_h, const REAL* c, const REAL* c_before, const REAL* activations, REAL* d_c, REAL* d_gates,
    Long n, Long H)
{
    DYNAMIC_SHARED(shared);
    const Long row = blockIdx.x, G = 2 * n + 4 * H;
    row_backward(d_h + row * H, 0, d_c + row * H, c + row * H, c_before + row * H, activations + row * G,
                 d_gates + row * G, shared, n, H);
}
