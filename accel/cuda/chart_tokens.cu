// The tokens of charts, their lowest nodes: where charts begin, and where gradients end. A warp a token, WARPS a block.
// Where the scores have a query, the launches are cooperative, and also compute the direction of the scores, which is
// K (w Q) / sqrt(d), and the gradients of w, Q and K.
#include "support/warp.cu"
#include "support/hardware.cu"
#include "support/chart_places.cu"

#define WARPS 16
#define LOADS 8  // of a lane, in flight

constexpr int UNROLLED = LOADS;  // a #pragma knows no macros

// By a warp: put(u, get(u)) for all u < d, of which a lane gets LOADS before it puts the first.
template <class Get, class Put> __device__ void each_number(Long d, const Get& get, const Put& put)
{
    for (Long start = threadIdx.x; start < d; start += 32 * LOADS) {
        REAL x[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++) x[k] = start + 32 * k < d ? get(start + 32 * k) : REAL(0);
#pragma unroll
        for (int k = 0; k < LOADS; k++)
            if (start + 32 * k < d) put(start + 32 * k, x[k]);
    }
}

// By all blocks: the tokens as the nodes of one token, of which the first n_read have a parent and go to rows [R, d],
// too. Lowers the two numbers of `first` to that of the first token, and of its node, with a NaN or an infinity.
__device__ void copy_tokens(
    const REAL* tokens, const Long* sentences, REAL* nodes, REAL* rows, Long* first, Long B, Long N, Long n_read,
    Long d)
{
    for (Long i = (Long)blockIdx.x * blockDim.y + threadIdx.y; i < N; i += (Long)gridDim.x * blockDim.y) {
        const Node node = find_node(sentences, B, 1, i);
        const Long token = node.sentence.token + node.start, row = node_row(node.sentence, 1, node.start);
        bool finite = true;
        each_number(d, [&](Long u) { return tokens[token * d + u]; }, [&](Long u, REAL x) {
            nodes[row * d + u] = x;
            if (i < n_read) rows[i * d + u] = x;
            finite = finite && x - x == 0;
        });
        if (finite) continue;
        atomicMin(first, token);
        atomicMin(first + 1, row);
    }
}

// By all blocks: the gradients of the tokens, with what goes through their parents, left and right [n_through, d].
__device__ void finish_tokens(
    const REAL* d_nodes, const REAL* left, const REAL* right, const Long* sentences, REAL* d_tokens, Long B, Long N,
    Long n_through, Long d)
{
    for (Long i = (Long)blockIdx.x * blockDim.y + threadIdx.y; i < N; i += (Long)gridDim.x * blockDim.y) {
        const Node node = find_node(sentences, B, 1, i);
        const Long row = node_row(node.sentence, 1, node.start);
        const Gradient gradient = gradient_of(d_nodes, left, right, row, i, n_through, d);
        REAL* d_token = d_tokens + (node.sentence.token + node.start) * d;
        each_number(d, [&](Long u) { return at(gradient, u); }, [&](Long u, REAL x) { d_token[u] = x; });
    }
}

// By all blocks: product [d] = scale x A, for x [d] and A [d, d]; a block 32 of the columns, a warp some of the rows.
__device__ void times_columns(const REAL* x, const REAL* A, REAL* product, REAL scale, Long d)
{
    __shared__ REAL parts[WARPS][32];
    for (Long start = 32 * (Long)blockIdx.x; start < d; start += 32 * (Long)gridDim.x) {
        const Long column = start + threadIdx.x;
        REAL sum = 0;
#pragma unroll UNROLLED
        for (Long row = threadIdx.y; row < d && column < d; row += blockDim.y)
            sum += scale * x[row] * A[row * d + column];
        parts[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        for (Long warp = 1; threadIdx.y == 0 && warp < blockDim.y; warp++) sum += parts[warp][threadIdx.x];
        if (threadIdx.y == 0 && column < d) product[column] = sum;
        __syncthreads();
    }
}

// By all blocks: product [d] = scale A x; a warp a row.
__device__ void times_rows(const REAL* A, const REAL* x, REAL* product, REAL scale, Long d)
{
    for (Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y; row < d; row += (Long)gridDim.x * blockDim.y) {
        REAL sum = 0;
#pragma unroll UNROLLED
        for (Long u = threadIdx.x; u < d; u += 32) sum += A[row * d + u] * x[u];
        sum = warp_sum(sum);
        if (threadIdx.x == 0) product[row] = scale * sum;
    }
}

// By all blocks: product [d, d] = scale x y^T; a warp a row.
__device__ void outer_product(const REAL* x, const REAL* y, REAL* product, REAL scale, Long d)
{
    for (Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y; row < d; row += (Long)gridDim.x * blockDim.y) {
        const REAL factor = scale * x[row];
        each_number(d, [&](Long u) { return y[u]; }, [&](Long u, REAL z) { product[row * d + u] = factor * z; });
    }
}

extern "C" __global__ void begin_charts(
    const REAL* tokens, const Long* sentences, REAL* nodes, REAL* rows, Long* first, Long B, Long N, Long n_read,
    Long d)
{
    copy_tokens(tokens, sentences, nodes, rows, first, B, N, n_read, d);
}

// Cooperative. q = w Q, direction = scale K q. word: for the barrier of all blocks.
extern "C" __global__ void begin_queried_charts(
    const REAL* tokens, const Long* sentences, REAL* nodes, REAL* rows, Long* first, Long B, Long N, Long n_read,
    Long d, const REAL* w, const REAL* Q, const REAL* K, REAL* q, REAL* direction, REAL scale, unsigned* word)
{
    times_columns(w, Q, q, REAL(1), d);
    copy_tokens(tokens, sentences, nodes, rows, first, B, N, n_read, d);
    grid_sync(word);
    times_rows(K, q, direction, scale, d);
}

extern "C" __global__ void end_charts(
    const REAL* d_nodes, const REAL* left, const REAL* right, const Long* sentences, REAL* d_tokens, Long B, Long N,
    Long n_through, Long d)
{
    finish_tokens(d_nodes, left, right, sentences, d_tokens, B, N, n_through, d);
}

// Cooperative. The gradients of w, Q and K, from that of the direction; d_q [d] is room for that of q.
extern "C" __global__ void end_queried_charts(
    const REAL* d_nodes, const REAL* left, const REAL* right, const Long* sentences, REAL* d_tokens, Long B, Long N,
    Long n_through, Long d, const REAL* d_direction, const REAL* w, const REAL* Q, const REAL* K, const REAL* q,
    REAL* d_q, REAL* d_w, REAL* d_Q, REAL* d_K, REAL scale, unsigned* word)
{
    times_columns(d_direction, K, d_q, scale, d);
    finish_tokens(d_nodes, left, right, sentences, d_tokens, B, N, n_through, d);
    outer_product(d_direction, q, d_K, scale, d);
    grid_sync(word);
    times_rows(Q, d_q, d_w, REAL(1), d);
    outer_product(w, d_q, d_Q, REAL(1), d);
}
