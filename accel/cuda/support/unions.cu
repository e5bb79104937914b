// The keys that a tile of neighbouring queries lists, each once. Nothing of it depends on what the host knows.
#include "warp.cu"

#define NONE 2147483647  // no key

// By a warp: the least key of edges begin..end - 1 from `least` on, NONE if there is none.
__device__ int next_key(const int* keys, Long begin, Long end, Long least)
{
    int found = NONE;
    for (Long e = begin + threadIdx.x; e < end; e += 32)
        if (keys[e] >= least && keys[e] < found) found = keys[e];
    for (int step = 16; step > 0; step /= 2) {
        const int other = __shfl_xor_sync(ALL_LANES, found, step);
        found = other < found ? other : found;
    }
    return found;
}

// How many keys below number i of a range of 1,024 are listed; ends: how many are up to the end of each word.
__device__ int place_in(const unsigned* listed, const int* ends, int i)
{
    return ends[i / 32] - __popc(listed[i / 32] >> i % 32);
}

// Blocks: a tile of blockDim.y queries. union_keys [E]: the keys of a tile in rising order, from where its edges begin;
// sizes [tiles] how many they are; places [E]: where the key of an edge is among those of its tile. A range of 1,024
// keys at a time, from the next one that is listed.
extern "C" __global__ void tile_unions(
    const Long* row_offsets, const int* keys, int* union_keys, int* places, int* sizes, Long N)
{
    __shared__ unsigned listed[32];  // a bit a key
    __shared__ int ends[32];
    const Long first = (Long)blockIdx.x * blockDim.y, stop = first + blockDim.y < N ? first + blockDim.y : N;
    const Long begin = row_offsets[first], end = row_offsets[stop];
    const int lane = threadIdx.x, thread = threadIdx.y * 32 + lane, n_threads = blockDim.y * 32;
    int size = 0;  // of the union so far, in the first warp
    for (Long least = 0;; least += 32 * 32) {
        if (thread < 32) listed[thread] = 0;
        least = next_key(keys, begin, end, least);
        if (least == NONE) break;
        __syncthreads();
        for (Long e = begin + thread; e < end; e += n_threads) {
            const Long i = keys[e] - least;
            if (i >= 0 && i < 32 * 32) atomicOr(&listed[i / 32], 1u << i % 32);
        }
        __syncthreads();
        if (thread < 32) {
            int count = __popc(listed[lane]);
            for (int step = 1; step < 32; step *= 2) {
                const int below = __shfl_up_sync(ALL_LANES, count, step);
                if (lane >= step) count += below;
            }
            ends[lane] = size + count;
            size += __shfl_sync(ALL_LANES, count, 31);
        }
        __syncthreads();
        for (int i = thread; i < 32 * 32; i += n_threads)
            if (listed[i / 32] >> i % 32 & 1) union_keys[begin + place_in(listed, ends, i)] = (int)least + i;
        for (Long e = begin + thread; e < end; e += n_threads) {
            const Long i = keys[e] - least;
            if (i >= 0 && i < 32 * 32) places[e] = place_in(listed, ends, (int)i);
        }
        __syncthreads();
    }
    if (thread == 0) sizes[blockIdx.x] = size;
}
