// What all kernel files share. accel/cuda/device.py puts the text of a file in the place of its #include.
// No headers: nvcc, NVRTC and g++ (through accel/verify/cuda_host/cuda_host.h) take the same text.

#ifndef REAL
#define REAL float  // float or double
#endif
#ifndef CHUNKS
#define CHUNKS 1  // elements of a row of D that one lane holds, ceil(D / 32)
#endif
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ REAL name[]
#endif

typedef long long Long;
typedef unsigned long long Bits;

#define ALL_LANES 0xffffffffu

__device__ REAL minus_infinity()
{
    return log(REAL(0));  // INFINITY needs a header
}

__device__ REAL warp_sum(REAL x)
{
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

__device__ REAL warp_max(REAL x)
{
    for (int step = 16; step > 0; step /= 2)
        x = fmax(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

// By one warp: p = softmax(z), both [n]; they may be the same array. Lane l takes the elements l, l + 32, ..., and reads
// no others of p before the next barrier.
__device__ void warp_softmax(const REAL* z, REAL* p, Long n)
{
    REAL largest = minus_infinity(), sum = 0;
    for (Long k = threadIdx.x; k < n; k += 32) largest = fmax(largest, z[k]);
    largest = warp_max(largest);
    for (Long k = threadIdx.x; k < n; k += 32) {
        p[k] = exp(z[k] - largest);
        sum += p[k];
    }
    sum = warp_sum(sum);
    for (Long k = threadIdx.x; k < n; k += 32) p[k] /= sum;
}

// With the highest bit of the threshold of dropout, `seed` says where the seed lies: a graph is replayed with others.
__device__ void read_seed(Bits& seed, Bits& threshold)
{
    if (threshold >> 63 == 0) return;
    seed = *(const Bits*)seed;
    threshold &= ~0ull >> 1;
}

// The hash of splitmix64 for number `index` of a seed.
__device__ Bits mixed(Bits seed, Bits index)
{
    Bits z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// The multiplier of element `index` under dropout: 0, or `kept` = 1 / (1 - rate); threshold = floor(2^32 rate).
__device__ REAL keep(Bits seed, Bits threshold, REAL kept, Bits index)
{
    if (threshold == 0) return kept;
    return (mixed(seed, index) >> 32) >= threshold ? kept : REAL(0);
}

// The part that `place` falls into: the last i in 0..n-1 with offsets[i] <= place.
__device__ Long find_part(const Long* offsets, Long n, Long place)
{
    Long low = 0, high = n;
    while (high - low > 1) {
        const Long middle = (low + high) / 2;
        if (offsets[middle] <= place) low = middle;
        else high = middle;
    }
    return low;
}
