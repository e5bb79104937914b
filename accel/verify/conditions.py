"""How far rounding may move an output: first-order error analysis of the operations whose terms cancel.

A condition is an error in units of eps: `accel/verify/compare.py` allows an answer to be off by its condition times the
eps of its precision. It follows from the inputs and the number of roundings on the longest way from an input to the
output, for any order of additions: a sum of m terms is off by at most m u sum |terms|, u = eps / 2 (Higham 2002,
section 4.2). Reference and formulas are float64. `unit` is the u of the precision: it matters only where an error is
too large for first order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refimpl.layers import erf_gelu, gelu, softmax
from refimpl.treeformer.cky_pooling import phrases

Float = np.ndarray
Rows = Sequence[Sequence[int]]
UNIT = float(np.finfo(np.float32).eps) / 2
FUNCTION = 4  # roundings of an exponential or a logarithm of a kernel: at most 2 eps of its value
NORMAL = 13
"""The error of a kernel's normal distribution function, in roundings of its value, if e^(-z^2 / 2) is exact.

The polynomial of `accel/cpu/gelu.py` has 9 steps: the worst case by the analysis above is 13 roundings, 12 of them and
1 for the fit. Over 94 million arguments it is off by at most 7.
"""


def softmax_mean(
    scores: Float, off: float | Float, values: Float, values_off: float | Float = 0.0, unit: float = UNIT
) -> tuple[Float, float, Float]:
    r"""Return the conditions of $\sum_j w_j x_j$ [D], of $\log \sum_j e^{s_j}$ and of the weights [n].

    scores : [n] float; values : [n, D] float; off, values_off : their own errors in roundings of `unit`.

    $d \sum_j w_j x_j = \sum_j w_j\, d s_j (x_j - \sum_k w_k x_k)$; $d s_j$ includes the roundings of $s_j - \max s$
    and of the exponential. n + 1 roundings of products and sums, and n + 2 of the normalisation, are added.
    Where scores are off by more than 1/4, no first order holds: w_j changes by a factor of at most
    $e^{d s_j + \max d s}$ and stays below 1, and the logarithm of the sum is off by at most $\max d s$.
    """
    n, shifted = len(scores), scores - scores.max()
    exponentials = np.exp(shifted)
    total = exponentials.sum()
    w = exponentials / total
    rise = off + np.abs(shifted) + FUNCTION
    if rise.max() * unit <= 0.25:
        d_w = w * np.expm1(rise * unit) / unit
        d_lse = float(d_w.sum())
    else:
        d_w = np.minimum(w * np.expm1(np.minimum((rise + rise.max()) * unit, 99.0)), 1.0) / unit
        d_lse = float(rise.max())
    mean = w @ values
    out = d_w @ np.abs(values - mean) + (2 * n + 3) * (w @ np.abs(values))
    out = out + (w + d_w * unit) @ np.broadcast_to(values_off, values.shape)
    lse = d_lse + (n + FUNCTION) * (1 + np.log(total)) + abs(scores.max() + np.log(total))
    return out / 2, float(lse) / 2, (d_w + w * (d_lse * (rise.max() * unit <= 0.25) + n + 2)) / 2


def sparse_attention(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float, keys: Rows, relative: Rows,
    keep: Sequence[Float], unit: float = UNIT,
) -> tuple[Float, Float]:  # fmt: skip
    """Return the conditions of both outputs of ATT-1, from its arguments.

    A score is a sum of 2 D products: with the addition of a bias before them, the root and the division by it, it has
    2 D + 4 roundings.
    """
    (n, heads, d), root = q.shape, np.sqrt(q.shape[2])
    out, lse = np.zeros_like(q), np.zeros((n, heads))
    for i, h in np.ndindex(n, heads):
        if len(keys[i]):
            parts = (k[keys[i], h], content_bias[h]), (r[relative[i], h], position_bias[h])
            scores = sum(rows @ (q[i, h] + bias) for rows, bias in parts) / root
            sizes = sum(np.abs(rows) @ (np.abs(q[i, h]) + np.abs(bias)) for rows, bias in parts) / root
            values = keep[i][:, h, np.newaxis] * v[keys[i], h]
            out[i, h], lse[i, h], _ = softmax_mean(scores, (2 * d + 4) * sizes, values, unit=unit)
    return out, lse


def causal_attention(
    q: Float, k: Float, v: Float, r: Float, content_bias: Float, position_bias: Float, keep: Float, unit: float = UNIT
) -> tuple[Float, Float]:
    """Return the conditions of both outputs of ATT-2."""
    n_seen = [len(k) - len(q) + i + 1 for i in range(len(q))]
    relative = [[s - 1 - j for j in range(s)] for s in n_seen]
    keep_rows = [keep[i, :s] for i, s in enumerate(n_seen)]
    return sparse_attention(
        q, k, v, r, content_bias, position_bias, [list(range(s)) for s in n_seen], relative, keep_rows, unit
    )


def dot_product_attention(
    q: Float, k: Float, v: Float, causal: bool, keep: Float, unit: float = UNIT
) -> tuple[Float, Float]:
    """Return the conditions of both outputs of ED-1."""
    zero = np.zeros((max(len(k), 1), *q.shape[1:]))
    if causal:
        return causal_attention(q, k, v, zero, zero[0], zero[0], keep, unit)
    rows = [list(range(len(k)))] * len(q)
    return sparse_attention(q, k, v, zero, zero[0], zero[0], rows, rows, list(keep), unit)


def weighted_sum(scores: Float, vectors: Float, sizes: Sequence[int], unit: float = UNIT) -> tuple[Float, Float]:
    """Return the conditions of IO-3: of the sum of every group [C, d], and of the weights [P]."""
    sums, weights, first = np.zeros((len(sizes), vectors.shape[1])), np.zeros(len(scores)), 0
    for c, size in enumerate(sizes):
        group = slice(first, first + size)
        if size:
            sums[c], _, weights[group] = softmax_mean(scores[group], 0.0, vectors[group], unit=unit)
        first += size
    return sums, weights


def cross_entropy(h: Float, table: Float, bias: Float, labels: Rows | Float, unit: float = UNIT) -> Float:
    r"""Return the condition [T] of LAY-5's $l_y - \log \sum_j e^{l_j}$.

    A logit is a sum of d products and the bias: d + 1 roundings. Both terms of the difference are rounded.
    """
    out = np.zeros(len(h))
    for i, label in enumerate(labels):
        if label >= 0:
            logits = table @ h[i] + bias
            off = (table.shape[1] + 1) * (np.abs(table) @ np.abs(h[i]) + np.abs(bias))
            _, lse, _ = softmax_mean(logits, off, np.zeros((len(logits), 1)), unit=unit)
            shifted = logits[label] - logits.max()
            out[i] = lse + (off[label] + 2 * abs(shifted) + abs(logits[label])) / 2
    return out


def cky_pool(
    tokens: Float, weight: Float, direction: Float, max_height: int | None, unit: float = UNIT
) -> tuple[Float, Float]:
    """Return the conditions of CKY-3: of the nodes, and of the weights.

    A composed vector is a sum of 2 d products of two vectors that are themselves off; a score is a sum of d products,
    divided by a root and multiplied by it: 2 d + 4 roundings.
    """
    n, d = tokens.shape
    r = {(i, i): (tokens[i], np.zeros(d)) for i in range(n)}
    weights = [np.zeros(0)]
    for i, j in phrases(n, max_height)[n:]:
        parts, off = (
            np.array([np.concatenate([r[i, k][x], r[k + 1, j][x]]) for k in range(i, j)]) for x in range(2)
        )  # [K, 2d]
        c, c_off = parts @ weight, (off + 2 * d * np.abs(parts)) @ np.abs(weight)
        scores, s_off = c @ direction, (c_off + (2 * d + 4) * np.abs(c)) @ np.abs(direction)
        out, _, of_weights = softmax_mean(scores, s_off, c, c_off, unit)
        r[i, j] = softmax(scores) @ c, 2 * out
        weights.append(of_weights)
    return np.array([off / 2 for _, off in r.values()]), np.concatenate(weights)


def norm_errors(x: Float, off: Float) -> tuple[Float, Float, Float, Float]:
    r"""Return h = (x - mean) / s, s [T, 1], and the errors of h and (relative) of s in roundings u.

    x : [T, d] float; off : [T, d], the errors of x. The mean is off by d u mean|x|: this is not small beside x - mean
    where the elements of a row are nearly equal, and 1 / s makes it larger.
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

    $dx = (g - \overline{g} - h \overline{g h}) / s$ with $g = \gamma\, d_{out}$: in a row of two nearly equal elements
    the three terms cancel, and the error of h remains.
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


