// What GPST's parser has beside products and attention: root-mean-square norms, rotations, gates.
#include "support/warp.cu"
#include "support/rows.cu"

// One warp a row: y = factor x scale, factor the reciprocal root of its mean square.
extern "C" __global__ void rms_norm_forward(
    const REAL* x, const REAL* scale, REAL* y, REAL* factors, Long N, Long d)
{
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y, begin = row * d;
    if (row >= N) return;
    REAL squares = 0;
    for (Long u = threadIdx.x; u < d; u += 32) squares += x[begin + u] * x[begin + u];
    const REAL factor = 1 / sqrt(warp_sum(squares) / d + REAL(1e-5));
    for (Long u = threadIdx.x; u < d; u += 32) y[begin + u] = x[begin + u] * factor * scale[u];
    if (threadIdx.x == 0) factors[row] = factor;
}

// Blocks: `rows` rows. partial [blocks, d]: the sums of the columns of d_scales [N, d] over these rows, of the gradient of
// the scale.
extern "C" __global__ void rms_norm_backward(
    const REAL* __restrict__ d_y, const REAL* __restrict__ x, const REAL* __restrict__ scale, const REAL* factors,
    REAL* __restrict__ d_x, REAL* __restrict__ d_scales, REAL* partial, Long rows, Long N, Long d)
{
    const Long first = blockIdx.x * rows, stop = first + rows < N ? first + rows : N;
    for (Long row = first + threadIdx.y; row < stop; row += blockDim.y) {
        const Long begin = row * d;
        const REAL factor = factors[row];
        REAL along = 0;
#pragma unroll 4
        for (Long u = threadIdx.x; u < d; u += 32) along += d_y[begin + u] * scale[u] * x[begin + u] * factor;
        along = warp_sum(along) / d;
#pragma unroll 4
        for (Long u = threadIdx.x; u < d; u += 32) {
            const REAL normal = x[begin + u] * factor;
            d_scales[begin + u] = d_y[begin + u] * normal;
            d_x[begin + u] = factor * (d_y[begin + u] * scale[u] - normal * along);
        }
    }
    __syncthreads();
    sum_columns(d_scales, partial + blockIdx.x * d, first, stop, d);
}

// Blocks: (part of the pairs, array). One thread a pair of features of x0 or x1 [N, H, 2 half], which is turned by the
// angle of its row and place, or back.
extern "C" __global__ void rotate_pairs(
    const REAL* x0, const REAL* x1, const REAL* cosine, const REAL* sine, REAL* y0, REAL* y1, Long pairs, Long H,
    Long half, Long back)
{
    const REAL* x = blockIdx.y ? x1 : x0;
    REAL* y = blockIdx.y ? y1 : y0;
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    const Long angle = i / (H * half) * half + i % half;
    const REAL c = cosine[angle], s = back ? -sine[angle] : sine[angle], even = x[2 * i], odd = x[2 * i + 1];
    y[2 * i] = even * c - odd * s;
    y[2 * i + 1] = even * s + odd * c;
}

// One thread an element: y z sigmoid(z).
extern "C" __global__ void gate_forward(const REAL* z, const REAL* y, REAL* out, Long size)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = z[i] * (REAL(0.5) + REAL(0.5) * tanh(REAL(0.5) * z[i])) * y[i];
}

extern "C" __global__ void gate_backward(
    const REAL* d_out, const REAL* z, const REAL* y, REAL* d_z, REAL* d_y, Long size)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL gate = REAL(0.5) + REAL(0.5) * tanh(REAL(0.5) * z[i]);
    d_y[i] = d_out[i] * z[i] * gate;
    d_z[i] = d_out[i] * y[i] * gate * (1 + z[i] * (1 - gate));
}

// One thread an angle of cosine and sine [N, half]: of every word its place in its sentence times 10000^(-m / half).
extern "C" __global__ void angles_of_words(const Long* offsets, Long B, REAL* cosine, REAL* sine, Long size, Long half)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x, word = i / half;
    if (i >= size) return;
    const double angle = (word - offsets[find_part(offsets, B, word)]) * pow(1e4, -(double)(i % half) / half);
    cosine[i] = cos(angle);
    sine[i] = sin(angle);
}

// The sentence of a point between two words; those before it have a point less than words.
__device__ Long sentence_of_point(const Long* offsets, Long B, Long point)
{
    Long low = 0, high = B;
    while (high - low > 1) {
        const Long middle = (low + high) / 2;
        if (offsets[middle] - middle <= point) low = middle;
        else high = middle;
    }
    return low;
}

// One thread an element of pairs [S, 2 d]: the words before and after every point.
extern "C" __global__ void neighbours_forward(
    const REAL* x, const Long* offsets, Long B, REAL* pairs, Long size, Long d)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x, point = i / (2 * d), u = i % (2 * d);
    if (i < size) pairs[i] = x[(point + sentence_of_point(offsets, B, point)) * d + u];
}

// One thread an element of d_x [N, d].
extern "C" __global__ void neighbours_backward(
    const REAL* d_pairs, const Long* offsets, Long B, REAL* d_x, Long size, Long d)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x, word = i / d, u = i % d;
    if (i >= size) return;
    const Long b = find_part(offsets, B, word), point = word - b;
    REAL gradient = 0;
    if (word + 1 < offsets[b + 1]) gradient += d_pairs[point * 2 * d + u];
    if (word > offsets[b]) gradient += d_pairs[(point - 1) * 2 * d + d + u];
    d_x[i] = gradient;
}
