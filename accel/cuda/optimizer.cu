// Adam on flat vectors, one thread 16 bytes of each.
#include "support/wide.cu"

// correction1 = 1 / (1 - beta1^step), correction2 = 1 / (1 - beta2^step).
__device__ void update(
    REAL* parameters, const REAL* gradients, REAL* first, REAL* second, const REAL* scale, Long size,
    REAL rate, REAL beta1, REAL beta2, REAL epsilon, REAL correction1, REAL correction2)
{
    const Long i = wide_place(parameters), left = size - i;
    if (left <= 0) return;
    Wide<REAL> p = load_wide(parameters + i, left), m = load_wide(first + i, left), v = load_wide(second + i, left);
    const Wide<REAL> sums = load_wide(gradients + i, left);
    for (int e = 0; e < WIDTH(REAL); e++) {
        const REAL gradient = sums.x[e] * scale[0];
        m.x[e] = beta1 * m.x[e] + (1 - beta1) * gradient;
        v.x[e] = beta2 * v.x[e] + (1 - beta2) * gradient * gradient;
        p.x[e] -= rate * (m.x[e] * correction1) / (sqrt(v.x[e] * correction2) + epsilon);
    }
    store_wide(first + i, m, left);
    store_wide(second + i, v, left);
    store_wide(parameters + i, p, left);
}

extern "C" __global__ void adam(
    REAL* parameters, const REAL* gradients, REAL* first, REAL* second, const REAL* scale, Long size,
    REAL beta1, REAL beta2, REAL epsilon, REAL rate, REAL correction1, REAL correction2)
{
    update(parameters, gradients, first, second, scale, size, rate, beta1, beta2, epsilon, correction1, correction2);
}

// The same; of_step [3] are the rate and the corrections, of the step that a graph is replayed for.
extern "C" __global__ void adam_of_step(
    REAL* parameters, const REAL* gradients, REAL* first, REAL* second, const REAL* scale, Long size,
    REAL beta1, REAL beta2, REAL epsilon, const double* of_step)
{
    const REAL rate = of_step[0], correction1 = of_step[1], correction2 = of_step[2];
    update(parameters, gradients, first, second, scale, size, rate, beta1, beta2, epsilon, correction1, correction2);
}

__device__ double sum_of_warp(double x)
{
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

// sums [warps]: thread t adds the squares of the elements t, t + threads, ...; then a warp those of its threads.
extern "C" __global__ void squares(const REAL* x, double* sums, Long size)
{
    const Long thread = (Long)blockIdx.x * blockDim.x + threadIdx.x, threads = (Long)gridDim.x * blockDim.x;
    double sum = 0;
    for (Long i = thread; i < size; i += threads) sum += (double)x[i] * x[i];
    sum = sum_of_warp(sum);
    if (thread % 32 == 0) sums[thread / 32] = sum;
}

// One warp. The gradient of a sum over labels has the squares that sums [count] add up to; the labels are n_labels, or,
// if that is negative, of_labels [1]. norm: the length of the mean gradient; factor: what the gradient of the sum is
// multiplied by, so that it is that of the mean, and of about the length `most` if it is longer; negative: of any.
extern "C" __global__ void clip(
    const double* sums, Long count, REAL n_labels, const double* of_labels, REAL most, double* norm, REAL* factor)
{
    double sum = 0;
    for (Long i = threadIdx.x; i < count; i += 32) sum += sums[i];
    sum = sum_of_warp(sum);
    if (threadIdx.x > 0) return;
    const double labels = n_labels < 0 ? of_labels[0] : n_labels, scale = 1 / (labels > 1 ? labels : 1);
    const double length = sqrt(sum) * scale, shrunk = most / (length + 1e-6);
    norm[0] = length;
    factor[0] = scale * (most >= 0 && shrunk < 1 ? shrunk : 1);
}
