// The nodes of a chart, TILE_ROWS a block: each is the weighted mean of the vectors of its pairs, and has maps that the
// pairs of later steps read. Pairs and nodes are numbered through all steps; rows 2 p and 2 p + 1 are those of pair p.
#include "row_tiles.cu"

// What scores the pairs: rows of two tables of s columns; `right` is a row of one of several tables of M rows each.
#define SCORED const REAL *left_rows, const REAL *right_rows, const int *left, const int *right, Long s
// Up to two maps of every node, [2, ...]: out(dropout(gelu(in(vector)))).
#define MAPS                                                                                                       \
    Long maps, const REAL *in, const REAL *in_bias, const REAL *out, const REAL *out_bias, REAL *map_befores
#define NODES const Bits *seeds, Long begin, Long end, Long M, Long d, Bits threshold, REAL kept
// How pairs are mixed: where those of a node begin, from node `shift` on; with what scores them.
#define MIXED const Long *offsets, Long shift, SCORED
// What is given of a pass, and the rows that read every node; gradients of vectors [given_rows, d], of heights [M].
#define GIVEN const REAL *given, Long given_rows, const REAL *given_heights
#define USES const Long *use_offsets, const int *uses
// The names of these parameters, where they are handed on.
#define MIXED_HERE offsets, shift, left_rows, right_rows, left, right, s
#define MAPS_HERE maps, in, in_bias, out, out_bias, map_befores
#define NODES_HERE seeds, begin, end, M, d, threshold, kept

// Forward, of the tile that begins with node `tile`. source: the vectors of nodes without pairs, in the place of
// `composed`, that of pair `skipped` first. Nodes of the inside pass are normalised, and have heights; to one of the
// outside pass `root` is added if it is one. With maps, or without firsts, all threads have done with `shared` in the end.
__device__ void node_tile_forward(
    Long tile, REAL* shared, const REAL* source, Long mixing, Long inside, const REAL* composed, Long skipped, MIXED,
    REAL* scores, REAL* weights, REAL* heights, const REAL* root, const int* is_root, REAL* vectors, REAL* rstds,
    const REAL* product, REAL* firsts, Long with_first, MAPS, REAL* map_hiddens, REAL* sides, NODES)
{
    const Long count = end - tile < TILE_ROWS ? end - tile : TILE_ROWS;
    const REAL factor = 1 / sqrt(REAL(s));
    REAL *here = shared, *wide = here + TILE_ROWS * d;
    for (Long i = THREAD; i < TILE_ROWS * d; i += THREADS) here[i] = wide[i] = 0;
    __syncthreads();
    for (Long r = threadIdx.y; r < count; r += blockDim.y) {
        const Long node = tile + r;
        REAL* x = here + r * d;
        if (mixing) {
            const Long first = offsets[node - shift], last = offsets[node - shift + 1];
            for (Long p = first; p < last; p++) {
                REAL sum = 0;
                for (Long u = threadIdx.x; u < s; u += 32)
                    sum += left_rows[left[p] * s + u] * right_rows[right[p] * s + u];
                sum = warp_sum(sum) * factor;
                if (threadIdx.x == 0) scores[p] = sum;
            }
            __syncwarp();
            if (last > first) warp_softmax(scores + first, weights + first, last - first);
            __syncwarp();
            for (Long u = threadIdx.x; u < d; u += 32) {
                REAL sum = 0;
                for (Long p = first; p < last; p++) sum += weights[p] * composed[(p - skipped) * d + u];
                x[u] = sum;
            }
            if (inside) {
                REAL height = 0;
                for (Long p = first + threadIdx.x; p < last; p += 32)
                    height += weights[p] * (fmax(heights[left[p]], heights[right[p] % M]) + 1);
                height = warp_sum(height);
                const REAL rstd = warp_norm(x, d);
                if (threadIdx.x == 0) {
                    heights[node] = height;
                    rstds[node] = rstd;
                }
            } else if (is_root[node]) {
                for (Long u = threadIdx.x; u < d; u += 32) x[u] += root[u];
            }
        } else {
            for (Long u = threadIdx.x; u < d; u += 32) x[u] = source[node * d + u];
            if (inside && threadIdx.x == 0) heights[node] = 0;
        }
        for (Long u = threadIdx.x; u < d; u += 32) vectors[node * d + u] = x[u];
    }
    __syncthreads();
    if (with_first)
        tile_product(here, d, d, product, 3 * d, [=](int r, Long u, REAL sum) {
            if (r < count) firsts[(tile + r) * 3 * d + u] = sum;
        });
    for (Long m = 0; m < maps; m++) {
        tile_product(here, d, d, in + m * d * d, d, [=](int r, Long u, REAL sum) {
            if (r >= count) return;
            const Long place = (m * M + tile + r) * d + u, number = (tile - begin + r) * d + u;
            const REAL y = keep(seeds[m], threshold, kept, number) * erf_gelu(sum + in_bias[m * d + u]);
            wide[r * d + u] = map_hiddens[place] = y;
            map_befores[place] = sum;
        });
        __syncthreads();
        tile_product(wide, d, d, out + m * d * s, s, [=](int r, Long u, REAL sum) {
            if (r < count) sides[(m * M + tile + r) * s + u] = sum + out_bias[m * s + u];
        });
        __syncthreads();
    }
}

