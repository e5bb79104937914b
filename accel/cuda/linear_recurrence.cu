// Faster FastTrees as a linear recurrence: a warp for the master gates of a row, then a thread a unit.
#include "support/cell.cu"

#define AHEAD 4  // rows that a thread reads before it computes, to wait once for all of them

// One warp a half row: the softmax of both master rows into activations, if logits are given, and the rises [N, 2, n].
// wrong [2]: as in row_forward.
__device__ void linear_half(
    const REAL* gates, REAL* activations, REAL* rises, REAL* distance, Long* wrong, Long N, Long n, Long H)
{
    const Long number = (Long)blockIdx.x * blockDim.y + threadIdx.y, row = number / 2, half = number % 2;
    if (row >= N) return;
    const Long first = row * (2 * n + 4 * H) + half * n;
    bool wrong_gates = false;
    for (Long r = threadIdx.x; gates && r < n; r += 32) wrong_gates |= not_finite(gates[first + r]);
    note_row(wrong_gates, row, wrong);
    if (gates) warp_softmax(gates + first, activations + first, n);
    const REAL rest = warp_rise(activations + first, rises + number * n, n);
    if (distance && threadIdx.x == 0) distance[row * 2 + 1 - half] = rest;
}

extern "C" __global__ void linear_masters(
    const REAL* gates, REAL* activations, REAL* rises, REAL* distance, Long* wrong, Long N, Long n, Long H)
{
    linear_half(gates, activations, rises, distance, wrong, N, n, H);
}

extern "C" __global__ void linear_rises(REAL* activations, REAL* rises, Long N, Long n, Long H)
{
    linear_half(0, activations, rises, 0, 0, N, n, H);
}

// Blocks: (sequence, part of the units). One thread a unit walks all steps.
extern "C" __global__ void linear_forward(
    const REAL* __restrict__ gates, const REAL* __restrict__ rises, const REAL* c0, const Long* offsets,
    REAL* __restrict__ h, REAL* __restrict__ c, REAL* __restrict__ activations, Long* wrong, Long n, Long H)
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
            bool wrong_gates = false;
            for (int b = 0; b < 4; b++) wrong_gates |= not_finite(units[a].x[b]);
            note_row(wrong_gates, row, wrong);
            activate(units[a], activations + row * G, u, n, H);
            const Gates g = gates_of(units[a]);
            now = g.hat_f * now + g.hat_i * units[a].x[CELL];
            c[row * H + u] = now;
            const REAL shown = units[a].x[OUT] * tanh(now);
            h[row * H + u] = shown;
            note_row(not_finite(shown), row, wrong + 1);
        }
    }
}

// Blocks as in linear_forward, from the last step to the first: d_c [N, H], the gradients of c through later steps.
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
        REAL cells[AHEAD], gradients[AHEAD];
        for (int a = 0; a < AHEAD; a++)
            if (last - a >= start) {
                units[a] = read_unit(activations + (last - a) * G, rises + (last - a) * 2 * n, u, k, n, H);
                cells[a] = c[(last - a) * H + u];
                gradients[a] = d_h[(last - a) * H + u];
            }
        for (int a = 0; a < AHEAD && last - a >= start; a++) {
            const REAL squashed = tanh(cells[a]);
            d_c[(last - a) * H + u] = later;
            later += gradients[a] * units[a].x[OUT] * (1 - squashed * squashed);
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
