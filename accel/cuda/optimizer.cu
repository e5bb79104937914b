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
    const Wide<REAL> slopes = load_wide(gradients + i, left);
    for (int e = 0; e < WIDTH(REAL); e++) {
        const REAL gradient = slopes.x[e] * scale[0];
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

// sums [threads]: thread t adds the squares of the elements t, t + threads, ....
extern "C" __global__ void squares(const REAL* x, double* sums, Long size)
{
    const Long thread = (Long)blockIdx.x * blockDim.x + threadIdx.x, threads = (Long)gridDim.x * blockDim.x;
    double sum = 0;
    for (Long i = thread; i < size; i += threads) sum += (double)x[i] * x[i];
    sums[thread] = sum;
}