def bias_gelu(x: Float, bias: Float) -> Float:
    r"""Return the condition [N, f] of LAY-2's $\tfrac z2 (1 + \tanh t)$, $t = \sqrt{2/\pi}\,(z + 0.044715 z^3)$.

    z has one rounding and t seven, and the sum 1 + tanh t, of numbers up to 1, cancels where t is negative.
    """
    z = x + bias
    t = np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)
    slope = (1 - np.tanh(t) ** 2) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * z**2)
    y, half = np.abs(gelu(z)), np.abs(z) / 2
    condition: Float = (
        y
        + half * slope * np.abs(z)
        + half * ((1 - np.tanh(t) ** 2) * 7 * np.abs(t) + FUNCTION * np.abs(np.tanh(t)) + 1)
        + 2 * y
    ) / 2
    return condition


def bias_gelu_gradients(d_out: Float, x: Float, bias: Float) -> tuple[Float, Float]:
    r"""Return the conditions of the gradients of x [N, f] and bias [f].

    $dx = d_{out} (\tfrac12 (1 + \tanh t) + \tfrac z2 (1 - \tanh^2 t)\, t')$: both sums cancel, and the error of tanh
    remains; z has one rounding, which moves dx by the derivative of dx times that rounding.
    """
    z = x + bias
    k, cubic = np.sqrt(2 / np.pi), 0.044715
    t, dt, ddt = k * (z + cubic * z**3), k * (1 + 3 * cubic * z**2), k * 6 * cubic * z
    y = np.tanh(t)
    bell = 1 - y * y
    off = bell * 7 * np.abs(t) + FUNCTION * np.abs(y)  # the error of tanh t
    second = bell * np.abs(dt - np.abs(z * y) * dt**2 + z * ddt / 2) + bell * np.abs(z * y) * dt**2
    d_x = np.abs(d_out) * (
        np.abs(z) * second + (off + 2) / 2 + np.abs(z) * dt * (2 * np.abs(y) * off + 2 + 10 * bell) / 2 + 2
    )
    return d_x / 2, (d_x + len(x) * np.abs(d_out) * (1 + bell * np.abs(z) * dt)).sum(axis=0) / 2


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


