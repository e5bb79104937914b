// Charts of phrases, height by height; a block a node, its warps side by side along the d numbers of a vector.
// chart_tokens.cu has the nodes of one token. A node that has a parent has two products, [2, R, d], and their scores
// [2, R]: as the left part of a phrase, and as the right part.
#include "support/warp.cu"
#include "support/chart_places.cu"

// Blocks: nodes of h > 1 tokens, of which the first n_read have a parent and go to rows [R, d], too. The highest left
// child and the highest right child of a node had no parent on that side before: their scores are computed here.
// Lowers the second number of `first` to that of the first node with a NaN or an infinity.
extern "C" __global__ void pool_forward(
    const REAL* __restrict__ products, const REAL* direction, const Long* sentences, const Long* starts, REAL* nodes,
    REAL* weights, REAL* rows, REAL* scores, Long* first, Long active, Long h, Long n_read, Long R, Long d)
{
    const Node node = find_node(sentences, active, h, blockIdx.x);
    const Long thread = threadIdx.y * 32 + threadIdx.x, threads = blockDim.y * 32;
    REAL* p = weights + first_pair(node.sentence, h, node.start);
    for (Long side = threadIdx.y; side < 2; side += blockDim.y) {
        const Long place = side * R + child_row(node, starts, h - 1, node.start + side);
        REAL score = 0;
        for (Long u = threadIdx.x; u < d; u += 32) score += products[place * d + u] * direction[u];
        score = warp_sum(score);
        if (threadIdx.x == 0) scores[place] = score;
    }
    __syncthreads();
    if (threadIdx.y == 0) {
        for (Long m = 1 + threadIdx.x; m < h; m += 32)
            p[m - 1] = scores[child_row(node, starts, m, node.start)]
                + scores[R + child_row(node, starts, h - m, node.start + m)];
        warp_softmax(p, p, h - 1);
    }
    __syncthreads();
    REAL sums[CHUNKS];
    for (int c = 0; c < CHUNKS; c++) sums[c] = 0;
    for (Long m = 1; m < h; m++) {
        const REAL weight = p[m - 1];
        const REAL* left = products + child_row(node, starts, m, node.start) * d;
        const REAL* right = products + (R + child_row(node, starts, h - m, node.start + m)) * d;
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
        if (sums[c] - sums[c] != 0) atomicMin(first + 1, row);
    }
}

// By one warp: the gradient of the score of a pair of the weight p. The mean over the splits, which the softmax takes
// off, is the product with the node itself.
__device__ REAL score_gradient(
    REAL p, const REAL* left, const REAL* right, const REAL* node, const Gradient& gradient, Long d)
{
    REAL sum = 0;
    for (Long u = threadIdx.x; u < d; u += 32) sum += (left[u] + right[u] - node[u]) * at(gradient, u);
    return p * warp_sum(sum);
}

// What the blocks of pool_backward share.
struct Charts {
    const REAL *d_nodes, *nodes, *left, *right, *products, *weights;  // left, right [n_through, d]
    const Long *sentences, *starts;
    REAL *gradients, *d_scores;
    Long active, n_through, R, d;
};

// By a block: the gradients of node `number` of those of h tokens, with what goes through its parents, and of the
// scores of its pairs.
__device__ void finish_node(const Charts& charts, Long h, Long number)
{
    const Node node = find_node(charts.sentences, charts.active, h, number);
    const Long thread = threadIdx.y * 32 + threadIdx.x, threads = blockDim.y * 32, d = charts.d;
    const Long row = node_row(node.sentence, h, node.start), pair = first_pair(node.sentence, h, node.start);
    const Gradient whole = gradient_of(charts.d_nodes, charts.left, charts.right, row, number, charts.n_through, d);
    REAL* gradient = charts.gradients + row * d;
    for (Long u = thread; u < d; u += threads) gradient[u] = at(whole, u);
    __syncthreads();
    for (Long m = 1 + threadIdx.y; m < h; m += blockDim.y) {
        const REAL* left = charts.products + child_row(node, charts.starts, m, node.start) * d;
        const REAL* right = charts.products + (charts.R + child_row(node, charts.starts, h - m, node.start + m)) * d;
        const Gradient finished = {gradient, nullptr, nullptr};
        const REAL* own = charts.nodes + row * d;
        const REAL along = score_gradient(charts.weights[pair + m - 1], left, right, own, finished, d);
        if (threadIdx.x == 0) charts.d_scores[pair + m - 1] = along;
    }
}

