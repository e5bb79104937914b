// Attention over listed keys: s = ((q + u) . k + (q + w) . r) * scale, softmax over the keys of a query.
#include "support/listed_keys.cu"

#define FAR Near{nullptr, nullptr, nullptr, 0}

extern "C" __global__ void sparse_forward(
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* row_offsets, const int* keys, const int* relative, REAL* out, REAL* lse,
    Long N, Long H, Long D, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= N * H) return;
    forward_row(FAR, q, k, v, r, u, w, row_offsets, keys, relative, out, lse, row, H, D, scale,
                seed, threshold, kept);
}

extern "C" __global__ void sparse_backward(
    const REAL* d_out, const REAL* out, const REAL* lse,
    const REAL* q, const REAL* k, const REAL* v, const REAL* r, const REAL* u, const REAL* w,
    const Long* row_offsets, const int* keys, const int* relative,
    REAL* d_q, REAL* d_content, REAL* d_position, REAL* weights, REAL* gradients, int* query_of_edge,
    Long N, Long H, Long D, REAL scale, Bits seed, Bits threshold, REAL kept)
{
    read_seed(seed, threshold);
    const Long row = (Long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= N * H) return;
    backward_row(FAR, d_out, out, lse, q, k, v, r, u, w, row_offsets, keys, relative, d_q, d_content, d_position, weights,
                 gradients, query_of_edge, row, H, D, scale, seed, threshold, kept);
}
