// All steps of a pass over charts in one cooperative launch: blocks take the tiles of a step's pairs in turn, wait for
// each other, take the tiles of its nodes, and wait again. It begins with the nodes without pairs, whose arrays end
// with 0: the words in the inside pass; in the outside pass, which goes down from the roots, all nodes as siblings.
#include "support/hardware.cu"
#include "support/node_tiles.cu"
#include "support/pair_tiles.cu"

// steps [3, T + 1]: where nodes, pairs of the outside pass and pairs of the inside pass begin; the last steps may be
// empty. word: of `grid_sync`.
#define STEPS const Long *steps, Long T, Long down, unsigned *word
#define MAPS_0                                                                                                        \
    Long maps0, const REAL *in0, const REAL *in_bias0, const REAL *out0, const REAL *out_bias0, REAL *map_befores0
#define PAIRS                                                                                                         \
    const int *rows, const int *roles, WEIGHTS, SAVED, const Bits *seeds, Long N, Long K, Long roles_count, Long H,   \
        Long D, Long f, Long M, Bits threshold, REAL kept

// A step: its nodes begin..end - 1, its rows of pairs first..last - 1, its seeds, and whether later pairs read its nodes.
struct Step {
    Long begin, end, first, last;
    const Bits* seeds;
    bool is_read;
};

__device__ Long count_steps(const Long* steps, Long T)
{
    while (T > 1 && steps[T - 1] == steps[T]) T--;
    return T;
}

// The nth step of those with pairs, in the order of a pass of `count` steps with nodes; each draws `drawn` seeds.
__device__ Step nth_step(const Long* steps, Long T, Long down, Long count, Long nth, const Bits* seeds, Long drawn)
{
    const Long t = down ? count - 1 - nth : nth + 1, *pairs = steps + (down ? T + 1 : 2 * (T + 1));
    return {steps[t], steps[t + 1], 2 * pairs[t], 2 * pairs[t + 1], seeds + nth * drawn, t > 0};
}

extern "C" __global__ void chart_pass_forward(
    STEPS, const REAL* source, MAPS_0, REAL* map_hiddens0, REAL* sides0, REAL* vectors0, REAL* firsts0, MIXED,
    REAL* scores, REAL* weights, REAL* heights, const REAL* root, const int* is_root, REAL* rstds, MAPS,
    REAL* map_hiddens, REAL* sides, REAL* vectors, REAL* firsts, PAIRS)
{
    WIDE_SHARED(shared);
    const Long count = count_steps(steps, T), d = H * D, n_first = down ? steps[T] : steps[1];
    const Long at = (Long)blockIdx.x * TILE_ROWS, stride = (Long)gridDim.x * TILE_ROWS;
    for (Long tile = at; tile < n_first; tile += stride) {
        node_tile_forward(tile, shared, source, 0, !down, ends, 0, MIXED_HERE, scores, weights, heights, root, is_root,
                          vectors0, rstds, product, firsts0, 1, maps0, in0, in_bias0, out0, out_bias0, map_befores0,
                          map_hiddens0, sides0, seeds, 0, n_first, M, d, threshold, kept);
    }
    grid_sync(word);
    for (Long nth = 0; nth < count - !down; nth++) {
        const Step step = nth_step(steps, T, down, count, nth, seeds + maps0, 4 * K + maps);
        for (Long tile = step.first + at; tile < step.last; tile += stride) {
            pair_tile_forward(tile, shared, vectors, firsts, rows, 1, roles, WEIGHTS_HERE, SAVED_HERE, step.seeds,
                              step.first, step.last, 0, N, K, roles_count, H, D, f, threshold, kept);
            __syncthreads();
        }
        grid_sync(word);
        for (Long tile = step.begin + at; tile < step.end; tile += stride) {
            node_tile_forward(tile, shared, vectors, 1, !down, ends, 0, MIXED_HERE, scores, weights, heights, root,
                              is_root, vectors, rstds, product, firsts, step.is_read, step.is_read ? maps : 0, in,
                              in_bias, out, out_bias, map_befores, map_hiddens, sides, step.seeds + 4 * K, step.begin,
                              step.end, M, d, threshold, kept);
        }
        grid_sync(word);
    }
}

