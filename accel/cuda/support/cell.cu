// A step of the cells of LSTM, ON-LSTM and FastTrees: what recurrence.cu, persistent.cu and linear_recurrence.cu share.
// A row of gates: [master input n | master forget n | out H | cell H | in H | forget H]; the LSTM has n = 0.
// Activations, of the same shape: the softmax of both master rows, then sigmoid, tanh, sigmoid, sigmoid.
#include "masters.cu"

enum { OUT, CELL, IN, FORGET };

struct Unit {
    REAL x[4];            // logits or activations
    REAL rise_i, rise_f;  // of its gates: 1 - tilde i, tilde f
};

struct Gates {
    REAL tilde_i, tilde_f, overlap;
    REAL hat_i, hat_f;  // factors of the new cell and of the cell before
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

// Turns logits into activations, and writes them.
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

__device__ bool not_finite(REAL x)
{
    return x - x != 0;
}

// Lowers `first` to the number of a row, if something in it is wrong.
__device__ void note_row(bool is_wrong, Long row, Long* first)
{
    if (is_wrong) atomicMin(first, row);
}

// By one block: a step of a sequence, from its row of gates, hidden = W h of the step before, which with the bias adds
// to the last R logits, and the cell before. h also goes to state [H], for the next product. wrong [2]: the first rows
// of gates and of h that are not finite, of which this one has the number `row`. Shared: rises [2, n].
__device__ void row_forward(
    const REAL* gates, const REAL* hidden, const REAL* bias, const REAL* before,
    REAL* h, REAL* c, REAL* activations, REAL* distance, REAL* state, REAL* rises, Long* wrong, Long row,
    Long n, Long H, Long R)
{
    const Long deaf = 2 * n + 4 * H - R;
    bool wrong_gates = false, wrong_h = false;
    for (Long half = threadIdx.y; n && half < 2; half += blockDim.y) {
        REAL* p = activations + half * n;
        for (Long r = half * n + threadIdx.x; r < (half + 1) * n; r += 32) {
            wrong_gates |= not_finite(gates[r]);
            activations[r] = deaf ? gates[r] : gates[r] + (hidden[r] + bias[r]);
        }
        warp_softmax(p, p, n);
        const REAL rest = warp_rise(p, rises + half * n, n);
        if (threadIdx.x == 0) distance[1 - half] = rest;
    }
    __syncthreads();
    for (Long u = threadIdx.y * 32 + threadIdx.x; u < H; u += blockDim.y * 32) {
        Unit unit = read_unit(gates, rises, u, gate_of(u, n, H), n, H);
        for (int a = 0; a < 4; a++) {
            const Long r = 2 * n + a * H + u - deaf;
            wrong_gates |= not_finite(unit.x[a]);
            unit.x[a] += hidden[r] + bias[r];
        }
        activate(unit, activations, u, n, H);
        const Gates g = gates_of(unit);
        const REAL now = g.hat_f * before[u] + g.hat_i * unit.x[CELL];
        c[u] = now;
        const REAL shown = unit.x[OUT] * tanh(now);
        h[u] = state[u] = shown;
        wrong_h |= not_finite(shown);
    }
    note_row(wrong_gates, row, wrong);
    note_row(wrong_h, row, wrong + 1);
}

// By one block: the gradients of a row's logits, d_gates [G]. Gradients of h are the sum of d_h and, if it is not 0, of
// d_hidden. d_c: in, the gradient of c through later steps; out, that of the cell before. Shared: 6n + 2H.
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
        const REAL squashed = tanh(c[u]), gradient = d_hidden ? d_h[u] + d_hidden[u] : d_h[u];
        const REAL along_c = d_c[u] + gradient * out * (1 - squashed * squashed);
        const REAL along_i = along_c * cell, along_f = along_c * c_before[u];
        REAL* own = d_gates + 2 * n + u;
        own[OUT * H] = gradient * squashed * out * (1 - out);
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
