// Attention in tiles of 32 x 32: what causal_attention.cu and dot_product_attention.cu share.
// Of a tile one warp holds ROWS rows and a lane one column. A row of a head in shared memory is D | 1 numbers long.
#include "warp.cu"

#define TILE 32
#define WARPS 4
#define ROWS 8
#define EDGE 33  // row length of the tile of weights, without bank conflicts

struct Tile {
    Long queries, n, keys, past, first;  // first rows, lengths, and the first row of the tile within its sequence
};

__device__ Tile find_tile(
    const Long* tile_offsets, Long B, const Long* query_offsets, const Long* key_offsets, Long number)
{
    const Long b = find_part(tile_offsets, B, number);
    Tile tile;
    tile.queries = query_offsets[b];
    tile.n = query_offsets[b + 1] - tile.queries;
    tile.keys = key_offsets[b];
    tile.past = key_offsets[b + 1] - tile.keys - tile.n;
    tile.first = (number - tile_offsets[b]) * TILE;
    return tile;
}

// Rows base + first .. of head `head` of x [*, H, D] into shared memory; 0 where first + row lies outside 0..stop-1.
__device__ void load_rows(REAL* to, const REAL* x, Long base, Long first, Long stop, int count, Long head, Long H, Long D)
{
    const Long stride = D | 1;
    for (int row = threadIdx.y; row < count; row += WARPS) {
        const bool inside = first + row >= 0 && first + row < stop;
        const REAL* from = x + ((base + first + row) * H + head) * D;
        for (Long d = threadIdx.x; d < D; d += 32) to[row * stride + d] = inside ? from[d] : REAL(0);
    }
}

// sums[a] = x . y, where a step of a moves the two by SX, SY rows.
template <int SX, int SY>
__device__ void dot_rows(REAL* sums, const REAL* x, const REAL* y, Long D)
{
    const Long stride = D | 1;
#pragma unroll
    for (int a = 0; a < ROWS; a++) sums[a] = 0;
    for (Long d = 0; d < D; d++)
#pragma unroll
        for (int a = 0; a < ROWS; a++) sums[a] += x[a * SX * stride + d] * y[a * SY * stride + d];
}

// sums[a] += sum over the columns t of weights[a, t] * (x[t] + bias), where a step of a or t moves x by SA or ST rows.
template <int SA, int ST>
__device__ void add_rows(REAL (*sums)[CHUNKS], const REAL* weights, const REAL* x, const REAL* bias, Long D)
{
    const Long stride = D | 1;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const Long d = threadIdx.x + 32 * c;
        if (d >= D) continue;
        const REAL shift = bias ? bias[d] : REAL(0);
        for (int t = 0; t < TILE; t++)
#pragma unroll
            for (int a = 0; a < ROWS; a++)
                sums[a][c] += weights[a * EDGE + t] * (x[(a * SA + t * ST) * stride + d] + shift);
    }
}

__device__ void clear_rows(REAL (*sums)[CHUNKS])
{
#pragma unroll
    for (int a = 0; a < ROWS; a++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) sums[a][c] = 0;
}

// Row a of this warp to row base + first + a of x [*, H, D], if first + a < stop.
__device__ void store_rows(
    REAL* x, REAL (*sums)[CHUNKS], Long base, Long first, Long stop, Long head, Long H, Long D)
{
#pragma unroll
    for (int a = 0; a < ROWS && first + a < stop; a++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const Long d = threadIdx.x + 32 * c;
            if (d < D) x[((base + first + a) * H + head) * D + d] = sums[a][c];
        }
}
