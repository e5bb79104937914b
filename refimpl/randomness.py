"""Random numbers that any machine can repeat: a hash of a seed and of an element's number."""

import math

import numpy as np

from refimpl.checks import Float, Int


def splitmix64(state: int) -> int:
    """Return 64 well-mixed bits of a 64-bit number: the output function g of the SplitMix64 generator.

    Spec: LAY-3.

    state : int, taken modulo 2^64 -> int in 0..2^64-1, a bijection of the state

    >>> splitmix64(0), splitmix64(2**64)
    (0, 0)
    """
    z = state % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def random_bits(number: int, seed: int) -> int:
    r"""Return the 64 random bits of element `number`.

    Spec: LAY-3.  $r_i = g\bigl((\mathrm{seed} + (i + 1)\,\mathtt{9E3779B97F4A7C15}) \bmod 2^{64}\bigr)$

    number : int, from 0; seed : int in 0..2^64-1 -> int in 0..2^64-1
    """
    return splitmix64(seed + (number + 1) * 0x9E3779B97F4A7C15)


def keep_mask(elements: int | Int, rate: float, seed: int) -> Float:
    r"""Return the multipliers of dropout: 0 for a dropped element, 1/(1 - rate) for any other.

    Spec: LAY-3.  $z_i = [\lfloor r_i / 2^{32} \rfloor \ge \lfloor 2^{32} \rho \rfloor] / (1 - \rho)$

    elements : int or [...] int, how many elements there are, or the numbers of the wanted elements
    rate : float in [0, 1); an element is dropped with probability $\lfloor 2^{32} \rho \rfloor / 2^{32}$
    seed : int in 0..2^64-1 -> [elements] or [...] float64
    Raises ValueError if `rate` or `seed` is out of range.

    >>> keep_mask(2, 0.5, 0).tolist(), keep_mask(np.array([1, 0]), 0.5, 0).tolist()
    ([2.0, 0.0], [0.0, 2.0])
    """
    if not 0 <= rate < 1:
        raise ValueError(f"rate: {rate} is outside [0, 1)")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: {seed} is outside 0..2^64-1")
    numbers = np.arange(elements) if isinstance(elements, (int, np.integer)) else elements
    halves = np.reshape([random_bits(int(i), seed) >> 32 for i in numbers.flat], numbers.shape)
    return np.asarray((halves >= math.floor(rate * 2**32)) / (1 - rate))


def dropout(x: Float, rate: float, seed: int) -> Float:
    """Return the input with some elements set to 0 and the others enlarged to keep the mean.

    Spec: LAY-3.

    x : [T, d] float, its elements numbered row by row; rate, seed : as `keep_mask` -> [T, d] float
    """
    return x * keep_mask(x.size, rate, seed).reshape(x.shape).astype(x.dtype)


def uniform(number: int, seed: int) -> float:
    r"""Return the random number of element `number`, uniform between 0 and 1.

    Spec: RND-1.  $\lfloor r_i / 2^{11} \rfloor / 2^{53}$

    number : int, from 0; seed : int in 0..2^64-1 -> float in [0, 1)
    """
    return (random_bits(number, seed) >> 11) / 2**53


def gumbel(numbers: Int, seed: int) -> Float:
    r"""Return standard Gumbel noise: added to scores, it makes their order a sample (GPST-2).

    Spec: RND-1.  $-\log(-\log u'_i)$, $u'_i = (\lfloor r_i / 2^{12} \rfloor + 1/2) / 2^{52}$

    numbers : [m] int, of the elements, from 0; seed : int in 0..2^64-1 -> [m] float64, finite

    >>> gumbel(np.array([0, 1]), 0).round(4).tolist(), gumbel(np.array([1]), 0).round(4).tolist()
    ([2.0868, 0.1739], [0.1739])
    """
    return np.asarray(-np.log(-np.log([((random_bits(int(i), seed) >> 12) + 0.5) / 2**52 for i in numbers])))
