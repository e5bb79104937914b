"""Eight heads side by side in one vector register, and the loops that attention over lists of keys is made of.

A [rows, H, D] array is kept as [rows, G, D, 8]: head 8 g + l is lane l of group g, and lanes without a head hold 0.
With a handful of keys a query there is no long axis to vectorise over but the heads; the eight statements of a loop
body are one instruction each after LLVM's SLP vectoriser (loads before stores, or it would have to assume that they
overlap).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from accel.cpu.kernels import chunk_begin, exp, kernel, n_chunks, parallel_kernel

Float = NDArray[Any]
LANES = 8


def to_lanes(x: Float, factor: float = 1.0) -> Float:
    """Return factor x with the heads in lanes: [N, G, D, 8] from [N, H, D]."""
    n, n_heads, d_head = x.shape
    shape = (n, -(-n_heads // LANES), d_head, LANES)
    lanes = np.empty(shape, x.dtype) if n_heads % LANES == 0 else np.zeros(shape, x.dtype)
    _to_lanes(np.ascontiguousarray(x), x.dtype.type(factor), lanes, n_chunks(n))
    return lanes


@parallel_kernel()
def _to_lanes(x, factor, lanes, chunks):
    rows, n_heads, d_head = x.shape
    for chunk in prange(chunks):
        for i in range(chunk_begin(chunk, chunks, rows), chunk_begin(chunk + 1, chunks, rows)):
            for h in range(n_heads):
                for d in range(d_head):
                    lanes[i, h // LANES, d, h % LANES] = x[i, h, d] * factor


@kernel()
def load(lanes, row, g):
    """Set the lanes [D, 8] to those of group g of a row [H, D]."""
    for x in range(min(LANES, row.shape[0] - g * LANES)):
        for d in range(row.shape[1]):
            lanes[d, x] = row[g * LANES + x, d]


@kernel()
def store(row, lanes, g, factor):
    """Write factor times the lanes [D, 8] to the heads of group g of a row [H, D], and set the lanes to 0."""
    for x in range(min(LANES, row.shape[0] - g * LANES)):
        for d in range(row.shape[1]):
            row[g * LANES + x, d] = lanes[d, x] * factor
            lanes[d, x] = 0


@kernel()
def dot_sum(s, a, b, q, k, r):
    """Set the lanes s to a + b + sum_d q_d (k_d + r_d)."""
    s0, s1, s2, s3, s4, s5, s6, s7 = (
        a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5], a[6] + b[6], a[7] + b[7],
    )  # fmt: skip
    for d in range(q.shape[0]):
        s0 += q[d, 0] * (k[d, 0] + r[d, 0])
        s1 += q[d, 1] * (k[d, 1] + r[d, 1])
        s2 += q[d, 2] * (k[d, 2] + r[d, 2])
        s3 += q[d, 3] * (k[d, 3] + r[d, 3])
        s4 += q[d, 4] * (k[d, 4] + r[d, 4])
        s5 += q[d, 5] * (k[d, 5] + r[d, 5])
        s6 += q[d, 6] * (k[d, 6] + r[d, 6])
        s7 += q[d, 7] * (k[d, 7] + r[d, 7])
    s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7] = s0, s1, s2, s3, s4, s5, s6, s7


@kernel()
def dot(s, a, b):
    """Set the lanes s to sum_d a_d b_d."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = s.dtype.type(0)
    for d in range(a.shape[0]):
        s0 += a[d, 0] * b[d, 0]
        s1 += a[d, 1] * b[d, 1]
        s2 += a[d, 2] * b[d, 2]
        s3 += a[d, 3] * b[d, 3]
        s4 += a[d, 4] * b[d, 4]
        s5 += a[d, 5] * b[d, 5]
        s6 += a[d, 6] * b[d, 6]
        s7 += a[d, 7] * b[d, 7]
    s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7] = s0, s1, s2, s3, s4, s5, s6, s7


@kernel()
def add(out, p, v):
    """Add p v_d to every out_d."""
    p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
    for d in range(out.shape[0]):
        x0 = out[d, 0] + p0 * v[d, 0]
        x1 = out[d, 1] + p1 * v[d, 1]
        x2 = out[d, 2] + p2 * v[d, 2]
        x3 = out[d, 3] + p3 * v[d, 3]
        x4 = out[d, 4] + p4 * v[d, 4]
        x5 = out[d, 5] + p5 * v[d, 5]
        x6 = out[d, 6] + p6 * v[d, 6]
        x7 = out[d, 7] + p7 * v[d, 7]
        out[d, 0], out[d, 1], out[d, 2], out[d, 3] = x0, x1, x2, x3
        out[d, 4], out[d, 5], out[d, 6], out[d, 7] = x4, x5, x6, x7


