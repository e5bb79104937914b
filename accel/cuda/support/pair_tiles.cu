// All layers over a tile of rows: a block takes TILE_ROWS rows, which are whole pairs, through all of them. Rows are
// numbered from `begin` for dropout. What the gradient needs is [K, N, ...], N the rows of all calls, row `skipped`
// the first of them; joints, queries, keys and values of all layers but the first, [K - 1, N, 3 d].
#include "row_tiles.cu"

#define WEIGHTS                                                                                                       \
    const REAL *bias, const REAL *product, const REAL *output, const REAL *output_bias, const REAL *inner,            \
        const REAL *inner_bias, const REAL *outer, const REAL *outer_bias
#define SAVED                                                                                                         \
    REAL *joints, REAL *attention, REAL *attended, REAL *middles, REAL *middle_scales, REAL *befores, REAL *hiddens,  \
        REAL *outs, REAL *out_scales, REAL *ends, REAL *end_scales
#define SIZES                                                                                                         \
    const Bits *seeds, Long begin, Long end, Long skipped, Long N, Long K, Long roles_count, Long H, Long D, Long f,   \
        Bits threshold, REAL kept

// The names of these parameters, where they are handed on.
#define WEIGHTS_HERE bias, product, output, output_bias, inner, inner_bias, outer, outer_bias
#define SAVED_HERE                                                                                                    \
    joints, attention, attended, middles, middle_scales, befores, hiddens, outs, out_scales, ends, end_scales
#define SIZES_HERE seeds, begin, end, skipped, N, K, roles_count, H, D, f, threshold, kept

// The features of one head of a pair: its rows [3 d] of queries, keys and values plus the vectors [3 d] of their roles.
// The weight of the pair's first row is a sigmoid of the query's product with the difference of both keys.
struct Pair {
    const REAL *row[2], *add[2];
    Long d;
};

// Feature a of a row's query, key or value.
__device__ REAL of(const Pair& pair, int half, int part, Long a)
{
    return pair.row[half][part * pair.d + a] + pair.add[half][part * pair.d + a];
}

// Rows [count, d] of a tile are normalised in place, and kept in `out` with their reciprocal standard deviations.
__device__ void norm_rows(REAL* rows, Long count, Long d, REAL* out, REAL* scales)
{
    for (Long r = threadIdx.y; r < count; r += blockDim.y) {
        const REAL rstd = warp_norm(rows + r * d, d);
        for (Long u = threadIdx.x; u < d; u += 32) out[r * d + u] = rows[r * d + u];
        if (threadIdx.x == 0) scales[r] = rstd;
    }
}

