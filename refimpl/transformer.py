"""The encoder-decoder Transformer that carries the FastTrees gate (section 3.3), and its beam search (section 4.5)."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from refimpl.attention import multi_head_attention
from refimpl.checks import Float, Int, Parameters, part
from refimpl.fasttrees.transformer_gate import transformer_gate
from refimpl.layers import EPSILON, embedding, linear, log_softmax, mlp, named_norm, relu, sinusoids

Activation = Callable[[Float], Float]
StepLogp = Callable[[list[int]], Sequence[float] | Float]


def block(
    parameters: Parameters, x: Float, n_heads: int, encoded: Float | None = None,
    causal: bool = False, activation: Activation = relu, post_norm: bool = False, epsilon: float = EPSILON,
) -> Float:  # fmt: skip
    r"""Return the output of one layer: of the encoder, or of the decoder if the encoder's output is given.

    Spec: ED-2.  $x' = x + G(\operatorname{heads}(\operatorname{LN} x, \operatorname{LN} x))$, in the decoder
    $x'' = x' + \operatorname{heads}(\operatorname{LN} x', \text{encoded})$,
    $y = x'' + \max(0, \operatorname{LN} x''\, W_1 + b_1) W_2 + b_2$

    parameters : of this layer, see the page, with a gate or not; x : [n, d] float; n_heads : int, H, which divides d
    encoded : None, or [s, d] float, output of the encoder; causal : bool, row i of the self-attention sees rows up to i
    activation : function of the elements in the feed-forward network, in place of the ReLU
    post_norm : bool, LN of every sum in place of LN x; epsilon : float, of LN -> [n, d] float
    Raises ValueError if H does not divide d, or shapes do not fit.
    """

    def norm(y: Float, name: str, after: bool) -> Float:
        return named_norm(y, parameters, f"{name}_norm", epsilon) if after == post_norm else y

    z = norm(x, "attention", after=False)
    attended = multi_head_attention(z, z, z, part(parameters, "attention"), n_heads, causal)
    if of_gate := part(parameters, "gate"):
        attended = transformer_gate(of_gate, attended)
    x = norm(x + attended, "attention", after=True)
    if encoded is not None:
        z = norm(x, "cross_attention", after=False)
        attended = multi_head_attention(z, encoded, encoded, part(parameters, "cross_attention"), n_heads)
        x = norm(x + attended, "cross_attention", after=True)
    z = norm(x, "feed_forward", after=False)
    return norm(x + mlp(z, parameters, "feed_forward", activation), "feed_forward", after=True)


def encode(parameters: Parameters, ids: Int, n_heads: int) -> Float:
    r"""Return the encoder's output for every position of the source.

    Spec: ED-3.  $h^{(0)}_t = \sqrt d\, E_{x_t} + \operatorname{sinusoids}(t)$, the blocks, LayerNorm

    parameters : of the whole model, see the page
    ids : [s] int, rows of `source_embedding`, or of `embedding` where there is none
    n_heads : as `block` -> [s, d] float
    Raises ValueError if the source is empty, an id is out of range, or shapes do not fit.

    No layers: position 0 of a table of zeros is [0, 1], which LayerNorm turns into [-1, 1].
    >>> parameters = {"embedding": np.zeros((1, 2)), "encoder.norm.scale": np.ones(2), "encoder.norm.bias": np.zeros(2)}
    >>> encode(parameters, np.array([0]), n_heads=1).round(3).tolist()
    [[-1.0, 1.0]]
    """
    table = parameters.get("source_embedding", parameters["embedding"])
    return _layers(part(parameters, "encoder"), table, ids, n_heads)


def decode(parameters: Parameters, encoded: Float, ids: Int, n_heads: int) -> Float:
    r"""Return the log-probabilities of the token after each position of the target.

    Spec: ED-4.  $\log p(\cdot \mid y_{\le i}, x) = \operatorname{log\,softmax}(E\, h_i + b)$

    parameters, n_heads : as `encode`; encoded : [s, d] float, output of `encode`
    ids : [n] int, the target so far, the start symbol first -> [n, V] float, nats
    Raises ValueError as `encode`.
    """
    h = _layers(part(parameters, "decoder"), parameters["embedding"], ids, n_heads, encoded)
    return log_softmax(linear(h, parameters["embedding"].T, parameters.get("output_bias")))


def classify(parameters: Parameters, ids: Int, n_heads: int) -> Float:
    r"""Return the log-probability of every class of a sequence, read off the encoder's last position.

    Spec: ED-5.  $\operatorname{log\,softmax}(W h_{s-1} + b)$   (FastTrees, section 4.6)

    parameters, ids, n_heads : as `encode`; also `classes` [C, d] and `classes_bias` [C] -> [C] float, nats
    Raises ValueError as `encode`.

    >>> parameters = {"embedding": np.zeros((1, 2)), "encoder.norm.scale": np.ones(2), "encoder.norm.bias": np.zeros(2)}
    >>> parameters |= {"classes": np.zeros((2, 2)), "classes_bias": np.log(np.array([1.0, 3.0]))}
    >>> np.exp(classify(parameters, np.array([0]), n_heads=1)).round(12).tolist()
    [0.25, 0.75]
    """
    last = encode(parameters, ids, n_heads)[-1]
    return log_softmax(linear(last[np.newaxis], parameters["classes"].T, parameters["classes_bias"])[0])


def beam_search(step_logp: StepLogp, beam: int, length_penalty: float, max_length: int, end: int) -> list[int]:
    r"""Return the best sequence that a beam search finds.

    Spec: ED-6.  score $= \log p(y) / ((5 + |y|) / 6)^\alpha$   (FastTrees, section 4.5)

    step_logp : from the tokens so far to the log-probability of every next token; -inf: impossible
    beam : int, how many unfinished sequences are kept after every step, out of the 2 * beam best of all
    length_penalty : float, $\alpha \ge 0$; max_length : int, a sequence of this length is finished
    end : int, the token that ends a sequence; it counts in |y| -> list of int, without `end`
    Raises ValueError if a number is out of range, a log-probability is NaN or above 0 (by more than 1e-6: rounding),
    or no sequence is possible.

    Token 0 ends a sequence. Token 1 is the likelier first token, but [2, 0] is the likeliest sequence; beam 2 finds it.
    >>> step = {(): [0.1, 0.5, 0.4], (1,): [0.4, 0.3, 0.3], (2,): [0.9, 0.1, 0.0]}
    >>> def step_logp(tokens):
    ...     with np.errstate(divide="ignore"):
    ...         return np.log(step[tuple(tokens)])
    >>> [beam_search(step_logp, beam, 0.0, 2, end=0) for beam in (1, 2)]
    [[1], [2]]
    """
    if beam < 1 or max_length < 1 or not 0 <= length_penalty < math.inf:
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


def _layers(parameters: Parameters, table: Float, ids: Int, n_heads: int, encoded: Float | None = None) -> Float:
    """Return the normalised output of the last layer of one side: ED-3."""
    if len(ids) == 0:
        raise ValueError("ids: an empty sequence")
    d, post_norm = table.shape[1], "norm.scale" not in parameters
    x = math.sqrt(d) * embedding(table, ids) + sinusoids(np.arange(len(ids)), d).astype(table.dtype)
    for k in range(sum(name.endswith(".feed_forward.in") for name in parameters)):
        x = block(part(parameters, str(k)), x, n_heads, encoded, causal=encoded is not None, post_norm=post_norm)
    return x if post_norm else named_norm(x, parameters, "norm")