def span_logz(scores: Float, unit: float = UNIT) -> float:
    """Return the condition of SP-2: every cell of the chart is the logarithm of a sum of terms with errors."""
    n = len(scores)
    nothing = -np.inf, 0.0
    N, R = ({(i, j): nothing for i in range(n) for j in range(i, n)} for _ in range(2))
    for longer in range(n):
        for i in range(n - longer):
            j = i + longer
            bare = (0.0, 0.0) if i == j else _log_sum([_sum(N[i, k], R[k + 1, j]) for k in range(i, j)], unit)
            labelled = _sum(_log_sum([(float(s), 0.0) for s in scores[i, j]], unit), bare)
            R[i, j] = _log_sum([labelled, bare], unit)
            N[i, j] = R[i, j] if i == j else labelled
    return labelled[1] / 2


def _sum(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    value = a[0] + b[0]
    return (value, a[1] + b[1] + abs(value)) if value > -np.inf else (value, 0.0)


def _log_sum(terms: list[tuple[float, float]], unit: float) -> tuple[float, float]:
    """Return the logarithm of the sum of exponentials, and its error in roundings; `terms` are such pairs, too."""
    possible = np.array([term for term in terms if term[0] > -np.inf]).reshape(-1, 2)
    if not len(possible):
        return -np.inf, 0.0
    values, off = possible.T
    _, condition, _ = softmax_mean(values, off, np.zeros((len(values), 1)), unit=unit)
    return float(np.logaddexp.reduce(values)), 2 * condition