// Forward, of the tile that begins with row `tile`. x, first: rows of tables, which `rows` names if `gathered`; else the
// rows themselves.
__device__ void pair_tile_forward(
    Long tile, REAL* shared, const REAL* x, const REAL* first, const int* rows, Long gathered, const int* roles, WEIGHTS,
    SAVED, SIZES)
{
    const Long d = H * D, pitch = 3 * d > f ? 3 * d : f;
    const Long count = end - tile < TILE_ROWS ? end - tile : TILE_ROWS, pair_place = (tile - skipped) / 2;
    REAL *here = shared, *other = here + TILE_ROWS * d, *wide = other + TILE_ROWS * d;
    const REAL factor = 1 / sqrt(REAL(D));
    for (Long i = THREAD; i < TILE_ROWS * d; i += THREADS) {
        const Long r = i / d;
        here[i] = r < count ? x[(gathered ? rows[tile + r] : tile + r) * d + i % d] : REAL(0);
        other[i] = 0;
    }
    for (Long i = THREAD; i < TILE_ROWS * 3 * d; i += THREADS) {
        const Long r = i / (3 * d), u = i % (3 * d);
        wide[r * pitch + u] = r < count ? first[(gathered ? rows[tile + r] : tile + r) * 3 * d + u] : REAL(0);
    }
    __syncthreads();
    for (Long k = 0; k < K; k++, seeds += 4) {
        const Long layer = k * N + tile - skipped;  // the number of the tile's first row among those of all layers
        if (k) {
            tile_product(here, d, d, product + k * d * 3 * d, 3 * d, [=](int r, Long u, REAL sum) {
                wide[r * pitch + u] = sum;
                if (r < count) joints[(layer - N + r) * 3 * d + u] = sum;
            });
            __syncthreads();
        }
        for (Long unit = threadIdx.y; unit < count / 2 * H; unit += blockDim.y) {
            const Long r = 2 * (unit / H), h = unit % H;
            Pair pair;
            pair.d = d;
            for (int half = 0; half < 2; half++) {
                pair.row[half] = wide + (r + half) * pitch + h * D;
                pair.add[half] = bias + (k * roles_count + roles[tile + r + half]) * 3 * d + h * D;
            }
            REAL score[2] = {0, 0};
            for (Long a = threadIdx.x; a < D; a += 32) {
                const REAL key = of(pair, 0, 1, a) - of(pair, 1, 1, a);
                for (int half = 0; half < 2; half++) score[half] += of(pair, half, 0, a) * key;
            }
            for (int half = 0; half < 2; half++) {
                const Long number = 2 * (tile - begin + r + half) * H + h, place = (layer + r + half) * 2 * H + h;
                const REAL s = factor * warp_sum(score[half]), u = 1 / (1 + exp(-s)), v = 1 / (1 + exp(s));
                const REAL a0 = u * keep(seeds[0], threshold, kept, number);
                const REAL a1 = v * keep(seeds[0], threshold, kept, number + H);
                for (Long a = threadIdx.x; a < D; a += 32) {
                    const REAL sum = a0 * of(pair, 0, 2, a) + a1 * of(pair, 1, 2, a);
                    other[(r + half) * d + h * D + a] = sum;
                    attended[(layer + r + half) * d + h * D + a] = sum;
                }
                if (threadIdx.x == 0) {
                    attention[place] = u;
                    attention[place + H] = v;
                }
            }
        }
        __syncthreads();
        tile_product(other, d, d, output + k * d * d, d, [=](int r, Long u, REAL sum) {
            const Long number = (tile - begin + r) * d + u;
            here[r * d + u] += keep(seeds[1], threshold, kept, number) * (sum + output_bias[k * d + u]);
        });
        __syncthreads();
        norm_rows(here, count, d, middles + layer * d, middle_scales + layer);
        __syncthreads();
        tile_product(here, d, d, inner + k * d * f, f, [=](int r, Long u, REAL sum) {
            const Long number = (tile - begin + r) * f + u;
            const REAL y = keep(seeds[2], threshold, kept, number) * erf_gelu(sum + inner_bias[k * f + u]);
            wide[r * pitch + u] = y;
            if (r < count) {
                befores[(layer + r) * f + u] = sum;
                hiddens[(layer + r) * f + u] = y;
            }
        });
        __syncthreads();
        tile_product(wide, pitch, f, outer + k * f * d, d, [=](int r, Long u, REAL sum) {
            const Long number = (tile - begin + r) * d + u;
            here[r * d + u] += keep(seeds[3], threshold, kept, number) * (sum + outer_bias[k * d + u]);
        });
        __syncthreads();
        norm_rows(here, count, d, outs + layer * d, out_scales + layer);
        __syncthreads();
    }
    for (Long p = threadIdx.y; p < count / 2; p += blockDim.y) {
        REAL* sum = other + p * d;
        for (Long u = threadIdx.x; u < d; u += 32) sum[u] = here[2 * p * d + u] + here[(2 * p + 1) * d + u];
        const REAL rstd = warp_norm(sum, d);
        for (Long u = threadIdx.x; u < d; u += 32) ends[(pair_place + p) * d + u] = sum[u];
        if (threadIdx.x == 0) end_scales[pair_place + p] = rstd;
    }
}

