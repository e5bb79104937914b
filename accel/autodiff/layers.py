"""Layers on the tape: each calls the backend's op of the same name and records its gradient.

Parameters come as a flat dictionary of variables; a layer takes the prefix of the names of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from accel.autodiff.arrays import Array
from accel.autodiff.seeds import mix
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable, constant

Parameters = Mapping[str, Variable]


@dataclass
class DropoutSites:
    """The places of dropout in a forward pass, numbered in the order of the pass; with seed None nothing is dropped."""

    seed: int | None
    count: int = 0

    def draw(self, rate: float) -> dict[str, Any]:
        """Return the rate and the seed of the next place."""
        site, self.count = self.count, self.count + 1
        return self.at(site, rate)

    def part(self) -> DropoutSites:
        """Return the places of a part of the pass; here the part counts as one place, however many places it has."""
        site, self.count = self.count, self.count + 1
        return DropoutSites(None if self.seed is None else mix(self.seed, site))

    def at(self, site: int, rate: float) -> dict[str, Any]:
        """Return the rate and the seed of the place of this number."""
        return {"rate": 0.0, "seed": 0} if self.seed is None else {"rate": rate, "seed": mix(self.seed, site)}


def dropout(tape: Tape, x: Variable, rate: float, sites: DropoutSites) -> Variable:
    """Return x with elements dropped at `rate` and the others scaled up; x itself where nothing is dropped."""
    return _dropout(tape, x, **sites.draw(rate))


def _dropout(tape: Tape, x: Variable, rate: float, seed: int) -> Variable:
    return tape.op("dropout", x, rate, seed) if rate else x


def word_dropout(tape: Tape, x: Variable, ids: Array, n_words: int, rate: float, sites: DropoutSites) -> Variable:
    """Return x with all rows of some of the n words dropped and the other rows scaled up; row i is of word ids[i].

    A backend may have an op that needs no mask.
    """
    draw = sites.draw(rate)
    if not draw["rate"]:
        return x
    if hasattr(tape.ops, "word_dropout"):
        return tape.op("word_dropout", x, ids, draw["rate"], draw["seed"])
    (mask,) = tape.ops.dropout(tape.xp.ones((n_words, 1), x.value.dtype), draw["rate"], draw["seed"])
    return tape.scale(x, mask[ids])


def locked_dropout(tape: Tape, x: Variable, offsets: Array, rate: float, sites: DropoutSites) -> Variable:
    """Return x with features dropped, the same in all rows of a sequence, and the others scaled up.

    `offsets` [B + 1] say where the sequences begin.
    """
    draw = sites.draw(rate)
    return tape.op("locked_dropout", x, offsets, draw["rate"], draw["seed"]) if draw["rate"] else x


def weight_drop(tape: Tape, weight: Variable, rate: float, sites: DropoutSites) -> Variable:
    """Return a weight with elements dropped and the others unchanged; if the seed is None, all of it times 1 - rate."""
    if not rate:
        return weight
    draw = sites.draw(rate)
    if not draw["rate"]:
        return tape.scale(weight, 1.0 - rate)
    return tape.op("weight_drop", weight, draw["rate"], draw["seed"])


def linear(tape: Tape, p: Parameters, weight: str, x: Variable, bias: str | None = None) -> Variable:
    """Return x @ p[weight] + p[bias]."""
    return tape.linear(x, p[weight], None if bias is None else p[bias])


def project(tape: Tape, p: Parameters, prefix: str, x: Variable) -> Variable:
    """Return x @ weight.T + bias; the weight has a row for each output."""
    return tape.project(x, p[prefix + ".weight"], p[prefix + ".bias"])


def layer_norm(tape: Tape, p: Parameters, prefix: str, x: Variable) -> Variable:
    """Return x with each row normalised, then scaled and shifted."""
    return tape.op("layer_norm", x, p[prefix + ".scale"], p[prefix + ".bias"])


def residual_layer_norm(
    tape: Tape, p: Parameters, prefix: str, x: Variable, y: Variable, bias: Variable, rate: float, sites: DropoutSites
) -> Variable:
    """Return x + dropout(y + bias) with each row normalised, then scaled and shifted: the end of a sublayer."""
    draw, norm = sites.draw(rate), (p[prefix + ".scale"], p[prefix + ".bias"])
    return tape.op("residual_layer_norm", x, y, bias, *norm, draw["rate"], draw["seed"])


def linear_relu(
    tape: Tape, x: Variable, weight: Variable, bias: Variable, rate: float, sites: DropoutSites
) -> Variable:
    """Return dropout(max(x @ weight + bias, 0)). A backend may have one op for all but the product."""
    draw = sites.draw(rate)
    if hasattr(tape.ops, "dropped_bias_relu"):
        return tape.op("dropped_bias_relu", tape.linear(x, weight), bias, draw["rate"], draw["seed"])
    return _dropout(tape, tape.relu(tape.linear(x, weight, bias)), **draw)


def residual_sum(tape: Tape, x: Variable, y: Variable, rate: float, sites: DropoutSites) -> Variable:
    """Return x + dropout(y). A backend may have one op for it."""
    draw = sites.draw(rate)
    if hasattr(tape.ops, "residual_sum"):
        return tape.op("residual_sum", x, y, draw["rate"], draw["seed"])
    return tape.add(x, _dropout(tape, y, **draw))


def residual_linear(
    tape: Tape, x: Variable, y: Variable, weight: Variable, bias: Variable, rate: float, sites: DropoutSites
) -> Variable:
    """Return x + dropout(y @ weight + bias). A backend may have one op for all but the product."""
    if not hasattr(tape.ops, "biased_residual_sum"):
        return residual_sum(tape, x, tape.linear(y, weight, bias), rate, sites)
    draw = sites.draw(rate)
    return tape.op("biased_residual_sum", x, tape.linear(y, weight), bias, draw["rate"], draw["seed"])


def feed_forward(tape: Tape, p: Parameters, prefix: str, x: Variable, rate: float, sites: DropoutSites) -> Variable:
    """Return out(dropout(gelu(in(x)))), both linear maps with a bias."""
    return linear(tape, p, prefix + ".out", feed_forward_hidden(tape, p, prefix, x, rate, sites), prefix + ".out_bias")


def feed_forward_hidden(
    tape: Tape, p: Parameters, prefix: str, x: Variable, rate: float, sites: DropoutSites
) -> Variable:
    """Return dropout(gelu(in(x))); `in` is a linear map with a bias."""
    return _dropped(tape, "bias_gelu", tape.linear(x, p[prefix + ".in"]), p[prefix + ".in_bias"], rate, sites)


def mlp(tape: Tape, p: Parameters, prefix: str, x: Variable, rate: float, sites: DropoutSites) -> Variable:
    """Return out(dropout(erf_gelu(in(x)))), both linear maps with a bias."""
    return linear(tape, p, prefix + ".out", mlp_hidden(tape, p, prefix, x, rate, sites), prefix + ".out_bias")


def mlp_hidden(tape: Tape, p: Parameters, prefix: str, x: Variable, rate: float, sites: DropoutSites) -> Variable:
    """Return dropout(erf_gelu(in(x))); `in` is a linear map with a bias."""
    return _dropped(tape, "bias_erf_gelu", tape.linear(x, p[prefix + ".in"]), p[prefix + ".in_bias"], rate, sites)


def _dropped(tape: Tape, name: str, x: Variable, bias: Variable, rate: float, sites: DropoutSites) -> Variable:
    """Return the output of the op of this name, after dropout. A backend may have one op for both."""
    draw = sites.draw(rate)
    if draw["rate"] and hasattr(tape.ops, f"dropped_{name}"):
        return tape.op(f"dropped_{name}", x, bias, draw["rate"], draw["seed"])
    return _dropout(tape, tape.op(name, x, bias), **draw)


def projections(tape: Tape, p: Parameters, prefix: str, rows: Mapping[str, Variable]) -> list[Variable]:
    """Return, for each name, its rows times its matrix; matrices with the same rows may be multiplied at once.

    A matrix has a bias if the parameters hold one.
    """
    names, of_names = list(rows), [x for x in rows if f"{prefix}.{x}_bias" in p]
    shared = len({id(x) for x in rows.values()}) == 1
    if shared and len(of_names) == len(names) == 3 and hasattr(tape.ops, "residual_sums"):
        weights, biases = ([p[f"{prefix}.{x}{end}"] for x in names] for end in ("", "_bias"))
        return tape.linear_all(rows[names[0]], weights, biases)
    if of_names:
        return [tape.linear(rows[x], p[f"{prefix}.{x}"], p.get(f"{prefix}.{x}_bias")) for x in names]
    products: dict[str, Variable] = {}
    for x in {id(x): x for x in rows.values()}.values():
        matrices = [name for name in names if rows[name] is x]
        products |= zip(matrices, tape.linear_all(x, [p[f"{prefix}.{name}"] for name in matrices]), strict=True)
    return [products[name] for name in names]


Turn = Callable[[Variable, Variable], Sequence[Variable]]
"""Takes queries and keys [N, H, D], and returns them rotated."""


def self_attention(
    tape: Tape, p: Parameters, prefix: str, x: Variable, values: Variable, n_heads: int, offsets: Array,
    draw: dict[str, Any], turn: Turn | None = None,
) -> Variable:  # fmt: skip
    """Return the self-attention of each sequence: the output matrix applied to the result of `attended`.

    A matrix has a bias if the parameters hold one.
    """
    heads = attended(tape, p, prefix, x, values, n_heads, offsets, draw, turn=turn)
    return tape.linear(heads, p[prefix + ".output"], p.get(prefix + ".output_bias"))


def attended(
    tape: Tape, p: Parameters, prefix: str, x: Variable, values: Variable, n_heads: int, offsets: Array,
    draw: dict[str, Any], causal: bool = False, turn: Turn | None = None,
) -> Variable:  # fmt: skip
    """Return the outputs of the attention heads, side by side; `turn` rotates the queries and keys of x.

    `draw` is the rate and seed of the dropout of attention weights. A matrix has a bias if the parameters hold one.
    """
    projected = projections(tape, p, prefix, {"query": x, "key": x, "value": values})
    q, k, v = (tape.reshape(y, len(y.value), n_heads, y.value.shape[1] // n_heads) for y in projected)
    q, k = (q, k) if turn is None else turn(q, k)
    out = tape.op("dot_product_attention", q, k, v, offsets, offsets, causal=causal, **draw)
    return tape.reshape(out, *x.value.shape)


def embedding(tape: Tape, table: Variable, ids: Array) -> Variable:
    """Return the rows of the table that `ids` name."""
    return tape.op("embedding", table, ids)


def cross_entropy(tape: Tape, h: Variable, table: Variable, bias: Variable, labels: Array) -> Variable:
    """Return the log-probability of each row's label under softmax(h @ table.T + bias); 0 where the label is -1."""
    return tape.op("cross_entropy", h, table, bias, labels)


