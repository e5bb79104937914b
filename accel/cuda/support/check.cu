// Arrays are checked on the device: one number comes back, the first place of an error, whatever their length.
#include "wide.cu"

// Lowers `first` to the first place of an index outside low..high-1.
extern "C" __global__ void index_outside(const int* index, Long n, Long low, Long high, Long* first)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (index[i] < low || index[i] >= high)) atomicMin(first, i);
}

// Lowers `first` to the first place at which offsets [n + 1] do not run from 0 to `last` without falling.
extern "C" __global__ void offsets_wrong(const Long* offsets, Long n, Long last, Long* first)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n) return;
    const Long before = i == 0 ? 0 : offsets[i - 1];
    const bool wrong = offsets[i] < before || (i == 0 && offsets[0] != 0) || (i == n && offsets[n] != last);
    if (wrong) atomicMin(first, i);
}

// Lowers `first` to the number of the first row of x [*, width] that holds a NaN or an infinity.
extern "C" __global__ void not_finite(const REAL* x, Long size, Long width, Long* first)
{
    const Long i = wide_place(x), left = size - i;
    if (left <= 0) return;
    const Wide<REAL> piece = load_wide(x + i, left);
    for (int e = 0; e < WIDTH(REAL); e++)
        if (piece.x[e] - piece.x[e] != 0) atomicMin(first, (i + e) / width);
}
