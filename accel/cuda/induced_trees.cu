// The trees that split every cell where its score is highest, their actions, and the losses of a parser and of heights.
// A sentence of n words has n - 1 points between words, and its tree as many cells, each split at one of them: what is
// known of a cell is kept by its point.
#include "support/warp.cu"

#define THREAD (threadIdx.y * 32 + threadIdx.x)
#define THREADS (blockDim.y * 32)

// The split of a cell: its highest score, the first of equals; one inside of a word only if there are no others.
__device__ Long best_split(
    const REAL* scores, const int* left, const int* last_words, const int* begins_word, Long with_atoms, Long begin,
    Long end)
{
    Long best = begin;
    bool cuts_best = with_atoms && !begins_word[last_words[left[begin]] + 1];
    for (Long p = begin + 1; p < end; p++) {
        const bool cuts = with_atoms && !begins_word[last_words[left[p]] + 1];
        if (cuts == cuts_best ? scores[p] > scores[best] : cuts_best) {
            best = p;
            cuts_best = cuts;
        }
    }
    return best;
}

// A block a sentence. nodes [2 N - B]: those of the trees in post-order; by point the first point of its cell, the point
// after its last one, and the point of the cell above, or -1. Of every action [2 N - B] its type, 1 where a word comes;
// the row that it reads, 0 for the first of a context, 1 + word, or 1 + N + cell (1 + N if not `numbered`); the words
// before it in its context. Of every word and cell its action, of every cell its node. stack [4 N].
extern "C" __global__ void induce_trees(
    const REAL* scores, const Long* split_offsets, const int* left, const int* right, Long M, const int* first_words,
    const int* last_words, const int* roots, const int* begins_word, Long with_atoms, const Long* offsets, Long B,
    const Long* contexts, Long R, Long numbered, int* stack, int* nodes, Long* begins, Long* ends, Long* above,
    int* types, int* previous, int* positions, Long* word_actions, Long* cell_actions, Long* composed)
{
    const Long b = blockIdx.x, N = offsets[B], start = offsets[b], n = offsets[b + 1] - start, first = 2 * start - b;
    if (THREAD == 0) {
        int* top = stack + 4 * start;
        Long action = first + 2 * n - 1, size = 1;  // the last of all nodes comes first: a cell, its right, its left part
        top[0] = roots[b];
        top[1] = -1;
        while (size > 0 && action > first) {
            size--;
            const int node = top[2 * size], parent = top[2 * size + 1];
            nodes[--action] = node;
            if (node < N) continue;
            const Long split = best_split(scores, left, last_words, begins_word, with_atoms, split_offsets[node - N],
                                          split_offsets[node - N + 1]);
            const Long point = last_words[left[split]] - b;
            begins[point] = first_words[node] - b;
            ends[point] = last_words[node] - b;
            above[point] = parent;
            top[2 * size] = left[split];
            top[2 * size + 2] = right[split] % M;
            top[2 * size + 1] = top[2 * size + 3] = point;
            size += 2;
        }
    }
    __syncthreads();
    const Long context = find_part(contexts, R, b), context_start = offsets[contexts[context]];
    for (Long a = THREAD; a < 2 * n - 1; a += THREADS) {
        const Long node = nodes[first + a], words = node < N ? node - start : last_words[node] + 1 - start;
        const Long before = a ? nodes[first + a - 1] : -1, cell = start - b + a - words;
        types[first + a] = node < N;
        positions[first + a] = start + words - context_start;
        if (node < N) word_actions[node] = first + a;
        else {
            cell_actions[cell] = first + a;
            composed[cell] = node;
        }
        // the node before is of this sentence, or the last one of the sentence before, where all cells so far are done
        Long row = 0;
        if (a > 0) row = before < N ? 1 + before : 1 + N + (numbered ? start - b + a - 1 - (last_words[before] + 1 - start) : 0);
        else if (start > context_start)
            row = offsets[b] - offsets[b - 1] == 1 ? start : 1 + N + (numbered ? start - b - 1 : 0);
        previous[first + a] = row;
    }
}

// -log of the softmax at every point among the points of its cell; a warp a point. logs [2, S]: the largest score of the
// cell, and the log of the sum of exp(score - largest).
extern "C" __global__ void split_loss_forward(
    const REAL* scores, const Long* begins, const Long* ends, REAL* losses, REAL* logs, Long S)
{
    const Long point = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (point >= S) return;
    REAL largest = minus_infinity(), sum = 0;
    for (Long i = begins[point] + threadIdx.x; i < ends[point]; i += 32) largest = fmax(largest, scores[i]);
    largest = warp_max(largest);
    for (Long i = begins[point] + threadIdx.x; i < ends[point]; i += 32) sum += exp(scores[i] - largest);
    sum = log(warp_sum(sum));
    if (threadIdx.x > 0) return;
    losses[point] = sum + (largest - scores[point]);
    logs[point] = largest;
    logs[S + point] = sum;
}

// One thread a point: it is in its own cell and in all above.
extern "C" __global__ void split_loss_backward(
    const REAL* d_losses, const REAL* scores, const REAL* logs, const Long* above, REAL* d_scores, Long S)
{
    const Long point = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (point >= S) return;
    REAL gradient = -d_losses[point];
    for (Long cell = point; cell >= 0; cell = above[cell])
        gradient += d_losses[cell] * exp(scores[point] - logs[cell] - logs[S + cell]);
    d_scores[point] = gradient;
}

// Of every sentence the height of its root over the threshold, divided by its words, or, if `excess`, by those over the
// threshold, at least 1.
__device__ REAL height_factor(Long n, Long excess, REAL threshold)
{
    return 1 / (excess ? fmax(REAL(n) - threshold, REAL(1)) : REAL(n));
}

extern "C" __global__ void excess_forward(
    const REAL* heights, const int* roots, const Long* offsets, REAL* out, Long B, Long excess, REAL threshold)
{
    const Long b = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    const REAL factor = height_factor(offsets[b + 1] - offsets[b], excess, threshold);
    out[b] = fmax(heights[roots[b]] - threshold, REAL(0)) * factor;
}

// d_heights [M] is 0 before.
extern "C" __global__ void excess_backward(
    const REAL* d_out, const REAL* heights, const int* roots, const Long* offsets, REAL* d_heights, Long B,
    Long excess, REAL threshold)
{
    const Long b = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B || heights[roots[b]] <= threshold) return;
    d_heights[roots[b]] = d_out[b] * height_factor(offsets[b + 1] - offsets[b], excess, threshold);
}
