// Causal attention over memory and segment in tiles of 32 x 32: no [T, S] array exists.
// Query i of a sequence with S - T = past rows of memory sees the keys j <= past + i at distance past + i - j.
// Between rows and columns of a tile, the third of query, key and distance runs along the diagonals, so that a window of
// 63 of its rows is in shared memory.
#include "support/tiles.cu"

#define WINDOW 63

// scores[a] = (q + u) . k + (q + w) . r, where a step of a moves the three by SQ, SK, SR rows.
template <int SQ, int SK, int SR>
__device__ void score_rows(
    REAL* scores, const REAL* q, const REAL* k, const REAL* r, const REAL* u, const REAL* w, Long D)
{
    const Long stride = D | 1;
#pragma unroll
    for (int a = 0; a < ROWS; a++) scores[a] = 0;
    for (Long d = 0; d < D; d++)
#pragma unroll
        for (int a = 0; a < ROWS; a++) {
            const REAL x = q[a * SQ * stride + d];
            scores[a] += (x + u[d]) * k[a * SK * stride + d] + (x + w[d]) * r[a * SR * stride + d];
        }
}

// Blocks: (tile of queries, head). Rows of a tile are queries, columns keys; the window holds distances.
extern "C" __global__ void causal_forward(
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* tile_offsets, const Long* query_offsets, const Long* key_offsets, REAL* out, REAL* lse,
    Long B, Long H, Long D, Long P, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Long head = blockIdx.y, stride = D | 1;
    const int lane = threadIdx.x, row = threadIdx.y * ROWS;
    const Tile tile = find_tile(tile_offsets, B, query_offsets, key_offsets, blockIdx.x);
    REAL *queries = shared, *keys = queries + TILE * stride, *distances = keys + TILE * stride;
    REAL *biases = distances + WINDOW * stride, *weights = biases + 2 * stride + row * EDGE;
    load_rows(queries, q, tile.queries, tile.first, tile.n, TILE, head, H, D);
    load_rows(biases, u, 0, 0, 1, 1, head, H, D);
    load_rows(biases + stride, w, 0, 0, 1, 1, head, H, D);
    REAL sums[ROWS][CHUNKS], scores[ROWS], largest[ROWS], total[ROWS];
    clear_rows(sums);
#pragma unroll
    for (int a = 0; a < ROWS; a++) {
        largest[a] = minus_infinity();
        total[a] = 0;
    }
    const Long n_keys = tile.past + (tile.first + TILE < tile.n ? tile.first + TILE : tile.n);
    for (Long j0 = 0; j0 < n_keys; j0 += TILE) {
        __syncthreads();
        load_rows(keys, k, tile.keys, j0, n_keys, TILE, head, H, D);
        load_rows(distances, r, 0, tile.past + tile.first - j0 - 31, P, WINDOW, head, H, D);
        __syncthreads();
        score_rows<1, 0, 1>(scores, queries + row * stride, keys + lane * stride,
                            distances + (row - lane + 31) * stride, biases, biases + stride, D);
#pragma unroll
        for (int a = 0; a < ROWS; a++) {
            const Long i = tile.first + row + a, j = j0 + lane;
            const REAL score = j <= tile.past + i ? scores[a] * scale : minus_infinity();
            const REAL top = fmax(largest[a], warp_max(score)), shrink = exp(largest[a] - top);
            const REAL weight = exp(score - top);
            const Bits element = (((Bits)(tile.queries + i) << 20) + j) * H + head;
            weights[a * EDGE + lane] = weight * keep(seed, threshold, kept, element);
            total[a] = total[a] * shrink + weight;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) sums[a][c] *= shrink;
            largest[a] = top;
        }
        __syncthreads();
        load_rows(keys, v, tile.keys, j0, n_keys, TILE, head, H, D);
        __syncthreads();
        add_rows<0, 1>(sums, weights, keys, 0, D);
    }
#pragma unroll
    for (int a = 0; a < ROWS; a++) {
        total[a] = warp_sum(total[a]);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) sums[a][c] /= total[a];
        const Long i = tile.first + row + a;
        if (lane == 0 && i < tile.n) lse[(tile.queries + i) * H + head] = largest[a] + log(total[a]);
    }
    store_rows(out, sums, tile.queries, tile.first + row, tile.n, head, H, D);
}

