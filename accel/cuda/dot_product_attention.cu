// Scaled dot-product attention in tiles of 32 x 32: no [N, S] array exists, backward the scores are computed again.
// Query i of a sequence with n queries and n + past keys sees all keys or, if `causal`, the keys j <= past + i.
#include "support/tiles.cu"

__device__ Long keys_seen(const Tile& tile, Long i, Long causal)
{
    return tile.past + (causal && i + 1 < tile.n ? i + 1 : tile.n);
}

// Blocks: (tile of queries, head). Rows of a tile are queries, columns keys.
extern "C" __global__ void dot_product_forward(
    const REAL* q, const REAL* k, const REAL* v,
    const Long* tile_offsets, const Long* query_offsets, const Long* key_offsets, REAL* out, REAL* lse,
    Long B, Long H, Long D, Long causal, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    if (blockIdx.x >= tile_offsets[B]) return;  // there are fewer tiles
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Long head = blockIdx.y, stride = D | 1;
    const int lane = threadIdx.x, row = threadIdx.y * ROWS;
    const Tile tile = find_tile(tile_offsets, B, query_offsets, key_offsets, blockIdx.x);
    REAL *queries = shared, *keys = queries + TILE * stride, *values = keys + TILE * stride;
    REAL* weights = values + TILE * stride + row * EDGE;
    load_rows(queries, q, tile.queries, tile.first, tile.n, TILE, head, H, D);
    REAL sums[ROWS][CHUNKS], scores[ROWS], largest[ROWS], total[ROWS];
    clear_rows(sums);
#pragma unroll
    for (int a = 0; a < ROWS; a++) {
        largest[a] = minus_infinity();
        total[a] = 0;
    }
    const Long n_keys = keys_seen(tile, tile.first + TILE - 1, causal);
    for (Long j0 = 0; j0 < n_keys; j0 += TILE) {
        __syncthreads();
        load_rows(keys, k, tile.keys, j0, n_keys, TILE, head, H, D);
        load_rows(values, v, tile.keys, j0, n_keys, TILE, head, H, D);
        __syncthreads();
        dot_rows<1, 0>(scores, queries + row * stride, keys + lane * stride, D);
#pragma unroll
        for (int a = 0; a < ROWS; a++) {
            const Long i = tile.first + row + a, j = j0 + lane;
            const REAL score = j < keys_seen(tile, i, causal) ? scores[a] * scale : minus_infinity();
            const REAL top = fmax(largest[a], warp_max(score)), shrink = exp(largest[a] - top);
            const REAL weight = exp(score - top);
            const Bits element = (((Bits)(tile.queries + i) << 20) + j) * H + head;
            weights[a * EDGE + lane] = weight * keep(seed, threshold, kept, element);
            total[a] = total[a] * shrink + weight;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) sums[a][c] *= shrink;
            largest[a] = top;
        }
        __syncwarp();
        add_rows<0, 1>(sums, weights, values, 0, D);
    }
#pragma unroll
    for (int a = 0; a < ROWS; a++) {
        total[a] = warp_sum(total[a]);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) sums[a][c] = n_keys ? sums[a][c] / total[a] : 0;
        const Long i = tile.first + row + a;
        if (lane == 0 && i < tile.n) lse[(tile.queries + i) * H + head] = largest[a] + log(total[a]);
    }
    store_rows(out, sums, tile.queries, tile.first + row, tile.n, head, H, D);
}

