// Recurrent layers: LSTM, ON-LSTM and FastTrees, a block a sequence, step by step or all steps at once; Faster FastTrees
// as a linear recurrence, a thread a unit. A row of gates: [master input n | master forget n | out H | cell H | in H | forget H]; the LSTM has n = 0.
// Activations, of the same shape: the softmax of both master rows, then sigmoid, tanh, sigmoid, sigmoid.
#include "masters.cu"

#define AHEAD 4  // rows that a linear recurrence reads before it computes, to wait once for all of them

enum { OUT, CELL, IN, FORGET };

struct Unit {
    REAL x[4];            // logits or activations
    REAL rise_i, rise_f;  // of its gates: 1 - tilde i, tilde f
};

struct Gates {
    REAL tilde_i, tilde_f, overlap;
    REAL hat_i, hat_f;  // what multiplies the new cell, and the cell before
};

// Unit u, served by master gate k, of a row of logits or activations with its rises [2, n].
__device__ Unit read_unit(const REAL* row, const REAL* rises, Long u, Long k, Long n, Long H)
{
    Unit unit;
    for (int a = 0; a < 4; a++) unit.x[a] = row[2 * n + a * H + u];
    unit.rise_i = n ? rises[k] : REAL(0);
    unit.rise_f = n ? rises[n + k] : REAL(1);
    return unit;
}

// Logits become activations, which are also written.
__device__ void activate(Unit& unit, REAL* activations, Long u, Long n, Long H)
{
    for (int a = 0; a < 4; a++) {
        unit.x[a] = a == CELL ? tanh(unit.x[a]) : sigmoid(unit.x[a]);
        activations[2 * n + a * H + u] = unit.x[a];
    }
}

__device__ Gates gates_of(const Unit& unit)
{
    Gates g;
    g.tilde_i = 1 - unit.rise_i;
    g.tilde_f = unit.rise_f;
    g.overlap = g.tilde_f * g.tilde_i;
    g.hat_i = unit.x[IN] * g.overlap + (g.tilde_i - g.overlap);
    g.hat_f = unit.x[FORGET] * g.overlap + (g.tilde_f - g.overlap);
    return g;
}

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

// By one block: a step of a sequence, from its row of gates, hidden = W h of the step before, which with the bias adds
// to the last R logits, and the cell before. h also goes to state [H], for the next product. Shared: rises [2, n].
__device__ void row_forward(
    const REAL* gates, const REAL* hidden, const REAL* bias, const REAL* before,
    REAL* h, REAL* c, REAL* activations, REAL* distance, REAL* state, REAL* rises, Long n, Long H, Long R)
{
    const Long deaf = 2 * n + 4 * H - R;
    for (Long half = threadIdx.y; n && half < 2; half += blockDim.y) {
        REAL* p = activations + half * n;
        for (Long r = half * n + threadIdx.x; r < (half + 1) * n; r += 32)
            activations[r] = deaf ? gates[r] : gates[r] + (hidden[r] + bias[r]);
        warp_softmax(p, p, n);
        const REAL rest = warp_rise(p, rises + half * n, n);
        if (threadIdx.x == 0) distance[1 - half] = rest;
    }
    __syncthreads();
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < H; u += blockDim.y * 32) {
        Unit unit = read_unit(gates, rises, u, gate_of(u, n, H), n, H);
        for (int a = 0; a < 4; a++) {
            const Long r = 2 * n + a * H + u - deaf;
            unit.x[a] += hidden[r] + bias[r];
        }
        activate(unit, activations, u, n, H);
        const Gates g = gates_of(unit);
        const REAL now = g.hat_f * before[u] + g.hat_i * unit.x[CELL];
        c[u] = now;
        h[u] = state[u] = unit.x[OUT] * tanh(now);
    }
}

// Blocks: sequences that have a step t, at row starts[sequence] + t; longer sequences come first. The products of all
// of them are made between the steps: hidden [*, R] = state [*, H] W^T.
extern "C" __global__ void step_forward(
    const REAL* gates, const REAL* hidden, const REAL* bias, const REAL* c0, const Long* starts,
    REAL* h, REAL* c, REAL* activations, REAL* distance, REAL* state, Long t, Long n, Long H, Long R)
{
    DYNAMIC_SHARED(rises);
    const Long sequence = blockIdx.x, row = starts[sequence] + t, G = 2 * n + 4 * H;
    row_forward(gates + row * G, hidden + sequence * R, bias, t ? c + (row - 1) * H : c0 + sequence * H,
                h + row * H, c + row * H, activations + row * G, distance + row * 2, state + sequence * H, rises,
                n, H, R);
}

// One block a sequence walks all of its steps, products included. Shared: 2n + H + R.
extern "C" __global__ void walk_forward(
    const REAL* gates, const REAL* weight, const REAL* bias, const REAL* h0, const REAL* c0, const Long* offsets,
    REAL* h, REAL* c, REAL* activations, REAL* distance, Long n, Long H, Long R)
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
                    h + row * H, c + row * H, activations + row * G, distance + row * 2, state, rises, n, H, R);
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
        const Unit unit = read_unit(activations, rises, u, gate_of(u, n, H), n, H);
        const Gates g = gates_of(unit);
        const REAL out = unit.x[OUT], cell = unit.x[CELL], in = unit.x[IN], forget = unit.x[FORGET];
        const REAL squashed = tanh(c[u]), slope = d_hidden ? d_h[u] + d_hidden[u] : d_h[u];
        const REAL along_c = d_c[u] + slope * out * (1 - squashed * squashed);
        const REAL along_i = along_c * cell, along_f = along_c * c_before[u];
        REAL* own = d_gates + 2 * n + u;
        own[OUT * H] = slope * squashed * out * (1 - out);
        own[CELL * H] = along_c * g.hat_i * (1 - cell * cell);
        own[IN * H] = along_i * g.overlap * in * (1 - in);
        own[FORGET * H] = along_f * g.overlap * forget * (1 - forget);
        d_c[u] = along_c * g.hat_f;
        if (n) {
            const REAL along_overlap = along_i * (in - 1) + along_f * (forget - 1);
            units[u] = -(along_i + along_overlap * g.tilde_f);
            units[H + u] = along_f + along_overlap * g.tilde_i;
        }
    }
    if (n) masters_backward(activations, rises, units, d_rises, d_gates, d_gates + n, n, H);
}