// Blocks and tiles as in causal_forward: gradients through the content and the position term of q, and for every
// (query, head) the mean of the gradients under the weights, which the other two passes need.
extern "C" __global__ void causal_backward_queries(
    const REAL* d_out, const REAL* out, const REAL* lse,
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* tile_offsets, const Long* query_offsets, const Long* key_offsets,
    REAL* d_content, REAL* d_position, REAL* means,
    Long B, Long H, Long D, Long P, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Long head = blockIdx.y, stride = D | 1;
    const int lane = threadIdx.x, row = threadIdx.y * ROWS;
    const Tile tile = find_tile(tile_offsets, B, query_offsets, key_offsets, blockIdx.x);
    REAL *queries = shared, *d_outs = queries + TILE * stride, *keys = d_outs + TILE * stride;
    REAL *distances = keys + TILE * stride, *biases = distances + WINDOW * stride;
    REAL* weights = biases + 2 * stride + row * EDGE;
    load_rows(queries, q, tile.queries, tile.first, tile.n, TILE, head, H, D);
    load_rows(d_outs, d_out, tile.queries, tile.first, tile.n, TILE, head, H, D);
    load_rows(biases, u, 0, 0, 1, 1, head, H, D);
    load_rows(biases + stride, w, 0, 0, 1, 1, head, H, D);
    REAL content[ROWS][CHUNKS], position[ROWS][CHUNKS], scores[ROWS], gradients[ROWS], mean[ROWS], logs[ROWS];
    clear_rows(content);
    clear_rows(position);
#pragma unroll
    for (int a = 0; a < ROWS; a++) {
        const Long i = tile.first + row + a, place = (tile.queries + (i < tile.n ? i : 0)) * H + head;
        REAL sum = 0;
        for (Long d = lane; d < D; d += 32) sum += d_out[place * D + d] * out[place * D + d];
        mean[a] = warp_sum(sum);
        logs[a] = lse[place];
        if (lane == 0 && i < tile.n) means[place] = mean[a];
    }
    const Long n_keys = tile.past + (tile.first + TILE < tile.n ? tile.first + TILE : tile.n);
    for (Long j0 = 0; j0 < n_keys; j0 += TILE) {
        __syncthreads();
        load_rows(keys, v, tile.keys, j0, n_keys, TILE, head, H, D);
        load_rows(distances, r, 0, tile.past + tile.first - j0 - 31, P, WINDOW, head, H, D);
        __syncthreads();
        dot_rows<1, 0>(gradients, d_outs + row * stride, keys + lane * stride, D);
        __syncthreads();
        load_rows(keys, k, tile.keys, j0, n_keys, TILE, head, H, D);
        __syncthreads();
        score_rows<1, 0, 1>(scores, queries + row * stride, keys + lane * stride,
                            distances + (row - lane + 31) * stride, biases, biases + stride, D);
#pragma unroll
        for (int a = 0; a < ROWS; a++) {
            const Long i = tile.first + row + a, j = j0 + lane;
            const Bits element = (((Bits)(tile.queries + i) << 20) + j) * H + head;
            const REAL multiplier = keep(seed, threshold, kept, element);
            const bool seen = i < tile.n && j <= tile.past + i;
            const REAL weight = seen ? exp(scores[a] * scale - logs[a]) : REAL(0);
            weights[a * EDGE + lane] = weight * (multiplier * gradients[a] - mean[a]) * scale;
        }
        __syncwarp();
        add_rows<0, 1>(content, weights, keys, 0, D);
        add_rows<1, -1>(position, weights, distances + (row + 31) * stride, 0, D);
    }
    store_rows(d_content, content, tile.queries, tile.first + row, tile.n, head, H, D);
    store_rows(d_position, position, tile.queries, tile.first + row, tile.n, head, H, D);
}

// Blocks: (tile of keys, head). Rows of a tile are keys, columns queries; the window holds distances.
extern "C" __global__ void causal_backward_keys(
    const REAL* d_out, const REAL* means, const REAL* lse,
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* tile_offsets, const Long* query_offsets, const Long* key_offsets, REAL* d_k, REAL* d_v,
    Long B, Long H, Long D, Long P, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Long head = blockIdx.y, stride = D | 1;
    const int lane = threadIdx.x, row = threadIdx.y * ROWS;
    const Tile tile = find_tile(tile_offsets, B, query_offsets, key_offsets, blockIdx.x);
    const Long n_keys = tile.past + tile.n;
    REAL *queries = shared, *d_outs = queries + TILE * stride, *keys = d_outs + TILE * stride;
    REAL *values = keys + TILE * stride, *distances = values + TILE * stride, *biases = distances + WINDOW * stride;
    REAL* weights = biases + 2 * stride + row * EDGE;
    load_rows(keys, k, tile.keys, tile.first, n_keys, TILE, head, H, D);
    load_rows(values, v, tile.keys, tile.first, n_keys, TILE, head, H, D);
    load_rows(biases, u, 0, 0, 1, 1, head, H, D);
    load_rows(biases + stride, w, 0, 0, 1, 1, head, H, D);
    REAL key_sums[ROWS][CHUNKS], value_sums[ROWS][CHUNKS], scores[ROWS], gradients[ROWS];
    clear_rows(key_sums);
    clear_rows(value_sums);
    const Long begin = tile.first > tile.past ? (tile.first - tile.past) / TILE * TILE : 0;
    for (Long i0 = begin; i0 < tile.n; i0 += TILE) {
        __syncthreads();
        load_rows(queries, q, tile.queries, i0, tile.n, TILE, head, H, D);
        load_rows(d_outs, d_out, tile.queries, i0, tile.n, TILE, head, H, D);
        load_rows(distances, r, 0, tile.past + i0 - tile.first - 31, P, WINDOW, head, H, D);
        __syncthreads();
        score_rows<0, 1, -1>(scores, queries + lane * stride, keys + row * stride,
                             distances + (lane - row + 31) * stride, biases, biases + stride, D);
        dot_rows<1, 0>(gradients, values + row * stride, d_outs + lane * stride, D);
        const Long i = i0 + lane, place = (tile.queries + (i < tile.n ? i : 0)) * H + head;
        const REAL mean = means[place], log_sum = lse[place];
#pragma unroll
        for (int a = 0; a < ROWS; a++) {
            const Long j = tile.first + row + a;
            const Bits element = (((Bits)(tile.queries + i) << 20) + j) * H + head;
            const REAL multiplier = keep(seed, threshold, kept, element);
            const bool seen = i < tile.n && j <= tile.past + i;
            const REAL weight = seen ? exp(scores[a] * scale - log_sum) : REAL(0);
            weights[a * EDGE + lane] = weight * (multiplier * gradients[a] - mean) * scale;
            scores[a] = weight * multiplier;
        }
        __syncwarp();
        add_rows<0, 1>(key_sums, weights, queries, biases, D);
        __syncwarp();
#pragma unroll
        for (int a = 0; a < ROWS; a++) weights[a * EDGE + lane] = scores[a];
        __syncwarp();
        add_rows<0, 1>(value_sums, weights, d_outs, 0, D);
    }
    store_rows(d_k, key_sums, tile.keys, tile.first + row, n_keys, head, H, D);
    store_rows(d_v, value_sums, tile.keys, tile.first + row, n_keys, head, H, D);
}

