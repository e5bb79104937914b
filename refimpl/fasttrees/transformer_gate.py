"""The tree-structured gate of a Transformer (section 3.3)."""

import numpy as np

from refimpl.checks import Float, Parameters, check_finite, check_shapes, part
from refimpl.fasttrees.cells import convolution, sigmoid
from refimpl.fasttrees.cumax import master_gates, structured_gates
from refimpl.layers import linear


def tree_gate(a: Float, b: Float, f: Float, x: Float) -> Float:
    r"""Return the features of one position, multiplied by a tree-structured gate.

    Spec: FT-11.  $y = (\sigma(f) \odot (A \odot B) + (A - A \odot B)) \odot x$,
    $A = \operatorname{cumax}(a)$, $B = 1 - \operatorname{cumax}(b)$

    a, b : [n] float, master logits, each for d / n features; f : [d] float, logits of every feature; x : [d] float.
    -> [d] float, no entry larger in size than that of `x`, up to rounding.
    Raises ValueError if shapes do not fit, or a logit is not finite.

    A = (1/2, 1), B = (1/2, 0): the gates are 1/2 * 1/4 + 1/4 and 1.

    >>> tree_gate(np.zeros(2), np.zeros(2), np.zeros(2), np.array([8.0, 8.0]))
    array([3., 8.])
    """
    check_shapes(x=(x, "d"), f=(f, "d"))
    check_finite("f", f)
    gate, _ = structured_gates(sigmoid(f), sigmoid(f), *master_gates(a, b))  # A is a forget gate, B an input gate
    return gate * x


def transformer_gate(parameters: Parameters, x: Float) -> Float:
    r"""Return the output of a self-attention, gated by the FastTrees module of a Transformer.

    Spec: FT-11.  $Y = F \odot X$, where $F_a, F_b, F_h$ are linear functions of X or of its causal convolution

    parameters : `a.weight`, `b.weight` [n, d], `a.bias`, `b.bias` [n], `f.weight` [d, d], `f.bias` [d]; a shared
    convolution adds `conv.weight` [d, d, kernel] and `conv.bias` [d]; one for each function adds `a.conv.weight`, ...
    x : [T, d] float, T >= 1 -> [T, d] float.
    Raises ValueError if the sequence is empty, shapes do not fit, or a logit is not finite.

    >>> zeros = {name + end: np.zeros((2, 2)[:k]) for name in "abf" for k, end in ((2, ".weight"), (1, ".bias"))}
    >>> transformer_gate(zeros, np.array([[8.0, 8.0]]))
    array([[3., 8.]])
    """
    if x.ndim != 2 or len(x) == 0:
        raise ValueError(f"x: shape {x.shape} is not [T, d] with T >= 1: an empty sequence")

    def logits(name: str) -> Float:
        of_own, local = part(parameters, name), x
        conv = part(of_own, "conv") or part(parameters, "conv")
        if conv:
            taps = conv["weight"].shape[2]
            inputs = np.pad(x, ((taps - 1, 0), (0, 0)))
            local = np.array([convolution(inputs[t : t + taps], **conv) for t in range(len(x))])
        return linear(local, of_own["weight"].T, of_own["bias"])

    return np.array([tree_gate(*rows) for rows in zip(logits("a"), logits("b"), logits("f"), x, strict=True)])
