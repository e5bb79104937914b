// Sums of rows that share an index, in a fixed order, so that gradients do not depend on timing.
// Entries sorted by index are cut into chunks of CHUNK; a chunk never crosses from one index to the next.
#include "warp.cu"

#define CHUNK 64

// One thread a (chunk, column): partial[chunk] = sum of weights[e, head] * x[source[e]] over the entries e of the chunk.
// x [*, H, D], weights [E, H], order [E], starts [n_rows + 1] into order, chunk_starts [n_rows + 1].
extern "C" __global__ void chunk_sums(
    const REAL* x, const int* source, const REAL* weights, const Long* order, const Long* starts,
    const Long* chunk_starts, REAL* partial, Long n_rows, Long H, Long D)
{
    const Long chunk = blockIdx.x, column = (Long)blockIdx.y * blockDim.x + threadIdx.x, width = H * D;
    if (column >= width || chunk >= chunk_starts[n_rows]) return;
    const Long row = find_part(chunk_starts, n_rows, chunk), head = column / D;
    const Long first = starts[row] + (chunk - chunk_starts[row]) * CHUNK;
    const Long stop = first + CHUNK < starts[row + 1] ? first + CHUNK : starts[row + 1];
    REAL sum = 0;
#pragma unroll 4
    for (Long place = first; place < stop; place++) {
        const Long e = order[place];
        sum += weights[e * H + head] * x[(Long)source[e] * width + column];
    }
    partial[chunk * width + column] = sum;
}

// One thread an element of out [n_rows, width]: the sum of the row's chunks, 0 where there is none, as from n_used on.
extern "C" __global__ void add_chunks(
    const REAL* partial, const Long* chunk_starts, REAL* out, Long n_rows, Long n_used, Long width)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_rows * width) return;
    const Long row = i / width, column = i % width;
    REAL sum = 0;
    for (Long chunk = row < n_used ? chunk_starts[row] : 0; row < n_used && chunk < chunk_starts[row + 1]; chunk++)
        sum += partial[chunk * width + column];
    out[i] = sum;
}