// The tiles of rows begin..end - 1.
__device__ Long count_tiles(Long begin, Long end)
{
    return (end - begin + TILE_ROWS - 1) / TILE_ROWS;
}

// What is given of a second pass, whose gradients lie `pass_pitch` numbers after those of the first one; only the first
// `attached` passes have maps.
#define PASSES const REAL *given1, const REAL *given_heights1, Long pass_pitch, Long passes, Long attached

// The matrices are transposed. Gradients of vectors are given for the first `given_rows0` of the nodes without pairs.
extern "C" __global__ void chart_pass_backward(
    STEPS, GIVEN, PASSES, Long given_rows0, const Long* use_offsets0, const int* uses0, MAPS_0, const REAL* vectors0,
    REAL* d_firsts0, REAL* d_sides0, REAL* d_befores0, REAL* sums0, USES, MIXED, const REAL* heights,
    const REAL* weights, const REAL* rstds, MAPS, const REAL* vectors, const REAL* firsts, REAL* d_firsts,
    REAL* d_sides, REAL* d_befores, REAL* sums, REAL* d_ends, REAL* d_scores, REAL* d_heights, REAL* d_rows,
    REAL* d_joints, REAL* d_outputs, REAL* d_inners, REAL* d_outers, PAIRS)
{
    WIDE_SHARED(shared);
    const Long count = count_steps(steps, T), d = H * D, n_first = down ? steps[T] : steps[1];
    for (Long nth = count - !down - 1; nth >= 0; nth--) {
        const Step step = nth_step(steps, T, down, count, nth, seeds + maps0, 4 * K + maps);
        const Long tiles = count_tiles(step.begin, step.end), tiles_of_pairs = count_tiles(step.first, step.last);
        for (Long unit = blockIdx.x; unit < tiles * passes; unit += gridDim.x) {
            const Long pass = unit / tiles, at = pass * pass_pitch;
            node_tile_backward(
                step.begin + unit % tiles * TILE_ROWS, shared, pass ? given1 : given, given_rows,
                pass ? given_heights1 : given_heights, 1, !down, use_offsets, uses, d_rows + at, d_joints + at,
                MIXED_HERE, heights, ends, weights, vectors, rstds, product, step.is_read,
                step.is_read && pass < attached ? maps : 0, in, in_bias, out, out_bias, map_befores, d_ends + at,
                d_scores + at, d_heights + at, d_firsts + at, d_sides, d_befores, sums + at, step.seeds + 4 * K,
                step.begin, step.end, M, d, threshold, kept);
            __syncthreads();
        }
        grid_sync(word);
        for (Long unit = blockIdx.x; unit < tiles_of_pairs * passes; unit += gridDim.x) {
            const Long at = unit / tiles_of_pairs * pass_pitch;
            pair_tile_backward(step.first + unit % tiles_of_pairs * TILE_ROWS, shared, firsts, rows, 1, roles,
                               WEIGHTS_HERE, SAVED_HERE, d_ends + at, d_rows + at, d_joints + at, d_outputs + at,
                               d_inners + at, d_outers + at, step.seeds, step.first, step.last, 0, N, K, roles_count, H,
                               D, f, threshold, kept);
            __syncthreads();
        }
        grid_sync(word);
    }
    const Long tiles = count_tiles(0, n_first);
    for (Long unit = blockIdx.x; unit < tiles * passes; unit += gridDim.x) {
        const Long pass = unit / tiles, at = pass * pass_pitch;
        node_tile_backward(
            unit % tiles * TILE_ROWS, shared, pass ? given1 : given, given_rows0, pass ? given_heights1 : given_heights,
            0, !down, use_offsets0, uses0, d_rows + at, d_joints + at, MIXED_HERE, heights, ends, weights, vectors0,
            rstds, product, 1, pass < attached ? maps0 : 0, in0, in_bias0, out0, out_bias0, map_befores0, d_ends + at,
            d_scores + at, d_heights + at, d_firsts0 + at, d_sides0, d_befores0, sums0 + at, seeds, 0, n_first, M, d,
            threshold, kept);
        __syncthreads();
    }
}
