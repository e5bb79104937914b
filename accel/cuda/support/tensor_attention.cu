// Attention over listed keys on tensor cores: what tiled_attention.cu computes, with factors of products rounded to
// bf16 (float32 without the last 16 bits) or TF32 (13), and sums in float32. A block takes a tile of QUERIES
// neighbouring queries and a head, and KEYS keys of their union at a time. A number that is not finite spreads to the
// other queries of its tile.
#include "hardware.cu"
#include "rounded.cu"
#include "warp.cu"

#define QUERIES 16  // as many warps, each of which takes the softmax of one query
#define KEYS 128
#define COLUMNS 8  // of a product of tensor cores; and numbers between rows in shared memory, for other banks
#define KEY_PITCH (KEYS + COLUMNS)
#define PARTS ((CHUNKS + 3) / 4)  // COLUMNS columns each, of rows of D, that a warp sums

// What a tile lists: edges as in the plain form, the rest as unions.cu makes it.
struct Lists {
    const Long* row_offsets;
    const int *relative, *union_keys, *places, *sizes;
};

// Memory of a block: rows [QUERIES, pitch] of the queries; table [QUERIES, table_pitch], their products with all
// positions; factors [QUERIES]; scores, weights and, backward, given [QUERIES, KEY_PITCH].
struct Room {
    float *rows, *table, *factors, *scores, *weights, *given;
    Long pitch, table_pitch;
};

__device__ Room room_in(REAL* shared, Long n_rows, Long D, Long P)
{
    const Long pitch = (D + 16 - 1) / 16 * 16 + COLUMNS, table_pitch = (P + COLUMNS - 1) / COLUMNS * COLUMNS + COLUMNS;
    float *rows = (float*)shared, *table = rows + n_rows * QUERIES * pitch, *factors = table + QUERIES * table_pitch;
    float *scores = factors + QUERIES, *weights = scores + QUERIES * KEY_PITCH;
    return {rows, table, factors, scores, weights, weights + QUERIES * KEY_PITCH, pitch, table_pitch};
}

__device__ unsigned rounded_number(float x, int dropped) { return rounded(__float_as_uint(x), dropped); }
__device__ float nearest(float x, int dropped) { return __uint_as_float(rounded_number(x, dropped)); }

// One word of a lane's part of a factor: half 0 or 1 of its numbers along the sum.
template <int DROPPED, class At> __device__ unsigned word(int half, const At& at)
{
    const int t = threadIdx.x % 4, c = 2 * t + half * COLUMNS;
    if (DROPPED != 16) return rounded_number(at(t + half * 4), DROPPED);
    return rounded_number(at(c), 16) >> 16 | rounded_number(at(c + 1), 16);
}

// By a warp: d [QUERIES, COLUMNS] += a b; a [QUERIES, pitch] in shared memory, at(c): number c of this lane's column of b.
template <int DROPPED, class At>
__device__ void multiply_rounded(float* d, const float* a, Long pitch, Long depth, const At& at)
{
    for (Long k = 0; k < depth; k += DROPPED == 16 ? 16 : COLUMNS) {
        unsigned left[4], right[2];
        for (int w = 0; w < 4; w++) {
            const float* row = a + (threadIdx.x / 4 + w % 2 * COLUMNS) * pitch + k;
            left[w] = word<DROPPED>(w / 2, [&](int c) { return row[c]; });
        }
        for (int w = 0; w < 2; w++) right[w] = word<DROPPED>(w, [&](int c) { return at(k + c); });
        if (DROPPED == 16) mma_bf16(d, left, right);
        else mma_tf32(d, left, right);
    }
}

template <class At>
__device__ void multiply(float* d, const float* a, Long pitch, Long depth, int dropped, const At& at)
{
    if (dropped == 16) multiply_rounded<16>(d, a, pitch, depth, at);
    else multiply_rounded<13>(d, a, pitch, depth, at);
}

// By a block: y [QUERIES, y_pitch] = products of rows a [QUERIES, pitch] with `count` rows of D numbers, row_of(i).
template <class RowOf>
__device__ void multiply_rows(
    float* y, Long y_pitch, const float* a, Long pitch, Long count, Long D, int dropped, const RowOf& row_of)
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (Long first = threadIdx.y * COLUMNS; first < count; first += QUERIES * COLUMNS) {
        const REAL* row = first + g < count ? row_of(first + g) : nullptr;
        float d[4] = {0, 0, 0, 0};
        multiply(d, a, pitch, D, dropped, [&](Long c) { return row && c < D ? (float)row[c] : 0.0f; });
        for (int e = 0; e < 4; e++) y[(g + e / 2 * COLUMNS) * y_pitch + first + 2 * t + e % 2] = d[e];
    }
}