// Blocks as in step_forward. d_hidden, d_c [*, H]: slopes through the step after; d_logits [*, R]: the last R of
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
        __syncthreads();
        row_backward(d_h + row * H, d_hidden, d_c, c + row * H, c_before + row * H, activations + row * G,
                     d_gates + row * G, shared, n, H);
        __syncthreads();
        block_product(transposed, d_gates + (row + 1) * G - R, d_hidden, H, R);
    }
}

// One warp a half row: the softmax of both master rows into activations, if logits are given, and the rises [N, 2, n].
__device__ void linear_half(const REAL* gates, REAL* activations, REAL* rises, REAL* distance, Long N, Long n, Long H)
{
    const Long number = (Long)blockIdx.x * blockDim.y + threadIdx.y, row = number / 2, half = number % 2;
    if (row >= N) return;
    const Long first = row * (2 * n + 4 * H) + half * n;
    if (gates) warp_softmax(gates + first, activations + first, n);
    const REAL rest = warp_rise(activations + first, rises + number * n, n);
    if (distance && threadIdx.x == 0) distance[row * 2 + 1 - half] = rest;
}

extern "C" __global__ void linear_masters(
    const REAL* gates, REAL* activations, REAL* rises, REAL* distance, Long N, Long n, Long H)
{
    linear_half(gates, activations, rises, distance, N, n, H);
}

extern "C" __global__ void linear_rises(REAL* activations, REAL* rises, Long N, Long n, Long H)
{
    linear_half(0, activations, rises, 0, N, n, H);
}

// Blocks: (sequence, part of the units). One thread a unit walks all steps.
extern "C" __global__ void linear_forward(
    const REAL* __restrict__ gates, const REAL* __restrict__ rises, const REAL* c0, const Long* offsets,
    REAL* __restrict__ h, REAL* __restrict__ c, REAL* __restrict__ activations, Long n, Long H)
{
    const Long sequence = blockIdx.x, u = (Long)blockIdx.y * blockDim.x + threadIdx.x, G = 2 * n + 4 * H;
    if (u >= H) return;
    const Long k = gate_of(u, n, H), stop = offsets[sequence + 1];
    REAL now = c0[sequence * H + u];
    for (Long first = offsets[sequence]; first < stop; first += AHEAD) {
        Unit units[AHEAD];
        for (int a = 0; a < AHEAD; a++)
            if (first + a < stop)
                units[a] = read_unit(gates + (first + a) * G, rises + (first + a) * 2 * n, u, k, n, H);
        for (int a = 0; a < AHEAD && first + a < stop; a++) {
            const Long row = first + a;
            activate(units[a], activations + row * G, u, n, H);
            const Gates g = gates_of(units[a]);
            now = g.hat_f * now + g.hat_i * units[a].x[CELL];
            c[row * H + u] = now;
            h[row * H + u] = units[a].x[OUT] * tanh(now);
        }
    }
}

// Blocks as in linear_forward, from the last step to the first: d_c [N, H], the slopes along c through later steps.
extern "C" __global__ void linear_backward(
    const REAL* __restrict__ d_h, const REAL* __restrict__ c, const REAL* __restrict__ activations,
    const REAL* __restrict__ rises, const Long* offsets, REAL* __restrict__ d_c, Long n, Long H)
{
    const Long sequence = blockIdx.x, u = (Long)blockIdx.y * blockDim.x + threadIdx.x, G = 2 * n + 4 * H;
    if (u >= H) return;
    const Long k = gate_of(u, n, H), start = offsets[sequence];
    REAL later = 0;
    for (Long last = offsets[sequence + 1] - 1; last >= start; last -= AHEAD) {
        Unit units[AHEAD];
        REAL cells[AHEAD], slopes[AHEAD];
        for (int a = 0; a < AHEAD; a++)
            if (last - a >= start) {
                units[a] = read_unit(activations + (last - a) * G, rises + (last - a) * 2 * n, u, k, n, H);
                cells[a] = c[(last - a) * H + u];
                slopes[a] = d_h[(last - a) * H + u];
            }
        for (int a = 0; a < AHEAD && last - a >= start; a++) {
            const REAL squashed = tanh(cells[a]);
            d_c[(last - a) * H + u] = later;
            later += slopes[a] * units[a].x[OUT] * (1 - squashed * squashed);
            later *= gates_of(units[a]).hat_f;
        }
    }
}

// One block a row: after linear_backward, all rows at once.
extern "C" __global__ void linear_backward_rows(
    const REAL* d_h, const REAL* c, const REAL* c_before, const REAL* activations, REAL* d_c, REAL* d_gates,
    Long n, Long H)
{
    DYNAMIC_SHARED(shared);
    const Long row = blockIdx.x, G = 2 * n + 4 * H;
    row_backward(d_h + row * H, 0, d_c + row * H, c + row * H, c_before + row * H, activations + row * G,
                 d_gates + row * G, shared, n, H);
}
