"""Seeded errors of charts of phrases and their trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accel import cpu


def splits_of(i: int, j: int) -> list[tuple[int, int]]:
    """Return the last token of the left part and the first of the right part of every split."""
    return [(k, k + 1) for k in range(i, j)]


def softmax(scores: Any) -> Any:
    e = np.exp(scores - scores.max())
    return e / e.sum()


def spans_of(n: int, max_height: int | None) -> list[tuple[int, int]]:
    return [(i, i + h - 1) for h in range(1, min(n, max_height or n) + 1) for i in range(n - h + 1)]


def plain(
    tokens: Any, compose: Any, direction: Any, offsets: Any, *, max_height: int | None,
    splits: Callable[[int, int], list[tuple[int, int]]] = splits_of, weigh: Callable[[Any], Any] = softmax,
) -> Any:  # fmt: skip
    """Fill every chart with loops. The defaults are right, other splits or weights are wrong."""
    nodes, weights = [tokens[:0]], [tokens[:0, 0]]
    for a, b in zip(offsets[:-1], offsets[1:], strict=True):
        r: dict[tuple[int, int], Any] = {}
        for i, j in spans_of(b - a, max_height):
            r[i, j] = tokens[a + i]
            if i < j:
                c = np.array([np.concatenate([r[i, k], r[m, j]]) for k, m in splits(i, j)]) @ compose
                p = weigh(c @ direction)
                r[i, j] = p @ c
                weights.append(p[: j - i])
        nodes.append(np.array(list(r.values())))
    return np.concatenate(nodes), np.concatenate(weights)


def last_split_counts_twice(*arguments: Any, **options: Any) -> Any:
    """Let k run up to j: the right part would be empty there, and the last split comes twice."""
    return plain(*arguments, **options, splits=lambda i, j: [*splits_of(i, j), (j - 1, j)])


def right_part_begins_at_k(*arguments: Any, **options: Any) -> Any:
    return plain(*arguments, **options, splits=lambda i, j: [(k, max(k, i + 1)) for k in range(i, j)])


def first_split_only(*arguments: Any, **options: Any) -> Any:
    return plain(*arguments, **options, splits=lambda i, j: [(i, i + 1)] * (j - i))


def mean_of_splits(*arguments: Any, **options: Any) -> Any:
    return plain(*arguments, **options, weigh=lambda scores: np.full_like(scores, 1 / len(scores)))


def weights_without_maximum(*arguments: Any, **options: Any) -> Any:
    with np.errstate(all="ignore"):
        return plain(*arguments, **options, weigh=lambda scores: np.exp(scores) / np.exp(scores).sum())


def parts_swapped(tokens: Any, compose: Any, *rest: Any, **options: Any) -> Any:
    return cpu.cky_pool(tokens, np.roll(compose, len(compose) // 2, axis=0), *rest, **options)


def scaled_again(tokens: Any, compose: Any, direction: Any, *rest: Any, **options: Any) -> Any:
    return cpu.cky_pool(tokens, compose, direction / np.sqrt(len(direction)).astype(direction.dtype), *rest, **options)


def not_scaled(tokens: Any, compose: Any, direction: Any, *rest: Any, **options: Any) -> Any:
    return cpu.cky_pool(tokens, compose, direction * np.sqrt(len(direction)).astype(direction.dtype), *rest, **options)


def one_row_too_many(*arguments: Any, max_height: int | None) -> Any:
    return cpu.cky_pool(*arguments, max_height=max_height and max_height + 1)


def first_sentence_for_all(tokens: Any, compose: Any, direction: Any, offsets: Any, **options: Any) -> Any:
    """Copy the chart of the first sentence to all sentences of its length, as the authors' main branch does."""
    copied = tokens.copy()
    for a, b in zip(offsets[:-1], offsets[1:], strict=True):
        if b - a == offsets[1]:
            copied[a:b] = tokens[: offsets[1]]
    nodes, weights, *_ = cpu.cky_pool(copied, compose, direction, offsets, **options)
    return nodes, weights


def rows_of_the_shortest(*arguments: Any, max_height: int | None) -> Any:
    """Fill no row that the shortest sentence of the batch lacks."""
    nodes, weights, *_ = cpu.cky_pool(*arguments, max_height=max_height)
    nodes, lengths, start = nodes.copy(), np.diff(arguments[3]), 0
    for n in lengths:
        for i, j in spans_of(n, max_height):
            nodes[start] *= j - i < lengths.min()
            start += 1
    return nodes, weights


def phrases_by_last_token(tokens: Any, compose: Any, direction: Any, offsets: Any, *, max_height: int | None) -> Any:
    nodes, weights, *_ = cpu.cky_pool(tokens, compose, direction, offsets, max_height=max_height)
    order: list[int] = []
    for n in np.diff(offsets):
        spans = spans_of(n, max_height)
        order += [len(order) + x for x in sorted(range(len(spans)), key=lambda x, spans=spans: spans[x][::-1])]
    return nodes[order], weights


def reads_the_last_sentence(tokens: Any, *rest: Any, **options: Any) -> Any:
    changed_tokens = tokens + tokens[-1:] * np.float32(1e-3).astype(tokens.dtype)
    nodes, weights, *_ = cpu.cky_pool(changed_tokens, *rest, **options)
    return nodes, weights


