// Index arrays are checked on the device: one flag word comes back, whatever their length.
#include "warp.cu"

// Raises `flag` if an index lies outside low..high-1.
extern "C" __global__ void index_outside(const int* index, Long n, Long low, Long high, Long flag, int* flags)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (index[i] < low || index[i] >= high)) atomicOr(flags, (int)flag);
}

// Raises `flag` unless offsets [n + 1] run from 0 to `last` without falling.
extern "C" __global__ void offsets_wrong(const Long* offsets, Long n, Long last, Long flag, int* flags)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n) return;
    const Long before = i == 0 ? 0 : offsets[i - 1];
    const bool wrong = offsets[i] < before || (i == 0 && offsets[0] != 0) || (i == n && offsets[n] != last);
    if (wrong) atomicOr(flags, (int)flag);
}

// Lowers `first` to the number of the first row of x [*, width] that holds a NaN or an infinity.
extern "C" __global__ void not_finite(const REAL* x, Long size, Long width, Long* first)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size && x[i] - x[i] != 0) atomicMin(first, i / width);
}
