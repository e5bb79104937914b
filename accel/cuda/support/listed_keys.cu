// Attention over listed keys, by one warp a (query, head): what sparse_attention.cu and tiled_attention.cu share. Lanes
// hold the D numbers of a row, and, 32 keys at a time, one score each.
#include "warp.cu"

// The row of x [*, H, D] in this lane's registers; 0 beyond D.
__device__ void load_row(REAL* row, const REAL* x, Long D, int lane)
{
    for (int c = 0; c < CHUNKS; c++)
        row[c] = lane + 32 * c < D ? x[lane + 32 * c] : REAL(0);
}

__device__ REAL dot_row(const REAL* row, const REAL* x, Long D, int lane)
{
    REAL sum = 0;
    for (int c = 0; c < CHUNKS; c++)
        if (lane + 32 * c < D) sum += row[c] * x[lane + 32 * c];
    return sum;
}

__device__ void add_row(REAL* row, REAL factor, const REAL* x, Long D, int lane)
{
    for (int c = 0; c < CHUNKS; c++)
        if (lane + 32 * c < D) row[c] += factor * x[lane + 32 * c];
}

__device__ void store_row(REAL* x, const REAL* row, REAL factor, Long D, int lane)
{
    for (int c = 0; c < CHUNKS; c++)
        if (lane + 32 * c < D) x[lane + 32 * c] = row[c] * factor;
}

// q + u and q + w of one (query, head).
__device__ void load_query(
    REAL* with_content, REAL* with_position, const REAL* q, const REAL* u, const REAL* w, Long D, int lane)
{
    load_row(with_content, q, D, lane);
    load_row(with_position, q, D, lane);
    add_row(with_content, 1, u, D, lane);
    add_row(with_position, 1, w, D, lane);
}

// Rows of keys and values [count, D] of one head in shared memory; the row of edge e is there, if places[e] < count.
struct Near {
    const REAL *k, *v;
    const int* places;
    int count;
};

// Where the rows of an edge's key are: below 0 in shared memory, else the key.
__device__ int spot_of(const Near& near, const int* keys, Long edge)
{
    return near.count && near.places[edge] < near.count ? -1 - near.places[edge] : keys[edge];
}

__device__ const REAL* row_of(const Near& near, const REAL* rows, const REAL* x, int spot, Long row, Long D)
{
    return near.count && spot < 0 ? rows + (-1 - spot) * D : x + row * D;
}

__device__ void forward_row(
    const Near& near, const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* row_offsets, const int* keys, const int* relative, REAL* out, REAL* lse,
    Long row, Long H, Long D, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    const Long query = row / H, head = row % H, end = row_offsets[query + 1];  // row: query * H + head
    const int lane = threadIdx.x;
    REAL qu[CHUNKS], qw[CHUNKS], sum[CHUNKS];
    load_query(qu, qw, q + row * D, u + head * D, w + head * D, D, lane);
    for (int c = 0; c < CHUNKS; c++) sum[c] = 0;
    REAL largest = minus_infinity(), total = 0;  // total: this lane's part
    for (Long first = row_offsets[query]; first < end; first += 32) {
        const int count = end - first < 32 ? (int)(end - first) : 32;
        const Long edge = first + lane;
        const int spot = lane < count ? spot_of(near, keys, edge) : 0, position = lane < count ? relative[edge] : 0;
        REAL score = minus_infinity();
#pragma unroll 4
        for (int t = 0; t < count; t++) {
            const int at = __shfl_sync(ALL_LANES, spot, t);
            const Long key_row = (Long)at * H + head;
            const Long position_row = (Long)__shfl_sync(ALL_LANES, position, t) * H + head;
            const REAL s = warp_sum(dot_row(qu, row_of(near, near.k, k, at, key_row, D), D, lane) +
                                    dot_row(qw, r + position_row * D, D, lane));
            if (lane == t) score = s * scale;
        }
        const REAL top = fmax(largest, warp_max(score)), shrink = exp(largest - top), weight = exp(score - top);
        const REAL multiplied = weight * keep(seed, threshold, kept, (Bits)edge * H + head);
        total = total * shrink + weight;
        for (int c = 0; c < CHUNKS; c++) sum[c] *= shrink;
#pragma unroll 4
        for (int t = 0; t < count; t++) {
            const int at = __shfl_sync(ALL_LANES, spot, t);
            const Long key_row = (Long)at * H + head;
            add_row(sum, __shfl_sync(ALL_LANES, multiplied, t), row_of(near, near.v, v, at, key_row, D), D, lane);
        }
        largest = top;
    }
    total = warp_sum(total);
    store_row(out + row * D, sum, total > 0 ? 1 / total : REAL(0), D, lane);
    if (lane == 0) lse[row] = largest + log(total);  // without keys -inf + -inf
}