// The gradients of the nodes' sums, or of their source, from those of the rows of the pairs that use them: row u of
// uses[use_offsets[node]], ... Sets d_firsts [M, 3 d], d_sides [maps, M, s] and d_befores [maps, M, d] of the nodes,
// and d_composed, d_scores and d_heights of their pairs. The matrices are transposed.
__device__ void node_tile_backward(
    Long tile, REAL* shared, GIVEN, Long mixing, Long inside, USES, const REAL* d_rows, const REAL* d_first_rows, MIXED,
    const REAL* heights, const REAL* composed, const REAL* weights, const REAL* vectors, const REAL* rstds,
    const REAL* product, Long with_first, MAPS, REAL* d_composed, REAL* d_scores, REAL* d_heights, REAL* d_firsts,
    REAL* d_sides, REAL* d_befores, REAL* gradients, NODES)
{
    const Long count = end - tile < TILE_ROWS ? end - tile : TILE_ROWS;
    const REAL factor = 1 / sqrt(REAL(s));
    REAL *here = shared, *wide = here + TILE_ROWS * d, *side = wide + TILE_ROWS * 3 * d;
    for (Long i = THREAD; i < TILE_ROWS * (4 * d + 2 * s); i += THREADS) shared[i] = 0;
    __syncthreads();
    for (Long r = threadIdx.y; r < count; r += blockDim.y) {
        const Long node = tile + r, first = use_offsets[node], last = use_offsets[node + 1];
        for (Long u = threadIdx.x; u < d; u += 32) {
            REAL sum = node < given_rows ? given[node * d + u] : REAL(0);
            for (Long i = first; i < last; i++) sum += d_rows[uses[i] * d + u];
            here[r * d + u] = sum;
        }
        for (Long u = threadIdx.x; with_first && u < 3 * d; u += 32) {
            REAL sum = 0;
            for (Long i = first; i < last; i++) sum += d_first_rows[(Long)uses[i] * 3 * d + u];
            wide[r * 3 * d + u] = d_firsts[node * 3 * d + u] = sum;
        }
        for (Long u = threadIdx.x; maps && u < s; u += 32) {
            for (Long m = 0; m < maps; m++) {
                REAL sum = 0;
                for (Long i = first; i < last; i++) {
                    const Long p = uses[i] / 2, is_right = uses[i] % 2;
                    if ((is_right ? right[p] / M : 0) != m) continue;
                    const REAL other = is_right ? left_rows[left[p] * s + u] : right_rows[right[p] * s + u];
                    sum += d_scores[p] * factor * other;
                }
                side[(m * TILE_ROWS + r) * s + u] = d_sides[(m * M + node) * s + u] = sum;
            }
        }
    }
    __syncthreads();
    if (with_first) {
        tile_product(wide, 3 * d, 3 * d, product, d, [=](int r, Long u, REAL sum) { here[r * d + u] += sum; });
        __syncthreads();
    }
    for (Long m = 0; m < maps; m++) {
        tile_product(side + m * TILE_ROWS * s, s, s, out + m * s * d, d, [=](int r, Long u, REAL sum) {
            if (r >= count) return;
            const Long place = (m * M + tile + r) * d + u, number = (tile - begin + r) * d + u;
            sum *= keep(seeds[m], threshold, kept, number) *
                   erf_gelu_derivative(map_befores[place] + in_bias[m * d + u]);
            wide[r * d + u] = d_befores[place] = sum;
        });
        __syncthreads();
        tile_product(wide, d, d, in + m * d * d, d, [=](int r, Long u, REAL sum) { here[r * d + u] += sum; });
        __syncthreads();
    }
    for (Long r = threadIdx.y; r < count; r += blockDim.y) {
        const Long node = tile + r;
        REAL* gradient = here + r * d;
        if (mixing && inside) warp_norm_back(gradient, vectors + node * d, rstds[node], d);
        for (Long u = threadIdx.x; u < d; u += 32) gradients[node * d + u] = gradient[u];
        if (!mixing) continue;
        REAL d_height = 0;
        if (inside) {
            d_height = threadIdx.x == 0 ? given_heights[node] : REAL(0);
            for (Long i = use_offsets[node] + threadIdx.x; i < use_offsets[node + 1]; i += 32) {
                const Long p = uses[i] / 2, is_right = uses[i] % 2;
                if ((heights[left[p]] >= heights[right[p] % M]) != is_right) d_height += d_heights[p];
            }
            d_height = warp_sum(d_height);
        }
        const Long first = offsets[node - shift], last = offsets[node - shift + 1];
        REAL mean = 0;
        for (Long p = first; p < last; p++) {
            REAL along = 0;
            for (Long u = threadIdx.x; u < d; u += 32) {
                along += composed[p * d + u] * gradient[u];
                d_composed[p * d + u] = weights[p] * gradient[u];
            }
            along = warp_sum(along);
            if (inside) along += d_height * (fmax(heights[left[p]], heights[right[p] % M]) + 1);
            mean += weights[p] * along;
            if (threadIdx.x == 0) {
                d_scores[p] = along;
                if (inside) d_heights[p] = weights[p] * d_height;
            }
        }
        if (threadIdx.x == 0)
            for (Long p = first; p < last; p++) d_scores[p] = weights[p] * (d_scores[p] - mean);
    }
}
