"""How far rounding may move an output: first-order error analysis of the operations whose terms cancel.

A condition is counted in eps32: `accel/verify/compare.py` allows a float32 answer eps32 times it. It follows from the
inputs and the number of roundings on the longest way from an input to the output, for any order of additions: a sum of
m terms is off by at most m u sum |terms|, u = eps / 2 (Higham 2002, section 4.2). Reference and formulas are float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refimpl.layers import erf_gelu

Float = np.ndarray
Rows = Sequence[Sequence[int]]
UNIT = float(np.finfo(np.float32).eps) / 2
FUNCTION = 4  # an exponential or a logarithm of a kernel: at most 2 eps of its value, in roundings
NORMAL = 8  # the normal distribution function of a kernel: 4 eps of its value are asked, as accel/cpu/gelu.py states


def softmax_mean(scores: Float, off: Float, values: Float) -> tuple[Float, float, Float]:
    r"""Return the conditions of $\sum_j w_j x_j$ [D], of $\log \sum_j e^{s_j}$ and of the weights [n].

    scores : [n] float; off : [n] float, their own errors in roundings u; values : [n, D] float.

    $d \sum_j w_j x_j = \sum_j w_j\, d s_j (x_j - \sum_k w_k x_k)$; to $d s_j$ come the rounding of $s_j - \max s$ and
    the exponential. n + 1 roundings of products and sums, and n + 2 of the normalisation, come on top.
    """
    n, shifted = len(scores), scores - scores.max()
    exponentials = np.exp(shifted)
    total = exponentials.sum()
    w = exponentials / total
    rise = off + np.abs(shifted) + FUNCTION
    d_s = np.expm1(np.minimum(rise * UNIT, 1.0)) / UNIT  # beyond first order: huge scores are off by per cents
    mean = w @ values
    out = (w * d_s) @ np.abs(values - mean) + (2 * n + 3) * (w @ np.abs(values))
    lse = w @ d_s + (n + FUNCTION) * (1 + np.log(total)) + abs(scores.max() + np.log(total))
    return out / 2, float(lse) / 2, w * (d_s + w @ d_s + n + 2) / 2


def sparse_attention(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float, keys: Rows, relative: Rows,
    keep: Sequence[Float],
) -> tuple[Float, Float]:  # fmt: skip
    """Return the conditions of both outputs of ATT-1, from its arguments.

    A score is a sum of 2 D products; with the sum in front of them, the root and its division: 2 D + 4 roundings.
    """
    (n, heads, d), root = q.shape, np.sqrt(q.shape[2])
    out, lse = np.zeros_like(q), np.zeros((n, heads))
    for i, h in np.ndindex(n, heads):
        if len(keys[i]):
            parts = (k[keys[i], h], content_bias[h]), (r[relative[i], h], position_bias[h])
            scores = sum(rows @ (q[i, h] + bias) for rows, bias in parts) / root
            sizes = sum(np.abs(rows) @ (np.abs(q[i, h]) + np.abs(bias)) for rows, bias in parts) / root
            values = keep[i][:, h, np.newaxis] * v[keys[i], h]
            out[i, h], lse[i, h], _ = softmax_mean(scores, (2 * d + 4) * sizes, values)
    return out, lse


def causal_attention(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float, keep: Float
) -> tuple[Float, Float]:
    """Return the conditions of both outputs of ATT-2."""
    n_seen = [len(k) - len(q) + i + 1 for i in range(len(q))]
    relative = [[s - 1 - j for j in range(s)] for s in n_seen]
    keep_rows = [keep[i, :s] for i, s in enumerate(n_seen)]
    return sparse_attention(
        q, k, v, r, content_bias, position_bias, [list(range(s)) for s in n_seen], relative, keep_rows
    )


def dot_product_attention(q: Float, k: Float, v: Float, causal: bool, keep: Float) -> tuple[Float, Float]:
    """Return the conditions of both outputs of ED-1."""
    zero = np.zeros((max(len(k), 1), *q.shape[1:]))
    if causal:
        return causal_attention(q, k, v, zero, zero[0], zero[0], keep)
    rows = [list(range(len(k)))] * len(q)
    return sparse_attention(q, k, v, zero, zero[0], zero[0], rows, rows, list(keep))


def norm_errors(x: Float, off: Float) -> tuple[Float, Float, Float, Float]:
    r"""Return h = (x - mean) / s, s [T, 1], and the errors of h and (relative) of s in roundings u.

    x, off : [T, d] float, and errors of x. The mean is off by d u mean|x|; that is not small beside x - mean
    where a row nearly agrees, and 1 / s makes it larger.
    """
    d = x.shape[1]
    c = x - x.mean(axis=1, keepdims=True)
    s = np.sqrt((c**2).mean(axis=1, keepdims=True) + 1e-5)
    d_c = np.abs(c) + d * np.abs(x).mean(axis=1, keepdims=True) + off + off.mean(axis=1, keepdims=True)
    d_s = (np.abs(c) * d_c).mean(axis=1, keepdims=True) / s**2 + d / 2 + FUNCTION
    h = c / s
    return h, s, d_c / s + np.abs(h) * (d_s + 1), d_s


def layer_norm(x: Float, scale: Float, bias: Float, off: float | Float = 0.0) -> Float:
    """Return the condition [T, d] of LAY-1, of an x that is off by `off` roundings."""
    h, _, d_h, _ = norm_errors(x, off + 0 * x)
    condition: Float = (np.abs(scale) * (d_h + 2 * np.abs(h)) + np.abs(bias)) / 2
    return condition


def layer_norm_gradients(d_out: Float, x: Float, scale: Float, off: float | Float = 0.0) -> tuple[Float, Float, Float]:
    r"""Return the conditions of the gradients of x [T, d], scale [d] and bias [d].

    $dx = (g - \overline{g} - h \overline{g h}) / s$ with $g = \gamma\, d_{out}$: for two elements that nearly agree the
    three terms cancel, and each is off by the error of h.
    """
    n, d = x.shape
    h, s, d_h, d_s = norm_errors(x, off + 0 * x)
    g = np.abs(scale * d_out)

    def mean(y: Float) -> Any:
        return y.mean(axis=1, keepdims=True)

    direct, of_normal = (d + 3) * (g + mean(g)), d_h * mean(g * np.abs(h)) + np.abs(h) * mean(g * d_h)
    terms = g + mean(g) + np.abs(h) * mean(g * np.abs(h))
    d_x = (direct + of_normal + (d + 3) * np.abs(h) * mean(g * np.abs(h)) + (d_s + 2) * terms) / s
    d_scale = (np.abs(d_out) * (d_h + (n + 1) * np.abs(h))).sum(axis=0)
    return d_x / 2, d_scale / 2, n * np.abs(d_out).sum(axis=0) / 2


def bias_erf_gelu(x: Float, bias: Float) -> Float:
    r"""Return the condition of LAY-9's $y = z \Phi(z)$ [N, f], z = x + b.

    $dy = (\Phi(z) + z \phi(z))\, dz + z\, d\Phi$: z has one rounding, the product another. $\Phi$ is made of
    $e^{-z^2/2}$, and the three roundings of $z^2$ (two of them from z) move it by $\tfrac32 z^2 u$ of the tail.
    """
    z = x + bias
    size, tail = np.abs(erf_gelu(z)), np.abs(erf_gelu(-np.abs(z)))  # |z| Phi(z), |z| Phi(-|z|)
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    condition: Float = (size + z * z * density + (NORMAL + 1) * size + 1.5 * z * z * tail) / 2
    return condition