// The pass over queries: gradients through the content and the position term of q, their sum, and for every edge its query,
// its multiplied weight, and the gradient of its score.
__device__ void backward_row(
    const Near& near, const REAL* d_out, const REAL* out, const REAL* lse,
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* row_offsets, const int* keys, const int* relative,
    REAL* d_q, REAL* d_content, REAL* d_position, REAL* weights, REAL* gradients, int* query_of_edge,
    Long row, Long H, Long D, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    const Long query = row / H, head = row % H, end = row_offsets[query + 1];  // row: query * H + head
    const int lane = threadIdx.x;
    REAL qu[CHUNKS], qw[CHUNKS], gradient_out[CHUNKS], content[CHUNKS], along_position[CHUNKS];
    load_query(qu, qw, q + row * D, u + head * D, w + head * D, D, lane);
    load_row(gradient_out, d_out + row * D, D, lane);
    for (int c = 0; c < CHUNKS; c++) content[c] = along_position[c] = 0;
    const REAL mean = warp_sum(dot_row(gradient_out, out + row * D, D, lane));  // of the gradients, under the weights
    for (Long first = row_offsets[query]; first < end; first += 32) {
        const int count = end - first < 32 ? (int)(end - first) : 32;
        const Long edge = first + lane;
        const int spot = lane < count ? spot_of(near, keys, edge) : 0, position = lane < count ? relative[edge] : 0;
        REAL score = 0, gradient = 0;
#pragma unroll 4
        for (int t = 0; t < count; t++) {
            const int at = __shfl_sync(ALL_LANES, spot, t);
            const Long key_row = (Long)at * H + head;
            const Long position_row = (Long)__shfl_sync(ALL_LANES, position, t) * H + head;
            const REAL s = warp_sum(dot_row(qu, row_of(near, near.k, k, at, key_row, D), D, lane) +
                                    dot_row(qw, r + position_row * D, D, lane));
            const REAL g = warp_sum(dot_row(gradient_out, row_of(near, near.v, v, at, key_row, D), D, lane));
            if (lane == t) {
                score = s * scale;
                gradient = g;
            }
        }
        if (lane < count) {
            const REAL weight = exp(score - lse[row]);
            const REAL multiplier = keep(seed, threshold, kept, (Bits)edge * H + head);
            gradient = weight * (multiplier * gradient - mean) * scale;
            weights[edge * H + head] = weight * multiplier;
            gradients[edge * H + head] = gradient;
            if (head == 0) query_of_edge[edge] = (int)query;
        }
#pragma unroll 4
        for (int t = 0; t < count; t++) {
            const int at = __shfl_sync(ALL_LANES, spot, t);
            const Long key_row = (Long)at * H + head;
            const Long position_row = (Long)__shfl_sync(ALL_LANES, position, t) * H + head;
            const REAL s = __shfl_sync(ALL_LANES, gradient, t);
            add_row(content, s, row_of(near, near.k, k, at, key_row, D), D, lane);
            add_row(along_position, s, r + position_row * D, D, lane);
        }
    }
    store_row(d_content + row * D, content, 1, D, lane);
    store_row(d_position + row * D, along_position, 1, D, lane);
    for (int c = 0; c < CHUNKS; c++) content[c] += along_position[c];
    store_row(d_q + row * D, content, 1, D, lane);
}
