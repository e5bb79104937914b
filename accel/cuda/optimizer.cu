// Adam on flat vectors, one thread 16 bytes of each.
#include "support/wide.cu"

// correction1 = 1 / (1 - beta1^step), correction2 = 1 / (1 - beta2^step).
extern "C" __global__ void adam(
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
