// A step of a pass over charts: its nodes, a tile of them a block.
#include "support/node_tiles.cu"

extern "C" __global__ void chart_nodes_forward(
    const REAL* source, Long mixing, Long inside, const REAL* composed, Long skipped, MIXED, REAL* scores, REAL* weights,
    REAL* heights, const REAL* root, const int* is_root, REAL* vectors, REAL* rstds, const REAL* product, REAL* firsts,
    Long with_first, MAPS, REAL* map_hiddens, REAL* sides, NODES)
{
    WIDE_SHARED(shared);
    node_tile_forward(begin + (Long)blockIdx.x * TILE_ROWS, shared, source, mixing, inside, composed, skipped, MIXED_HERE,
                      scores, weights, heights, root, is_root, vectors, rstds, product, firsts, with_first, MAPS_HERE,
                      map_hiddens, sides, NODES_HERE);
}

// Blocks: (tile, pass): a second pass begins with given1, and its gradients lie `pass_pitch` numbers after those of the
// first one; only the first `attached` passes have maps.
extern "C" __global__ void chart_nodes_backward(
    GIVEN, const REAL* given1, const REAL* given_heights1, Long pass_pitch, Long attached, Long mixing, Long inside,
    USES, const REAL* d_rows, const REAL* d_first_rows, MIXED, const REAL* heights, const REAL* composed,
    const REAL* weights, const REAL* vectors, const REAL* rstds, const REAL* product, Long with_first, MAPS,
    REAL* d_composed, REAL* d_scores, REAL* d_heights, REAL* d_firsts, REAL* d_sides, REAL* d_befores, REAL* gradients,
    NODES)
{
    WIDE_SHARED(shared);
    if (blockIdx.y) {
        given = given1;
        given_heights = given_heights1;
        d_rows += pass_pitch;
        d_first_rows += pass_pitch;
        d_composed += pass_pitch;
        d_scores += pass_pitch;
        d_heights += pass_pitch;
        d_firsts += pass_pitch;
        gradients += pass_pitch;
    }
    node_tile_backward(begin + (Long)blockIdx.x * TILE_ROWS, shared, given, given_rows, given_heights, mixing, inside,
                       use_offsets, uses, d_rows, d_first_rows, MIXED_HERE, heights, composed, weights, vectors, rstds,
                       product, with_first, blockIdx.y < attached ? maps : 0, in, in_bias, out, out_bias, map_befores,
                       d_composed, d_scores, d_heights, d_firsts, d_sides, d_befores, gradients, NODES_HERE);
}

// The seeds of the first draws of dropout of a pass: `mix` of accel/autodiff/seeds.py. A thread a seed.
extern "C" __global__ void draw_seeds(Bits* seeds, Bits seed, Bits threshold, Long count)
{
    read_seed(seed, threshold);
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) seeds[i] = mixed(seed, (Bits)i);
}