@kernel()
def add_both(out, p, v, r):
    """Add p (v_d + r_d) to every out_d."""
    p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
    for d in range(out.shape[0]):
        x0 = out[d, 0] + p0 * (v[d, 0] + r[d, 0])
        x1 = out[d, 1] + p1 * (v[d, 1] + r[d, 1])
        x2 = out[d, 2] + p2 * (v[d, 2] + r[d, 2])
        x3 = out[d, 3] + p3 * (v[d, 3] + r[d, 3])
        x4 = out[d, 4] + p4 * (v[d, 4] + r[d, 4])
        x5 = out[d, 5] + p5 * (v[d, 5] + r[d, 5])
        x6 = out[d, 6] + p6 * (v[d, 6] + r[d, 6])
        x7 = out[d, 7] + p7 * (v[d, 7] + r[d, 7])
        out[d, 0], out[d, 1], out[d, 2], out[d, 3] = x0, x1, x2, x3
        out[d, 4], out[d, 5], out[d, 6], out[d, 7] = x4, x5, x6, x7


@kernel()
def largest(m, w):
    """Set the lanes m to the maxima of the rows w [n, 8], -inf for none."""
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = w.dtype.type(-np.inf)
    for e in range(w.shape[0]):
        m0 = max(m0, w[e, 0])
        m1 = max(m1, w[e, 1])
        m2 = max(m2, w[e, 2])
        m3 = max(m3, w[e, 3])
        m4 = max(m4, w[e, 4])
        m5 = max(m5, w[e, 5])
        m6 = max(m6, w[e, 6])
        m7 = max(m7, w[e, 7])
    m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7] = m0, m1, m2, m3, m4, m5, m6, m7


@kernel()
def add_rows(total, w):
    """Set the lanes of total to the sums of the rows w [n, 8]."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = w.dtype.type(0)
    for e in range(w.shape[0]):
        s0 += w[e, 0]
        s1 += w[e, 1]
        s2 += w[e, 2]
        s3 += w[e, 3]
        s4 += w[e, 4]
        s5 += w[e, 5]
        s6 += w[e, 6]
        s7 += w[e, 7]
    total[0], total[1], total[2], total[3], total[4], total[5], total[6], total[7] = s0, s1, s2, s3, s4, s5, s6, s7


@kernel()
def exp_difference(w, m):
    """Replace the rows w [n, 8] by e^(w - m)."""
    m0, m1, m2, m3, m4, m5, m6, m7 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
    for e in range(w.shape[0]):
        x0 = w[e, 0] - m0
        x1 = w[e, 1] - m1
        x2 = w[e, 2] - m2
        x3 = w[e, 3] - m3
        x4 = w[e, 4] - m4
        x5 = w[e, 5] - m5
        x6 = w[e, 6] - m6
        x7 = w[e, 7] - m7
        w[e, 0], w[e, 1], w[e, 2], w[e, 3] = x0, x1, x2, x3
        w[e, 4], w[e, 5], w[e, 6], w[e, 7] = x4, x5, x6, x7
    exp_rows(w)


@kernel()
def exp_rows(w):
    """Replace the rows w [n, 8] by e^w."""
    flat = w.reshape(w.size)
    for x in range(flat.size):
        flat[x] = exp(flat[x])


@kernel()
def multiply(a, b):
    """Multiply the rows a [n, 8] by b [n, 8]."""
    flat, factor = a.reshape(a.size), b.reshape(b.size)
    for x in range(flat.size):
        flat[x] *= factor[x]


@kernel()
def scale_rows(w, m):
    """Multiply the rows w [n, 8] by the lanes m."""
    m0, m1, m2, m3, m4, m5, m6, m7 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
    for e in range(w.shape[0]):
        x0 = w[e, 0] * m0
        x1 = w[e, 1] * m1
        x2 = w[e, 2] * m2
        x3 = w[e, 3] * m3
        x4 = w[e, 4] * m4
        x5 = w[e, 5] * m5
        x6 = w[e, 6] * m6
        x7 = w[e, 7] * m7
        w[e, 0], w[e, 1], w[e, 2], w[e, 3] = x0, x1, x2, x3
        w[e, 4], w[e, 5], w[e, 6], w[e, 7] = x4, x5, x6, x7


@kernel()
def subtract_rows(w, table, rows):
    """Subtract these rows of a table [N, 8] from the rows w [n, 8]."""
    for e in range(rows.size):
        m = table[rows[e]]
        x0 = w[e, 0] - m[0]
        x1 = w[e, 1] - m[1]
        x2 = w[e, 2] - m[2]
        x3 = w[e, 3] - m[3]
        x4 = w[e, 4] - m[4]
        x5 = w[e, 5] - m[5]
        x6 = w[e, 6] - m[6]
        x7 = w[e, 7] - m[7]
        w[e, 0], w[e, 1], w[e, 2], w[e, 3] = x0, x1, x2, x3
        w[e, 4], w[e, 5], w[e, 6], w[e, 7] = x4, x5, x6, x7


@kernel()
def put_rows(table, w, rows):
    """Write the rows w [n, 8] to these rows of a table [N, 8]."""
    for e in range(rows.size):
        out = table[rows[e]]
        x0 = w[e, 0]
        x1 = w[e, 1]
        x2 = w[e, 2]
        x3 = w[e, 3]
        x4 = w[e, 4]
        x5 = w[e, 5]
        x6 = w[e, 6]
        x7 = w[e, 7]
        out[0], out[1], out[2], out[3] = x0, x1, x2, x3
        out[4], out[5], out[6], out[7] = x4, x5, x6, x7
