"""Conv. FastTrees as the authors released it: a convolution over the sentences of a batch."""

import numpy as np

from refimpl.checks import Float


def released_convolution(x: Float, weight: Float, bias: Float) -> Float:
    r"""Return the inputs of a batch with their first features convolved over the batch.

    Spec: FT-12.  $x'_{tb} = \operatorname{ReLU}(K_0 x_{t,b-1} + K_1 x_{t,b+1} + b'')$ for the first 2n features

    x : [T, B, D] float, B sentences side by side, 0 where a sentence has no step t.
    weight : [2n, 2n, 2] float; bias : [2n] float -> [T, B, D] float; features 2n and later are those of `x`.
    Raises ValueError if the shapes do not fit.

    >>> x = np.array([[[1.0, 5.0], [2.0, 6.0], [4.0, 7.0]]])
    >>> released_convolution(x, np.array([[[1.0, 10.0]]]), np.zeros(1))[0].tolist()
    [[20.0, 5.0], [41.0, 6.0], [2.0, 7.0]]
    """
    width = len(bias)
    if x.ndim != 3 or weight.shape != (width, width, 2) or width > x.shape[2]:
        raise ValueError(f"conv.weight: shape {weight.shape} does not fit {width} biases and inputs of shape {x.shape}")
    beside = np.pad(x[:, :, :width], ((0, 0), (1, 1), (0, 0)))  # [T, B + 2, 2n]
    local = np.maximum(beside[:, :-2] @ weight[:, :, 0].T + beside[:, 2:] @ weight[:, :, 1].T + bias, 0)
    return np.concatenate([local, x[:, :, width:]], axis=2)
