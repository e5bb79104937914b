"""Seeded errors of labelled trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from accel import cpu

Way = tuple[float, tuple[tuple[int, int, int], ...]]  # the score of a tree, and its constituents
Function = Callable[..., Any]


def spans_of(n: int) -> list[tuple[int, int]]:
    return [(i, i + longer) for longer in range(n) for i in range(n - longer)]


def sentences(
    scores: Any, offsets: Any, order: Callable[[int], list[tuple[int, int]]] = spans_of
) -> Iterator[tuple[int, dict[tuple[int, int], Any]]]:
    begin = 0
    for n in np.diff(offsets).tolist():
        yield n, dict(zip(order(n), scores[begin : begin + n * (n + 1) // 2], strict=True))
        begin += n * (n + 1) // 2


def log_sum(x: Any) -> Any:
    return np.logaddexp.reduce(x)


def plain(
    scores: Any, offsets: Any, *,
    order: Callable[[int], list[tuple[int, int]]] = spans_of,
    of_labels: Function = log_sum, of_splits: Function = log_sum,
    splits: Callable[[int, int], list[tuple[int, int]]] = lambda i, j: [(k, k + 1) for k in range(i, j)],
    word: Function = lambda labels: np.logaddexp(0, labels),
    phrase: Function = lambda labels, rows: labels + rows,
    rest: Function = np.logaddexp, root: Function = lambda constituent, row, child: constituent,
) -> Any:  # fmt: skip
    """Compute log Z with loops. The defaults are right, any other choice is wrong."""
    logz = []
    for n, label_scores in sentences(scores.astype(np.float64), offsets, order):
        B, C, N, R = ({} for _ in range(4))
        for i, j in spans_of(n):
            C[i, j] = of_labels(label_scores[i, j])
            N[i, j] = R[i, j] = word(C[i, j])
            if i < j:
                B[i, j] = of_splits([N[i, k] + R[m, j] for k, m in splits(i, j)])
                C[i, j] = N[i, j] = phrase(C[i, j], B[i, j])
                R[i, j] = rest(N[i, j], B[i, j])
        logz.append(root(C[0, n - 1], B.get((0, n - 1), 0.0), N[0, n - 1]))
    return (np.array(logz, scores.dtype),)


def changed(name: str, **choices: Any) -> Function:
    def mutant(scores: Any, offsets: Any) -> Any:
        with np.errstate(all="ignore"):
            return plain(scores, offsets, **choices)

    mutant.__name__ = name
    return mutant


def by_first_word(n: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n) for j in range(i, n)]


SUMS = (
    changed("no_bare_words", word=lambda labels: labels),
    changed("bare_words_only", word=lambda labels: 0 * np.nan_to_num(labels, neginf=0.0)),
    changed("bare_word_for_every_label", word=lambda labels: np.logaddexp(np.log(2), labels)),
    changed("label_maximum", of_labels=np.max),
    changed("labels_not_added", phrase=lambda labels, rows: rows),
    changed("split_maximum", of_splits=np.max),
    changed("last_split_missing", splits=lambda i, j: [(k, k + 1) for k in range(i, max(i + 1, j - 1))]),
    changed("first_split_missing", splits=lambda i, j: [(k, k + 1) for k in range(min(i + 1, j - 1), j)]),
    changed("right_part_begins_late", splits=lambda i, j: [(k, min(k + 2, j)) for k in range(i, j)]),
    changed("two_children_only", rest=lambda child, rows: child),
    changed("rest_twice", rest=lambda child, rows: np.logaddexp(child, rows + np.log(2))),
    changed("rest_without_constituents", rest=lambda child, rows: rows),
    changed("rest_maximum", rest=np.maximum),
    changed("phrases_without_label", phrase=lambda labels, rows: np.logaddexp(labels, 0) + rows),
    changed("sentence_without_label", root=lambda constituent, rows, child: np.logaddexp(constituent, rows)),
    changed("bare_sentence", root=lambda constituent, rows, child: child),
    changed("spans_by_first_word", order=by_first_word),
    changed("longer_spans_first", order=lambda n: spans_of(n)[::-1]),
)


def of_the_sentence_before(scores: Any, offsets: Any) -> Any:
    return (np.roll(plain(scores, offsets)[0], 1),)


# Gradients


def plain_gradient(
    d_out: Any, outputs: Any, scores: Any, offsets: Any, change: Callable[[Any, Any, Any], Any] = lambda d, s, n: d
) -> Any:
    """Return the marginals of `accel.cpu` times d_out, after `change` of those of each sentence [S, L]."""
    begins = np.concatenate([[0], np.cumsum([n * (n + 1) // 2 for n in np.diff(offsets)])])
    (marginals,) = cpu.span_logz_vjp(np.ones_like(d_out), outputs, scores, offsets)
    gradients = [scores[:0]]
    for b, n in enumerate(np.diff(offsets).tolist()):
        rows = slice(begins[b], begins[b + 1])
        gradients.append(change(marginals[rows], scores[rows], n) * d_out[b])
    return (np.concatenate(gradients).astype(scores.dtype),)


def changed_gradient(name: str, change: Callable[[Any, Any, Any], Any]) -> Function:
    def mutant(d_out: Any, outputs: Any, scores: Any, offsets: Any) -> Any:
        with np.errstate(all="ignore"):
            return plain_gradient(d_out, outputs, scores, offsets, change)

    mutant.__name__ = name
    return mutant


def words_have_labels(d: Any, s: Any, n: int) -> Any:
    """Forget that words may be bare."""
    return np.concatenate([d[:n] / d[:n].sum(axis=1, keepdims=True), d[n:]])


def of_the_best_labels(d: Any, s: Any, n: int) -> Any:
    return d.sum(axis=1, keepdims=True) * (np.arange(s.shape[1]) == s.argmax(axis=1)[:, None])


def of_equal_labels(d: Any, s: Any, n: int) -> Any:
    return np.repeat(d.mean(axis=1, keepdims=True), s.shape[1], axis=1)


def spans_from_the_right(d: Any, s: Any, n: int) -> Any:
    return d[[spans_of(n).index((n - 1 - j, n - 1 - i)) for i, j in spans_of(n)]]


GRADIENTS = (
    changed_gradient("spans_from_the_right", spans_from_the_right),
    changed_gradient("words_have_labels", words_have_labels),
    changed_gradient("of_the_best_labels", of_the_best_labels),
    changed_gradient("of_equal_labels", of_equal_labels),
    changed_gradient("of_every_span_as_of_the_root", lambda d, s, n: d / d.sum(axis=1, keepdims=True)),
    changed_gradient("of_words_only", lambda d, s, n: np.concatenate([d[:n], 0 * d[n:-1], d[-1:]])[: len(d)]),
    changed_gradient("squared", lambda d, s, n: d * d),
)


def forgets_the_gradients(d_out: Any, outputs: Any, scores: Any, offsets: Any) -> Any:
    return cpu.span_logz_vjp(np.ones_like(d_out), outputs, scores, offsets)


def gradients_of_the_neighbours(d_out: Any, outputs: Any, scores: Any, offsets: Any) -> Any:
    return cpu.span_logz_vjp(d_out[::-1].copy(), outputs, scores, offsets)


# The best trees


def products(left: list[Way], right: list[Way], count: int) -> Iterator[Way]:
    return ((x + y, p + q) for x, p in left for y, q in right)


def plain_trees(
    scores: Any, offsets: Any, count: int, *,
    joined: Function = products, kept: Callable[[int], int] = lambda count: count,
    bare: tuple[Way, ...] = ((0.0, ()),), rest: Callable[[list, list], list] = lambda child, rows: child + rows,
    splits: Callable[[int, int], range] = range, labels: slice = slice(None),
    last: Callable[[list[Way]], list[Way]] = lambda ways: ways,
) -> Any:  # fmt: skip
    """List the best trees with loops. The defaults are right, any other choice is wrong."""

    def best(ways: Any, count: int) -> list[Way]:
        return sorted(ways, key=lambda way: (-way[0], way[1]))[:count]

    short, trees = kept(count), []
    for n, sentence_scores in sentences(scores, offsets):
        row, child, remainder = ({} for _ in range(3))
        for i, j in spans_of(n):
            ways = (way for k in splits(i, j) for way in joined(child[i, k], remainder[k + 1, j], short))
            row[i, j] = best(ways, short)
            every = [(s, ((i, j, label),)) for label, s in enumerate(sentence_scores[i, j]) if s > -np.inf]
            label_ways = best(every, short)[labels]
            child[i, j] = best(
                joined(label_ways, row[i, j] if i < j else [(0.0, ())], short), count if n == j - i else short
            )
            child[i, j] = best([*child[i, j], *(bare if i == j and n > 1 else ())], short)
            remainder[i, j] = best(rest(child[i, j], row[i, j]), short)
        trees.append(last(child[0, n - 1]))
    constituents = np.array([span for forest in trees for _, tree in forest for span in tree], np.int32).reshape(-1, 3)
    return (
        np.cumsum([0, *map(len, trees)]),
        np.array([score for forest in trees for score, _ in forest], float),
        np.cumsum([0, *(len(tree) for forest in trees for _, tree in forest)]),
        constituents[:, :2],
        constituents[:, 2],
    )


def changed_trees(name: str, **choices: Any) -> Function:
    def mutant(scores: Any, offsets: Any, count: int) -> Any:
        return plain_trees(scores, offsets, count, **choices)

    mutant.__name__ = name
    return mutant


def along_the_edges(left: list[Way], right: list[Way], count: int) -> Iterator[Way]:
    """Join only pairs that contain the best of at least one list."""
    return ((x + y, p + q) for a, (x, p) in enumerate(left) for y, q in (right if a == 0 else right[:1]))


def along_the_diagonal(left: list[Way], right: list[Way], count: int) -> Iterator[Way]:
    return ((x + y, p + q) for (x, p), (y, q) in zip(left, right, strict=False))


def cut_one_short(left: list[Way], right: list[Way], count: int) -> Iterator[Way]:
    return (
        (x + y, p + q)
        for a, (x, p) in enumerate(left)
        for b, (y, q) in enumerate(right)
        if (a + 1) * (b + 1) < count or not a + b
    )


TREES = (
    changed_trees("neighbours_along_the_edges", joined=along_the_edges),
    changed_trees("neighbours_along_the_diagonal", joined=along_the_diagonal),
    changed_trees("lists_cut_one_short", joined=cut_one_short),
    changed_trees("lists_one_too_short", kept=lambda count: max(1, count - 1)),
    changed_trees("no_bare_words_in_trees", bare=()),
    changed_trees("bare_words_twice", bare=((0.0, ()), (0.0, ()))),
    changed_trees("best_label_only", labels=slice(1)),
    changed_trees("rest_twice_in_trees", rest=lambda child, rows: child + rows + rows),
    changed_trees("two_children_only_in_trees", rest=lambda child, rows: child),
    changed_trees(
        "last_split_missing_in_trees", splits=lambda i, j: range(i, max(i + 1, j - 1)) if i < j else range(0)
    ),
    changed_trees("worst_first", last=lambda ways: ways[::-1]),
    changed_trees("best_tree_missing", last=lambda ways: ways[1:] or ways),
    changed_trees("post_order", last=lambda ways: [(score, tree[::-1]) for score, tree in ways]),
    changed_trees(
        "ends_one_late", last=lambda ways: [(s, tuple((i, j + 1, k) for i, j, k in tree)) for s, tree in ways]
    ),
    changed_trees(
        "labels_from_1", last=lambda ways: [(s, tuple((i, j, k + 1) for i, j, k in tree)) for s, tree in ways]
    ),
    changed_trees("without_the_root", last=lambda ways: [(score, tree[1:]) for score, tree in ways]),
)


def log_probabilities(scores: Any, offsets: Any, count: int) -> Any:
    tree_offsets, tree_scores, *rest = cpu.best_trees(scores, offsets, count)
    return tree_offsets, tree_scores - np.repeat(cpu.span_logz(scores, offsets)[0], np.diff(tree_offsets)), *rest


def words_of_the_batch(scores: Any, offsets: Any, count: int) -> Any:
    tree_offsets, tree_scores, span_offsets, spans, labels = cpu.best_trees(scores, offsets, count)
    first = np.repeat(np.repeat(offsets[:-1], np.diff(tree_offsets)), np.diff(span_offsets))
    return tree_offsets, tree_scores, span_offsets, (spans + first[:, None]).astype(np.int32), labels


SPAN_PARSER: tuple[tuple[str, Function], ...] = (
    *(("span_logz", mutant) for mutant in (*SUMS, of_the_sentence_before)),
    *(("span_logz_vjp", mutant) for mutant in (*GRADIENTS, forgets_the_gradients, gradients_of_the_neighbours)),
    *(("best_trees", mutant) for mutant in (*TREES, log_probabilities, words_of_the_batch)),
)
