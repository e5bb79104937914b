"""Treeformer: the chart between an encoder and a decoder, and above the first token of a classifier (section 3.2)."""

from __future__ import annotations

import numpy as np

from refimpl import transformer as encoder_decoder
from refimpl.checks import Float, Int, Parameters
from refimpl.layers import log_softmax
from refimpl.treeformer.cky_pooling import Variant, chart


def encode(
    parameters: Parameters, ids: Int, n_heads: int, max_height: int | None = None, variant: Variant = "paper"
) -> Float:
    r"""Return the memory of the decoder: every phrase of the source, the tokens first.

    Spec: TF-1.  $[r_{0,0}, \dots, r_{s-1,s-1}, r_{0,1}, r_{1,2}, \dots]$ over the encoder's output.
    `refimpl.transformer.decode` reads it in place of that output.

    Parameters
    ----------
    parameters : dict of str to float array
        Of an encoder-decoder, and those of `refimpl.treeformer.cky_pooling.chart` as `chart.*`.
    ids : [s] int
        The source.
    n_heads : int
        Of the encoder, and of the released block.
    max_height : int or None
        The longest phrase in tokens; None: no limit.
    variant : "paper" or "released"

    Returns
    -------
    [nodes, d] float, dtype of the parameters
        The first s rows are the encoder's output.

    Raises
    ------
    ValueError
        If an id is out of range, `max_height` is below 1, or parameters do not fit.

    Examples
    --------
    No layers: the encoder gives (1, 2) twice, and the phrase of both is the sum of what it keeps of each.

    >>> p = {"embedding": np.zeros((1, 2)), "encoder.norm.scale": np.zeros(2), "encoder.norm.bias": np.arange(1.0, 3.0)}
    >>> p |= {f"chart.{name}": np.zeros((2, 2)) for name in ("key", "query")} | {"chart.w": np.zeros(2)}
    >>> p |= {"chart.compose": np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])}
    >>> encode(p, np.array([0, 0]), n_heads=1).tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    own = {name.removeprefix("chart."): p for name, p in parameters.items() if name.startswith("chart.")}
    encoded = encoder_decoder.encode(parameters, ids, n_heads)
    return np.array(list(chart(encoded, own, max_height, variant, n_heads).vectors.values()))


def classify(
    parameters: Parameters, ids: Int, n_heads: int, max_height: int | None = None, variant: Variant = "paper"
) -> Float:
    r"""Return the log-probability of every class of a sequence.

    Spec: TF-2.  $\operatorname{log\,softmax}(W (h_0 + \operatorname{mean}_i r_{i,i+H-1}) + b)$

    Parameters
    ----------
    parameters, n_heads, max_height, variant
        As `encode`, with `classes` [C, d] and `classes_bias` [C].
    ids : [s] int
        The symbol CLS first.

    Returns
    -------
    [C] float, dtype of the parameters
        Nats.

    Raises
    ------
    ValueError
        As `encode`.

    Examples
    --------
    The encoder gives 1, and so does the chart of one token: the first class has 1 + 1 and a bias of ln 3 - 2.

    >>> p = {"embedding": np.zeros((1, 2)), "encoder.norm.scale": np.zeros(2), "encoder.norm.bias": np.eye(2)[0]}
    >>> p |= {f"chart.{name}": np.zeros((2, 2)) for name in ("key", "query")} | {"chart.w": np.zeros(2)}
    >>> p |= {"chart.compose": np.zeros((4, 2)), "classes": np.array([[1.0, 0.0], [0.0, 0.0]])}
    >>> p |= {"classes_bias": np.array([np.log(3.0) - 2, 0.0])}
    >>> np.exp(classify(p, np.array([0]), n_heads=1)).round(12).tolist()
    [0.75, 0.25]
    """
    memory = encode(parameters, ids, n_heads, max_height, variant)
    n_longest = len(ids) + 1 - min(len(ids), max_height or len(ids))
    pooled = memory[0] + memory[-n_longest:].mean(axis=0)
    return log_softmax(parameters["classes"] @ pooled + parameters["classes_bias"])
