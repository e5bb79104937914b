"""The encoder-decoder Transformer that carries the FastTrees block (section 3.3), and its beam search (section 4.5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from refimpl.attention import sparse_attention
from refimpl.fasttrees.transformer_gate import transformer_gate
from refimpl.layers import Float, Int, embedding, layer_norm, linear, log_softmax, sinusoids

Parameters = Mapping[str, Float]
Gate = Literal["none", "positionwise", "causal"]


def dot_product_attention(
    q: Float, k: Float, v: Float, causal: bool = False, keep: Float | None = None
) -> tuple[Float, Float]:
    r"""Return, for every query and head, the average of the values weighted by the scaled products with the keys.

    Spec: ED-1.  $o_i = \sum_j \operatorname{softmax}_j(q_i^\top k_j / \sqrt D)\, v_j$   (FastTrees, section 3.3)

    Parameters
    ----------
    q : [n, H, D] float
        Queries of every head.
    k, v : [s, H, D] float
        Keys and values.
    causal : bool
        Query i sees the keys j <= s - n + i only, which needs s >= n.
    keep : None or [n, s, H] float
        Multipliers of the weights after the softmax (dropout); those of keys that are not seen are not read.

    Returns
    -------
    out : [n, H, D] float, dtype of `q`
        Without `keep` a convex combination of the values that are seen; 0 where there is none.
    lse : [n, H] float, dtype of `q`
        $\log \sum_j e^{s_{ij}}$; -inf where no key is seen.

    Raises
    ------
    ValueError
        If `causal` and s < n, or shapes or dtypes do not fit.

    Examples
    --------
    Equal scores: the mean of all values, and the running mean.

    >>> zero, values = np.zeros((2, 1, 1)), np.array([1.0, 3.0]).reshape(2, 1, 1)
    >>> [dot_product_attention(zero, zero, values, causal)[0].ravel().tolist() for causal in (False, True)]
    [[2.0, 2.0], [1.0, 2.0]]
    """
    n, s = len(q), len(k)
    if causal and s < n:
        raise ValueError(f"k: {s} keys are fewer than {n} queries")
    if keep is not None and keep.shape != (n, s, q.shape[1]):
        raise ValueError(f"keep: shape {keep.shape} is not {(n, s, q.shape[1])}")
    seen = [s - n + i + 1 if causal else s for i in range(n)]
    kept = None if keep is None else [keep[i, : seen[i]] for i in range(n)]
    r = np.zeros((1, *q.shape[1:]), q.dtype)  # no relative positions, no biases
    return sparse_attention(q, k, v, r, r[0], r[0], [list(range(j)) for j in seen], [[0] * j for j in seen], kept)


def block(parameters: Parameters, x: Float, n_heads: int, gate: Gate = "none", encoded: Float | None = None) -> Float:
    r"""Return the output of one layer: of the encoder, or of the decoder if the encoder's output is given.

    Spec: ED-2.  $x' = x + \operatorname{gate}(\operatorname{attention}(\operatorname{LN} x))$, in the decoder
    $x'' = x' + \operatorname{attention}(\operatorname{LN} x', \text{encoded})$; then
    $y = x'' + F_\phi(\operatorname{LN} x'')$

    Parameters
    ----------
    parameters : dict of str to float array
        Of this layer, see the page; `gate.*` are those of `refimpl.fasttrees.transformer_gate`.
    x : [n, d] float
    n_heads : int
        H, which divides d.
    gate : "none", "positionwise" or "causal"
        What stands behind the self-attention: nothing, the position-wise gate, or the gate with its causal convolution.
    encoded : None or [s, d] float
        Output of the encoder: the self-attention is causal then, and a second attention goes to these rows.

    Returns
    -------
    [n, d] float, dtype of `x`
        In the decoder row i does not depend on the rows of `x` after i.

    Raises
    ------
    ValueError
        If `gate` is unknown, H does not divide d, or shapes or dtypes do not fit.

    Examples
    --------
    Without weights a layer is the identity.

    >>> names = [f"attention.{name}" for name in ("query", "key", "value", "output")]
    >>> zeros = {name: np.zeros((2, 2)) for name in (*names, "feed_forward.in", "feed_forward.out")}
    >>> for name in ("attention_norm.scale", "attention_norm.bias", "feed_forward_norm.scale", "feed_forward_norm.bias",
    ...              "feed_forward.in_bias", "feed_forward.out_bias"):
    ...     zeros[name] = np.zeros(2)
    >>> block(zeros, np.array([[1.0, 2.0]]), n_heads=1).tolist()
    [[1.0, 2.0]]
    """
    if gate not in ("none", "positionwise", "causal"):
        raise ValueError(f"gate: {gate!r} is not one of none, positionwise, causal")
    if n_heads < 1 or x.shape[1] % n_heads:
        raise ValueError(f"n_heads: {n_heads} does not divide {x.shape[1]}")

    def norm(name: str) -> Float:
        return layer_norm(x, parameters[f"{name}.scale"], parameters[f"{name}.bias"])

    def attend(name: str, queries: Float, keys: Float, causal: bool) -> Float:
        used = (queries, "query"), (keys, "key"), (keys, "value")
        q, k, v = ((rows @ parameters[f"{name}.{matrix}"]).reshape(len(rows), n_heads, -1) for rows, matrix in used)
        return dot_product_attention(q, k, v, causal)[0].reshape(queries.shape) @ parameters[f"{name}.output"]

    normal = norm("attention_norm")
    attended = attend("attention", normal, normal, causal=encoded is not None)
    if gate != "none":
        attended = transformer_gate(_own(parameters, "gate."), attended, "causal" if gate == "causal" else "none")
    x = x + attended
    if encoded is not None:
        x = x + attend("cross_attention", norm("cross_attention_norm"), encoded, causal=False)
    hidden = linear(norm("feed_forward_norm"), parameters["feed_forward.in"], parameters["feed_forward.in_bias"])
    return x + linear(np.maximum(hidden, 0), parameters["feed_forward.out"], parameters["feed_forward.out_bias"])


def encode(parameters: Parameters, ids: Int, n_heads: int, gate: Gate = "none") -> Float:
    r"""Return the encoder's output for every position of the source.

    Spec: ED-3.  $h^{(0)}_t = \sqrt d\, E_{x_t} + \operatorname{sinusoids}(t)$, the blocks, LayerNorm

    Parameters
    ----------
    parameters : dict of str to float array
        Of the whole model, see the page.
    ids : [s] int
        The source. Rows of `source_embedding`, or of `embedding` where there is none.
    n_heads : int
    gate : "none", "positionwise" or "causal"

    Returns
    -------
    [s, d] float, dtype of the parameters

    Raises
    ------
    ValueError
        If an id is out of range, or shapes or dtypes do not fit.

    Examples
    --------
    No layers: position 0 of a table of zeros is [0, 1], which LayerNorm turns into [-1, 1].

    >>> parameters = {"embedding": np.zeros((1, 2)), "encoder.norm.scale": np.ones(2), "encoder.norm.bias": np.zeros(2)}
    >>> encode(parameters, np.array([0]), n_heads=1).round(3).tolist()
    [[-1.0, 1.0]]
    """
    table = parameters.get("source_embedding", parameters["embedding"])
    return _layers(parameters, "encoder", table, ids, n_heads, gate)


def decode(parameters: Parameters, encoded: Float, ids: Int, n_heads: int, gate: Gate = "none") -> Float:
    r"""Return the log-probabilities of the token after each position of the target.

    Spec: ED-4.  $\log p(\cdot \mid y_{\le i}, x) = \operatorname{log\,softmax}(E\, h_i + b)$

    Parameters
    ----------
    parameters : dict of str to float array
        Of the whole model, see the page.
    encoded : [s, d] float
        Output of `encode`.
    ids : [n] int
        The target so far, the start symbol first.
    n_heads : int
    gate : "none", "positionwise" or "causal"

    Returns
    -------
    [n, V] float, dtype of the parameters
        Nats; the exponentials of a row sum to 1. Row i does not depend on ids after i.

    Raises
    ------
    ValueError
        If an id is out of range, or shapes or dtypes do not fit.

    Examples
    --------
    No layers and a table of zeros: all tokens are equally likely.

    >>> parameters = {"embedding": np.zeros((4, 2)), "output_bias": np.zeros(4)}
    >>> parameters |= {"decoder.norm.scale": np.ones(2), "decoder.norm.bias": np.zeros(2)}
    >>> np.exp(decode(parameters, np.zeros((1, 2)), np.array([0]), n_heads=1)).round(12).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    h = _layers(parameters, "decoder", parameters["embedding"], ids, n_heads, gate, encoded)
    return log_softmax(linear(h, parameters["embedding"].T, parameters["output_bias"]))


