"""One step of one sequence: the LSTM cell and the structured update, and their gradients.

Mirrors `refimpl.fasttrees.cells.structured_update`. A row of activations is [input softmax n | forget softmax n |
sigma(out) | tanh(cell) | sigma(in) | sigma(forget)]. The master gates are repeated to H units first, and every loop
runs over few arrays and all units: short loops over a chunk, or loops over ten arrays, would not be vectorised.
"""

from __future__ import annotations

from accel.cpu.support.kernels import exp, kernel, row_max, sigmoid, tanh
from accel.cpu.support.rows import row_dot, row_sum


@kernel()
def copy(x, y):
    """Set y to x: y[:] = x, as Numba compiles it, takes eight times as long."""
    for a in range(y.size):
        y[a] = x[a]


@kernel()
def add(x, y):
    """Add x to y."""
    for a in range(y.size):
        y[a] += x[a]


@kernel()
def softmax(z):
    """Turn logits into their softmax."""
    most = row_max(z)
    for a in range(z.size):
        z[a] = exp(z[a] - most)
    total = row_sum(z)
    for a in range(z.size):
        z[a] /= total


@kernel()
def softmax_vjp(y, d_y, d_z):
    """Set d_z, the gradient of logits, from their softmax y and its gradient d_y; d_z and d_y may be one array."""
    along = row_dot(y, d_y)
    for a in range(y.size):
        d_z[a] = y[a] * (d_y[a] - along)


@kernel()
def master_gates(softmaxes, tilde, mean):
    """Set tilde f and tilde i [2, H] from the softmaxes [2n], and `mean` to 1 - mean(tilde f) and mean(tilde i)."""
    n = softmaxes.size // 2
    size = tilde.shape[1] // n
    one, width = tilde.dtype.type(1), tilde.dtype.type(n)
    f = i = sum_f = sum_i = tilde.dtype.type(0)
    for k in range(n):
        i += softmaxes[k]
        f += softmaxes[n + k]
        open_i = one - i
        sum_f += f
        sum_i += open_i
        for u in range(k * size, (k + 1) * size):
            tilde[0, u] = f
            tilde[1, u] = open_i
    mean[0], mean[1] = one - sum_f / width, sum_i / width


@kernel()
def master_gates_vjp(softmaxes, d_tilde, d_z):
    """Set d_z [2n] from the gradients of tilde f and tilde i [2, H]."""
    n = softmaxes.size // 2
    size = d_tilde.shape[1] // n
    f = i = d_tilde.dtype.type(0)
    for k in range(n - 1, -1, -1):
        for u in range(k * size, (k + 1) * size):
            f += d_tilde[0, u]
            i -= d_tilde[1, u]
        d_z[k], d_z[n + k] = i, f
    softmax_vjp(softmaxes[:n], d_z[:n], d_z[:n])
    softmax_vjp(softmaxes[n:], d_z[n:], d_z[n:])


@kernel()
def activate(z):
    """Turn the logits [4H] of out, cell, in and forget into their activations."""
    n_units = z.size // 4
    out, cell, both = z[:n_units], z[n_units : 2 * n_units], z[2 * n_units :]
    for a in range(out.size):
        out[a] = sigmoid(out[a])
    for a in range(cell.size):
        cell[a] = tanh(cell[a])
    for a in range(both.size):
        both[a] = sigmoid(both[a])


@kernel()
def update(gates, tilde, c_before, c, h):
    """Set c and h from the activations [4H] and tilde f and tilde i [2, H] (without rows for an LSTM)."""
    n_units = h.size
    out, cell, i, f = gates[:n_units], gates[n_units : 2 * n_units], gates[2 * n_units : -n_units], gates[-n_units:]
    if len(tilde):
        tilde_f, tilde_i = tilde[0], tilde[1]
        for a in range(n_units):
            both = tilde_f[a] * tilde_i[a]
            hat_f, hat_i = f[a] * both + (tilde_f[a] - both), i[a] * both + (tilde_i[a] - both)
            c[a] = hat_f * c_before[a] + hat_i * cell[a]
    else:
        for a in range(n_units):
            c[a] = f[a] * c_before[a] + i[a] * cell[a]
    for a in range(n_units):
        h[a] = out[a] * tanh(c[a])


@kernel()
def update_vjp(gates, tilde, c_before, c, d_h, d_c, d_z, d_tilde):
    """Set d_z [4H] and d_tilde [2, H]; replace d_c, the gradient of c from later steps, by the gradient of c_before."""
    n_units = c.size
    out, cell, i, f = gates[:n_units], gates[n_units : 2 * n_units], gates[2 * n_units : -n_units], gates[-n_units:]
    d_out, d_cell = d_z[:n_units], d_z[n_units : 2 * n_units]
    d_i, d_f = d_z[2 * n_units : -n_units], d_z[-n_units:]
    one = c.dtype.type(1)
    for a in range(n_units):
        tanh_c = tanh(c[a])
        d_out[a] = d_h[a] * tanh_c * out[a] * (one - out[a])
        d_c[a] += d_h[a] * out[a] * (one - tanh_c * tanh_c)
    if len(tilde):
        _structured_vjp(cell, i, f, tilde[0], tilde[1], c_before, d_c, d_cell, d_i, d_f, d_tilde[0], d_tilde[1])
    else:
        for a in range(n_units):
            d_cell[a] = d_c[a] * i[a] * (one - cell[a] * cell[a])
        for a in range(n_units):
            d_i[a] = d_c[a] * cell[a] * i[a] * (one - i[a])
        for a in range(n_units):
            d_f[a] = d_c[a] * c_before[a] * f[a] * (one - f[a])
        for a in range(n_units):
            d_c[a] *= f[a]


@kernel()
def _structured_vjp(cell, i, f, tilde_f, tilde_i, c_before, d_c, d_cell, d_i, d_f, d_tilde_f, d_tilde_i):
    n_units, one = cell.size, cell.dtype.type(1)
    for a in range(n_units):  # for now the gradient of the product of tilde f and tilde i
        d_i[a] = d_c[a] * (c_before[a] * (f[a] - one) + cell[a] * (i[a] - one))
    for a in range(n_units):
        d_tilde_f[a] = d_c[a] * c_before[a] + d_i[a] * tilde_i[a]
    for a in range(n_units):
        d_tilde_i[a] = d_c[a] * cell[a] + d_i[a] * tilde_f[a]
    for a in range(n_units):
        both = tilde_f[a] * tilde_i[a]
        d_cell[a] = d_c[a] * (i[a] * both + (tilde_i[a] - both)) * (one - cell[a] * cell[a])
    for a in range(n_units):
        d_i[a] = d_c[a] * cell[a] * (tilde_f[a] * tilde_i[a]) * i[a] * (one - i[a])
    for a in range(n_units):
        d_f[a] = d_c[a] * c_before[a] * (tilde_f[a] * tilde_i[a]) * f[a] * (one - f[a])
    for a in range(n_units):
        both = tilde_f[a] * tilde_i[a]
        d_c[a] *= f[a] * both + (tilde_f[a] - both)
