// Adam on flat vectors, one thread an element.
#include "support/warp.cu"

// correction1 = 1 / (1 - beta1^step), correction2 = 1 / (1 - beta2^step).
extern "C" __global__ void adam(
    REAL* parameters, const REAL* gradients, REAL* first, REAL* second, const REAL* scale, Long size,
    REAL rate, REAL beta1, REAL beta2, REAL epsilon, REAL correction1, REAL correction2)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL gradient = gradients[i] * scale[0];
    first[i] = beta1 * first[i] + (1 - beta1) * gradient;
    second[i] = beta2 * second[i] + (1 - beta2) * gradient * gradient;
    parameters[i] -= rate * (first[i] * correction1) / (sqrt(second[i] * correction2) + epsilon);
}
