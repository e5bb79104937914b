// All steps of a recurrent layer in one cooperative launch. A block keeps rows of the weight in shared memory for all
// steps, and multiplies the hidden states of all sequences with them; all blocks wait for each other; then a block
// makes the rest of the step of a sequence, and all wait again.
#include "cell.cu"
#include "hardware.cu"

#define ROWS 4      // of the weight, that a warp multiplies at a time
#define TOGETHER 8  // sequences whose states it multiplies with them

struct Sizes { Long rows, groups, chunk; };  // of a block: its rows; warps that share them out; columns of states at once

// The state of sequence s begins at row rows[s] + t, times the pitch.
struct States {
    const REAL* x;
    const Long* rows;
    Long t, pitch;
};

// Whether a sequence, of those sorted by length, has a step t.
__device__ bool runs(const Long* offsets, const Long* order, Long sequence, Long t)
{
    return offsets[order[sequence] + 1] - offsets[order[sequence]] > t;
}

__device__ void copy_numbers(REAL* to, const REAL* from, Long count)
{
    for (Long i = threadIdx.y * 32 + threadIdx.x; i < count; i += blockDim.y * 32) to[i] = from[i];
}

// As rows [n_columns, n] the first columns of a matrix [n, width].
__device__ void copy_columns(REAL* to, const REAL* from, Long n_columns, Long n, Long width)
{
    for (Long i = threadIdx.y * 32 + threadIdx.x; i < n_columns * n; i += blockDim.y * 32)
        to[i % n_columns * n + i / n_columns] = from[i / n_columns * width + i % n_columns];
}

// Columns from.. of the states of sequences begin..stop - 1 into tile [TOGETHER, width], 0 for those that are missing.
// All numbers are on their way at once.
__device__ void load_states(REAL* tile, const States& states, Long begin, Long stop, Long from, Long width)
{
    for (Long k = threadIdx.y; k < TOGETHER; k += blockDim.y) {
        const Long s = begin + k, row = s < stop ? states.rows[s] + states.t : 0;
        const REAL* x = states.x + row * states.pitch + from;
        for (Long j = threadIdx.x; j < width; j += 32) {
            if (s < stop) copy_async(tile + k * width + j, x + j);
            else tile[k * width + j] = 0;
        }
    }
    commit_copies();
    wait_copies(0);
}

// By a block: y [s, r], at pitch y_pitch, = row r of matrix [n_rows, length] times the state of s, for all rows and for
// sequences 0..active - 1. Warps share out the rows, ROWS each, and slices of the columns, whose sums are added in order.
// Shared: tile [TOGETHER, chunk], parts [slices, groups, ROWS, TOGETHER].
__device__ void multiply_states(
    const REAL* matrix, const States& states, REAL* y, Long y_pitch, Long active, Long n_rows, Long length,
    const Sizes& sizes, REAL* tile, REAL* parts)
{
    const Long group = threadIdx.y % sizes.groups, slice = threadIdx.y / sizes.groups;
    const Long slices = blockDim.y / sizes.groups, n_parts = sizes.groups * ROWS * TOGETHER;
    for (Long begin = 0; begin < active; begin += TOGETHER)
        for (Long first = 0; first < n_rows; first += sizes.groups * ROWS) {
            REAL sums[ROWS][TOGETHER] = {};
            const REAL* row[ROWS];
            for (int a = 0; a < ROWS; a++) {
                const Long r = first + group * ROWS + a;
                row[a] = matrix + (r < n_rows ? r : n_rows - 1) * length;
            }
            for (Long from = 0; from < length; from += sizes.chunk) {
                const Long width = length - from < sizes.chunk ? length - from : sizes.chunk;
                __syncthreads();
                load_states(tile, states, begin, active, from, width);
                __syncthreads();
                for (Long j = slice * 32 + threadIdx.x; j < width; j += slices * 32) {
                    REAL x[TOGETHER];
                    for (int k = 0; k < TOGETHER; k++) x[k] = tile[k * width + j];
                    for (int a = 0; a < ROWS; a++) {
                        const REAL w = row[a][from + j];
                        for (int k = 0; k < TOGETHER; k++) sums[a][k] += w * x[k];
                    }
                }
            }
            for (int a = 0; a < ROWS; a++)
                for (int k = 0; k < TOGETHER; k++) {
                    const REAL sum = warp_sum(sums[a][k]);
                    if (threadIdx.x == 0) parts[slice * n_parts + (group * ROWS + a) * TOGETHER + k] = sum;
                }
            __syncthreads();
            for (Long i = threadIdx.y * 32 + threadIdx.x; i < n_parts; i += blockDim.y * 32) {
                const Long r = first + i / TOGETHER, s = begin + i % TOGETHER;
                if (r >= n_rows || s >= active) continue;
                REAL sum = 0;
                for (Long part = 0; part < slices; part++) sum += parts[part * n_parts + i];
                y[s * y_pitch + r] = sum;
            }
        }
}

