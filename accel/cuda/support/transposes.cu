// Many matrices transposed by one kernel.
#include "warp.cu"

#define MATRICES(k) const REAL *from##k, REAL *to##k, Long rows##k, Long columns##k, Long size##k
#define OF_EIGHT(x)                                                                                     \
    (which < 4 ? which < 2 ? which == 0 ? x##0 : x##1 : which == 2 ? x##2 : x##3                        \
               : which < 6 ? which == 4 ? x##4 : x##5 : which == 6 ? x##6 : x##7)

// Blocks: (part of the elements, array). One thread an element of an array [*, columns, rows], made of [*, rows, columns].
extern "C" __global__ void transpose_arrays(
    MATRICES(0), MATRICES(1), MATRICES(2), MATRICES(3), MATRICES(4), MATRICES(5), MATRICES(6), MATRICES(7))
{
    const Long which = blockIdx.y, i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= OF_EIGHT(size)) return;
    const Long rows = OF_EIGHT(rows), columns = OF_EIGHT(columns), whole = i / (rows * columns) * rows * columns;
    const Long column = (i - whole) / rows, row = (i - whole) % rows;
    OF_EIGHT(to)[i] = OF_EIGHT(from)[whole + row * columns + column];
}
