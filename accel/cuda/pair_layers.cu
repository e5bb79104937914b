// All layers over pairs of rows, a tile of them a block.
#include "support/pair_tiles.cu"

extern "C" __global__ void pair_layers_forward(
    const REAL* x, const REAL* first, const int* rows, Long gathered, const int* roles, WEIGHTS, SAVED, SIZES)
{
    WIDE_SHARED(shared);
    pair_tile_forward(begin + (Long)blockIdx.x * TILE_ROWS, shared, x, first, rows, gathered, roles, WEIGHTS_HERE,
                      SAVED_HERE, SIZES_HERE);
}

// Blocks: (tile, pass): the gradients of a second pass lie `pass_pitch` numbers after those of the first one.
extern "C" __global__ void pair_layers_backward(
    const REAL* first, const int* rows, Long gathered, const int* roles, WEIGHTS, SAVED, const REAL* d_ends,
    REAL* d_rows, REAL* d_joints, REAL* d_outputs, REAL* d_inners, REAL* d_outers, Long pass_pitch, SIZES)
{
    WIDE_SHARED(shared);
    const Long at = blockIdx.y * pass_pitch;
    pair_tile_backward(begin + (Long)blockIdx.x * TILE_ROWS, shared, first, rows, gathered, roles, WEIGHTS_HERE,
                       SAVED_HERE, d_ends + at, d_rows + at, d_joints + at, d_outputs + at, d_inners + at,
                       d_outers + at, SIZES_HERE);
}