def classify(parameters: Parameters, ids: Int, n_heads: int, gate: Gate = "none") -> Float:
    r"""Return the log-probability of every class of a sequence, read off the encoder's last position.

    Spec: ED-5.  $\operatorname{log\,softmax}(W h_s + b)$

    Parameters
    ----------
    parameters : dict of str to float array
        Of the encoder, `classes` [C, d] and `classes_bias` [C].
    ids : [s] int
        s >= 1.
    n_heads : int
    gate : "none", "positionwise" or "causal"

    Returns
    -------
    [C] float, dtype of the parameters
        Nats.

    Raises
    ------
    ValueError
        If the sequence is empty, an id is out of range, or shapes or dtypes do not fit.

    Examples
    --------
    >>> parameters = {"embedding": np.zeros((1, 2)), "encoder.norm.scale": np.ones(2), "encoder.norm.bias": np.zeros(2)}
    >>> parameters |= {"classes": np.zeros((2, 2)), "classes_bias": np.log(np.array([1.0, 3.0]))}
    >>> np.exp(classify(parameters, np.array([0]), n_heads=1)).round(12).tolist()
    [0.25, 0.75]
    """
    last = encode(parameters, ids, n_heads, gate)[-1]
    return log_softmax(parameters["classes"] @ last + parameters["classes_bias"])