// The gradients of rows, d_rows [N, d], of what comes before each matrix, d_joints [K, N, 3 d], d_outputs [K, N, d],
// d_inners [K, N, f], d_outers [K, N, d], from those of the pairs, d_ends [N / 2, d]. The matrices are transposed.
__device__ void pair_tile_backward(
    Long tile, REAL* shared, const REAL* first, const int* rows, Long gathered, const int* roles, WEIGHTS, SAVED,
    const REAL* d_ends, REAL* d_rows, REAL* d_joints, REAL* d_outputs, REAL* d_inners, REAL* d_outers, SIZES)
{
    const Long d = H * D, pitch = 4 * d > f ? 4 * d : f;
    const Long count = end - tile < TILE_ROWS ? end - tile : TILE_ROWS, pair_place = (tile - skipped) / 2;
    REAL *gradients = shared, *other = gradients + TILE_ROWS * d, *wide = other + TILE_ROWS * d;
    const REAL factor = 1 / sqrt(REAL(D));
    for (Long i = THREAD; i < TILE_ROWS * d; i += THREADS) gradients[i] = other[i] = 0;
    for (Long i = THREAD; i < TILE_ROWS * pitch; i += THREADS) wide[i] = 0;
    __syncthreads();
    for (Long p = threadIdx.y; p < count / 2; p += blockDim.y) {
        REAL* gradient = gradients + 2 * p * d;
        for (Long u = threadIdx.x; u < d; u += 32) gradient[u] = d_ends[(tile / 2 + p) * d + u];
        warp_norm_back(gradient, ends + (pair_place + p) * d, end_scales[pair_place + p], d);
        for (Long u = threadIdx.x; u < d; u += 32) gradient[d + u] = gradient[u];
    }
    __syncthreads();
    for (Long k = K - 1; k >= 0; k--) {
        const Long layer = k * N + tile - skipped;
        const Bits* seed = seeds + 4 * k;
        for (Long r = threadIdx.y; r < count; r += blockDim.y) {
            warp_norm_back(gradients + r * d, outs + (layer + r) * d, out_scales[layer + r], d);
            for (Long u = threadIdx.x; u < d; u += 32) {
                const REAL gradient = gradients[r * d + u] * keep(seed[3], threshold, kept, (tile - begin + r) * d + u);
                other[r * d + u] = d_outers[(layer + r) * d + u] = gradient;
            }
        }
        __syncthreads();
        tile_product(other, d, d, outer + k * f * d, f, [=](int r, Long u, REAL sum) {
            if (r >= count) return;
            const REAL z = befores[(layer + r) * f + u] + inner_bias[k * f + u];
            sum *= keep(seed[2], threshold, kept, (tile - begin + r) * f + u) * erf_gelu_derivative(z);
            wide[r * pitch + u] = d_inners[(layer + r) * f + u] = sum;
        });
        __syncthreads();
        tile_product(wide, pitch, f, inner + k * d * f, d,
                     [=](int r, Long u, REAL sum) { gradients[r * d + u] += sum; });
        __syncthreads();
        for (Long r = threadIdx.y; r < count; r += blockDim.y) {
            warp_norm_back(gradients + r * d, middles + (layer + r) * d, middle_scales[layer + r], d);
            for (Long u = threadIdx.x; u < d; u += 32) {
                const REAL gradient = gradients[r * d + u] * keep(seed[1], threshold, kept, (tile - begin + r) * d + u);
                other[r * d + u] = d_outputs[(layer + r) * d + u] = gradient;
            }
        }
        __syncthreads();
        tile_product(other, d, d, output + k * d * d, d,
                     [=](int r, Long u, REAL sum) { wide[r * pitch + 3 * d + u] = sum; });
        __syncthreads();
        for (Long unit = threadIdx.y; unit < count / 2 * H; unit += blockDim.y) {
            const Long r = 2 * (unit / H), h = unit % H;
            Pair pair;
            pair.d = d;
            REAL *gradient[2], *d_row[2], along[2], share[2][2];  // of each row's score; its weights after dropout
            for (int half = 0; half < 2; half++) {
                const Long row = gathered ? rows[tile + r + half] : tile + r + half;
                pair.row[half] = (k ? joints + (layer - N + r + half) * 3 * d : first + row * 3 * d) + h * D;
                pair.add[half] = bias + (k * roles_count + roles[tile + r + half]) * 3 * d + h * D;
                d_row[half] = wide + (r + half) * pitch + h * D;
                gradient[half] = d_row[half] + 3 * d;
            }
            for (int half = 0; half < 2; half++) {
                const Long number = 2 * (tile - begin + r + half) * H + h, place = (layer + r + half) * 2 * H + h;
                const REAL a0 = keep(seed[0], threshold, kept, number), a1 = keep(seed[0], threshold, kept, number + H);
                REAL difference = 0;
                for (Long a = threadIdx.x; a < D; a += 32)
                    difference += gradient[half][a] * (a0 * of(pair, 0, 2, a) - a1 * of(pair, 1, 2, a));
                along[half] = attention[place] * attention[place + H] * factor * warp_sum(difference);
                share[half][0] = attention[place] * a0;
                share[half][1] = attention[place + H] * a1;
            }
            for (Long a = threadIdx.x; a < D; a += 32) {
                const REAL key = of(pair, 0, 1, a) - of(pair, 1, 1, a);
                REAL d_key = 0;
                for (int half = 0; half < 2; half++) {
                    d_row[half][a] = along[half] * key;
                    d_key += along[half] * of(pair, half, 0, a);
                    d_row[half][2 * d + a] = share[0][half] * gradient[0][a] + share[1][half] * gradient[1][a];
                }
                d_row[0][d + a] = d_key;
                d_row[1][d + a] = -d_key;
            }
        }
        __syncthreads();
        for (Long i = THREAD; i < count * 3 * d; i += THREADS)
            d_joints[layer * 3 * d + i] = wide[i / (3 * d) * pitch + i % (3 * d)];
        if (k) {
            tile_product(wide, pitch, 3 * d, product + k * d * 3 * d, d,
                         [=](int r, Long u, REAL sum) { gradients[r * d + u] += sum; });
            __syncthreads();
        }
    }
    for (Long i = THREAD; i < count * d; i += THREADS) d_rows[tile * d + i] = gradients[i];
}
