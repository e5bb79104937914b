"""Layers that every Transformer shares: normalisation, feed-forward, positions, embedding, cross-entropy."""

import math
from collections.abc import Callable

import numpy as np

from refimpl.checks import Float, Int, Parameters, check_shape, check_shapes

EPSILON = 1e-5  # added to the variance by layer_norm


def layer_norm(x: Float, scale: Float, bias: Float, epsilon: float = EPSILON) -> Float:
    r"""Return every row shifted to mean 0, divided by its deviation, then scaled and shifted by learned vectors.

    Spec: LAY-1.  $y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$, $\epsilon = 10^{-5}$

    x : [T, d] float; scale, bias : [d] float, $\gamma$ and $\beta$; epsilon : float -> [T, d] float
    Raises ValueError if shapes or dtypes do not fit.

    >>> layer_norm(np.array([[0.0, 2.0]]), np.array([1.0, 1.0]), np.array([5.0, 5.0])).round(4)
    array([[4., 6.]])
    """
    check_shapes(x=(x, "Td"), scale=(scale, "d"), bias=(bias, "d"), like=x)
    mean = x.mean(axis=1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    return np.asarray(scale * (x - mean) / np.sqrt(variance + epsilon) + bias)


def named_norm(x: Float, parameters: Parameters, name: str, epsilon: float = EPSILON) -> Float:
    """Return the rows normalised, with the parameters `{name}.scale` and `{name}.bias`: `layer_norm`. Spec: LAY-1."""
    return layer_norm(x, parameters[f"{name}.scale"], parameters[f"{name}.bias"], epsilon)


def gelu(x: Float) -> Float:
    r"""Return the Gaussian error linear unit of every element, by its tanh formula.

    Spec: LAY-2.  $\tfrac12 x (1 + \tanh(\sqrt{2/\pi}\,(x + 0.044715\, x^3)))$

    x : [...] float -> [...] float

    >>> gelu(np.array([-100.0, 0.0, 100.0])).tolist()
    [-0.0, 0.0, 100.0]
    """
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def bias_gelu(x: Float, bias: Float) -> Float:
    r"""Return the Gaussian error linear unit of every row plus a bias.

    Spec: LAY-2.  $\mathrm{gelu}(x + b)$

    x : [T, f] float; bias : [f] float -> [T, f] float
    Raises ValueError if shapes or dtypes do not fit.
    """
    return gelu(_plus_bias(x, bias))


def softmax(x: Float) -> Float:
    r"""Return the probabilities whose logits are the entries of the last axis.

    Spec: LAY-6.  $e^{x_j} / \sum_l e^{x_l}$

    x : [..., n] float, nats; -inf for probability 0 -> [..., n] float

    >>> softmax(np.log(np.array([1.0, 3.0]))).round(12).tolist()
    [0.25, 0.75]
    """
    return np.exp(log_softmax(x))


def log_softmax(x: Float) -> Float:
    r"""Return the logarithms of the probabilities whose logits are the entries of the last axis.

    Spec: LAY-6.  $x_j - \log \sum_l e^{x_l}$

    x : [..., n] float, nats; -inf for probability 0 -> [..., n] float, nats
    Raises ValueError if n = 0, or the largest logit of a row is infinite (if -inf, nothing is possible).

    >>> np.exp(log_softmax(np.array([7.0, 7.0]))).round(12).tolist()
    [0.5, 0.5]
    """
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"x: shape {x.shape} has no logits")
    largest = x.max(axis=-1, keepdims=True)
    if np.isinf(largest).any():
        raise ValueError("x: the largest logit of a row is infinite")
    shifted = x - largest
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def linear(x: Float, weight: Float, bias: Float | None = None) -> Float:
    r"""Return every row times a matrix, plus a bias where there is one.

    Spec: LAY-7.  $x W + b$

    x : [T, d] float; weight : [d, m] float; bias : [m] float or None -> [T, m] float
    Raises ValueError if shapes or dtypes do not fit.

    >>> linear(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), np.array([0.0, 0.0, 4.0]))
    array([[1., 2., 7.]])
    """
    check_shapes(x=(x, "Td"), weight=(weight, "de"), like=x)
    return x @ weight if bias is None else _plus_bias(x @ weight, bias)


def relu(x: Float) -> Float:
    """Return every element, but 0 in place of a negative one. Spec: LAY-7."""
    return np.maximum(x, 0)