// By a block: sums += weights [QUERIES, KEY_PITCH] times `count` rows of D numbers; a warp sums columns of its own.
template <class RowOf>
__device__ void add_rows(
    float (*sums)[4], const float* weights, Long count, Long D, int dropped, const RowOf& row_of)
{
    for (int part = 0; part < PARTS; part++) {
        const Long first = (part * QUERIES + threadIdx.y) * COLUMNS, column = first + threadIdx.x / 4;
        if (first >= D) break;
        multiply(sums[part], weights, KEY_PITCH, count, dropped, [&](Long i) {
            return i < count && column < D ? (float)row_of(i)[column] : 0.0f;
        });
    }
}

// The row of this warp's query: x + bias of `head`, and 0 beyond D and N.
__device__ void load_row(float* row, const REAL* x, const REAL* bias, Long query, Long N, Long H, Long D, Long pitch)
{
    const Long place = (query * H + blockIdx.y) * D, of_head = blockIdx.y * D;
    for (Long c = threadIdx.x; c < pitch; c += 32)
        row[c] = query < N && c < D ? x[place + c] + (bias ? bias[of_head + c] : REAL(0)) : REAL(0);
}

// f(row, column, number) for the numbers of sums in this lane.
template <class F> __device__ void each_sum(float (*sums)[4], const F& f)
{
    for (int part = 0; part < PARTS; part++)
        for (int e = 0; e < 4; e++)
            f(threadIdx.x / 4 + e / 2 * COLUMNS,
              (part * QUERIES + threadIdx.y) * COLUMNS + threadIdx.x % 4 * 2 + e % 2, sums[part][e]);
}

__device__ void forward_tile(
    const Room& room, const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Lists& lists, REAL* out, REAL* lse, Long N, Long H, Long D, Long P, REAL scale, Bits seed, Bits threshold,
    REAL kept, int dropped)
{
    const Long head = blockIdx.y, first = (Long)blockIdx.x * QUERIES, query = first + threadIdx.y;
    const Long start = lists.row_offsets[first], size = lists.sizes[blockIdx.x];
    const Long begin = lists.row_offsets[query < N ? query : N], end = lists.row_offsets[query < N ? query + 1 : N];
    const int lane = threadIdx.x, of_query = threadIdx.y * KEY_PITCH;
    float *content = room.rows, *position = content + QUERIES * room.pitch, *table = room.table;
    load_row(content + threadIdx.y * room.pitch, q, u, query, N, H, D, room.pitch);
    load_row(position + threadIdx.y * room.pitch, q, w, query, N, H, D, room.pitch);
    __syncthreads();
    multiply_rows(table, room.table_pitch, position, room.pitch, P, D, dropped,
                  [&](Long i) { return r + (i * H + head) * D; });
    float largest = minus_infinity(), total = 0, sums[PARTS][4] = {};
    for (Long base = 0; base < size; base += KEYS) {
        const Long count = size - base < KEYS ? size - base : KEYS;
        const auto row_of = [&](Long i) { return (lists.union_keys[start + base + i] * H + head) * D; };
        multiply_rows(room.scores, KEY_PITCH, content, room.pitch, count, D, dropped,
                      [&](Long i) { return k + row_of(i); });
        for (int c = lane; c < KEY_PITCH; c += 32) room.weights[of_query + c] = 0;
        __syncthreads();
        const auto score = [&](Long e, Long place) {
            return (room.scores[of_query + place] + table[threadIdx.y * room.table_pitch + lists.relative[e]]) * scale;
        };
        float top = largest;
        for (Long e = begin + lane; e < end; e += 32) {
            const Long place = lists.places[e] - base;
            if (place >= 0 && place < count) top = fmax(top, (float)score(e, place));
        }
        top = warp_max(top);
        const float shrink = top > minus_infinity() ? exp(largest - top) : 1;
        total *= shrink;
        for (Long e = begin + lane; e < end; e += 32) {
            const Long place = lists.places[e] - base;
            if (place < 0 || place >= count) continue;
            const float weight = exp((float)score(e, place) - top);
            total += weight;
            atomicAdd(&room.weights[of_query + place], weight * (float)keep(seed, threshold, kept, (Bits)e * H + head));
        }
        largest = top;
        if (lane == 0) room.factors[threadIdx.y] = shrink;
        __syncthreads();
        each_sum(sums, [&](int row, Long, float& sum) { sum *= room.factors[row]; });
        add_rows(sums, room.weights, count, D, dropped, [&](Long i) { return v + row_of(i); });
        __syncthreads();
    }
    total = warp_sum(total);
    if (lane == 0) room.factors[threadIdx.y] = total > 0 ? 1 / total : 0;
    if (lane == 0 && query < N) lse[query * H + head] = largest + log(total);  // without keys -inf + -inf
    __syncthreads();
    each_sum(sums, [&](int row, Long column, float& sum) {
        if (first + row < N && column < D) out[((first + row) * H + head) * D + column] = sum * room.factors[row];
    });
}

