"""Gates that rise or fall monotonically, and the update that they structure (section 3.1)."""

from __future__ import annotations

import numpy as np

from refimpl.checks import Float
from refimpl.layers import softmax


def cumax(z: Float) -> Float:
    r"""Return a gate that rises monotonically from 0 to 1.

    Spec: FT-1.  $\tilde f_d = \sum_{k \le d} \operatorname{softmax}(z)_k$   (FastTrees, section 3.1)

    Parameters
    ----------
    z : [D] float
        Gate logits, nats; finite.

    Returns
    -------
    [D] float, dtype of `z`
        Non-decreasing, last entry 1 up to rounding.

    Raises
    ------
    ValueError
        If `z` is empty or holds a NaN or an infinity.

    Examples
    --------
    >>> cumax(np.zeros(4))
    array([0.25, 0.5 , 0.75, 1.  ])
    """
    if z.ndim != 1 or len(z) == 0:
        raise ValueError(f"z: shape {z.shape} is not [D] with D >= 1")
    if not np.isfinite(z).all():
        raise ValueError(f"z: NaN or infinity at {int(np.argmin(np.isfinite(z)))}")
    y: Float = np.cumsum(softmax(z))
    return y


def master_gates(forget_logits: Float, input_logits: Float) -> tuple[Float, Float]:
    r"""Return the master forget gate, which rises to 1, and the master input gate, which falls to 0.

    Spec: FT-2.  $\tilde f = \operatorname{cumax}(F_f(x))$, $\tilde i = 1 - \operatorname{cumax}(F_i(x))$

    Parameters
    ----------
    forget_logits, input_logits : [n] float
        Nats; finite. One of each for a chunk of units.

    Returns
    -------
    tilde_f, tilde_i : [n] float, dtype of the logits

    Raises
    ------
    ValueError
        If the shapes differ, or `cumax` refuses one of them.

    Examples
    --------
    >>> master_gates(np.zeros(2), np.log(np.array([1.0, 3.0])))
    (array([0.5, 1. ]), array([0.75, 0.  ]))
    """
    if forget_logits.shape != input_logits.shape:
        raise ValueError(f"input_logits: shape {input_logits.shape} is not {forget_logits.shape}")
    return cumax(forget_logits), 1 - cumax(input_logits)


def structured_gates(f: Float, i: Float, tilde_f: Float, tilde_i: Float) -> tuple[Float, Float]:
    r"""Return the forget and input gates of every unit: its own gates where the master gates overlap, these elsewhere.

    Spec: FT-2.  $\omega = \tilde f \odot \tilde i$, $\hat f = f \odot \omega + (\tilde f - \omega)$,
    $\hat i = i \odot \omega + (\tilde i - \omega)$

    Parameters
    ----------
    f, i : [H] float
        Gates of every unit, in [0, 1].
    tilde_f, tilde_i : [n] float
        Master gates, in [0, 1]; each serves the H / n units of its chunk: unit u of chunk k is k H / n + u.

    Returns
    -------
    hat_f, hat_i : [H] float, dtype of `f`
        In [0, 1].

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    The first chunk copies, the last writes, the one between does what its own gates say.

    >>> half, never, tilde = np.full(6, 0.5), np.zeros(6), np.array([0.0, 1.0, 1.0])
    >>> hat_f, hat_i = structured_gates(half, never, tilde, 1 - np.array([0.0, 0.0, 1.0]))
    >>> hat_f.tolist(), hat_i.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    """
    n, n_units = len(tilde_f), len(f)
    if tilde_i.shape != (n,) or i.shape != (n_units,) or n == 0 or n_units % n:
        raise ValueError(f"tilde_f: {n} and {len(tilde_i)} master gates do not fit {n_units} and {len(i)} units")
    tilde_f, tilde_i = np.repeat(tilde_f, n_units // n), np.repeat(tilde_i, n_units // n)  # [H]
    omega = tilde_f * tilde_i
    return f * omega + (tilde_f - omega), i * omega + (tilde_i - omega)
