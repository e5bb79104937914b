"""GPST's composition model (appendix A.2): vectors of two spans, vectors outside of a span, and their scores."""

import math
from collections.abc import Callable

import numpy as np

from refimpl.attention import dot_product_attention
from refimpl.checks import Float, Parameters, part
from refimpl.layers import layer_norm, linear, mlp


def layers_of(parameters: Parameters, name: str) -> list[Parameters]:
    """Return the parameters of every layer of that name, which are numbered from 0, without name and number.

    Spec: IO-1.

    >>> layers_of({"compose.0.role": np.zeros(1), "compose.1.role": np.ones(1), "outside_root": np.ones(1)}, "compose")
    [{'role': array([0.])}, {'role': array([1.])}]
    """
    numbers = {key.split(".")[0] for key in part(parameters, name)}
    return [part(parameters, f"{name}.{k}") for k in range(sum(map(str.isdigit, numbers)))]


def self_attention(
    x: Float, values: Float, parameters: Parameters, n_heads: int, causal: bool = False,
    turn: Callable[[Float], Float] = lambda rows: rows,
) -> Float:  # fmt: skip
    r"""Return multi-head attention of rows to one another, with queries and keys from other rows than the values.

    Spec: IO-1.  $\operatorname{ED-1}(x W_q, x W_k, z W_v)\, W_o$, biases where there are some

    x, values : [T, d] float, the rows of queries and keys, and those of values
    parameters : `query`, `key`, `value`, `output` [d, d], and `_bias` [d] of each, or none
    n_heads : int, divides d; causal : row i sees the rows up to i
    turn : function of the queries and of the keys, [T, H, D]: positions
    -> [T, d] float
    Raises ValueError if the heads do not divide d, or shapes or dtypes do not fit.

    Equal scores: every row gets the mean of the values.

    >>> p = {name: np.eye(1) * (name in ("value", "output")) for name in ("query", "key", "value", "output")}
    >>> self_attention(np.ones((2, 1)), np.array([[1.0], [3.0]]), p, 1).tolist()
    [[2.0], [2.0]]
    """
    if n_heads < 1 or x.shape[1] % n_heads:
        raise ValueError(f"n_heads: {n_heads} does not divide {x.shape[1]}")

    def heads(name: str, rows: Float) -> Float:
        return linear(rows, parameters[name], parameters.get(f"{name}_bias")).reshape(len(rows), n_heads, -1)

    out, _ = dot_product_attention(turn(heads("query", x)), turn(heads("key", x)), heads("value", values), causal)
    return linear(out.reshape(x.shape), parameters["output"], parameters.get("output_bias"))


def norm(x: Float) -> Float:
    """Return every row, or one vector, normalised without scale and shift. Spec: IO-1.

    >>> norm(np.array([1e4, -1e4])).round(6).tolist()
    [1.0, -1.0]
    """
    one = np.ones(x.shape[-1], x.dtype)
    return layer_norm(np.atleast_2d(x), one, 0 * one).reshape(x.shape)


def pair_attention(x: Float, roles: Float, parameters: Parameters, n_heads: int) -> Float:
    r"""Return the attention of the two rows of a pair to both, where queries and keys see the roles.

    Spec: IO-1.  $\operatorname{attention}(x + \text{role}, x + \text{role}, x)$

    x, roles : [2, d] float; parameters, n_heads : as `self_attention` -> [2, d] float
    """
    return self_attention(x + roles, x, parameters, n_heads)


def residual_norm(x: Float, y: Float) -> Float:
    r"""Return the normalised sum. Spec: IO-1.  $\operatorname{norm}(x + y)$, x and y of one shape"""
    return norm(x + y)


def compose(left: Float, right: Float, parameters: Parameters, n_heads: int) -> Float:
    r"""Return the vector of two spans that follow each other.

    Spec: IO-1.  $f_\alpha(l, r) = \operatorname{norm}(x_1 + x_2)$, $x$ the outputs of $N$ layers over $(l, r)$

    left, right : [d] float; parameters : see the page; n_heads : int, divides d -> [d] float, of mean 0

    Without layers, the sum of both, normalised.

    >>> compose(np.array([1e4, 0.0]), np.array([1e4, -4e4]), {}, 1).round(6).tolist()
    [1.0, -1.0]
    """
    return _layers(np.array([left, right]), [0, 1], layers_of(parameters, "compose"), n_heads)


def decompose(outside: Float, sibling: Float, side: str, parameters: Parameters, n_heads: int) -> Float:
    r"""Return the outside vector of a span, from its parent's outside and its sibling.

    Spec: IO-1.  $f_\beta(o_{\text{parent}}, i_{\text{sibling}})$

    outside, sibling : [d] float, outside vector of the parent, inside vector of the sibling
    side : "left" or "right", where the sibling stands; parameters, n_heads : as `compose` -> [d] float

    >>> decompose(np.array([1e4, 0.0]), np.array([1e4, -4e4]), "left", {}, 1).round(6).tolist()
    [1.0, -1.0]
    """
    roles = [0, 1 if side == "left" else 2]
    return _layers(np.array([outside, sibling]), roles, layers_of(parameters, "decompose"), n_heads)


def _layers(x: Float, roles: list[int], layers: list[Parameters], n_heads: int) -> Float:
    """Return the normalised sum of both outputs of the last layer."""
    for p in layers:
        x = residual_norm(x, pair_attention(x, p["role"][roles], part(p, "attention"), n_heads))
        x = residual_norm(x, mlp(x, p, "feed_forward"))
    return residual_norm(x[0], x[1])


def score(x: Float, y: Float, parameters: Parameters, x_name: str, y_name: str) -> Float:
    r"""Return how well two vectors go together.

    Spec: IO-2.  $\phi(x, y) = \operatorname{MLP}(x)^\top \operatorname{MLP}'(y) / \sqrt s$   (equation 2)

    x, y : [d] float
    x_name, y_name : the two networks: "inside.left" and "inside.right" of two parts of a span; "outside.parent" and
        "outside.left" or "outside.right" of a span's parent and a sibling on that side
    -> float

    >>> p = {f"{name}.in": np.eye(1) for name in "ab"} | {f"{name}.in_bias": np.zeros(1) for name in "ab"}
    >>> p |= {f"{name}.out": np.ones((1, 4)) for name in "ab"} | {f"{name}.out_bias": np.zeros(4) for name in "ab"}
    >>> float(score(np.array([50.0]), np.array([30.0]), p, "a", "b"))  # 4 * 50 * 30 / 2
    3000.0
    """
    a, b = mlp(x[np.newaxis], parameters, x_name)[0], mlp(y[np.newaxis], parameters, y_name)[0]
    return np.asarray(a @ b / math.sqrt(len(a)))
