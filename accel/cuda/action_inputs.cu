// What the actions of GPST's generative model read: the vector of the node before, plus that of their position.
#include "support/warp.cu"

#define ROWS const int *previous, const int *positions, Long A, Long N, Long d, Bits seed, Bits threshold, REAL kept

// One thread an element of out [A, d]; cells [*, d].
extern "C" __global__ void read_rows(
    const REAL* bos, const REAL* words, const REAL* cells, const REAL* table, REAL* out, ROWS)
{
    read_seed(seed, threshold);
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x, a = i / d, u = i % d;
    if (a >= A) return;
    const Long row = previous[a];
    const REAL x = row == 0 ? bos[u] : row <= N ? words[(row - 1) * d + u] : cells[(row - 1 - N) * d + u];
    out[i] = keep(seed, threshold, kept, i) * (x + table[positions[a] * d + u]);
}

// The gradient of one element of words [N, d], cells [C, d], bos [d] or table [P, d]: a thread each. A word or a cell
// is read by the next action, if that begins no context; the one row of all cells, if `shared`, by many. The actions at a
// position of a context lie between two words. word_starts, action_starts [R + 1] are those of contexts.
extern "C" __global__ void row_gradients(
    const REAL* d_out, const Long* word_actions, const Long* cell_actions, const Long* word_starts,
    const Long* action_starts, Long R, Long C, Long shared, Long P, REAL* d_words, REAL* d_cells, REAL* d_bos,
    REAL* d_table, ROWS)
{
    read_seed(seed, threshold);
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x, row = i / d, u = i % d;
    REAL gradient = 0;
    const auto add = [&](Long a) { gradient += keep(seed, threshold, kept, a * d + u) * d_out[a * d + u]; };
    if (row < N + C) {
        const bool is_shared = row >= N && shared;
        Long a = is_shared ? 1 : (row < N ? word_actions[row] : cell_actions[row - N]) + 1;
        const Long stop = is_shared || a >= A ? A : a + 1;
        for (; a < stop; a++)
            if (previous[a] == 1 + row) add(a);
        (row < N ? d_words : d_cells)[(row < N ? row : row - N) * d + u] = gradient;
    } else if (row == N + C) {
        for (Long r = 0; r < R; r++)
            if (action_starts[r] < action_starts[r + 1]) add(action_starts[r]);
        d_bos[u] = gradient;
    } else if (row <= N + C + P) {
        const Long position = row - N - C - 1;
        for (Long r = 0; r < R; r++) {
            const Long begin = word_starts[r], count = word_starts[r + 1] - begin;
            if (position > count || count == 0) continue;
            const Long stop = position < count ? word_actions[begin + position] + 1 : action_starts[r + 1];
            for (Long a = position ? word_actions[begin + position - 1] + 1 : action_starts[r]; a < stop; a++) add(a);
        }
        d_table[position * d + u] = gradient;
    }
}
