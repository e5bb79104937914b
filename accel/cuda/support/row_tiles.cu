// A block and TILE_ROWS rows in shared memory: their products with weights, and their norms. A column of a whole tile has
// TILE_BYTES; CHUNKS says into how many tiles its rows go, so that few rows are shared out among more blocks.
#include "wide.cu"
#include "erf_gelu.cu"

#define TILE_BYTES 64
#define TILE_ROWS (TILE_BYTES / CHUNKS / (int)sizeof(REAL))
#define WEIGHTS_AHEAD 32  // that a thread asks for before it uses the first
#define THREADS (blockDim.x * blockDim.y)
#define THREAD (threadIdx.y * blockDim.x + threadIdx.x)

// Dynamic shared memory that begins at a multiple of 16 bytes.
#ifndef WIDE_SHARED
#define WIDE_SHARED(name) extern __shared__ __align__(16) REAL name[]
#endif

// x [TILE_ROWS, pitch] @ w [inputs, columns]: `use(row, column, sum)` gets every number. A thread keeps a column of all
// rows in registers, so that a weight is read once a block, and neighbours read neighbours. Sums are added up in the
// order of the inputs, whatever the size of a tile.
template <class Use>
__device__ void tile_product(const REAL* x, Long pitch, Long inputs, const REAL* __restrict__ w, Long columns, Use use)
{
    const Long together = pitch % WIDTH(REAL) ? 0 : inputs / WEIGHTS_AHEAD * WEIGHTS_AHEAD;
    for (Long column = THREAD; column < columns; column += THREADS) {
        REAL sums[TILE_ROWS];
#pragma unroll
        for (int row = 0; row < TILE_ROWS; row++) sums[row] = 0;
        for (Long k = 0; k < together; k += WEIGHTS_AHEAD) {
            REAL weights[WEIGHTS_AHEAD];
#pragma unroll
            for (int i = 0; i < WEIGHTS_AHEAD; i++) weights[i] = w[(k + i) * columns + column];
#pragma unroll
            for (int i = 0; i < WEIGHTS_AHEAD; i += WIDTH(REAL))
#pragma unroll
                for (int row = 0; row < TILE_ROWS; row++) {
                    const Wide<REAL> piece = *(const Wide<REAL>*)(x + row * pitch + k + i);
#pragma unroll
                    for (int e = 0; e < WIDTH(REAL); e++) sums[row] += piece.x[e] * weights[i + e];
                }
        }
        for (Long k = together; k < inputs; k++) {
            const REAL weight = w[k * columns + column];
#pragma unroll
            for (int row = 0; row < TILE_ROWS; row++) sums[row] += x[row * pitch + k] * weight;
        }
#pragma unroll
        for (int row = 0; row < TILE_ROWS; row++) use(row, column, sums[row]);
    }
}

// By one warp: x [d] normalised in place; returns the reciprocal standard deviation.
__device__ REAL warp_norm(REAL* x, Long d)
{
    REAL sum = 0, squares = 0;
    for (Long u = threadIdx.x; u < d; u += 32) sum += x[u];
    const REAL mean = warp_sum(sum) / d;
    for (Long u = threadIdx.x; u < d; u += 32) squares += (x[u] - mean) * (x[u] - mean);
    const REAL rstd = 1 / sqrt(warp_sum(squares) / d + REAL(1e-5));
    for (Long u = threadIdx.x; u < d; u += 32) x[u] = (x[u] - mean) * rstd;
    return rstd;
}

// By one warp: the gradients [d] of a normalised row become those of the row, in place.
__device__ void warp_norm_back(REAL* gradients, const REAL* normal, REAL rstd, Long d)
{
    REAL sum = 0, along = 0;
    for (Long u = threadIdx.x; u < d; u += 32) {
        sum += gradients[u];
        along += gradients[u] * normal[u];
    }
    sum = warp_sum(sum) / d;
    along = warp_sum(along) / d;
    for (Long u = threadIdx.x; u < d; u += 32) gradients[u] = rstd * (gradients[u] - sum - normal[u] * along);
}
