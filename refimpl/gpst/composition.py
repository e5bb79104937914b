"""GPST's composition model (appendix A.2): vectors of two spans, vectors outside of a span, and their scores."""

import math

import numpy as np

from refimpl.attention import multi_head_attention
from refimpl.checks import Float, Parameters, check_shape, part
from refimpl.layers import layer_norm, mlp


def layers_of(parameters: Parameters, name: str) -> list[Parameters]:
    """Return the parameters of the layers `{name}.0`, `{name}.1`, ..., with name and number removed from their names.

    Spec: IO-1.

    >>> layers_of({"compose.0.role": np.zeros(1), "compose.1.role": np.ones(1), "outside_root": np.ones(1)}, "compose")
    [{'role': array([0.])}, {'role': array([1.])}]
    """
    numbers = {key.split(".")[0] for key in part(parameters, name)}
    return [part(parameters, f"{name}.{k}") for k in range(sum(map(str.isdigit, numbers)))]


def norm(x: Float) -> Float:
    """Return every row, or one vector, normalised without scale and shift. Spec: IO-1.

    >>> norm(np.array([1e4, -1e4])).round(6).tolist()
    [1.0, -1.0]
    """
    one = np.ones(x.shape[-1], x.dtype)
    return layer_norm(np.atleast_2d(x), one, 0 * one).reshape(x.shape)


def pair_attention(x: Float, roles: Float, parameters: Parameters, n_heads: int) -> Float:
    r"""Return the attention of each row of a pair to both rows; queries and keys are computed from row plus role.

    Spec: IO-1.  $\operatorname{attention}(x + \text{role}, x + \text{role}, x)$

    x, roles : [2, d] float; parameters, n_heads : as `multi_head_attention` -> [2, d] float
    Raises ValueError if shapes do not fit.
    """
    check_shape("roles", roles, *x.shape)
    return multi_head_attention(x + roles, x + roles, x, parameters, n_heads)


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
    r"""Return the outside vector of a span, from its parent's outside vector and its sibling's inside vector.

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
    x_name, y_name : the two networks: "inside.left" and "inside.right" for two parts of a span; "outside.parent" and
        "outside.left" or "outside.right" for a span's parent and a sibling on that side
    -> float

    >>> p = {f"{name}.in": np.eye(1) for name in "ab"} | {f"{name}.in_bias": np.zeros(1) for name in "ab"}
    >>> p |= {f"{name}.out": np.ones((1, 4)) for name in "ab"} | {f"{name}.out_bias": np.zeros(4) for name in "ab"}
    >>> float(score(np.array([50.0]), np.array([30.0]), p, "a", "b"))  # 4 * 50 * 30 / 2
    3000.0
    """
    a, b = mlp(x[np.newaxis], parameters, x_name)[0], mlp(y[np.newaxis], parameters, y_name)[0]
    return np.asarray(a @ b / math.sqrt(len(a)))
