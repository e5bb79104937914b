// Sums of rows that share an index, in a fixed order, so that gradients do not depend on timing.
// Entries sorted by index are cut into chunks of CHUNK; a chunk never crosses from one index to the next.
#include "warp.cu"

#define CHUNK 64

// One of up to three sums, which share source, H and D: x [*, H, D]; bias [H, D], which is added to every row of x if
// biased; weights [E, H]; order [E], starts [n_used + 1] into order, chunk_starts [n_used + 1]; partial [chunks, H, D];
// out [n_rows, H, D].
#define SUM(k)                                                                                          \
    const REAL *x##k, const REAL *bias##k, Long biased##k, const REAL *weights##k, const Long *order##k, \
        const Long *starts##k, const Long *chunk_starts##k, REAL *partial##k, Long n_used##k
#define ROWS(k) const REAL *partial##k, const Long *chunk_starts##k, REAL *out##k, Long n_rows##k, Long n_used##k
#define OF_THREE(x) (which == 0 ? x##0 : which == 1 ? x##1 : x##2)

// columns [parts, width]: the sums of the columns of x [N, width] over `rows` rows a part.
__device__ void sum_part(const REAL* x, REAL* columns, Long part, Long column, Long rows, Long N, Long width)
{
    const Long first = part * rows, stop = first + rows < N ? first + rows : N;
    if (first >= N) return;
    REAL sum = 0;
#pragma unroll 4
    for (Long row = first; row < stop; row++) sum += x[row * width + column];
    columns[part * width + column] = sum;
}

// Blocks: (chunk, part of the columns, sum). One thread a (chunk, column): partial = sum of weights[e, head] *
// (x[source[e]] + bias) over the entries e of the chunk; not weighted: of x[e]. First the block reads the entries, so that
// no thread waits for each of them. Blocks (part, part of the columns, 3 or 4) sum the columns of two matrices [N, H, D]
// beside them: columns [2, parts, H, D].
extern "C" __global__ void chunk_sums(
    SUM(0), SUM(1), SUM(2), const int* source, Long weighted, Long H, Long D, const REAL* matrix0, const REAL* matrix1,
    REAL* columns, Long parts, Long rows, Long N)
{
    const Long which = blockIdx.z, chunk = blockIdx.x, column = (Long)blockIdx.y * blockDim.x + threadIdx.x;
    const Long width = H * D;
    if (which > 2) {
        if (column >= width) return;
        sum_part(which == 3 ? matrix0 : matrix1, columns + (which - 3) * parts * width, chunk, column, rows, N, width);
        return;
    }
    const Long n_used = OF_THREE(n_used);
    const Long* chunk_starts = OF_THREE(chunk_starts);
    if (chunk >= chunk_starts[n_used]) return;
    const Long row = find_part(chunk_starts, n_used, chunk);
    const Long *order = OF_THREE(order), *starts = OF_THREE(starts);
    const Long first = starts[row] + (chunk - chunk_starts[row]) * CHUNK;
    const int count = starts[row + 1] - first < CHUNK ? (int)(starts[row + 1] - first) : CHUNK;
    __shared__ Long entries[CHUNK], sources[CHUNK];
    for (int t = threadIdx.x; t < count; t += blockDim.x) {
        entries[t] = order[first + t];
        sources[t] = weighted ? (Long)source[entries[t]] : entries[t];
    }
    __syncthreads();
    if (column >= width) return;
    const REAL *x = OF_THREE(x) + column, *weights = OF_THREE(weights) + column / D;
    const REAL bias = OF_THREE(biased) ? OF_THREE(bias)[column] : REAL(0);
    REAL sum = 0;
    if (weighted) {
#pragma unroll 16
        for (int t = 0; t < count; t++) sum += weights[entries[t] * H] * (x[sources[t] * width] + bias);
    } else {
#pragma unroll 16
        for (int t = 0; t < count; t++) sum += x[sources[t] * width];
    }
    OF_THREE(partial)[chunk * width + column] = sum;
}

// Blocks: (part of the elements, sum). One thread an element of out: the sum of the row's chunks, 0 where there is none,
// as from n_used on.
extern "C" __global__ void add_chunks(ROWS(0), ROWS(1), ROWS(2), Long width)
{
    const Long which = blockIdx.y, i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= OF_THREE(n_rows) * width) return;
    const Long row = i / width, column = i % width;
    const Long* chunk_starts = OF_THREE(chunk_starts);
    const REAL* partial = OF_THREE(partial) + column;
    REAL sum = 0;
    if (row < OF_THREE(n_used))
        for (Long chunk = chunk_starts[row]; chunk < chunk_starts[row + 1]; chunk++) sum += partial[chunk * width];
    OF_THREE(out)[i] = sum;
}
