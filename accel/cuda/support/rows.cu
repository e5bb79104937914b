// Sums of columns by the block that makes the rows. Of no use alone: what includes it has warp.cu before.

// By all threads of a block [., 32]: sums[c] = the sum of x[row, c] over its rows first..stop-1, for x [N, d], once all
// threads have passed a barrier since x was written.
__device__ void sum_columns(const REAL* x, REAL* sums, Long first, Long stop, Long d)
{
    for (Long c = threadIdx.y * 32 + threadIdx.x; c < d; c += 32 * blockDim.y) {
        REAL sum = 0;
#pragma unroll 16
        for (Long row = first; row < stop; row++) sum += x[row * d + c];
        sums[c] = sum;
    }
}

// Blocks: (`together` rows, part of the columns); one thread a column of these rows. y [N, columns]: value(place in y,
// column); partial [blocks of rows, columns]: the sums of the columns of y over these rows.
template <class Value>
__device__ void write_and_sum_columns(REAL* y, REAL* partial, Long together, Long N, Long columns, const Value& value)
{
    const Long column = (Long)blockIdx.y * blockDim.x + threadIdx.x, first = blockIdx.x * together;
    if (column >= columns) return;
    const Long stop = first + together < N ? first + together : N;
    REAL sum = 0;
    for (Long i = first * columns + column; i < stop * columns; i += columns) {
        const REAL element = value(i, column);
        y[i] = element;
        sum += element;
    }
    partial[blockIdx.x * columns + column] = sum;
}
