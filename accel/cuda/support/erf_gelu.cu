// The GELU written with the normal distribution Phi, z Phi(z), and its derivative; erfc keeps small values of Phi.
#define SQRT_2_OVER_PI 0.79788456080286535588
#define SQRT_HALF 0.70710678118654752440

__device__ REAL erf_gelu(REAL z)
{
    return REAL(0.5) * z * erfc(-z * REAL(SQRT_HALF));
}

__device__ REAL erf_gelu_derivative(REAL z)
{
    const REAL density = REAL(0.5) * REAL(SQRT_2_OVER_PI) * exp(-z * z * REAL(0.5));
    return REAL(0.5) * erfc(-z * REAL(SQRT_HALF)) + z * density;
}
