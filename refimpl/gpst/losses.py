"""GPST's losses (section 3.2, appendix A.1): auto-encoding, height, parser, auto-regression."""

from dataclasses import dataclass

import numpy as np

from refimpl.checks import Int, Parameters, part
from refimpl.gpst.generator import action_logps
from refimpl.gpst.inside_outside import BySpan, Split, induced_tree, inside, outside
from refimpl.gpst.parser import Config, encode, leaves
from refimpl.layers import cross_entropy, log_softmax, mlp
from refimpl.randomness import gumbel


@dataclass(frozen=True)
class Losses:
    """The four losses of a context, nats, and the trees that were induced. Spec: GPST-5."""

    ae: float
    height: float
    parser: float
    ar: float
    trees: list[list[Split]]


def losses(
    config: Config, parameters: Parameters, sentences: list[Int], seed: int | None = None,
    weights: list[BySpan] | None = None, atoms: list[list[tuple[int, int]]] | None = None,
) -> Losses:  # fmt: skip
    r"""Return the losses of a context: auto-encoding, height, parser, and auto-regression.

    Spec: GPST-5.  $L = L_{ae} + L_h + L_p + L_{ar}$

    sentences : list of [n] int, at least one; n >= 1
    seed : int, of the Gumbel noise on the parser's scores; None: no noise
    weights : list of dict from every cell to [K] float, constants in place of the inside weights for $L_{ar}$ only
        (stop-gradient), or None
    atoms : None, or for every sentence the list of its atoms, which its tree must not split
    Raises ValueError if there is no sentence, one is empty, an id is out of range, there are too many words, or
    `weights` or `atoms` has not one entry for every sentence.

    All parameters 0: words have probability 1/3, actions 1/2; two words, three actions.

    >>> from refimpl.gpst.generator import step_logps
    >>> names = {"embedding": (3, 2), "position": (3, 2), "bos": (2,), "down": (2, 1), "down_bias": (1,), "up": (1, 2)}
    >>> names |= {f"{name}_norm.{part}": (2,) for name in ("action", "token") for part in ("scale", "bias")}
    >>> names |= {"parser.embedding": (3, 2), "parser.norm": (2,), "up_bias": (2,), "composition.outside_root": (1,)}
    >>> networks = {"action": (2, 2, 2), "word": (2, 8, 2), "reconstruct": (1, 4, 2), "parser.split": (4, 8, 1)}
    >>> for score in ("inside.left", "inside.right", "outside.parent", "outside.left", "outside.right"):
    ...     networks[f"composition.{score}"] = 1, 1, 1
    >>> for name, (a, b, c) in networks.items():
    ...     names |= {f"{name}.in": (a, b), f"{name}.in_bias": (b,), f"{name}.out": (b, c), f"{name}.out_bias": (c,)}
    >>> zeros = {name: np.zeros(shape) for name, shape in names.items()}
    >>> x = losses(Config(1, 1, 1), zeros, [np.array([2, 0])])
    >>> round(np.exp(x.ae)), round(np.exp(x.ar * 3)), x.parser, x.trees  # 2 * 3 * 2 * 3 * 2
    (3, 72, 0.0, [[(0, 0, 1)]])
    >>> [round(float(np.exp(logp)), 12) for logp in step_logps(Config(1, 1, 1), zeros, [2, 0, -1])[:2]]
    [0.5, 0.5]
    """
    p, n_words, n_sentences = parameters, sum(map(len, sentences)), len(sentences)
    if any(entries is not None and len(entries) != n_sentences for entries in (weights, atoms)):
        raise ValueError(f"weights, atoms: not one entry for each of {n_sentences} sentences")
    table = p["embedding"] if config.head == "mlp" else leaves(p, np.arange(len(p["embedding"])))
    bias, composition = np.zeros(len(table), table.dtype), part(p, "composition")
    ae, height, parser, trees, surrogates = 0.0, 0.0, 0.0, list[list[Split]](), list[BySpan]()
    for number, ids in enumerate(sentences):
        n, n_before, whole = len(ids), sum(map(len, sentences[:number])), atoms[number] if atoms is not None else ()
        noise = None if seed is None else gumbel(np.arange(n_before, n_before + n - 1), seed)
        scores, chart, encoded = encode(config, p, ids, noise, whole)
        trees.append(induced_tree(chart, encoded.scores, whole))
        vectors, _ = outside(encoded, chart, composition, config.compose_heads)
        o = np.array([vectors[i, i] for i in range(n)])
        ae -= float(cross_entropy(mlp(o, p, "reconstruct") if config.head == "mlp" else o, table, bias, ids).sum())
        excess = max(encoded.heights[0, n - 1] - config.height_threshold, 0.0)
        height += excess / (n if config.height_norm == "paper" else max(n - config.height_threshold, 1.0))
        parser -= sum(float(log_softmax(scores[i:j])[k - i]) for i, k, j in trees[-1])
        if weights is not None:
            encoded = inside(leaves(p, ids), chart, composition, config.compose_heads, weights[number])
        surrogates.append(encoded.vectors)
    ar = -float(action_logps(config, p, sentences, trees, surrogates).sum()) / (2 * n_words - n_sentences)
    return Losses(ae / n_words, height / n_sentences, parser / max(n_words - n_sentences, 1), ar, trees)
