// The sum of the terms of a loss, and the gradients of all terms.
#include "support/warp.cu"

#define WARPS 32  // as in loss_terms.py
#define TERMS                                                                                                         \
    const REAL *x0, REAL *gradients0, Long room0, Long sign0, Long count_words0, Long count_sentences0, Long words0,  \
        Long sentences0, const REAL *x1, REAL *gradients1, Long room1, Long sign1, Long count_words1,                 \
        Long count_sentences1, Long words1, Long sentences1, const REAL *x2, REAL *gradients2, Long room2, Long sign2,\
        Long count_words2, Long count_sentences2, Long words2, Long sentences2, const REAL *x3, REAL *gradients3,     \
        Long room3, Long sign3, Long count_words3, Long count_sentences3, Long words3, Long sentences3,               \
        const REAL *x4, REAL *gradients4, Long room4, Long sign4, Long count_words4, Long count_sentences4,           \
        Long words4, Long sentences4, const REAL *x5, REAL *gradients5, Long room5, Long sign5, Long count_words5,    \
        Long count_sentences5, Long words5, Long sentences5

struct Linear { Long words, sentences; };
#define COUNT(k) {count_words##k, count_sentences##k}
#define SIZE(k) {words##k, sentences##k}

__device__ Long value_of(const Linear& x, Long n_words, Long n_sentences)
{
    return x.words * n_words + x.sentences * n_sentences;
}

// By one block: x[0] + x[1] + ..., added up by each warp, and then by one thread in a fixed order.
__device__ double block_sum(const REAL* x, Long size, double* sums)
{
    double sum = 0;
    for (Long i = threadIdx.y * 32 + threadIdx.x; i < size; i += WARPS * 32) sum += x[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, step);
    __syncthreads();
    if (threadIdx.x == 0) sums[threadIdx.y] = sum;
    __syncthreads();
    sum = 0;
    for (int warp = 0; warp < WARPS; warp++) sum += sums[warp];
    return sum;
}

// total: labels times the sum of sign / count times the sum of each x; the gradient of every number of x is
// labels sign / count. If `padded`, `batch` has the words and sentences, from which sizes, counts and labels follow;
// behind its size every x has gradients of 0.
extern "C" __global__ void weigh_terms(TERMS, Long labels, const Long* batch, Long padded, double* total)
{
    __shared__ double sums[WARPS];
    const REAL* x[6] = {x0, x1, x2, x3, x4, x5};
    REAL* gradients[6] = {gradients0, gradients1, gradients2, gradients3, gradients4, gradients5};
    const Long rooms[6] = {room0, room1, room2, room3, room4, room5}, signs[6] = {sign0, sign1, sign2, sign3, sign4, sign5};
    const Linear counts[6] = {COUNT(0), COUNT(1), COUNT(2), COUNT(3), COUNT(4), COUNT(5)};
    const Linear sizes[6] = {SIZE(0), SIZE(1), SIZE(2), SIZE(3), SIZE(4), SIZE(5)};
    const Long n_words = padded ? batch[0] : 1, n_sentences = padded ? batch[1] : 0;
    if (padded) labels = n_words;
    double all = 0;
#pragma unroll
    for (int k = 0; k < 6; k++) {
        const Long count = value_of(counts[k], n_words, n_sentences);
        const Long size = padded ? value_of(sizes[k], n_words, n_sentences) : rooms[k];
        const double factor = (double)labels / (count > 1 ? count : 1) * signs[k];
        for (Long i = threadIdx.y * 32 + threadIdx.x; i < rooms[k]; i += WARPS * 32)
            gradients[k][i] = i < size ? REAL(factor) : REAL(0);
        all += factor * block_sum(x[k], size, sums);
    }
    if (threadIdx.x + threadIdx.y == 0) *total = all;
}