def beam_search(
    step_logp: Callable[[list[int]], Sequence[float] | Float],
    beam: int,
    length_penalty: float,
    max_length: int,
    end: int,
) -> list[int]:
    r"""Return the best sequence that a beam search finds.

    Spec: ED-6.  score $= \log p(y) / ((5 + |y|) / 6)^\alpha$

    Parameters
    ----------
    step_logp : function
        From the tokens so far to the log-probability of every next token; -inf: impossible.
    beam : int
        How many unfinished sequences are kept after every step, of the 2 `beam` best that are looked at.
    length_penalty : float
        $\alpha \ge 0$; 0 compares log-probabilities.
    max_length : int
        A sequence of so many tokens counts as finished.
    end : int
        The token that ends a sequence; it counts in |y|.

    Returns
    -------
    list of int
        Without `end`. With `beam` at least V^max_length no sequence has a higher score.

    Raises
    ------
    ValueError
        If a number is out of range, a log-probability is NaN or above 0, or all are -inf.

    Examples
    --------
    Token 0 ends. The likelier first token, 1, leads into a plain; a beam of two looks past it.

    >>> step = {(): [0.1, 0.5, 0.4], (1,): [0.4, 0.3, 0.3], (2,): [0.9, 0.1, 0.0]}
    >>> def step_logp(tokens):
    ...     with np.errstate(divide="ignore"):
    ...         return np.log(step[tuple(tokens)])
    >>> [beam_search(step_logp, beam, 0.0, 2, end=0) for beam in (1, 2)]
    [[1], [2]]
    """
    if beam < 1 or max_length < 1 or length_penalty < 0:
        raise ValueError(f"beam, length_penalty, max_length: {beam}, {length_penalty}, {max_length} are out of range")
    unfinished: list[tuple[list[int], float]] = [([], 0.0)]
    finished = []
    for length in range(1, max_length + 1):
        longer = []
        for tokens, logp in unfinished:
            for token, more in enumerate(step_logp(tokens)):
                if not more <= 1e-6:
                    raise ValueError(f"step_logp: {more} after {tokens} is no log-probability")
                if more > -math.inf:
                    longer.append(([*tokens, token], logp + float(more)))
        longer = sorted(longer, key=lambda x: -x[1])[: 2 * beam]
        penalty = ((5 + length) / 6) ** length_penalty
        finished += [(tokens, logp / penalty) for tokens, logp in longer if tokens[-1] == end or length == max_length]
        unfinished = [(tokens, logp) for tokens, logp in longer if tokens[-1] != end][:beam]
    if not finished:
        raise ValueError("step_logp: no sequence is possible")
    best, _ = max(finished, key=lambda x: x[1])
    return best[:-1] if best[-1] == end else best


def _layers(
    parameters: Parameters, side: str, table: Float, ids: Int, n_heads: int, gate: Gate, encoded: Float | None = None
) -> Float:
    """Return the normalised output of the last layer of one side: ED-3."""
    if len(ids) == 0:
        raise ValueError("ids: an empty sequence")
    d = table.shape[1]
    x = math.sqrt(d) * embedding(table, ids) + sinusoids(np.arange(len(ids)), d).astype(table.dtype)
    for k in range(sum(name.startswith(f"{side}.") and name.endswith(".feed_forward.in") for name in parameters)):
        x = block(_own(parameters, f"{side}.{k}."), x, n_heads, gate, encoded)
    return layer_norm(x, parameters[f"{side}.norm.scale"], parameters[f"{side}.norm.bias"])


def _own(parameters: Parameters, prefix: str) -> Parameters:
    """Return the parameters whose name begins with the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in parameters.items() if name.startswith(prefix)}
