"""How far rounding may move the gates and the steps of FastTrees, as `accel/verify/conditions.py` counts it.

Inside this module an error is counted in roundings u; public functions return it in units of eps = 2 u.
"""

from __future__ import annotations

import numpy as np

from accel.verify.conditions import FUNCTION, UNIT, Float, softmax_mean
from refimpl.fasttrees.cells import sigmoid
from refimpl.layers import softmax


def cumax(z: Float, off: float | Float = 0.0, unit: float = UNIT) -> Float:
    """Return the condition [D] of FT-1, of logits with errors `off`: that of the weights, and D sums of at most y."""
    _, _, weights = softmax_mean(z, off, np.zeros((len(z), 1)), unit=unit)
    y: Float = np.cumsum(weights) + np.arange(len(z)) * np.cumsum(softmax(z)) / 2
    return y


def tree_gate(a: Float, b: Float, f: Float, x: Float, unit: float = UNIT) -> Float:
    """Return the condition [d] of FT-11."""
    masters, errors = _masters(a, b, 0.0, 0.0, len(f), unit)
    s = sigmoid(f)
    gate, off = _structured(s, _of_sigmoid(f, 0.0), *masters, *errors)
    condition: Float = np.abs(x) * (off + np.abs(gate)) / 2
    return condition


def cumax_gradient(z: Float, g: Float, g_off: float | Float = 0.0) -> Float:
    r"""Return the condition [D] of the gradient of z, from the gradient g of y and the error of g in roundings.

    $dz_k = w_k (G_k - \sum_j w_j G_j)$, $G_k = \sum_{d \ge k} g_d$: the difference cancels, and $w_k$ is off.
    """
    n, w = len(z), softmax(z)
    G, sizes, off = (np.cumsum(x[::-1])[::-1] for x in (g, np.abs(g), g_off + np.zeros(n)))
    w_off = 2 * softmax_mean(z, 0.0, np.zeros((n, 1)))[2]
    mean = w @ G
    of_G = off + n * sizes
    of_mean = w @ of_G + w_off @ np.abs(G) + (n + 2) * (w @ np.abs(G))
    d: Float = (w_off * np.abs(G - mean) + w * (of_G + of_mean + 2 * np.abs(G - mean))) / 2
    return d


def tree_gate_gradients(d_out: Float, a: Float, b: Float, f: Float, x: Float) -> tuple[Float, Float, Float, Float]:
    """Return the conditions of the gradients of a, b, f and x, for one row."""
    n, width = len(a), len(x)
    (A, B), (d_A, d_B) = _masters(a, b, 0.0, 0.0, width, UNIT)
    s, d_s = sigmoid(f), _of_sigmoid(f, 0.0)
    w, d_w = A * B, np.abs(A) * d_B + np.abs(B) * d_A + np.abs(A * B)
    _, of_gate = _structured(s, d_s, A, B, d_A, d_B)
    gate, size = s * w + (A - w), np.abs(d_out * x)
    rest = size * (1 - s)  # the size of the gradient of w, -d_out x (1 - s)
    of_rest = size * (d_s + 3 * (1 - s) + 1)
    of_A = 2 * size + of_rest * B + rest * (d_B + B) + np.abs(size - rest * B)
    of_B = of_rest * A + rest * (d_A + A)
    of_f = size * (d_w * s * (1 - s) + np.abs(w) * (d_s + s + 4 * s * (1 - s)))
    chunk = width // n
    signed = d_out * x

    def of_chunks(g: Float, off: Float) -> tuple[Float, Float]:
        by_chunk = g.reshape(n, chunk)
        return by_chunk.sum(axis=1), off.reshape(n, chunk).sum(axis=1) + chunk * np.abs(by_chunk).sum(axis=1)

    d_a = cumax_gradient(a, *of_chunks(signed * (1 - (1 - s) * B), of_A))
    d_b = cumax_gradient(b, *of_chunks(signed * (1 - s) * A, of_B))
    return d_a, d_b, of_f / 2, np.abs(d_out) * (of_gate + np.abs(gate)) / 2


