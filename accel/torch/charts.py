"""Charts as modules and functions: Treeformer's (CKY-*), GPST's (PC-*, IO-*) and those of labelled spans (SP-*)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from accel.autodiff.arrays import host
from accel.autodiff.layers import DropoutSites
from accel.autodiff.tape import Tape
from accel.autodiff.variables import Variable
from accel.models.gpst import composition
from accel.models.gpst import config as gpst
from accel.models.gpst.parser import loss as parser_loss
from accel.torch import ops
from accel.torch.rows import offsets_of, rows_of
from accel.torch.weights import hold, new_seed


class Chart(NamedTuple):
    """Treeformer's charts of B sentences.

    nodes : [M, d] the vectors of all phrases: sentence by sentence, shorter phrases first, phrases of one length from
    left to right
    weights : [P] the weights of all splits, phrase by phrase; `chart_trees` makes trees of them
    node_offsets : [B+1] where the nodes of each sentence begin; the last one is the whole sentence, if no height is set
    """

    nodes: Tensor
    weights: Tensor
    node_offsets: Tensor


class CkyPooling(nn.Module):
    """Treeformer's chart, as in its paper, for phrases of at most `max_height` tokens (None: all)."""

    def __init__(self, d_model: int, max_height: int | None = None) -> None:
        super().__init__()
        self.max_height = max_height
        self.w = nn.Parameter(torch.randn(d_model))
        for name, size in {"compose": 2 * d_model, "key": d_model, "query": d_model}.items():
            self.register_parameter(name, nn.Parameter(nn.init.xavier_uniform_(torch.empty(size, d_model))))

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, offsets: Tensor | None = None) -> Chart:
        """Return the charts of x [B, T, d] with lengths [B], or [N, d] with offsets [B+1]. Raises ValueError for an
        empty sentence, or shapes that do not fit."""
        rows, p = rows_of(x, len(self.w), lengths, offsets), dict(self.named_parameters())
        direction = (p["w"] @ p["query"]) @ p["key"].T * len(p["w"]) ** -0.5
        nodes, weights, *_ = ops.cky_pool(rows.values, p["compose"], direction, rows.offsets, self.max_height)
        n, height = rows.offsets.diff(), rows.offsets.diff().clamp(1, self.max_height)
        return Chart(nodes, weights, offsets_of(n * height - height * (height - 1) // 2))


class Composed(NamedTuple):
    """The results of GPST's composition model for B sentences of N words, whose induced trees have 2 N - B nodes.

    inside : [M, d] vectors of all nodes of the charts, words first; outside : [B, T, d] or [N, d], of all words
    heights : [B] the expected height of the tree of every sentence
    parser_loss : [N - B] -log p of every split of the induced trees under the scores; it trains the parser
    nodes : [2 N - B] the rows of `inside` that are in the trees, in post-order, sentence after sentence
    spans : [2 N - B, 2] their first and last words within the sentence
    """

    inside: Tensor
    outside: Tensor
    heights: Tensor
    parser_loss: Tensor
    nodes: Tensor
    spans: Tensor


class PrunedInsideOutside(nn.Module):
    """GPST's composition model over pruned charts.

    Options are fields of `accel.models.gpst.config.Config`: `d_compose`, `compose_heads`, `compose_layers`,
    `decompose_layers`, `d_score`, `window`, `dropout`. Raises ValueError if one is out of its range.
    """

    def __init__(self, d_compose: int, **options: Any) -> None:
        super().__init__()
        self.config = gpst.Config(1, n_positions=1, d_compose=d_compose, **options)
        hold(self, gpst.initialise(self.config, new_seed()), "composition.")

    def forward(
        self, x: Tensor, scores: Tensor, lengths: Tensor | None = None, *, offsets: Tensor | None = None
    ) -> Composed:
        """Return inside and outside vectors and induced trees of word vectors x, [B, T, d] or [N, d].

        `scores` [B, T] or [N] are a parser's scores of the points after the words: spans are merged in their ascending
        order. The scores after last words are not read. Gradients flow into the scores from `parser_loss` only. Raises
        ValueError if shapes do not fit, or a sentence is empty.
        """
        rows = rows_of(x, self.config.d_compose, lengths, offsets)
        bounds, inner = rows.offsets.cpu().numpy(), torch.ones(len(rows.values), dtype=torch.bool, device=x.device)
        inner[rows.offsets[1:] - 1] = False
        sites = DropoutSites(new_seed() if self.training and self.config.dropout else None)
        induced: list[np.ndarray] = []

        def run(tape: Tape, inputs: list[Variable]) -> list[Variable]:
            words, points, *rest = inputs
            p = {f"composition.{name}": x for (name, _), x in zip(self.named_parameters(), rest, strict=True)}
            charts = composition.charts_of(tape.ops, points.value, tape.xp.asarray(bounds), self.config.window)
            inside = composition.inside(tape, self.config, p, words, charts, sites)
            outside = composition.outside(tape, self.config, p, inside.vectors, charts, sites)
            of_splits = np.concatenate([host(points.value[:0]), *(host(score.value) for score in inside.scores)])
            trees = composition.induced(charts, of_splits, bounds)
            induced[:] = trees.nodes, composition.spans_of(charts, trees, bounds)
            heights = tape.reshape(tape.take(inside.heights, tape.xp.asarray(charts.roots)), -1)
            loss = parser_loss(tape, points, *composition.splits_of(charts, trees, bounds))
            return [inside.vectors, outside, heights, loss]

        points = rows.read("scores", scores)[inner]
        inside, outside, heights, loss = ops.taped(run, rows.values, points, *self.parameters())
        nodes, spans = (torch.from_numpy(numbers).to(x.device) for numbers in induced)
        return Composed(inside, rows.write(outside), heights, loss, nodes, spans)


def span_rows(chart: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return charts [B, T, T, L] in the form that `ops.span_logz` takes: scores [S, L] and offsets [B+1].

    chart[b, i, j, l] is the score of label l for words i to j; lengths [B], None: all T. Raises ValueError for other
    shapes.
    """
    if chart.ndim != 4 or not 0 < chart.shape[1] == chart.shape[2]:
        raise ValueError(f"chart: shape {tuple(chart.shape)}, expected [B, T, T, L], T at least 1")
    steps, offsets = chart.shape[1], rows_of(chart[:, 0], chart.shape[-1], lengths, None).offsets
    wide, first = torch.tensor([(w, i) for w in range(steps) for i in range(steps - w)], device=chart.device).T
    exists = first + wide < offsets.diff()[:, None]
    return chart[:, first, first + wide][exists], offsets


def span_logz(chart: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Return the log of the sum over all labelled trees of exp(score) [B], of charts [B, T, T, L] as in `span_rows`.

    Its gradient is the probability of every label for every span. Trees are those of SP-1. Raises ValueError for a NaN,
    +infinity or a sentence without a possible tree. Memory: four tables of n^2 numbers a sentence, six for the
    gradient.
    """
    return ops.span_logz(*span_rows(chart, lengths))[0]


def best_trees(chart: Tensor, count: int = 1, lengths: Tensor | None = None) -> list[list[tuple[float, Tensor]]]:
    """Return the `count` best trees of every sentence, best first: the score, and first word, last word and label of
    every constituent [k, 3], in pre-order.

    Charts and errors are as for `span_logz`. A sentence may have fewer trees.
    """
    of_sentence, scores, starts, spans, labels = ops.best_trees(*span_rows(chart.detach(), lengths), count)
    nodes = torch.cat([spans, labels[:, None]], dim=1).split(starts.diff().tolist())
    trees = list(zip(scores.tolist(), nodes, strict=True))
    return [trees[begin:end] for begin, end in pairwise(of_sentence.tolist())]
