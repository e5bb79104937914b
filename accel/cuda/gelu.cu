// The Gaussian error linear unit of rows plus a bias; one thread an element.
#include "support/warp.cu"

#define SQRT_2_OVER_PI 0.79788456080286535588
#define SQRT_HALF 0.70710678118654752440

extern "C" __global__ void bias_gelu_forward(const REAL* x, const REAL* bias, REAL* y, Long size, Long f)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL z = x[i] + bias[i % f];
    y[i] = REAL(0.5) * z * (1 + tanh(REAL(SQRT_2_OVER_PI) * (z + REAL(0.044715) * z * z * z)));
}

extern "C" __global__ void bias_gelu_backward(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, Long size, Long f)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL z = x[i] + bias[i % f];
    const REAL t = tanh(REAL(SQRT_2_OVER_PI) * (z + REAL(0.044715) * z * z * z));
    const REAL slope = REAL(SQRT_2_OVER_PI) * (1 + 3 * REAL(0.044715) * z * z);
    d_x[i] = d_y[i] * REAL(0.5) * (1 + t + z * (1 - t * t) * slope);
}

// z Phi(z), the normal distribution written with erfc, which keeps its small values.
extern "C" __global__ void bias_erf_gelu_forward(const REAL* x, const REAL* bias, REAL* y, Long size, Long f)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL z = x[i] + bias[i % f];
    y[i] = REAL(0.5) * z * erfc(-z * REAL(SQRT_HALF));
}

extern "C" __global__ void bias_erf_gelu_backward(
    const REAL* d_y, const REAL* x, const REAL* bias, REAL* d_x, Long size, Long f)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    const REAL z = x[i] + bias[i % f];
    const REAL density = REAL(0.5) * REAL(SQRT_2_OVER_PI) * exp(-z * z * REAL(0.5));
    d_x[i] = d_y[i] * (REAL(0.5) * erfc(-z * REAL(SQRT_HALF)) + z * density);
}
