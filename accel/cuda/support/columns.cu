// Sums of the columns of up to three matrices [N, columns], in two stages and always in the same order.
#include "warp.cu"

#define ROWS_TOGETHER 64
#define OF_THREE(x) (which == 0 ? x##0 : which == 1 ? x##1 : x##2)

// Blocks: (ROWS_TOGETHER rows, part of the columns, matrix). partial [matrix, part of the rows, columns].
extern "C" __global__ void sum_rows(
    const REAL* x0, const REAL* x1, const REAL* x2, REAL* partial, Long N, Long columns)
{
    const Long which = blockIdx.z, column = (Long)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    const REAL* x = OF_THREE(x) + column;
    const Long first = (Long)blockIdx.x * ROWS_TOGETHER;
    const Long stop = first + ROWS_TOGETHER < N ? first + ROWS_TOGETHER : N;
    REAL sum = 0;
#pragma unroll 4
    for (Long row = first; row < stop; row++) sum += x[row * columns];
    partial[(which * gridDim.x + blockIdx.x) * columns + column] = sum;
}

// One thread an element of sums [matrices, columns]; partial [matrices, parts, columns].
extern "C" __global__ void add_parts(const REAL* partial, REAL* sums, Long matrices, Long parts, Long columns)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= matrices * columns) return;
    const REAL* x = partial + i / columns * parts * columns + i % columns;
    REAL sum = 0;
    for (Long part = 0; part < parts; part++) sum += x[part * columns];
    sums[i] = sum;
}