// Blocks and tiles as in dot_product_forward. means [N, H]: of the gradients under the weights, for the pass over keys.
extern "C" __global__ void dot_product_backward_queries(
    const REAL* d_out, const REAL* out, const REAL* lse, const REAL* q, const REAL* k, const REAL* v,
    const Long* tile_offsets, const Long* query_offsets, const Long* key_offsets, REAL* d_q, REAL* means,
    Long B, Long H, Long D, Long causal, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    if (blockIdx.x >= tile_offsets[B]) return;  // there are fewer tiles
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Long head = blockIdx.y, stride = D | 1;
    const int lane = threadIdx.x, row = threadIdx.y * ROWS;
    const Tile tile = find_tile(tile_offsets, B, query_offsets, key_offsets, blockIdx.x);
    REAL *queries = shared, *d_outs = queries + TILE * stride, *keys = d_outs + TILE * stride;
    REAL *values = keys + TILE * stride, *weights = values + TILE * stride + row * EDGE;
    load_rows(queries, q, tile.queries, tile.first, tile.n, TILE, head, H, D);
    load_rows(d_outs, d_out, tile.queries, tile.first, tile.n, TILE, head, H, D);
    REAL sums[ROWS][CHUNKS], scores[ROWS], gradients[ROWS], mean[ROWS], logs[ROWS];
    clear_rows(sums);
#pragma unroll
    for (int a = 0; a < ROWS; a++) {
        const Long i = tile.first + row + a, place = (tile.queries + (i < tile.n ? i : 0)) * H + head;
        REAL sum = 0;
        for (Long d = lane; d < D; d += 32) sum += d_out[place * D + d] * out[place * D + d];
        mean[a] = warp_sum(sum);
        logs[a] = lse[place];
        if (lane == 0 && i < tile.n) means[place] = mean[a];
    }
    const Long n_keys = keys_seen(tile, tile.first + TILE - 1, causal);
    for (Long j0 = 0; j0 < n_keys; j0 += TILE) {
        __syncthreads();
        load_rows(keys, k, tile.keys, j0, n_keys, TILE, head, H, D);
        load_rows(values, v, tile.keys, j0, n_keys, TILE, head, H, D);
        __syncthreads();
        dot_rows<1, 0>(scores, queries + row * stride, keys + lane * stride, D);
        dot_rows<1, 0>(gradients, d_outs + row * stride, values + lane * stride, D);
#pragma unroll
        for (int a = 0; a < ROWS; a++) {
            const Long i = tile.first + row + a, j = j0 + lane;
            const bool seen = i < tile.n && j < keys_seen(tile, i, causal);
            const REAL weight = seen ? exp(scores[a] * scale - logs[a]) : REAL(0);
            const Bits element = (((Bits)(tile.queries + i) << 20) + j) * H + head;
            const REAL multiplier = keep(seed, threshold, kept, element);
            weights[a * EDGE + lane] = weight * (multiplier * gradients[a] - mean[a]) * scale;
        }
        __syncwarp();
        add_rows<0, 1>(sums, weights, keys, 0, D);
    }
    store_rows(d_q, sums, tile.queries, tile.first + row, tile.n, head, H, D);
}

// Blocks: (tile of keys, head). Rows of a tile are keys, columns queries.
extern "C" __global__ void dot_product_backward_keys(
    const REAL* d_out, const REAL* means, const REAL* lse, const REAL* q, const REAL* k, const REAL* v,
    const Long* tile_offsets, const Long* query_offsets, const Long* key_offsets, REAL* d_k, REAL* d_v,
    Long B, Long H, Long D, Long causal, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    if (blockIdx.x >= tile_offsets[B]) return;  // there are fewer tiles
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Long head = blockIdx.y, stride = D | 1;
    const int lane = threadIdx.x, row = threadIdx.y * ROWS;
    const Tile tile = find_tile(tile_offsets, B, query_offsets, key_offsets, blockIdx.x);
    const Long n_keys = tile.past + tile.n;
    REAL *queries = shared, *d_outs = queries + TILE * stride, *keys = d_outs + TILE * stride;
    REAL *values = keys + TILE * stride, *weights = values + TILE * stride + row * EDGE;
    load_rows(keys, k, tile.keys, tile.first, n_keys, TILE, head, H, D);
    load_rows(values, v, tile.keys, tile.first, n_keys, TILE, head, H, D);
    REAL key_sums[ROWS][CHUNKS], value_sums[ROWS][CHUNKS], scores[ROWS], gradients[ROWS];
    clear_rows(key_sums);
    clear_rows(value_sums);
    const Long begin = causal && tile.first > tile.past ? (tile.first - tile.past) / TILE * TILE : 0;
    for (Long i0 = begin; i0 < tile.n; i0 += TILE) {
        __syncthreads();
        load_rows(queries, q, tile.queries, i0, tile.n, TILE, head, H, D);
        load_rows(d_outs, d_out, tile.queries, i0, tile.n, TILE, head, H, D);
        __syncthreads();
        dot_rows<1, 0>(scores, keys + row * stride, queries + lane * stride, D);
        dot_rows<1, 0>(gradients, values + row * stride, d_outs + lane * stride, D);
        const Long i = i0 + lane, place = (tile.queries + (i < tile.n ? i : 0)) * H + head;
        const REAL mean = means[place], log_sum = lse[place];
#pragma unroll
        for (int a = 0; a < ROWS; a++) {
            const Long j = tile.first + row + a;
            const bool seen = i < tile.n && j < keys_seen(tile, i, causal);
            const REAL weight = seen ? exp(scores[a] * scale - log_sum) : REAL(0);
            const Bits element = (((Bits)(tile.queries + i) << 20) + j) * H + head;
            const REAL multiplier = keep(seed, threshold, kept, element);
            weights[a * EDGE + lane] = weight * (multiplier * gradients[a] - mean) * scale;
            scores[a] = weight * multiplier;
        }
        __syncwarp();
        add_rows<0, 1>(key_sums, weights, queries, 0, D);
        __syncwarp();
#pragma unroll
        for (int a = 0; a < ROWS; a++) weights[a * EDGE + lane] = scores[a];
        __syncwarp();
        add_rows<0, 1>(value_sums, weights, d_outs, 0, D);
    }
    store_rows(d_k, key_sums, tile.keys, tile.first + row, n_keys, head, H, D);
    store_rows(d_v, value_sums, tile.keys, tile.first + row, n_keys, head, H, D);
}
