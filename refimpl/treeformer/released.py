"""Composition and pooling as the authors released them."""

import math

import numpy as np

from refimpl.checks import Float, Parameters, check_heads
from refimpl.layers import linear, mlp, named_norm, relu, softmax


def released_shapes(d: int, d_feed_forward: int) -> dict[str, tuple[int, ...]]:
    r"""Return the name and the shape of every parameter, for vectors of width d.

    Spec: CKY-5.

    >>> sum(math.prod(shape) for shape in released_shapes(512, 1024).values())
    2629120
    """
    shapes: dict[str, tuple[int, ...]] = {"w": (d,), "compose": (2 * d, d)}
    shapes |= {f"attention.{name}": (d, d) for name in ("query", "key", "value", "output")}
    shapes |= {"feed_forward.in": (d, d_feed_forward), "feed_forward.out": (d_feed_forward, d)}
    shapes |= {f"{name}_bias": shape[-1:] for name, shape in shapes.items() if name != "w"}
    return shapes | {f"norm_{k}.{part}": (d,) for k in (1, 2, 3) for part in ("scale", "bias")}


def released_block(left: Float, right: Float, parameters: Parameters, n_heads: int) -> tuple[Float, Float]:
    r"""Return a phrase's vector from all its splits, as the authors' code computes it, and the pooling weights.

    Spec: CKY-5.  $c = v + u + [v; u] W + b$ with $v, u = \operatorname{LN}_1$ of the parts,
    $x = \operatorname{LN}_3(w + \operatorname{heads}(w, \operatorname{LN}_2 c))$, $r = x + \operatorname{FFN}(x)$

    left, right : [K, d] float, the parts of every split; parameters : as `released_shapes`; n_heads : int, divides d.
    -> r : [d] float; weights : [K] float, mean over the heads, their sum is 1.
    Raises ValueError if the heads do not divide d.

    If all matrices are 0, the bias of the last one is added to the LayerNorm of w.

    >>> p = {name: np.zeros(shape) for name, shape in released_shapes(2, 1).items()}
    >>> p |= {"norm_3.bias": np.array([1.0, 2.0]), "feed_forward.out_bias": np.array([10.0, 10.0])}
    >>> released_block(np.ones((2, 2)), np.ones((2, 2)), p, n_heads=1)
    (array([11., 12.]), array([0.5, 0.5]))
    """
    d, w = left.shape[1], parameters["w"]
    check_heads(n_heads, d)

    def times(name: str, x: Float) -> Float:
        return linear(x, parameters[name], parameters[f"{name}_bias"])

    v, u = named_norm(left, parameters, "norm_1"), named_norm(right, parameters, "norm_1")
    z = named_norm(v + u + times("compose", np.concatenate([v, u], axis=1)), parameters, "norm_2")  # [K, d]
    inputs = ("query", w[np.newaxis]), ("key", z), ("value", z)
    q, k, values = (np.split(times(f"attention.{name}", x), n_heads, axis=1) for name, x in inputs)  # lists of heads
    weights = [softmax(k[head] @ q[head][0] / math.sqrt(d // n_heads)) for head in range(n_heads)]
    pooled = np.concatenate([weights[head] @ values[head] for head in range(n_heads)])
    x = named_norm(w + times("attention.output", pooled[np.newaxis]), parameters, "norm_3")
    return (x + mlp(x, parameters, "feed_forward", relu))[0], np.mean(weights, axis=0)
