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

#define ROWS(k) const REAL *x##k, Long size##k, Long width##k
#define OF_THREE(x) (which == 0 ? x##0 : which == 1 ? x##1 : x##2)

// Blocks: (part, array), of up to three arrays x [*, width]. One thread 16 bytes. Lowers first[array] to the number of
// the first row of the array that holds a NaN or an infinity.
extern "C" __global__ void not_finite(ROWS(0), ROWS(1), ROWS(2), Long* first)
{
    const Long which = blockIdx.y, i = wide_place(x0), left = OF_THREE(size) - i;
    if (left <= 0) return;
    const Wide<REAL> piece = load_wide(OF_THREE(x) + i, left);
    for (int e = 0; e < WIDTH(REAL); e++)
        if (piece.x[e] - piece.x[e] != 0) atomicMin(first + which, (i + e) / OF_THREE(width));
}
