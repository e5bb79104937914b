"""Gates that rise or fall monotonically, and the update that they structure (section 3.1)."""

import numpy as np

from refimpl.checks import Float, check_finite, check_shapes
from refimpl.layers import softmax


def cumax(z: Float) -> Float:
    r"""Return a gate that rises monotonically from 0 to 1.

    Spec: FT-1.  $\operatorname{cumax}(z)_d = \sum_{k \le d} \operatorname{softmax}(z)_k$

    z : [D] float, logits in nats -> [D] float, non-decreasing, last entry 1 up to rounding.
    Raises ValueError if `z` is empty or not finite.

    >>> cumax(np.zeros(4))
    array([0.25, 0.5 , 0.75, 1.  ])
    """
    if z.ndim != 1 or len(z) == 0:
        raise ValueError(f"z: shape {z.shape} is not [D] with D >= 1")
    check_finite("z", z)
    return np.asarray(np.cumsum(softmax(z)))


def master_gates(forget_logits: Float, input_logits: Float) -> tuple[Float, Float]:
    r"""Return the master forget gate, which rises to 1, and the master input gate, which falls to 0.

    Spec: FT-2.  $\tilde f = \operatorname{cumax}(F_f(x))$, $\tilde i = 1 - \operatorname{cumax}(F_i(x))$

    forget_logits, input_logits : [n] float, nats, one for each chunk of units -> tilde_f, tilde_i : [n] float.
    Raises ValueError if the shapes differ, or one of them is empty or not finite.

    >>> master_gates(np.zeros(2), np.log(np.array([1.0, 3.0])))
    (array([0.5, 1. ]), array([0.75, 0.  ]))
    """
    check_shapes(forget_logits=(forget_logits, "n"), input_logits=(input_logits, "n"))
    return cumax(forget_logits), 1 - cumax(input_logits)


def structured_gates(f: Float, i: Float, tilde_f: Float, tilde_i: Float) -> tuple[Float, Float]:
    r"""Return the final forget and input gates: `f` and `i` where the master gates overlap, else the master gates.

    Spec: FT-2.  $\omega = \tilde f \odot \tilde i$, $\hat f = f \odot \omega + (\tilde f - \omega)$,
    $\hat i = i \odot \omega + (\tilde i - \omega)$

    f, i : [H] float, gates of every unit, in [0, 1].
    tilde_f, tilde_i : [n] float, master gates, one for the H / n units of each chunk.
    -> hat_f, hat_i : [H] float, in [0, 1] up to rounding.
    Raises ValueError if the shapes do not fit.

    >>> half, zero, tilde_f, tilde_i = np.full(6, 0.5), np.zeros(6), np.array([0.0, 1, 1]), np.array([1.0, 1, 0])
    >>> hat_f, hat_i = structured_gates(half, zero, tilde_f, tilde_i)
    >>> hat_f.tolist(), hat_i.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    """
    check_shapes(f=(f, "H"), i=(i, "H"), tilde_f=(tilde_f, "n"), tilde_i=(tilde_i, "n"))
    n, n_units = len(tilde_f), len(f)
    if n == 0 or n_units % n:
        raise ValueError(f"tilde_f: {n} master gates do not fit {n_units} units")
    tilde_f, tilde_i = np.repeat(tilde_f, n_units // n), np.repeat(tilde_i, n_units // n)  # [H]
    omega = tilde_f * tilde_i
    return f * omega + (tilde_f - omega), i * omega + (tilde_i - omega)
