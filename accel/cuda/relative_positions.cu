// Tables of relative positions: their sinusoids, and one table under many draws of dropout.
#include "support/wide.cu"

// One thread an element of y [N, d]: [sin | cos] of the position first + row times the frequency of the column.
extern "C" __global__ void sinusoids(REAL* y, Long first, Long N, Long d)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * d) return;
    const Long row = i / d, column = i % d, half = d / 2, wave = column < half ? column : column - half;
    const double angle = (double)(first + row) * pow(1e4, -2.0 * (double)wave / (double)d);
    y[i] = (REAL)(column < half ? sin(angle) : cos(angle));
}

#define FOUR(a, b, c, d) Bits seed_##a, Bits seed_##b, Bits seed_##c, Bits seed_##d
#define OF_FOUR(a, b, c, d) (which % 4 == 0 ? seed_##a : which % 4 == 1 ? seed_##b : which % 4 == 2 ? seed_##c : seed_##d)

// Blocks: (part, seed). One thread 16 bytes of y [seeds, size]: x [size] as `dropout` of layers.cu draws it.
extern "C" __global__ void dropout_all(
    const REAL* x, REAL* y, Long size, FOUR(a, b, c, d), FOUR(e, f, g, h), FOUR(i, j, k, l), FOUR(m, n, o, p),
    Bits threshold, REAL kept)
{
    const Long which = blockIdx.y, place = wide_place(x), left = size - place;
    if (left <= 0) return;
    Bits seed = which / 4 == 0   ? OF_FOUR(a, b, c, d)
                : which / 4 == 1 ? OF_FOUR(e, f, g, h)
                : which / 4 == 2 ? OF_FOUR(i, j, k, l)
                                 : OF_FOUR(m, n, o, p);
    read_seed(seed, threshold);
    Wide<REAL> piece = load_wide(x + place, left);
    for (int q = 0; q < WIDTH(REAL); q++) piece.x[q] *= keep(seed, threshold, kept, place + q);
    store_wide(y + which * size + place, piece, left);
}