// By a block: the gradients of the products of child `number` of those of h tokens and, sums [2, R], of their scores,
// from those of all parents, which have up to `most` tokens. Those of h + 1 tokens are not finished by now.
__device__ void gather_child(
    const Charts& charts, const REAL* direction, REAL* d_products, REAL* sums, REAL* shared, Long h, Long number, Long most)
{
    const Node node = find_node(charts.sentences, charts.active, h, number);
    const Long thread = threadIdx.y * 32 + threadIdx.x, threads = blockDim.y * 32, d = charts.d;
    const Long n = node.sentence.n, start = node.start, child = charts.starts[h - 1] + number;
    Gradient nearest[2];
    Long counts[2];
#pragma unroll
    for (int side = 0; side < 2; side++) {
        const Long room = side ? start : n - start - h;  // how much longer than the child a parent can be
        const Long row = node_row(node.sentence, h + 1, start - side);
        const Long parent = number - node.number - side;  // among those of h + 1 tokens
        counts[side] = room < most - h ? room : most - h;
        nearest[side] = gradient_of(charts.d_nodes, charts.left, charts.right, row, parent, charts.n_through, d);
        REAL *p = shared + 2 * side * (most - h), *d_score = p + (most - h);
        for (Long k = thread; k < counts[side]; k += threads) {
            const Long split = side ? k : h - 1;
            const Long pair = first_pair(node.sentence, h + 1 + k, side ? start - 1 - k : start) + split;
            p[k] = charts.weights[pair];
            if (k > 0) d_score[k] = charts.d_scores[pair];
        }
        if (counts[side] == 0 || threadIdx.y != side % blockDim.y) continue;
        const Long other = child_row(node, charts.starts, 1, side ? start - 1 : start + h);
        const REAL* left = charts.products + (side ? other : child) * d;
        const REAL* right = charts.products + (charts.R + (side ? child : other)) * d;
        const REAL weight = charts.weights[first_pair(node.sentence, h + 1, start - side) + (side ? 0 : h - 1)];
        const REAL along = score_gradient(weight, left, right, charts.nodes + row * d, nearest[side], d);
        if (threadIdx.x == 0) d_score[0] = along;
    }
    __syncthreads();
#pragma unroll
    for (int side = 0; side < 2; side++) {
        const REAL *p = shared + 2 * side * (most - h), *d_score = p + (most - h);
        REAL total = 0, gathered[CHUNKS];
        for (int c = 0; c < CHUNKS; c++) gathered[c] = 0;
        Long row = node_row(node.sentence, h + 1, start - side);
        for (Long k = 0; k < counts[side]; k++) {
            const Gradient gradient = k ? Gradient{charts.gradients + row * d, nullptr, nullptr} : nearest[side];
            total += d_score[k];
            for (int c = 0; c < CHUNKS; c++) {
                const Long u = thread + c * threads;
                if (u < d) gathered[c] += p[k] * at(gradient, u);
            }
            row += n - h - k - side;  // of the parent that is one token longer
        }
        const Long place = side * charts.R + child;
        for (int c = 0; c < CHUNKS; c++) {
            const Long u = thread + c * threads;
            if (u < d) d_products[place * d + u] = gathered[c] + total * direction[u];
        }
        if (thread == 0) sums[place] = total;
    }
}

// Blocks: first the n_nodes nodes of h + 1 tokens, which are finished; then those of h tokens that have a parent, which
// gather from their parents. left, right [n_through, d]: what goes through the parents of the nodes.
// Shared: 4 (most - h).
extern "C" __global__ void pool_backward(
    const REAL* d_nodes, const REAL* nodes, const REAL* left, const REAL* right, const REAL* __restrict__ products,
    const REAL* weights, const REAL* direction, const Long* sentences, const Long* starts, REAL* gradients,
    REAL* d_scores, REAL* d_products, REAL* sums, Long active, Long h, Long n_nodes, Long n_through, Long R, Long most,
    Long d)
{
    DYNAMIC_SHARED(shared);
    const Charts charts = {d_nodes, nodes, left, right, products, weights, sentences, starts, gradients, d_scores,
                           active, n_through, R, d};
    if (blockIdx.x < n_nodes) finish_node(charts, h + 1, blockIdx.x);
    else gather_child(charts, direction, d_products, sums, shared, h, blockIdx.x - n_nodes, most);
}