def plain_gradient(
    d_out: Any, outputs: Any, tokens: Any, compose: Any, direction: Any, offsets: Any, *, max_height: int | None,
    heard: Callable[[int, int, int, bool], bool] = lambda i, k, j, left: True,
    d_scores: Callable[[Any, Any, Any], Any] = lambda p, c, g: p * (c @ g - p @ c @ g),
    scored: tuple[int, int] = (1, 1),
) -> Any:  # fmt: skip
    """Return the gradients with loops. The defaults are right; `heard` may cut a part from its parent's gradient."""
    d, nodes, start = len(direction), np.asarray(outputs[0]), 0
    d_tokens, d_compose, d_direction = (np.zeros_like(x) for x in (tokens, compose, direction))
    halves = compose[:d], compose[d:]
    for a, b in zip(offsets[:-1], offsets[1:], strict=True):
        spans = spans_of(b - a, max_height)
        place = {span: start + x for x, span in enumerate(spans)}
        g = {span: d_out[place[span]].copy() for span in spans}
        start += len(spans)
        for i, j in reversed(spans):
            if i == j:
                d_tokens[a + i] = g[i, j]
                continue
            parts = np.array([nodes[[place[i, k], place[k + 1, j]]] for k in range(i, j)])  # [K, 2, d]
            c = parts[:, 0] @ halves[0] + parts[:, 1] @ halves[1]
            p = softmax(c @ direction)
            d_s = d_scores(p, c, g[i, j])
            d_c = p[:, None] * g[i, j] + d_s[:, None] * direction
            d_compose += np.concatenate([parts[:, 0].T @ d_c, parts[:, 1].T @ d_c])
            d_direction += d_s @ (scored[0] * parts[:, 0] @ halves[0] + scored[1] * parts[:, 1] @ halves[1])
            for k in range(i, j):
                g[i, k] += d_c[k - i] @ halves[0].T * heard(i, k, j, True)
                g[k + 1, j] += d_c[k - i] @ halves[1].T * heard(i, k, j, False)
    return d_tokens, d_compose, d_direction


def gradient_forgets_the_last_parent(*arguments: Any, **options: Any) -> Any:
    return plain_gradient(*arguments, **options, heard=lambda i, k, j, left: not left or j - k == 1)


def gradient_forgets_right_parts(*arguments: Any, **options: Any) -> Any:
    return plain_gradient(*arguments, **options, heard=lambda i, k, j, left: left or j - k > 1)


def gradient_without_the_mean(*arguments: Any, **options: Any) -> Any:
    return plain_gradient(*arguments, **options, d_scores=lambda p, c, g: p * (c @ g))


def gradient_of_fixed_weights(*arguments: Any, **options: Any) -> Any:
    return plain_gradient(*arguments, **options, d_scores=lambda p, c, g: 0 * p)


def gradient_scores_left_parts(*arguments: Any, **options: Any) -> Any:
    return plain_gradient(*arguments, **options, scored=(1, 0))


def gradient_swaps_the_halves(*arguments: Any, **options: Any) -> Any:
    d_tokens, d_compose, d_direction = cpu.cky_pool_vjp(*arguments, **options)
    return d_tokens, np.roll(d_compose, len(d_compose) // 2, axis=0), d_direction


def gradient_stays_below_the_root(d_out: Any, *arguments: Any, **options: Any) -> Any:
    """Forget the gradient of the last node of the batch."""
    d_out = d_out.copy()
    d_out[-1] = 0
    return cpu.cky_pool_vjp(d_out, *arguments, **options)


def smallest_weights(weights: Any, offsets: Any, **options: Any) -> Any:
    return cpu.chart_trees(-weights, offsets, **options)


def last_of_equals(weights: Any, offsets: Any, **options: Any) -> Any:
    return cpu.chart_trees(weights + 1e-9 * np.arange(len(weights)), offsets, **options)


def spans_by_length(weights: Any, offsets: Any, **options: Any) -> Any:
    spans, span_offsets = cpu.chart_trees(weights, offsets, **options)
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(span_offsets))
    return spans[np.lexsort((spans[:, 0], spans[:, 1] - spans[:, 0], sentence))], span_offsets


def trees_of_the_batch(weights: Any, offsets: Any, **options: Any) -> Any:
    """Number words from the start of the batch."""
    spans, span_offsets = cpu.chart_trees(weights, offsets, **options)
    return (spans + np.repeat(offsets[:-1], np.diff(span_offsets))[:, None]).astype(np.int32), span_offsets


TREEFORMER: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("cky_pool", last_split_counts_twice),
    ("cky_pool", right_part_begins_at_k),
    ("cky_pool", first_split_only),
    ("cky_pool", mean_of_splits),
    ("cky_pool", weights_without_maximum),
    ("cky_pool", parts_swapped),
    ("cky_pool", scaled_again),
    ("cky_pool", not_scaled),
    ("cky_pool", one_row_too_many),
    ("cky_pool", first_sentence_for_all),
    ("cky_pool", rows_of_the_shortest),
    ("cky_pool", phrases_by_last_token),
    ("cky_pool", reads_the_last_sentence),
    ("cky_pool_vjp", gradient_forgets_the_last_parent),
    ("cky_pool_vjp", gradient_forgets_right_parts),
    ("cky_pool_vjp", gradient_without_the_mean),
    ("cky_pool_vjp", gradient_of_fixed_weights),
    ("cky_pool_vjp", gradient_scores_left_parts),
    ("cky_pool_vjp", gradient_swaps_the_halves),
    ("cky_pool_vjp", gradient_stays_below_the_root),
    ("chart_trees", smallest_weights),
    ("chart_trees", last_of_equals),
    ("chart_trees", spans_by_length),
    ("chart_trees", trees_of_the_batch),
)
