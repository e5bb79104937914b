// Charts of phrases, height by height; a block a node, its warps side by side along the d numbers of a vector.
// A sentence has its nodes and its pairs row by row, and its place among the sentences sorted by length, longest first.
// Nodes that have a parent also have a row in height order, starts[h - 1] and further for those of h tokens: the
// longer sentences come first, so these are the first of their height. Such a child has two products, [R, 2, d] and
// their scores [R, 2]: as the left part of a phrase, and as the right part.
#include "support/warp.cu"

struct Sentence {
    Long first, n, token, node, pair;  // among all tokens as sorted; length; among all tokens, nodes and pairs as given
};

struct Node {
    Sentence sentence;
    Long number, start;  // of the sentence as sorted; first token in it
};

// Node `number` among those of h tokens, which `active` sentences have.
__device__ Node find_node(const Long* sentences, Long active, Long h, Long number)
{
    const Sentence* all = (const Sentence*)sentences;
    Long low = 0, high = active;
    while (high - low > 1) {
        const Long middle = (low + high) / 2;
        if (all[middle].first - middle * (h - 1) <= number) low = middle;
        else high = middle;
    }
    return {all[low], low, number - all[low].first + low * (h - 1)};
}

// The row in height order of the child of h tokens at `start` in the node's sentence.
__device__ Long child_row(const Node& node, const Long* starts, Long h, Long start)
{
    return starts[h - 1] + node.sentence.first - node.number * (h - 1) + start;
}

// Where the node of h tokens at `start` stands among all nodes, and its first pair among all pairs.
__device__ Long node_row(const Sentence& sentence, Long h, Long start)
{
    return sentence.node + (h - 1) * sentence.n - (h - 1) * (h - 2) / 2 + start;
}

__device__ Long first_pair(const Sentence& sentence, Long h, Long start)
{
    const Long sum = (h - 1) * (h - 2) / 2;
    return sentence.pair + sum * sentence.n - sum * (2 * h - 3) / 3 + start * (h - 1);
}

// Blocks: nodes of h tokens, of which the first n_read have a parent and go to rows [R, d], too. The highest left
// child and the highest right child of a node had no parent on that side before: their scores are computed here.
extern "C" __global__ void pool_forward(
    const REAL* tokens, const REAL* __restrict__ products, const REAL* direction, const Long* sentences,
    const Long* starts, REAL* nodes, REAL* weights, REAL* rows, REAL* scores, Long active, Long h, Long n_read, Long d)
{
    const Node node = find_node(sentences, active, h, blockIdx.x);
    const Long thread = threadIdx.y * 32 + threadIdx.x, threads = blockDim.y * 32;
    REAL* p = weights + first_pair(node.sentence, h, node.start);
    for (Long side = threadIdx.y; h > 1 && side < 2; side += blockDim.y) {
        const Long place = 2 * child_row(node, starts, h - 1, node.start + side) + side;
        REAL score = 0;
        for (Long u = threadIdx.x; u < d; u += 32) score += products[place * d + u] * direction[u];
        score = warp_sum(score);
        if (threadIdx.x == 0) scores[place] = score;
    }
    __syncthreads();
    if (threadIdx.y == 0) {
        for (Long m = 1 + threadIdx.x; m < h; m += 32)
            p[m - 1] = scores[2 * child_row(node, starts, m, node.start)]
                + scores[2 * child_row(node, starts, h - m, node.start + m) + 1];
        warp_softmax(p, p, h - 1);
    }
    __syncthreads();
    REAL sums[CHUNKS];
    for (int c = 0; c < CHUNKS; c++) {
        const Long u = thread + c * threads;
        sums[c] = h == 1 && u < d ? tokens[(node.sentence.token + node.start) * d + u] : REAL(0);
    }
    for (Long m = 1; m < h; m++) {
        const REAL weight = p[m - 1];
        const REAL* left = products + 2 * child_row(node, starts, m, node.start) * d;
        const REAL* right = products + (2 * child_row(node, starts, h - m, node.start + m) + 1) * d;
        for (int c = 0; c < CHUNKS; c++) {
            const Long u = thread + c * threads;
            if (u < d) sums[c] += weight * (left[u] + right[u]);
        }
    }
    const Long row = node_row(node.sentence, h, node.start);
    for (int c = 0; c < CHUNKS; c++) {
        const Long u = thread + c * threads;
        if (u >= d) continue;
        nodes[row * d + u] = sums[c];
        if (blockIdx.x < n_read) rows[(starts[h - 1] + blockIdx.x) * d + u] = sums[c];
    }
}

