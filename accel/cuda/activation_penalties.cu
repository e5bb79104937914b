// The gradient of the penalties on large and on changing hidden states; one thread an element.
#include "support/warp.cu"

// Blocks: (row, part of the columns). Sequence b has the rows offsets[b] to offsets[b + 1].
extern "C" __global__ void penalty_gradients(
    const REAL* h, const Long* offsets, REAL* gradients, Long n_sequences, Long d, REAL of_size, REAL of_change,
    REAL times)
{
    const Long row = blockIdx.x, column = (Long)blockIdx.y * blockDim.x + threadIdx.x, i = row * d + column;
    if (column >= d) return;
    const Long sequence = find_part(offsets, n_sequences, row);
    REAL gradient = h[i] * of_size;
    if (row > offsets[sequence]) gradient += (h[i] - h[i - d]) * of_change;
    if (row + 1 < offsets[sequence + 1]) gradient -= (h[i + d] - h[i]) * of_change;
    gradients[i] = gradient * times;
}
