// Factors of matrix products, rounded to fewer bits of their mantissa, and sums of products.
#include "support/rounded.cu"
#include "support/wide.cu"

extern "C" __global__ void round_numbers(const unsigned* x, unsigned* y, Long size, Long dropped)
{
    const Long i = wide_place(x), left = size - i;
    if (left <= 0) return;
    Wide<unsigned> piece = load_wide(x + i, left);
    for (int e = 0; e < WIDTH(unsigned); e++) piece.x[e] = rounded(piece.x[e], (int)dropped);
    store_wide(y + i, piece, left);
}

// x [rows, columns] float32 to y [rows, pitch] bfloat16, a block for a part of a row; the rest of a row of y stays.
extern "C" __global__ void narrow_numbers(const unsigned* x, unsigned short* y, Long columns, Long pitch)
{
    const Long row = blockIdx.x, column = (Long)blockIdx.y * blockDim.x + threadIdx.x;
    if (column < columns) y[row * pitch + column] = rounded(x[row * columns + column], 16) >> 16;
}

// x [size] float32 to y [size] bfloat16, 16 bytes of y a thread.
extern "C" __global__ void narrow_vector(const unsigned* x, unsigned short* y, Long size)
{
    const int half = WIDTH(unsigned);
    const Long i = wide_place(y), left = size - i;
    if (left <= 0) return;
    const Wide<unsigned> pieces[2] = {load_wide(x + i, left), load_wide(x + i + half, left - half)};
    Wide<unsigned short> piece;
    for (int e = 0; e < 2 * half; e++) piece.x[e] = rounded(pieces[e / half].x[e % half], 16) >> 16;
    store_wide(y + i, piece, left);
}

// One thread 16 bytes: y is the sum of the parts [parts, size] or, to add, that is added to it.
extern "C" __global__ void add_products(const REAL* x, REAL* y, Long parts, Long size, Long add)
{
    const Long i = wide_place(x), left = size - i;
    if (left <= 0) return;
    Wide<REAL> sum = {};
    if (add) sum = load_wide(y + i, left);
    for (Long part = 0; part < parts; part++) {
        const Wide<REAL> piece = load_wide(x + part * size + i, left);
        for (int e = 0; e < WIDTH(REAL); e++) sum.x[e] += piece.x[e];
    }
    store_wide(y + i, sum, left);
}