def erf_gelu(x: Float) -> Float:
    r"""Return the Gaussian error linear unit of every element, exactly.

    Spec: LAY-9.  $x \, \Phi(x) = \tfrac12 x \operatorname{erfc}(-x / \sqrt 2)$

    x : [...] float -> [...] float
    """
    return np.asarray(0.5 * x * np.vectorize(math.erfc, otypes=[x.dtype])(-x / math.sqrt(2)), x.dtype)


def bias_erf_gelu(x: Float, bias: Float) -> Float:
    r"""Return the exact Gaussian error linear unit of every row plus a bias.

    Spec: LAY-9.  $\operatorname{erf\_gelu}(x + b)$

    x : [T, f] float; bias : [f] float -> [T, f] float
    Raises ValueError if shapes or dtypes do not fit.
    """
    return erf_gelu(_plus_bias(x, bias))


def mlp(x: Float, parameters: Parameters, name: str, activation: Callable[[Float], Float] = erf_gelu) -> Float:
    r"""Return the output of a network of two layers for every row.

    Spec: LAY-7, LAY-9.  $\operatorname{erf\_gelu}(x W_1 + b_1) W_2 + b_2$, or with another activation

    x : [T, d] float; parameters : `{name}.in` [d, f], `.in_bias` [f], `.out` [f, m], `.out_bias` [m]
    activation : function of every element, between the layers -> [T, m] float
    Raises ValueError if shapes or dtypes do not fit.
    """
    hidden = activation(linear(x, parameters[f"{name}.in"], parameters[f"{name}.in_bias"]))
    return linear(hidden, parameters[f"{name}.out"], parameters[f"{name}.out_bias"])


def sinusoids(positions: Int | Float, d: int) -> Float:
    r"""Return the sinusoidal encoding of every position: all sines, then all cosines.

    Spec: LAY-8.  $[\sin p\,\omega_0 \dots \sin p\,\omega_{d/2-1},\ \cos p\,\omega_0 \dots \cos p\,\omega_{d/2-1}]$,
    $\omega_k = 10^{-8k/d}$

    positions : [P] int or float, of either sign; d : int, even, >= 2 -> [P, d] float64
    Raises ValueError if `d` is odd or below 2, or `positions` does not have exactly one axis.

    >>> sinusoids(np.array([0]), 4)
    array([[0., 0., 1., 1.]])
    """
    if d < 2 or d % 2 == 1:
        raise ValueError(f"d: {d} is not even and positive")
    check_shape("positions", positions, None)
    angles = positions[:, np.newaxis] * 1e4 ** (-2 * np.arange(d // 2) / d)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def embedding(table: Float, ids: Int) -> Float:
    r"""Return the row of the table for every id.

    Spec: LAY-4.  $h_i = E_{a_i}$

    table : [V, d] float; ids : [T] int in 0..V-1 -> [T, d] float
    Raises ValueError if an id is out of range or not an integer, or a shape is wrong.

    >>> embedding(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0, 1])).tolist()
    [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    check_shapes(table=(table, "Vd"), ids=(ids, "T"))
    if ids.dtype.kind not in "iu" or ((ids < 0) | (ids >= len(table))).any():
        raise ValueError(f"ids: not all are integers in 0..{len(table) - 1} (dtype {ids.dtype})")
    return table[ids]


def cross_entropy(h: Float, table: Float, bias: Float, labels: Int) -> Float:
    r"""Return the log-probability of the label of every row under the tied output layer, 0 for a row without label.

    Spec: LAY-5.  $\log \operatorname{softmax}(E h_i + b)_{y_i}$

    h : [T, d] float; table : [V, d] float; bias : [V] float
    labels : [T] int in 0..V-1, or -1 where nothing is predicted -> [T] float, nats
    Raises ValueError if a label is out of range or not an integer, or shapes or dtypes do not fit.

    >>> cross_entropy(np.zeros((2, 1)), np.ones((4, 1)), np.zeros(4), np.array([2, -1])) / np.log(4)
    array([-1.,  0.])
    """
    check_shape("labels", labels, len(h))
    if labels.dtype.kind not in "iu" or ((labels < -1) | (labels >= len(table))).any():
        raise ValueError(f"labels: not all are integers in -1..{len(table) - 1} (dtype {labels.dtype})")
    logps = log_softmax(linear(h, table.T, bias))  # [T, V]
    return np.where(labels == -1, 0, logps[np.arange(len(h)), labels])


def _plus_bias(x: Float, bias: Float) -> Float:
    check_shapes(x=(x, "Td"), bias=(bias, "d"), like=x)
    return x + bias
