"""GPST as one would plainly write it in PyTorch, for sentences of one length: all cells of a step at once.

The peer that `benchmarks.gpst` times. Our code makes charts, their order and the induced trees on both sides: the
authors' code makes them outside of PyTorch, too. No dropout, no noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accel import cpu as ops
from accel.models.gpst.composition import Charts, Trees, charts_of, downwards, induced, parents_of
from accel.models.gpst.config import Config


class GPST(nn.Module):
    """The model, with its parameters under our names, in which `_` replaces the point."""

    def __init__(self, config: Config, parameters: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.config, self.is_stopped = config, False
        for name, value in parameters.items():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.tensor(value)))

    def p(self, name: str) -> Tensor:
        return getattr(self, name.replace(".", "_"))

    def linear(self, name: str, x: Tensor, bias: str = "_bias") -> Tensor:
        return F.linear(x, self.p(name).T, self.p(name + bias) if bias else None)

    def mlp(self, name: str, x: Tensor, gelu: Callable[[Tensor], Tensor] = F.gelu) -> Tensor:
        return self.linear(name + ".out", gelu(self.linear(name + ".in", x)))

    def attention(
        self, name: str, x: Tensor, values: Tensor, n_heads: int, causal: bool = False, bias: str = "_bias",
        turn: Callable[[Tensor], Tensor] = lambda x: x,
    ) -> Tensor:  # fmt: skip
        """Return the attention of the rows [..., T, d] to one another."""
        sources = ("query", x), ("key", x), ("value", values)
        q, k, v = (self.linear(f"{name}.{m}", y, bias).unflatten(-1, (n_heads, -1)).transpose(1, 2) for m, y in sources)
        out = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=causal)
        return self.linear(f"{name}.output", out.transpose(1, 2).flatten(2), bias)

    def losses(self, ids: Tensor, generates: bool) -> tuple[Tensor, Tensor]:
        """Return the losses of the structure of ids [B, n], added up, and the auto-regressive one or 0."""
        words, (n_sentences, n) = F.embedding(ids, self.embedding), ids.shape
        offsets = np.arange(n_sentences + 1) * n
        scores = self.split_scores(ids)
        charts = charts_of(ops, scores.float().numpy(force=True).ravel(), offsets, self.config.window)
        vectors, of_splits, heights = self.inside(self.linear("down", words).flatten(0, 1), charts)
        trees = induced(charts, of_splits, offsets)
        outer = self.mlp("reconstruct", self.outside(vectors, charts, ids.numel()))
        ae = F.cross_entropy(outer @ self.embedding.T, ids.flatten())
        excess = (heights[torch.as_tensor(charts.roots)] - self.config.height_threshold).relu() / n
        structure = ae + excess.mean() + self.parser_loss(scores, charts, trees, offsets)
        return structure, self.generative(words, vectors, ids, trees) if generates else torch.zeros(())

    def backward(self, structure: Tensor, generative: Tensor) -> None:
        """Set the gradients with stop-gradient: only the losses of the structure train the splits' scores."""
        self.is_stopped = False
        structure.backward(retain_graph=generative.requires_grad)
        if generative.requires_grad:
            self.is_stopped = True
            generative.backward()

    def split_scores(self, ids: Tensor) -> Tensor:
        c, x = self.config, F.embedding(ids, self.p("parser.embedding"))
        d = c.d_parser // c.parser_heads
        angle = torch.arange(ids.shape[1])[:, None] * 1e4 ** (-torch.arange(0, d, 2) / d)
        cosine, sine = angle.cos(), angle.sin()

        def turn(x: Tensor) -> Tensor:
            even, odd = x[..., ::2], x[..., 1::2]
            return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2)

        def norm(name: str, x: Tensor) -> Tensor:
            return F.rms_norm(x, x.shape[-1:], self.p(name), eps=1e-5)

        for layer in (f"parser.{k}" for k in range(c.parser_layers)):
            h = norm(f"{layer}.attention_norm", x)
            x = x + self.attention(f"{layer}.attention", h, h, c.parser_heads, bias="", turn=turn)
            h = norm(f"{layer}.feed_forward_norm", x)
            gated = F.silu(self.linear(f"{layer}.gate", h, "")) * self.linear(f"{layer}.up", h, "")
            x = x + self.linear(f"{layer}.down", gated, "")
        x = norm("parser.norm", x)
        return self.mlp("parser.split", torch.cat([x[:, :-1], x[:, 1:]], dim=-1)).squeeze(-1)

    def over_pairs(self, name: str, first: Tensor, second: Tensor, roles: Tensor) -> Tensor:
        """Return the output [P, d] of the layers of that name for pairs [P, d]; `roles` [P, 2] or [2]."""
        x = torch.stack([first, second], dim=1)
        layers = self.config.compose_layers if name == "compose" else self.config.decompose_layers
        for layer in (f"composition.{name}.{k}" for k in range(layers)):
            with_roles = x + self.p(f"{layer}.role")[roles]
            x = _norm(x + self.attention(f"{layer}.attention", with_roles, x, self.config.compose_heads))
            x = _norm(x + self.mlp(f"{layer}.feed_forward", x))
        return _norm(x.sum(dim=1))

    def inside(self, leaves: Tensor, charts: Charts) -> tuple[Tensor, np.ndarray, Tensor]:
        """Return the vectors of all nodes, the scores of all splits, and the heights of all nodes."""
        names = "composition.inside.left", "composition.inside.right"
        vectors, sides, heights = leaves, [self.mlp(name, leaves) for name in names], leaves.new_zeros(len(leaves))
        lefts, rights, scores = torch.as_tensor(charts.left), torch.as_tensor(charts.right), [np.zeros(0, np.float32)]
        for begin, end in zip(charts.step_offsets[:-1], charts.step_offsets[1:], strict=True):
            bounds = charts.split_offsets[begin : end + 1]
            left, right = lefts[bounds[0] : bounds[-1]], rights[bounds[0] : bounds[-1]]
            score = (sides[0][left] * sides[1][right]).sum(-1) / sides[0].shape[1] ** 0.5
            if score.requires_grad:
                score.register_hook(lambda gradients: torch.zeros_like(gradients) if self.is_stopped else gradients)
            weights, cell = _weights(score, bounds)
            composed = self.over_pairs("compose", vectors[left], vectors[right], torch.arange(2))
            parents = _norm(_mixed(weights, composed, cell, int(end - begin)))
            above = torch.maximum(heights[left], heights[right]) + 1
            heights = torch.cat([heights, _mixed(weights, above[:, None], cell, int(end - begin))[:, 0]])
            vectors = torch.cat([vectors, parents])
            sides = [torch.cat([side, self.mlp(name, parents)]) for side, name in zip(sides, names, strict=True)]
            scores.append(score.float().numpy(force=True))
        return vectors, np.concatenate(scores), heights

    def outside(self, vectors: Tensor, charts: Charts, n_words: int) -> Tensor:
        """Return the outside vectors of all words."""
        siblings = torch.stack([self.mlp(f"composition.outside.{side}", vectors) for side in ("left", "right")])
        outer, above = torch.zeros_like(vectors), torch.zeros_like(siblings[0])
        is_root = torch.zeros(len(vectors), 1)
        is_root[torch.as_tensor(charts.roots)] = 1
        parent, sibling, on_right, bounds = parents_of(charts, n_words)
        parent, sibling, on_right = (torch.as_tensor(x) for x in (parent, sibling, on_right))
        for begin, end in downwards(charts, n_words):
            up, beside, side = (x[bounds[begin] : bounds[end]] for x in (parent, sibling, on_right))
            score = (above[up] * siblings[side, beside]).sum(-1) / above.shape[1] ** 0.5
            weights, node = _weights(score, bounds[begin : end + 1])
            roles = torch.stack([torch.zeros_like(side), 1 + side], dim=1)
            decomposed = self.over_pairs("decompose", outer[up], vectors[beside], roles)
            mixture = _mixed(weights, decomposed, node, end - begin) + is_root[begin:end] * self.p(
                "composition.outside_root"
            )
            outer[begin:end] = mixture
            if begin:
                above[begin:end] = self.mlp("composition.outside.parent", mixture)
        return outer[:n_words]

    def parser_loss(self, scores: Tensor, charts: Charts, trees: Trees, offsets: np.ndarray) -> Tensor:
        """Return the mean of -log p of the splits of the trees."""
        cells = trees.nodes[trees.nodes >= offsets[-1]] - offsets[-1]
        owner = torch.as_tensor(charts.owner[cells].astype(np.int64))
        first, last = (torch.as_tensor(x.astype(np.int64))[:, None] for x in charts.spans[cells].T)
        splits = charts.ends(offsets)[1][charts.left[trees.splits[cells]]] - offsets[charts.owner[cells]]
        points, of_cells = torch.arange(scores.shape[1]), scores[owner]
        of_cells = of_cells.masked_fill((points < first) | (points >= last), float("-inf"))
        return F.cross_entropy(of_cells, torch.as_tensor(splits))

    def generative(self, words: Tensor, vectors: Tensor, ids: Tensor, trees: Trees) -> Tensor:
        """Return the mean of -log p of all actions, a sentence being a context."""
        c, (n_sentences, n) = self.config, ids.shape
        nodes = torch.as_tensor(trees.nodes).view(n_sentences, -1)
        is_word = nodes < ids.numel()
        rows = torch.empty(*nodes.shape, c.d_model)
        rows[is_word] = words.flatten(0, 1)
        rows[~is_word] = self.linear("up", vectors[nodes[~is_word]])
        rows = torch.cat([self.bos.expand(n_sentences, 1, -1), rows[:, :-1]], dim=1)
        h = self.blocks("type", c.type_layers, rows + self.position[is_word.cumsum(1) - is_word.long()])
        actions = F.cross_entropy(
            self.mlp("action", self.norm("action_norm", h)).flatten(0, 1), is_word.flatten().long(), reduction="sum"
        )
        g = self.norm("token_norm", self.blocks("token", c.token_layers, h[is_word].view(n_sentences, n, -1)))
        logits = self.mlp("word", g).flatten(0, 1) @ self.embedding.T
        return (actions + F.cross_entropy(logits, ids.flatten(), reduction="sum")) / nodes.numel()

    def norm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.p(f"{name}.scale"), self.p(f"{name}.bias"))

    def blocks(self, name: str, count: int, x: Tensor) -> Tensor:
        """Return the output of causal layers in which the normalisation comes first."""
        for layer in (f"{name}.{k}" for k in range(count)):
            h = self.norm(f"{layer}.attention_norm", x)
            x = x + self.attention(f"{layer}.attention", h, h, self.config.n_heads, causal=True)
            h = self.norm(f"{layer}.feed_forward_norm", x)
            x = x + self.mlp(f"{layer}.feed_forward", h, lambda x: F.gelu(x, approximate="tanh"))
        return x


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _weights(scores: Tensor, bounds: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return the softmax of scores [P] within each group, and the group of each."""
    sizes = torch.as_tensor(np.diff(bounds))
    group = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    most = torch.zeros(len(sizes)).scatter_reduce(0, group, scores.detach(), "amax", include_self=False)
    shares = (scores - most[group]).exp()
    return shares / torch.zeros(len(sizes)).index_add(0, group, shares)[group], group


def _mixed(weights: Tensor, vectors: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the weighted sums of all groups."""
    return torch.zeros(count, vectors.shape[1]).index_add(0, group, weights[:, None] * vectors)
