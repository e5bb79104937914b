// Attention over listed keys, a block a tile of neighbouring queries and a head. It copies the rows of all keys of the tile
// to shared memory once, as many as there is room for; the others are read where they lie. union_keys, places [E] and
// sizes [tiles] are those of unions.cu.
#include "hardware.cu"
#include "listed_keys.cu"

// By a block: the rows that there is room for, in shared memory [room, D] for k and for v.
__device__ Near copy_rows(
    REAL* shared, const REAL* k, const REAL* v, const Long* row_offsets, const int* union_keys, const int* places,
    const int* sizes, Long H, Long D, Long room)
{
    const Long head = blockIdx.y, first = row_offsets[(Long)blockIdx.x * blockDim.y];
    const int size = sizes[blockIdx.x], count = size < room ? size : (int)room;
    REAL *near_k = shared, *near_v = shared + room * D;
    for (int i = threadIdx.y; i < count; i += blockDim.y) {
        const Long row = (union_keys[first + i] * H + head) * D;
        for (Long c = threadIdx.x; c < D; c += 32) {
            copy_async(near_k + i * D + c, k + row + c);
            copy_async(near_v + i * D + c, v + row + c);
        }
    }
    commit_copies();
    wait_copies(0);
    __syncthreads();
    return {near_k, near_v, places, count};
}

// Blocks: (tile, head), a warp a query. Shared: [2, room, D].
extern "C" __global__ void tiled_forward(
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* row_offsets, const int* keys, const int* relative,
    const int* union_keys, const int* places, const int* sizes, REAL* out, REAL* lse,
    Long N, Long H, Long D, REAL scale, Bits seed, Bits threshold, REAL kept, Long room)
{
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Near near = copy_rows(shared, k, v, row_offsets, union_keys, places, sizes, H, D, room);
    const Long query = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (query >= N) return;
    forward_row(near, q, k, v, r, u, w, row_offsets, keys, relative, out, lse, query * H + blockIdx.y, H, D, scale,
                seed, threshold, kept);
}

extern "C" __global__ void tiled_backward(
    const REAL* d_out, const REAL* out, const REAL* lse,
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* row_offsets, const int* keys, const int* relative,
    const int* union_keys, const int* places, const int* sizes,
    REAL* d_q, REAL* d_content, REAL* d_position, REAL* weights, REAL* gradients, int* query_of_edge,
    Long N, Long H, Long D, REAL scale, Bits seed, Bits threshold, REAL kept, Long room)
{
    read_seed(seed, threshold);
    DYNAMIC_SHARED(shared);
    const Near near = copy_rows(shared, k, v, row_offsets, union_keys, places, sizes, H, D, room);
    const Long query = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (query >= N) return;
    backward_row(near, d_out, out, lse, q, k, v, r, u, w, row_offsets, keys, relative, d_q, d_content, d_position, weights,
                 gradients, query_of_edge, query * H + blockIdx.y, H, D, scale, seed, threshold, kept);
}
