"""The tree-structured gate of a Transformer (section 3.3)."""

import numpy as np

from refimpl.checks import Float, Parameters, check_finite
from refimpl.fasttrees.cells import convolution as causal_convolution
from refimpl.fasttrees.cells import sigmoid
from refimpl.fasttrees.cumax import master_gates, structured_gates


def tree_gate(a: Float, b: Float, f: Float, x: Float) -> Float:
    r"""Return the features of one position let through in a tree-structured way.

    Spec: FT-11.  $y = (\sigma(f) \odot (A \odot B) + (A - A \odot B)) \odot x$,
    $A = \operatorname{cumax}(a)$, $B = 1 - \operatorname{cumax}(b)$

    a, b : [n] float, master logits, each for d / n features; f : [d] float, logits of every feature; x : [d] float.
    -> [d] float, no entry larger in size than that of `x`.
    Raises ValueError if shapes do not fit, or a logit is not finite.

    A = (1/2, 1), B = (1/2, 0): the gates are 1/2 * 1/4 + 1/4 and 1.

    >>> tree_gate(np.zeros(2), np.zeros(2), np.zeros(2), np.array([8.0, 8.0]))
    array([3., 8.])
    """
    check_finite("f", f)
    gate, _ = structured_gates(sigmoid(f), sigmoid(f), *master_gates(a, b))  # A is a forget gate, B an input gate
    return gate * x


def transformer_gate(parameters: Parameters, x: Float, convolution: str = "none") -> Float:
    r"""Return the output of a self-attention after the FastTrees module of a Transformer.

    Spec: FT-11.  $Y = F \odot X$, where $F_a, F_b, F_h$ are linear functions of X or of its causal convolution

    parameters : `a.weight`, `b.weight` [n, d], `a.bias`, `b.bias` [n], `f.weight` [d, d], `f.bias` [d]; with the
    convolution also `conv.weight` [d, d, kernel] and `conv.bias` [d].
    x : [T, d] float, T >= 1; convolution : "none" or "causal" -> [T, d] float.
    Raises ValueError if the sequence is empty, `convolution` is unknown, shapes do not fit, or a logit is not finite.

    >>> zeros = {name + end: np.zeros((2, 2)[:k]) for name in "abf" for k, end in ((2, ".weight"), (1, ".bias"))}
    >>> transformer_gate(zeros, np.array([[8.0, 8.0]]))
    array([[3., 8.]])
    """
    if x.ndim != 2 or len(x) == 0 or convolution not in ("none", "causal"):
        raise ValueError(f"x, convolution: shape {x.shape} is an empty sequence, or {convolution!r} not none or causal")
    local = x
    if convolution == "causal":
        weight, bias = parameters["conv.weight"], parameters["conv.bias"]
        inputs = np.concatenate([np.zeros((weight.shape[2] - 1, x.shape[1]), x.dtype), x])
        local = np.array([causal_convolution(inputs[t : t + weight.shape[2]], weight, bias) for t in range(len(x))])
    a, b, f = (local @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"] for name in "abf")
    return np.array([tree_gate(a[t], b[t], f[t], x[t]) for t in range(len(x))])