def negative_squares(tape: Tape, answers: Variable, scores: Array) -> Variable:
    """Return -(answer - score)^2 for every row of the answers [N, 1]: their negative sum is a loss of scores."""
    error = tape.add(tape.reshape(answers, len(scores)), constant(-scores.astype(answers.value.dtype)))
    return tape.scale(tape.multiply(error, error), -1.0)


def sinusoids(ops: ModuleType, count: int, d: int, dtype: Any, first: int = 0) -> Array:
    """Return the [count, d] table [sin | cos] of the positions first, first + 1, ...; d is even.

    `ops` is a backend or NumPy; the table is one of its arrays.
    """
    if hasattr(ops, "sinusoids"):
        return ops.sinusoids(count, d, dtype, first)
    xp = getattr(ops, "xp", ops)
    frequency = 1e4 ** (-2.0 * xp.arange(d // 2, dtype=xp.float64) / d)
    angle = xp.arange(first, first + count, dtype=xp.float64)[:, None] * frequency
    return xp.concatenate([xp.sin(angle), xp.cos(angle)], axis=1).astype(dtype)


def smoothed_cross_entropy(
    tape: Tape, h: Variable, table: Variable, bias: Variable, labels: Array, smoothing: float
) -> Variable:
    """Return, for every row, (1 - smoothing) log p(label) + smoothing times the mean of log p over all other labels.

    A row with the label -1 gives 0. A backend may have one op for all of it.
    """
    if smoothing and hasattr(tape.ops, "smoothed_cross_entropy"):
        return tape.op("smoothed_cross_entropy", h, table, bias, labels, smoothing)
    gain = cross_entropy(tape, h, table, bias, labels)
    return smoothed(tape, gain, h, table, bias, labels, smoothing) if smoothing else gain


def smoothed(
    tape: Tape, logp: Variable, h: Variable, table: Variable, bias: Variable, labels: Array, smoothing: float
) -> Variable:
    r"""Return what `smoothed_cross_entropy` returns, from the log-probabilities `logp` of the labels.

    No [N, V] is needed: $\sum_v \log p_v = h^\top \sum_v E_v + \sum_v b_v - V\,(h^\top E_y + b_y - \log p_y)$.
    """
    ops, v = tape.ops, len(bias.value)
    is_labelled, labels = (labels >= 0).astype(h.value.dtype), ops.xp.maximum(labels, 0)
    share = smoothing / max(v - 1, 1)
    label_rows = ops.embedding(table.value, labels)[0]
    direction = table.value.sum(axis=0) - v * label_rows  # [N, d]
    rest = (h.value * direction).sum(axis=1) + (bias.value.sum() - v * bias.value[labels])
    label_weight = 1.0 - smoothing - share + share * v

    def backward(d_out: Array) -> None:
        g = d_out * share * is_labelled
        logp.accumulate(d_out * label_weight)
        h.accumulate(g[:, None] * direction)
        weighted = g[:, None] * h.value
        d_table = ops.embedding_vjp(-v * weighted, (), table.value, labels)[0]
        table.accumulate(d_table + weighted.sum(axis=0))
        bias.accumulate(g.sum() + ops.embedding_vjp(-v * g[:, None], (), bias.value[:, None], labels)[0][:, 0])

    return tape.record(label_weight * logp.value + share * is_labelled * rest, [logp, h, table, bias], backward)
