// Dropout of features at all steps of a sequence; one thread an element.
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