// The pass over queries, as sparse_backward; what goes to the positions of a query is added edge by edge.
__device__ void backward_tile(
    const Room& room, const REAL* d_out, const REAL* out, const REAL* lse, const REAL* q, const REAL* k, const REAL* v,
    const REAL* r, const REAL* u, const REAL* w, const Lists& lists, REAL* d_q, REAL* d_content, REAL* d_position,
    REAL* weights, REAL* gradients, int* query_of_edge, Long N, Long H, Long D, Long P, REAL scale, Bits seed,
    Bits threshold, REAL kept, int dropped)
{
    const Long head = blockIdx.y, first = (Long)blockIdx.x * QUERIES, query = first + threadIdx.y;
    const Long row = query * H + head, start = lists.row_offsets[first], size = lists.sizes[blockIdx.x];
    const Long begin = lists.row_offsets[query < N ? query : N], end = lists.row_offsets[query < N ? query + 1 : N];
    const int lane = threadIdx.x, of_query = threadIdx.y * KEY_PITCH;
    const Long own = threadIdx.y * room.pitch, of_rows = QUERIES * room.pitch;
    float *content = room.rows, *position = content + of_rows, *gradients_out = position + of_rows;
    load_row(content + own, q, u, query, N, H, D, room.pitch);
    load_row(position + own, q, w, query, N, H, D, room.pitch);
    load_row(gradients_out + own, d_out, nullptr, query, N, H, D, room.pitch);
    float mean = 0;  // of the gradients, under the weights
    for (Long c = lane; query < N && c < D; c += 32) mean += nearest(d_out[row * D + c], dropped) * out[row * D + c];
    mean = warp_sum(mean);
    __syncthreads();
    multiply_rows(room.table, room.table_pitch, position, room.pitch, P, D, dropped,
                  [&](Long i) { return r + (i * H + head) * D; });
    float sums[PARTS][4] = {};
    for (Long base = 0; base < size; base += KEYS) {
        const Long count = size - base < KEYS ? size - base : KEYS;
        const auto row_of = [&](Long i) { return (lists.union_keys[start + base + i] * H + head) * D; };
        multiply_rows(room.scores, KEY_PITCH, content, room.pitch, count, D, dropped,
                      [&](Long i) { return k + row_of(i); });
        multiply_rows(room.given, KEY_PITCH, gradients_out, room.pitch, count, D, dropped,
                      [&](Long i) { return v + row_of(i); });
        for (int c = lane; c < KEY_PITCH; c += 32) room.weights[of_query + c] = 0;
        __syncthreads();
        for (Long e = begin + lane; e < end; e += 32) {
            const Long place = lists.places[e] - base;
            if (place < 0 || place >= count) continue;
            const float in_table = room.table[threadIdx.y * room.table_pitch + lists.relative[e]];
            const float weight = exp((room.scores[of_query + place] + in_table) * (float)scale - (float)lse[row]);
            const float multiplier = keep(seed, threshold, kept, (Bits)e * H + head);
            const float gradient = weight * (multiplier * room.given[of_query + place] - mean) * (float)scale;
            weights[e * H + head] = weight * multiplier;
            gradients[e * H + head] = gradient;
            if (head == 0) query_of_edge[e] = (int)query;
            atomicAdd(&room.weights[of_query + place], gradient);
        }
        __syncthreads();
        add_rows(sums, room.weights, count, D, dropped, [&](Long i) { return k + row_of(i); });
        __syncthreads();
    }
    each_sum(sums, [&](int in_tile, Long column, float& sum) {
        if (column < D) content[in_tile * room.pitch + column] = sum;
    });
    __syncthreads();
    for (Long c = lane; query < N && c < D; c += 32) {
        float along = 0;
        for (Long e = begin; e < end; e++)
            along += (float)gradients[e * H + head] *
                     nearest(r[(lists.relative[e] * H + head) * D + c], dropped);
        d_content[row * D + c] = content[own + c];
        d_position[row * D + c] = along;
        d_q[row * D + c] = content[own + c] + along;
    }
}

#define SIZES Long N, Long H, Long D, REAL scale, Bits seed, Bits threshold, REAL kept, Long P, Long dropped
#define LISTS \
    const Long *row_offsets, const int *relative, const int *union_keys, const int *places, const int *sizes

// Blocks: (tile, head), a warp a query. Shared: as room_in lays it out, of 2 rows a query, and of 3 backward.
extern "C" __global__ void tensor_forward(
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w, LISTS,
    REAL* out, REAL* lse, SIZES)
{
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Lists lists = {row_offsets, relative, union_keys, places, sizes};
    forward_tile(room_in(shared, 2, D, P), q, k, v, r, u, w, lists, out, lse, N, H, D, P, scale, seed, threshold, kept,
                 (int)dropped);
}

extern "C" __global__ void tensor_backward(
    const REAL* d_out, const REAL* out, const REAL* lse,
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w, LISTS,
    REAL* d_q, REAL* d_content, REAL* d_position, REAL* weights, REAL* gradients, int* query_of_edge, SIZES)
{
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Lists lists = {row_offsets, relative, union_keys, places, sizes};
    backward_tile(room_in(shared, 3, D, P), d_out, out, lse, q, k, v, r, u, w, lists, d_q, d_content, d_position,
                  weights, gradients, query_of_edge, N, H, D, P, scale, seed, threshold, kept, (int)dropped);
}