// Blocks: (tile of distances, head, share of the tiles of queries). Rows are distances, columns queries; the window
// holds keys. d_r [shares, P, H, D]: every share's own sum.
extern "C" __global__ void causal_backward_distances(
    const REAL* d_out, const REAL* means, const REAL* lse,
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* tile_offsets, const Long* query_offsets, const Long* key_offsets, REAL* d_r,
    Long B, Long H, Long D, Long P, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Long head = blockIdx.y, stride = D | 1, first = (Long)blockIdx.x * TILE;
    const int lane = threadIdx.x, row = threadIdx.y * ROWS;
    REAL *queries = shared, *d_outs = queries + TILE * stride, *distances = d_outs + TILE * stride;
    REAL *keys = distances + TILE * stride, *biases = keys + WINDOW * stride;
    REAL* weights = biases + 2 * stride + row * EDGE;
    load_rows(distances, r, 0, first, P, TILE, head, H, D);
    load_rows(biases, u, 0, 0, 1, 1, head, H, D);
    load_rows(biases + stride, w, 0, 0, 1, 1, head, H, D);
    REAL sums[ROWS][CHUNKS], scores[ROWS], gradients[ROWS];
    clear_rows(sums);
    for (Long number = blockIdx.z; number < tile_offsets[B]; number += gridDim.z) {
        const Tile tile = find_tile(tile_offsets, B, query_offsets, key_offsets, number);
        const Long base = tile.past + tile.first - first - 31, n_keys = tile.past + tile.n;  // base: key of the window
        if (base + WINDOW <= 0) continue;
        __syncthreads();
        load_rows(queries, q, tile.queries, tile.first, tile.n, TILE, head, H, D);
        load_rows(d_outs, d_out, tile.queries, tile.first, tile.n, TILE, head, H, D);
        load_rows(keys, v, tile.keys, base, n_keys, WINDOW, head, H, D);
        __syncthreads();
        dot_rows<0, -1>(gradients, d_outs + lane * stride, keys + (lane - row + 31) * stride, D);
        __syncthreads();
        load_rows(keys, k, tile.keys, base, n_keys, WINDOW, head, H, D);
        __syncthreads();
        score_rows<0, -1, 1>(scores, queries + lane * stride, keys + (lane - row + 31) * stride,
                             distances + row * stride, biases, biases + stride, D);
        const Long i = tile.first + lane, place = (tile.queries + (i < tile.n ? i : 0)) * H + head;
        const REAL mean = means[place], log_sum = lse[place];
#pragma unroll
        for (int a = 0; a < ROWS; a++) {
            const Long j = tile.past + i - (first + row + a);
            const Bits element = (((Bits)(tile.queries + i) << 20) + j) * H + head;
            const REAL multiplier = keep(seed, threshold, kept, element);
            const REAL weight = i < tile.n && j >= 0 ? exp(scores[a] * scale - log_sum) : REAL(0);
            weights[a * EDGE + lane] = weight * (multiplier * gradients[a] - mean) * scale;
        }
        __syncwarp();
        add_rows<0, 1>(sums, weights, queries, biases + stride, D);
    }
    store_rows(d_r, sums, (Long)blockIdx.z * P, first + row, P, head, H, D);
}
