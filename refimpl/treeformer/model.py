"""Treeformer: the chart between an encoder and a decoder, and in a classifier (section 3.2)."""

import numpy as np

from refimpl import transformer
from refimpl.checks import Float, Int, Parameters, part
from refimpl.layers import linear, log_softmax
from refimpl.treeformer.cky_pooling import Limit, cky_pool


def encode(parameters: Parameters, ids: Int, n_heads: int, max_height: Limit = None, variant: str = "paper") -> Float:
    r"""Return the memory of the decoder: every phrase of the source, the tokens first.

    Spec: TF-1.  $[r_{0,0}, \dots, r_{s-1,s-1}, r_{0,1}, r_{1,2}, \dots]$ over the encoder's output

    parameters : of an encoder-decoder, and of the chart as `chart.*`; ids : [s] int, the source.
    n_heads : int, of the encoder and of the released block; max_height, variant : of the chart.
    -> [nodes, d] float; `refimpl.transformer.decode` reads it, not the encoder's output, which is its first s rows.
    Raises ValueError if an id is out of range, `max_height` is below 1, or parameters do not fit.

    Without layers the encoder gives (1, 2) twice, and the phrase of both takes 1 from the left token, 2 from the right.

    >>> p = {"embedding": np.zeros((1, 2)), "encoder.norm.scale": np.zeros(2), "encoder.norm.bias": np.arange(1.0, 3.0)}
    >>> p |= {f"chart.{name}": np.zeros((2, 2)) for name in ("key", "query")} | {"chart.w": np.zeros(2)}
    >>> p |= {"chart.compose": np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])}
    >>> encode(p, np.array([0, 0]), n_heads=1).tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    encoded = transformer.encode(parameters, ids, n_heads)
    return np.array(list(cky_pool(encoded, part(parameters, "chart"), max_height, variant, n_heads).vectors.values()))


def summary(
    parameters: Parameters, encoded: list[Float], n_heads: int, max_height: Limit = None, variant: str = "paper"
) -> Float:
    r"""Return the vector that classifies a sequence: its first row, plus the mean of its longest phrases.

    Spec: TF-2.  $h_0 + \operatorname{mean}_i r_{i,i+H-1}$

    parameters, n_heads, max_height, variant : as `encode`; encoded : list of [s, d] float, the rows of the encoder:
    of the whole sequence, or those of each sentence of a pair, so that no phrase holds tokens of both
    -> [d] float. Raises ValueError as `cky_pool`.
    """
    longest = list[Float]()
    for rows in encoded:
        chart = cky_pool(rows, part(parameters, "chart"), max_height, variant, n_heads)
        longest += list(chart.vectors.values())[min(len(rows), max_height or len(rows)) - len(rows) - 1 :]
    return np.asarray(encoded[0][0] + np.mean(longest, axis=0))


def classify(parameters: Parameters, ids: Int, n_heads: int, max_height: Limit = None, variant: str = "paper") -> Float:
    r"""Return the log-probability of every class of a sequence.

    Spec: TF-2.  $\operatorname{log\,softmax}(W (h_0 + \operatorname{mean}_i r_{i,i+H-1}) + b)$

    parameters, n_heads, max_height, variant : as `encode`, with `classes` [C, d] and `classes_bias` [C].
    ids : [s] int, the symbol CLS first -> [C] float, nats. Raises ValueError as `encode`.
    """
    whole = summary(parameters, [transformer.encode(parameters, ids, n_heads)], n_heads, max_height, variant)
    return log_softmax(linear(whole[np.newaxis], parameters["classes"].T, parameters["classes_bias"])[0])
