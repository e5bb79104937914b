// What GPST's layers over pairs add to queries, keys and values by role; values do not depend on roles.
#include "support/warp.cu"

#define SIZES Long K, Long R, Long d

// One thread an element of added [K, R, 3 d]: biases [K, 3 d] plus roles [K, R, d] times product [K, d, 3 d].
extern "C" __global__ void role_biases_forward(
    const REAL* roles, const REAL* product, const REAL* biases, REAL* added, SIZES)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x, row = i / (3 * d), u = i % (3 * d), k = row / R;
    if (row >= K * R) return;
    REAL sum = biases[k * 3 * d + u];
    for (Long a = 0; u < 2 * d && a < d; a++) sum += roles[row * d + a] * product[(k * d + a) * 3 * d + u];
    added[i] = sum;
}

// One thread an element of d_roles, of d_product, to which it is added, and of d_biases.
extern "C" __global__ void role_biases_backward(
    const REAL* d_added, const REAL* roles, const REAL* product, REAL* d_roles, REAL* d_product, REAL* d_biases, SIZES)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x, j = i - K * R * d, l = j - K * d * 3 * d;
    REAL sum = 0;
    if (j < 0) {
        const Long row = i / d, a = i % d;
        for (Long u = 0; u < 2 * d; u++) sum += d_added[row * 3 * d + u] * product[(row / R * d + a) * 3 * d + u];
        d_roles[i] = sum;
    } else if (l < 0) {
        const Long k = j / (d * 3 * d), a = j / (3 * d) % d, u = j % (3 * d);
        if (u >= 2 * d) return;
        for (Long row = k * R; row < (k + 1) * R; row++) sum += roles[row * d + a] * d_added[row * 3 * d + u];
        d_product[j] += sum;
    } else if (l < K * 3 * d) {
        const Long k = l / (3 * d), u = l % (3 * d);
        for (Long row = k * R; row < (k + 1) * R; row++) sum += d_added[row * 3 * d + u];
        d_biases[l] = sum;
    }
}

// One thread an element of rows [R, N]: 1 where a row has that role.
extern "C" __global__ void rows_of_roles(const int* roles, REAL* rows, Long R, Long N)
{
    const Long i = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < R * N) rows[i] = roles[i % N] == i / N;
}
