"""ALBERT, the pre-trained Transformer below Treeformer's chart (section 6.3; Lan et al. 2020), and its classifier."""

import numpy as np

from refimpl.checks import Float, Int, Parameters, check_shapes, part
from refimpl.layers import embedding, gelu, linear, log_softmax, named_norm
from refimpl.transformer import Activation, block


def encode(
    parameters: Parameters, ids: Int, types: Int, n_heads: int, n_layers: int, activation: Activation = gelu,
    epsilon: float = 1e-12,
) -> Float:  # fmt: skip
    r"""Return a vector of every token: one layer, applied to its own output again and again.

    Spec: AL-1.  $h^{(0)} = \operatorname{LN}(E_x + P + T)\, W + b$; $h^{(k)}$ = ED-2 of $h^{(k-1)}$, the LayerNorm last

    parameters : see the page; ids : [n] int, tokens; types : [n] int, 0 in the first sentence, 1 in the second
    n_heads, n_layers : int; activation : `gelu`, or `erf_gelu` for a released model with "gelu"; epsilon : float
    -> [n, d] float
    Raises ValueError if there are no tokens or more than positions, an id is out of range, or shapes do not fit.

    No layers; the LayerNorm gives its bias, 1, which the linear map turns into 2 * 1 + 5.

    >>> p = {name: np.zeros((2, 1)) for name in ("embedding", "position", "type")} | {"widen": np.full((1, 1), 2.0)}
    >>> p |= {"embedding_norm.scale": np.ones(1), "embedding_norm.bias": np.ones(1), "widen_bias": np.full(1, 5.0)}
    >>> encode(p, np.array([1, 0]), np.array([0, 0]), n_heads=1, n_layers=0).tolist()
    [[7.0], [7.0]]
    """
    p, n = parameters, len(ids)
    if not 0 < n <= len(p["position"]):
        raise ValueError(f"ids: {n} tokens, not 1 to {len(p['position'])}")
    check_shapes(ids=(ids, "n"), types=(types, "n"))
    check_shapes(embedding=(p["embedding"], "Ve"), position=(p["position"], "Pe"), type=(p["type"], "Te"))
    x: Float = embedding(p["embedding"], ids) + p["position"][:n] + embedding(p["type"], types)
    x = linear(named_norm(x, p, "embedding_norm", epsilon), p["widen"], p["widen_bias"])
    for _ in range(n_layers):
        x = block(part(p, "layer"), x, n_heads, activation=activation, post_norm=True, epsilon=epsilon)
    return x


def outputs(parameters: Parameters, summary: Float) -> Float:
    r"""Return the logit of every class; or a score, where there is one class.

    Spec: AL-2.  $W \tanh(s W_p + b_p) + b$

    summary : [d] float, the first row of `encode`, or `refimpl.treeformer.model.summary` of its rows -> [C] float

    >>> outputs({"pooler": np.eye(1), "pooler_bias": np.zeros(1), "classes": np.ones((2, 1)),
    ...          "classes_bias": np.array([0.0, 3.0])}, np.array([50.0])).tolist()
    [1.0, 4.0]
    """
    pooled = np.tanh(linear(summary[np.newaxis], parameters["pooler"], parameters["pooler_bias"]))
    return np.asarray(linear(pooled, parameters["classes"].T, parameters["classes_bias"])[0])


def word_logps(parameters: Parameters, h: Float, activation: Activation = gelu, epsilon: float = 1e-12) -> Float:
    r"""Return the log-probability of every token at every position: ALBERT is pre-trained to predict masked tokens.

    Spec: AL-3.  $\operatorname{log\,softmax}(E \operatorname{LN}(\operatorname{gelu}(h W_n + b_n)) + b)$

    h : [n, d] float, `encode` of a text with masked tokens; others as `encode` -> [n, V] float, nats
    """
    x = activation(linear(h, parameters["narrow"], parameters["narrow_bias"]))
    x = named_norm(x, parameters, "narrow_norm", epsilon)
    return log_softmax(linear(x, parameters["embedding"].T, parameters["output_bias"]))
