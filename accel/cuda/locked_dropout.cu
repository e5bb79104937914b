// Dropout of features at all steps of a sequence, and of words; the last states of sequences. One thread an element.
#include "support/warp.cu"

// Blocks: (row, part of the columns). Feature a of sequence b, whose rows begin at offsets[b], is element b d + a.
extern "C" __global__ void locked_dropout(
    const REAL* x, const Long* offsets, REAL* y, Long n_sequences, Long d, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long row = blockIdx.x, column = (Long)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= d) return;
    const Long sequence = find_part(offsets, n_sequences, row);
    y[row * d + column] = x[row * d + column] * keep(seed, threshold, kept, sequence * d + column);
}

// Blocks as of locked_dropout. A row is dropped as a whole: it is the element ids[row].
extern "C" __global__ void word_dropout(
    const REAL* x, const int* ids, REAL* y, Long d, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long row = blockIdx.x, column = (Long)blockIdx.y * blockDim.x + threadIdx.x;
    if (column < d) y[row * d + column] = x[row * d + column] * keep(seed, threshold, kept, ids[row]);
}

// Blocks: (sequence, part of the columns, array). Of h and c [N, width], the last row of every sequence.
extern "C" __global__ void last_rows(
    const REAL* h, REAL* last_h, const REAL* c, REAL* last_c, const Long* offsets, Long width)
{
    const Long column = (Long)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const REAL* from = blockIdx.z ? c : h;
    (blockIdx.z ? last_c : last_h)[blockIdx.x * width + column] = from[(offsets[blockIdx.x + 1] - 1) * width + column];
}