// Blocks: nodes of h tokens that have a parent. The slopes along their products, and, sums [R, 2], along their
// scores, from those of all parents, which have up to `most` tokens. Shared: 4 (most - h).
extern "C" __global__ void gather_backward(
    const REAL* __restrict__ slopes, const REAL* weights, const REAL* d_scores, const REAL* direction,
    const Long* sentences, const Long* starts, REAL* d_products, REAL* sums, Long active, Long h, Long most, Long d)
{
    DYNAMIC_SHARED(shared);
    const Node node = find_node(sentences, active, h, blockIdx.x);
    const Long thread = threadIdx.y * 32 + threadIdx.x, threads = blockDim.y * 32, place = 2 * (starts[h - 1] + blockIdx.x);
    const Long n = node.sentence.n, start = node.start;
    for (int side = 0; side < 2; side++) {
        const Long room = side ? start : n - start - h;  // how much longer than the child a parent can be
        const Long count = room < most - h ? room : most - h;
        REAL *p = shared + 2 * side * (most - h), *d_score = p + (most - h);
        for (Long k = thread; k < count; k += threads) {
            const Long parent = h + 1 + k, split = side ? k : h - 1;
            const Long pair = first_pair(node.sentence, parent, side ? start - 1 - k : start) + split;
            p[k] = weights[pair];
            d_score[k] = d_scores[pair];
        }
        __syncthreads();
        REAL total = 0, gathered[CHUNKS];
        for (int c = 0; c < CHUNKS; c++) gathered[c] = 0;
        Long row = node_row(node.sentence, h + 1, start - side);
        for (Long k = 0; k < count; k++) {
            total += d_score[k];
            for (int c = 0; c < CHUNKS; c++) {
                const Long u = thread + c * threads;
                if (u < d) gathered[c] += p[k] * slopes[row * d + u];
            }
            row += n - h - k - side;  // of the parent that is one token longer
        }
        for (int c = 0; c < CHUNKS; c++) {
            const Long u = thread + c * threads;
            if (u < d) d_products[(place + side) * d + u] = gathered[c] + total * direction[u];
        }
        if (thread == 0) sums[place + side] = total;
    }
}

// Blocks as in pool_forward. To the slopes along the nodes add those through their own parents, [n_read, d]; then those
// along the scores of their pairs, d_scores, or, of nodes of one token, along the tokens.
extern "C" __global__ void pool_backward(
    const REAL* through, const REAL* __restrict__ products, const REAL* weights, const Long* sentences,
    const Long* starts, REAL* slopes, REAL* d_scores, REAL* d_tokens, Long active, Long h, Long n_read, Long d)
{
    const Node node = find_node(sentences, active, h, blockIdx.x);
    const Long thread = threadIdx.y * 32 + threadIdx.x, threads = blockDim.y * 32;
    REAL* slope = slopes + node_row(node.sentence, h, node.start) * d;
    for (Long u = thread; u < d; u += threads) {
        if (blockIdx.x < n_read) slope[u] += through[(Long)blockIdx.x * d + u];
        if (h == 1) d_tokens[(node.sentence.token + node.start) * d + u] = slope[u];
    }
    __syncthreads();
    const Long pair = first_pair(node.sentence, h, node.start);
    for (Long m = 1 + threadIdx.y; m < h; m += blockDim.y) {
        const REAL* left = products + 2 * child_row(node, starts, m, node.start) * d;
        const REAL* right = products + (2 * child_row(node, starts, h - m, node.start + m) + 1) * d;
        REAL sum = 0;
        for (Long u = threadIdx.x; u < d; u += 32) sum += (left[u] + right[u]) * slope[u];
        sum = warp_sum(sum);
        if (threadIdx.x == 0) d_scores[pair + m - 1] = sum;
    }
    __syncthreads();
    if (threadIdx.y > 0) return;
    REAL mean = 0;
    for (Long k = threadIdx.x; k < h - 1; k += 32) mean += weights[pair + k] * d_scores[pair + k];
    mean = warp_sum(mean);
    for (Long k = threadIdx.x; k < h - 1; k += 32) d_scores[pair + k] = weights[pair + k] * (d_scores[pair + k] - mean);
}