// order, starts, and hidden [*, R] are those of sequences sorted by length; h0, c0 [*, H] are not. Shared: rises [2, n], rows of the weight [rows, H], tile, parts.
extern "C" __global__ void persistent_forward(
    const REAL* gates, const REAL* weight, const REAL* bias, const REAL* h0, const REAL* c0, const Long* offsets,
    const Long* order, const Long* starts, REAL* h, REAL* c, REAL* activations, REAL* distance, REAL* hidden,
    Long* wrong, unsigned* word,
    Long n_sequences, Long n_steps, Long n, Long H, Long R, Long rows, Long groups, Long chunk)
{
    DYNAMIC_SHARED(rises);
    const Sizes sizes = {rows, groups, chunk};
    const Long first = blockIdx.x * rows, n_rows = R - first < rows ? R - first : rows, G = 2 * n + 4 * H;
    REAL *matrix = rises + 2 * n, *tile = matrix + rows * H, *parts = tile + TOGETHER * chunk;
    copy_numbers(matrix, weight + first * H, n_rows * H);
    Long active = n_sequences;
    for (Long t = 0; t < n_steps; t++) {
        while (!runs(offsets, order, active - 1, t)) active--;
        const States before = {t ? h : h0, t ? starts : order, t ? t - 1 : 0, H};
        multiply_states(matrix, before, hidden + first, R, active, n_rows, H, sizes, tile, parts);
        grid_sync(word);
        for (Long s = blockIdx.x; s < active; s += gridDim.x) {
            const Long row = starts[s] + t;
            row_forward(gates + row * G, hidden + s * R, bias, t ? c + (row - 1) * H : c0 + order[s] * H, h + row * H,
                        c + row * H, activations + row * G, distance + row * 2, h + row * H, rises, wrong, row,
                        n, H, R);
            __syncthreads();
        }
        grid_sync(word);
    }
}

// weight [R, H], of which blocks keep columns; d_hidden and d_c [*, H]: gradients of h and c through the step after, of
// sequences sorted by length; before [N, H]: the h of the step before, for the weight's gradient. Shared: row_backward's
// 6n + 2H, then as above, for rows of R numbers.
extern "C" __global__ void persistent_backward(
    const REAL* d_h, const REAL* weight, const REAL* h, const REAL* c, const REAL* h0, const REAL* c0,
    const REAL* activations, const Long* offsets, const Long* order, const Long* starts, REAL* d_hidden, REAL* d_c,
    REAL* d_gates, REAL* before, unsigned* word,
    Long n_sequences, Long n_steps, Long n, Long H, Long R, Long rows, Long groups, Long chunk)
{
    DYNAMIC_SHARED(shared);
    const Sizes sizes = {rows, groups, chunk};
    const Long first = blockIdx.x * rows, n_rows = H - first < rows ? H - first : rows, G = 2 * n + 4 * H;
    REAL *matrix = shared + 6 * n + 2 * H, *tile = matrix + rows * R, *parts = tile + TOGETHER * chunk;
    copy_columns(matrix, weight + first, n_rows, R, H);
    Long active = 0;
    for (Long t = n_steps - 1; t >= 0; t--) {
        const Long n_after = active;
        while (active < n_sequences && runs(offsets, order, active, t)) active++;
        for (Long s = blockIdx.x; s < active; s += gridDim.x) {
            const Long row = starts[s] + t;
            const bool last = s >= n_after;  // the step is the last one of its sequence
            const REAL* c_before = t ? c + (row - 1) * H : c0 + order[s] * H;
            copy_numbers(before + row * H, t ? h + (row - 1) * H : h0 + order[s] * H, H);
            if (last)
                for (Long u = threadIdx.y * 32 + threadIdx.x; u < H; u += blockDim.y * 32) d_c[s * H + u] = 0;
            row_backward(d_h + row * H, last ? nullptr : d_hidden + s * H, d_c + s * H, c + row * H, c_before,
                         activations + row * G, d_gates + row * G, shared, n, H);
        }
        grid_sync(word);
        const States gradients = {d_gates + G - R, starts, t, G};
        if (t) multiply_states(matrix, gradients, d_hidden + first, H, active, n_rows, R, sizes, tile, parts);
        grid_sync(word);
    }
}