def steps(
    gates: Float, c: Float, h: Float, weight: Float, bias: Float, n: int, unit: float = UNIT
) -> tuple[Float, ...]:
    """Return the conditions of h, c, activations and distances of FT-3 and FT-6, for every step.

    gates : [T, 2n + 4H]; weight, bias : [R, H], [R], of the last R logits, or R = 0; n : master gates, or 0.

    The error of the hidden state enters the next step through the weight: a sum of H products and two additions.
    """
    rows, width = [], len(c)
    d_h, d_c = np.zeros(width), np.zeros(width)
    for z in gates:
        z, off = z.copy(), np.zeros(len(z))
        last = len(z) - len(bias)
        sizes = np.abs(weight) @ np.abs(h) + np.abs(bias)
        z[last:] += weight @ h + bias
        off[last:] = np.abs(weight) @ d_h + (width + 2) * sizes + np.abs(z[last:])
        grown = np.expm1(np.minimum(off * unit, 99.0)) / unit  # a gate may change by a factor of e^off
        (o, g, i, f), parts = np.split(z[2 * n :], 4), np.split(grown[2 * n :], 4)
        units = sigmoid(o), np.tanh(g), sigmoid(i), sigmoid(f)
        errors = [_of_sigmoid(o, parts[0]), _of_tanh(g, parts[1]), _of_sigmoid(i, parts[2]), _of_sigmoid(f, parts[3])]
        hat_f, d_hat_f, hat_i, d_hat_i, means = units[3], errors[3], units[2], errors[2], np.zeros(0)
        shares = []
        if n:
            masters, of_masters = _masters(z[n : 2 * n], z[:n], off[n : 2 * n], off[:n], width, unit)
            hat_f, d_hat_f = _structured(units[3], errors[3], *masters, *of_masters)
            hat_i, d_hat_i = _structured(units[2], errors[2], *reversed(masters), *reversed(of_masters))
            means = np.array([e.mean() + n + 2 for e in of_masters]) / 2  # means of numbers up to 1, and 1 - mean
            none = np.zeros((n, 1))
            shares = [softmax_mean(z[k : k + n], off[k : k + n], none, unit=unit)[2] for k in (0, n)]
        d_c = d_hat_f * np.abs(c) + hat_f * d_c + d_hat_i * np.abs(units[1]) + hat_i * errors[1]
        d_c += np.abs(hat_f * c) + np.abs(hat_i * units[1])
        c = hat_f * c + hat_i * units[1]
        d_c += np.abs(c)
        d_h = errors[0] * np.abs(np.tanh(c)) + units[0] * _of_tanh(c, d_c) + np.abs(units[0] * np.tanh(c))
        h = units[0] * np.tanh(c)
        rows.append((d_h / 2, d_c / 2, np.concatenate([*shares, *(e / 2 for e in errors)]), means))
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def _masters(
    a: Float, b: Float, a_off: float | Float, b_off: float | Float, width: int, unit: float
) -> tuple[list[Float], list[Float]]:
    """Return cumax(a) and 1 - cumax(b) of every unit, and their errors in roundings; 1 - y adds one rounding of 1."""
    chunk = width // len(a)
    values = np.cumsum(softmax(a)), 1 - np.cumsum(softmax(b))
    errors = 2 * cumax(a, a_off, unit), 2 * cumax(b, b_off, unit) + 1
    return [np.repeat(x, chunk) for x in values], [np.repeat(x, chunk) for x in errors]


def _structured(s: Float, d_s: Float, A: Float, B: Float, d_A: Float, d_B: Float) -> tuple[Float, Float]:
    """Return s w + (A - w), w = A B, and its error in roundings: A - w cancels."""
    w = A * B
    d_w = np.abs(A) * d_B + np.abs(B) * d_A + np.abs(w)
    y = s * w + (A - w)
    return y, (1 - s) * d_w + np.abs(w) * d_s + d_A + np.abs(s * w) + np.abs(A - w) + np.abs(y)


def _of_sigmoid(z: Float, off: float | Float) -> Float:
    """Return the error of 1 / (1 + e^-z) in roundings; as exp(-log(1 + e^-z)) it includes that of the logarithm."""
    y = sigmoid(z)
    d: Float = y * (1 - y) * off + y * (FUNCTION + 2 + (FUNCTION + 1) * np.logaddexp(0, -z))
    return d


def _of_tanh(z: Float, off: float | Float) -> Float:
    y = np.tanh(z)
    d: Float = (1 - y * y) * off + FUNCTION * np.abs(y)
    return d
