"""Layers that every Transformer shares: normalisation, feed-forward, positions, embedding, cross-entropy, dropout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
Int = NDArray[np.integer[Any]]

EPSILON = 1e-5  # added to the variance by layer_norm


def layer_norm(x: Float, scale: Float, bias: Float) -> Float:
    r"""Return every row shifted to mean 0, divided by its deviation, then scaled and shifted by learned vectors.

    Spec: LAY-1.  $y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$, $\epsilon = 10^{-5}$

    Parameters
    ----------
    x : [T, d] float
        Finite; d >= 1.
    scale, bias : [d] float
        $\gamma$ and $\beta$.

    Returns
    -------
    [T, d] float, dtype of `x`
        Each row before `scale` and `bias` has mean 0 and mean square sigma^2 / (sigma^2 + 1e-5).

    Raises
    ------
    ValueError
        If `x` is not [T, d] with d >= 1, or `scale` or `bias` is not [d] of its dtype.

    Examples
    --------
    >>> layer_norm(np.array([[0.0, 2.0]]), np.array([1.0, 1.0]), np.array([5.0, 5.0])).round(4)
    array([[4., 6.]])
    """
    d = _width("x", x)
    _require("scale", scale, (d,), x)
    _require("bias", bias, (d,), x)
    mean = x.mean(axis=1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    y: Float = scale * (x - mean) / np.sqrt(variance + EPSILON) + bias
    return y


def gelu(x: Float) -> Float:
    r"""Return the Gaussian error linear unit of every element, by its tanh formula.

    Spec: LAY-2.  $\tfrac12 x (1 + \tanh(\sqrt{2/\pi}\,(x + 0.044715\, x^3)))$

    Parameters
    ----------
    x : [...] float
        Finite.

    Returns
    -------
    [...] float, dtype of `x`
        gelu(x) - gelu(-x) = x.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> gelu(np.array([-100.0, 0.0, 100.0])).tolist()
    [-0.0, 0.0, 100.0]
    """
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    y: Float = 0.5 * x * (1 + np.tanh(inner))
    return y


def bias_gelu(x: Float, bias: Float) -> Float:
    r"""Return the Gaussian error linear unit of every row plus a bias.

    Spec: LAY-2.  $\mathrm{gelu}(x + b)$

    Parameters
    ----------
    x : [T, f] float
        Finite.
    bias : [f] float
        Finite.

    Returns
    -------
    [T, f] float, dtype of `x`

    Raises
    ------
    ValueError
        If `x` is not [T, f] with f >= 1, or `bias` is not [f] of its dtype.

    Examples
    --------
    >>> bias_gelu(np.array([[-3.0, 97.0]]), np.array([3.0, 3.0])).tolist()
    [[0.0, 100.0]]
    """
    _require("bias", bias, (_width("x", x),), x)
    return gelu(x + bias)


def softmax(x: Float) -> Float:
    r"""Return the probabilities that the last axis defines as logits.

    Spec: LAY-6.  $e^{x_j} / \sum_l e^{x_l}$

    Parameters
    ----------
    x : [..., n] float
        Logits, nats; -inf stands for probability 0.

    Returns
    -------
    [..., n] float, dtype of `x`
        Non-negative, sums to 1 over the last axis; unchanged when a constant is added to all logits.

    Raises
    ------
    ValueError
        If the largest logit of a row is infinite (a row of -inf only: nothing is possible) or n = 0.

    Examples
    --------
    >>> softmax(np.log(np.array([1.0, 3.0]))).round(12).tolist()
    [0.25, 0.75]
    """
    return np.exp(log_softmax(x))


def log_softmax(x: Float) -> Float:
    r"""Return the logarithms of the probabilities that the last axis defines as logits.

    Spec: LAY-6.  $x_j - \log \sum_l e^{x_l}$

    Parameters
    ----------
    x : [..., n] float
        Logits, nats; -inf stands for probability 0.

    Returns
    -------
    [..., n] float, dtype of `x`
        Nats, never above 0.

    Raises
    ------
    ValueError
        If the largest logit of a row is infinite (a row of -inf only: nothing is possible) or n = 0.

    Examples
    --------
    >>> np.exp(log_softmax(np.array([7.0, 7.0]))).round(12).tolist()
    [0.5, 0.5]
    """
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"x: shape {x.shape} has no logits")
    largest = x.max(axis=-1, keepdims=True)
    if np.isinf(largest).any():
        raise ValueError("x: the largest logit of a row is infinite")
    shifted = x - largest
    logp: Float = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logp


def linear(x: Float, weight: Float, bias: Float | None = None) -> Float:
    r"""Return every row times a matrix, plus a bias where there is one.

    Spec: LAY-7.  $x W + b$

    Parameters
    ----------
    x : [T, d] float
    weight : [d, e] float
        Input dimension first.
    bias : [e] float or None

    Returns
    -------
    [T, e] float, dtype of `x`

    Raises
    ------
    ValueError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> linear(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), np.array([0.0, 0.0, 4.0]))
    array([[1., 2., 7.]])
    """
    d = _width("x", x)
    if weight.ndim != 2:
        raise ValueError(f"weight: shape {weight.shape} is no matrix")
    _require("weight", weight, (d, weight.shape[1]), x)
    if bias is None:
        return x @ weight
    _require("bias", bias, (weight.shape[1],), x)
    return x @ weight + bias


def feed_forward(x: Float, weight_in: Float, bias_in: Float, weight_out: Float, bias_out: Float) -> Float:
    r"""Return the position-wise feed-forward network of every row.

    Spec: LAY-7.  $\mathrm{gelu}(x W_1 + b_1) W_2 + b_2$

    Parameters
    ----------
    x : [T, d] float
    weight_in : [d, f] float
    bias_in : [f] float
    weight_out : [f, d] float
    bias_out : [d] float

    Returns
    -------
    [T, d] float, dtype of `x`

    Raises
    ------
    ValueError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> x, one = np.array([[50.0]]), np.array([[1.0]])
    >>> feed_forward(x, one, np.array([50.0]), 2 * one, np.array([-1.0])).tolist()
    [[199.0]]
    """
    return linear(bias_gelu(linear(x, weight_in), bias_in), weight_out, bias_out)


def erf_gelu(x: Float) -> Float:
    r"""Return the Gaussian error linear unit of every element, exactly.

    Spec: LAY-9.  $x \, \Phi(x) = \tfrac12 x \operatorname{erfc}(-x / \sqrt 2)$

    Parameters
    ----------
    x : [...] float
        Finite.

    Returns
    -------
    [...] float, dtype of `x`
        erf_gelu(x) - erf_gelu(-x) = x; within 0.0005 of `gelu`.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> erf_gelu(np.array([-100.0, 0.0, 1.0, 100.0])).round(6).tolist()
    [-0.0, 0.0, 0.841345, 100.0]
    """
    return np.asarray(0.5 * x * np.vectorize(math.erfc, otypes=[x.dtype])(-x / math.sqrt(2)), x.dtype)


def mlp(x: Float, parameters: Mapping[str, Float], name: str) -> Float:
    r"""Return what a network of two layers makes of every row.

    Spec: LAY-9.  $\operatorname{erf\_gelu}(x W_1 + b_1) W_2 + b_2$

    Parameters
    ----------
    x : [T, d] float
    parameters : dict of str to float array
        `{name}.in` [d, f], `{name}.in_bias` [f], `{name}.out` [f, e], `{name}.out_bias` [e].
    name : str

    Returns
    -------
    [T, e] float, dtype of `x`

    Raises
    ------
    ValueError
        If shapes or dtypes do not fit.

    Examples
    --------
    >>> p = {"m.in": np.array([[1.0]]), "m.in_bias": np.array([50.0])}
    >>> mlp(np.array([[50.0]]), p | {"m.out": np.array([[2.0]]), "m.out_bias": np.array([-1.0])}, "m").tolist()
    [[199.0]]
    """
    hidden = erf_gelu(linear(x, parameters[f"{name}.in"], parameters[f"{name}.in_bias"]))
    return linear(hidden, parameters[f"{name}.out"], parameters[f"{name}.out_bias"])


def sinusoids(positions: Int | Float, d: int) -> Float:
    r"""Return the sinusoidal encoding of every position: all sines, then all cosines.

    Spec: LAY-8.  $[\sin(p\,\omega_0) \dots \sin(p\,\omega_{d/2-1}),\ \cos(p\,\omega_0) \dots \cos(p\,\omega_{d/2-1})]$,
    $\omega_k = 10^{-8k/d}$

    Parameters
    ----------
    positions : [P] int or float
        Positions or distances, of either sign.
    d : int
        Even, >= 2.

    Returns
    -------
    [P, d] float64
        A table; whoever mixes it with other floats casts it to their dtype.

    Raises
    ------
    ValueError
        If `d` is odd or below 2, or `positions` has not one axis.

    Examples
    --------
    >>> sinusoids(np.array([0]), 4)
    array([[0., 0., 1., 1.]])
    """
    if d < 2 or d % 2 == 1:
        raise ValueError(f"d: {d} is not even and positive")
    if positions.ndim != 1:
        raise ValueError(f"positions: shape {positions.shape} is not [P]")
    table = np.zeros((len(positions), d))
    for row, position in enumerate(positions):
        for k in range(d // 2):
            angle = float(position) * 1e4 ** (-2 * k / d)
            table[row, k] = math.sin(angle)
            table[row, d // 2 + k] = math.cos(angle)
    return table


def embedding(table: Float, ids: Int) -> Float:
    r"""Return the row of the table for every id.

    Spec: LAY-4.  $h_i = E_{a_i}$

    Parameters
    ----------
    table : [V, d] float
    ids : [T] int
        In 0..V-1.

    Returns
    -------
    [T, d] float, dtype of `table`

    Raises
    ------
    ValueError
        If an id lies outside 0..V-1, or a shape is wrong.

    Examples
    --------
    >>> embedding(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0, 1])).tolist()
    [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    _width("table", table)
    if ids.ndim != 1:
        raise ValueError(f"ids: shape {ids.shape} is not [T]")
    if ((ids < 0) | (ids >= len(table))).any():
        raise ValueError(f"ids: outside 0..{len(table) - 1}")
    return table[ids]


def cross_entropy(h: Float, table: Float, bias: Float, labels: Int) -> Float:
    r"""Return the log-probability of the label of every row under the tied output layer, 0 for a row without label.

    Spec: LAY-5.  $\log \operatorname{softmax}(h_i E^\top + b)_{\mathrm{label}_i}$

    Parameters
    ----------
    h : [T, d] float
        Outputs of the last layer.
    table : [V, d] float
        The embedding matrix.
    bias : [V] float
    labels : [T] int
        In 0..V-1, or -1 where nothing is predicted.

    Returns
    -------
    [T] float, dtype of `h`
        Nats, never above 0. Summed over all V labels, the exponentials of a row give 1.

    Raises
    ------
    ValueError
        If a label lies outside -1..V-1, or shapes or dtypes do not fit.

    Examples
    --------
    >>> cross_entropy(np.zeros((2, 1)), np.ones((4, 1)), np.zeros(4), np.array([2, -1])) / np.log(4)
    array([-1.,  0.])
    """
    d = _width("h", h)
    _require("table", table, (len(table), d), h)
    _require("bias", bias, (len(table),), h)
    if labels.shape != (len(h),):
        raise ValueError(f"labels: shape {labels.shape} is not {(len(h),)}")
    if ((labels < -1) | (labels >= len(table))).any():
        raise ValueError(f"labels: outside -1..{len(table) - 1}")
    logp = np.zeros(len(h), dtype=h.dtype)
    for i, label in enumerate(labels):
        if label != -1:
            logp[i] = log_softmax(table @ h[i] + bias)[label]
    return logp


def splitmix64(state: int) -> int:
    r"""Return 64 well-mixed bits of a 64-bit number: the output function of the SplitMix64 generator.

    Spec: LAY-3.

    Parameters
    ----------
    state : int
        Taken modulo 2^64.

    Returns
    -------
    int
        In 0..2^64-1; a bijection of the state.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> splitmix64(0), splitmix64(2**64)
    (0, 0)
    """
    z = state % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def keep_mask(elements: int | Int, rate: float, seed: int) -> Float:
    r"""Return the multipliers of dropout: 0 for a dropped element, 1/(1-rate) for a kept one.

    Spec: LAY-3.  Element i is kept if and only if the upper 32 bits of its SplitMix64 number are >= floor(2^32 rate).

    Parameters
    ----------
    elements : int or [...] int
        How many elements there are, numbered from 0; or the numbers of those wanted.
    rate : float
        Probability that an element is dropped, in [0, 1).
    seed : int
        In 0..2^64-1.

    Returns
    -------
    [elements] or [...] float64
        The multiplier of an element depends on `seed`, `rate` and its own number only.

    Raises
    ------
    ValueError
        If `rate` lies outside [0, 1), or `seed` outside 0..2^64-1.

    Examples
    --------
    The upper 32 bits of the first two numbers of seed 0 are 0.88 and 0.43 of 2^32.

    >>> keep_mask(2, 0.5, 0).tolist(), keep_mask(np.array([1, 0]), 0.5, 0).tolist()
    ([2.0, 0.0], [0.0, 2.0])
    """
    if not 0 <= rate < 1:
        raise ValueError(f"rate: {rate} is outside [0, 1)")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: {seed} is outside 0..2^64-1")
    threshold = math.floor(rate * 2**32)
    numbers = np.arange(elements) if isinstance(elements, int) else elements
    multipliers = np.zeros(numbers.shape)
    for index, i in np.ndenumerate(numbers):
        if splitmix64(seed + (int(i) + 1) * 0x9E3779B97F4A7C15) >> 32 >= threshold:
            multipliers[index] = 1 / (1 - rate)
    return multipliers


def dropout(x: Float, rate: float, seed: int) -> Float:
    r"""Return the input with a random part of its elements set to 0 and the others enlarged to keep the mean.

    Spec: LAY-3.

    Parameters
    ----------
    x : [T, d] float
    rate : float
        Probability that an element is dropped, in [0, 1); 0 is the identity.
    seed : int
        In 0..2^64-1; the elements are numbered row by row.

    Returns
    -------
    [T, d] float, dtype of `x`

    Raises
    ------
    ValueError
        If `rate` lies outside [0, 1), or `seed` lies outside 0..2^64-1.

    Examples
    --------
    >>> dropout(np.array([[3.0, 4.0]]), 0.5, 0).tolist()
    [[6.0, 0.0]]
    """
    numbers = np.arange(x.size).reshape(x.shape)
    return x * keep_mask(numbers, rate, seed).astype(x.dtype)


def _width(name: str, x: Float) -> int:
    """Return the number of columns of a matrix; refuse anything else."""
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"{name}: shape {x.shape} is no matrix with columns")
    return int(x.shape[1])


def _require(name: str, array: Float, shape: tuple[int, ...], like: Float) -> None:
    """Refuse an array of another shape, or of another dtype than the array it goes with."""
    if array.shape != shape:
        raise ValueError(f"{name}: shape {array.shape} is not {shape}")
    if array.dtype != like.dtype:
        raise ValueError(f"{name}: dtype {array.dtype} is not {like.dtype}")
