"""GPST's parser and the E-step (section 3.2, appendix A.1): scores of a sentence, their chart, the inside pass."""

from dataclasses import dataclass

import numpy as np

from refimpl.attention import multi_head_attention
from refimpl.checks import Float, Int, Parameters, check_shapes, part
from refimpl.fasttrees.cells import sigmoid
from refimpl.gpst.composition import layers_of
from refimpl.gpst.inside_outside import Inside, inside
from refimpl.gpst.pruned_chart import Atoms, Chart, merge_order, pruned_chart
from refimpl.layers import EPSILON, embedding, linear, mlp, sinusoids


@dataclass(frozen=True)
class Config:
    """The choices that the parameters do not show. Spec: GPST-1. Raises ValueError if one is unknown."""

    n_heads: int  # of the generative model
    compose_heads: int
    parser_heads: int  # a head has an even width
    window: int = 2  # W of the pruned chart
    surrogate: bool = True  # False: the generative model reads one learned vector for every span of two words or more
    head: str = "mlp"  # outside vectors meet the embeddings through an MLP; "dot": they meet the leaves directly
    height_threshold: float = 15.0  # H: lower trees are not punished
    height_norm: str = "paper"  # the height above H is divided by n; "excess": by max(n - H, 1)

    def __post_init__(self) -> None:
        if self.head not in ("mlp", "dot") or self.height_norm not in ("paper", "excess"):
            raise ValueError(f"head, height_norm: {self.head!r}, {self.height_norm!r} are not known")


def split_scores(config: Config, parameters: Parameters, ids: Int) -> Float:
    r"""Return the parser's score of every point between two words.

    Spec: GPST-2.  $v_k = \operatorname{MLP}([h_k; h_{k+1}])$, $h$ the output of a bidirectional encoder

    parameters : `parser.*`, see the page; ids : [n] int, the words, n >= 1
    -> [n - 1] float; the sentence is split at its highest score, each half at its highest, and so on
    Raises ValueError if an id is out of range, a head's width is odd, or shapes do not fit.

    No layers; rows of (1, 1) and (1, -1), and the network passes the second feature of the left word.

    >>> p = {"parser.embedding": np.array([[9.0, 9.0], [9.0, -9.0]]), "parser.norm": np.ones(2)}
    >>> p |= {"parser.split.in": np.eye(4)[:, 1:2], "parser.split.in_bias": np.full(1, 100.0)}
    >>> p |= {"parser.split.out": np.ones((1, 1)), "parser.split.out_bias": np.full(1, -100.0)}
    >>> split_scores(Config(1, 1, 1), p, np.array([0, 1, 0])).round(4).tolist()
    [1.0, -1.0]
    """
    x = embedding(parameters["parser.embedding"], ids)
    for p in layers_of(parameters, "parser"):
        z = rms_norm(x, p["attention_norm"])
        x = x + multi_head_attention(z, z, z, part(p, "attention"), config.parser_heads, turn=rotate)
        z = rms_norm(x, p["feed_forward_norm"])
        gate = linear(z, p["gate"])
        x = x + linear(gate * sigmoid(gate) * linear(z, p["up"]), p["down"])
    h = rms_norm(x, parameters["parser.norm"])
    return np.asarray(mlp(np.concatenate([h[:-1], h[1:]], axis=1), parameters, "parser.split")[:, 0])


def rms_norm(x: Float, scale: Float) -> Float:
    r"""Return every row divided by the root of its mean square, then scaled.

    Spec: GPST-2.  $\gamma x / \sqrt{\operatorname{mean}(x^2) + 10^{-5}}$

    Raises ValueError if shapes or dtypes do not fit.

    >>> rms_norm(np.array([[1e5, -7e5]]), np.array([5.0, 10.0])).round(6)  # the root is 5e5
    array([[  1., -14.]])
    """
    check_shapes(x=(x, "Td"), scale=(scale, "d"), like=x)
    return np.asarray(scale * x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPSILON))


def rotate(x: Float) -> Float:
    r"""Return queries or keys turned by their positions: products then depend on distances only.

    Spec: GPST-2.  Features 2m and 2m + 1 as a complex number, times $e^{i t \omega_m}$, $\omega_m = 10^{-8m/D_h}$

    x : [T, H, D_h] float, D_h even; row t stands at position t -> [T, H, D_h] float
    Raises ValueError if D_h is odd.

    >>> rotate(np.array([[[1.0, 0.0]], [[1.0, 0.0]]])).round(4).tolist()  # by 0 and by 1 radian
    [[[1.0, 0.0]], [[0.5403, 0.8415]]]
    """
    sin, cos = np.split(sinusoids(np.arange(len(x)), x.shape[2])[:, np.newaxis], 2, axis=2)  # [T, 1, D_h / 2]
    z = (x[..., ::2] + 1j * x[..., 1::2]) * (cos + 1j * sin)  # [T, H, D_h / 2]
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


def leaves(parameters: Parameters, ids: Int) -> Float:
    r"""Return the words as the composition model sees them.

    Spec: GPST-3.  $E_x W_{\text{down}} + b$

    ids : [n] int -> [n, d] float
    """
    return linear(embedding(parameters["embedding"], ids), parameters["down"], parameters["down_bias"])


def encode(
    config: Config, parameters: Parameters, ids: Int, noise: Float | None = None, atoms: Atoms = ()
) -> tuple[Float, Chart, Inside]:
    r"""Return the parser's scores of a sentence, the chart of their order, and the inside pass over it.

    Spec: GPST-3.  The E-step, except for the tree, which is `induced_tree` of the chart and the scores of its cells

    ids : [n] int, the words, n >= 1; noise : [n - 1] float, added to the scores before they are put in order, or None
    atoms : list of (i, j), as `merge_order`; `induced_tree` needs them again
    -> [n - 1] float without noise, Chart, Inside
    Raises ValueError if the sentence is empty, an id is out of range, or shapes do not fit.
    """
    scores = split_scores(config, parameters, ids)
    chart = pruned_chart(merge_order(scores if noise is None else scores + noise, atoms), len(ids), config.window)
    return scores, chart, inside(leaves(parameters, ids), chart, part(parameters, "composition"), config.compose_heads)
