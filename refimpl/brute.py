"""Definitions by enumeration, which check the reference on tiny inputs; only `phrase` follows a paper's algorithm."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product

import numpy as np

from refimpl.checks import Float, Parameters
from refimpl.trees import CNT1, CNT2, ONT, T, Tree  # noqa: F401 - T stands in examples


def all_trees(words: Sequence[str], label: str = "X") -> Iterator[Tree]:
    """Yield every tree over the words in which each constituent has at least two children (one word: one tree).

    Spec: BF-1.

    >>> [str(t) for t in all_trees(["a", "b", "c"])]
    ['(X a b c)', '(X a (X b c))', '(X (X a b) c)']
    """
    n = len(words)
    if n == 1:
        yield Tree(label, (words[0],))
    for n_cuts in range(n - 1, 0, -1):
        for cuts in combinations(range(1, n), n_cuts):
            parts = [words[i:j] for i, j in pairwise([0, *cuts, n])]
            nodes: list[list[Tree | str]] = [[*(part if len(part) == 1 else all_trees(part, label))] for part in parts]
            for children in product(*nodes):
                yield Tree(label, children)


def composed_at(types: Sequence[int]) -> list[int | None]:
    """Return, for every position, the CNT1 that composes it; None while its constituent is open, and for CNT2.

    Spec: BF-2.

    types : [T'] of ActionType, the start symbol first, which nothing closes -> [T'] of int or None.
    Raises ValueError for a CNT1 that closes nothing.

    ``<s> (S (NP bird NP) NP) S) S)``

    >>> composed_at([ONT, ONT, ONT, T, CNT1, CNT2, CNT1, CNT2])
    [None, 6, 4, 4, 6, None, None, None]
    """
    composer: list[int | None] = [None] * len(types)
    for close in [i for i, kind in enumerate(types) if kind == CNT1]:
        constituents = [types[i : close + 1] for i in range(close, 0, -1) if types[i] == ONT]
        lengths = [len(inner) for inner in constituents if list(inner).count(ONT) == list(inner).count(CNT1)]
        if not lengths:
            raise ValueError(f"position {close}: CNT1 closes no open non-terminal")
        for j in range(close + 1 - lengths[0], close):
            if types[j] != CNT2 and composer[j] is None:
                composer[j] = close
    return composer


def attend_sets(types: Sequence[int]) -> list[list[int]]:
    """Return the positions that every position may attend to, by definition: without a stack.

    Spec: BF-2.

    types : [T'] of ActionType -> [T'] lists of positions, ascending. Raises ValueError as `composed_at`.

    >>> attend_sets([ONT, ONT, T, CNT1, CNT2])
    [[0], [0, 1], [0, 1, 2], [1, 2, 3], [0, 3, 4]]
    """
    composer = composed_at(types)
    stacks = [[j for j in range(i) if _is_on_stack(types, composer, j, i)] for i in range(len(types))]
    composed = [[j for j in range(i) if composer[j] == i] for i in range(len(types))]
    return [[*(composed[i] if kind == CNT1 else stacks[i]), i] for i, kind in enumerate(types)]


def memories(types: Sequence[int], segment_length: int, memory_length: int) -> list[list[int]]:
    """Return the positions that the memory holds before every segment, most recent last.

    Spec: BF-3.  Raises ValueError as `composed_at`.

    >>> memories([ONT, ONT, T, CNT1, CNT2], 2, 2)
    [[], [0, 1], [0, 3]]
    """
    composer = composed_at(types)
    memory: list[list[int]] = [[]]
    for end in range(segment_length, len(types), segment_length):
        candidates = [*memory[-1], *range(end - segment_length, end)]
        on_stack = [j for j in candidates if _is_on_stack(types, composer, j, end - 1)]
        memory.append(on_stack[max(len(on_stack) - memory_length, 0) :])
    return memory


def _is_on_stack(types: Sequence[int], composer: Sequence[int | None], j: int, i: int) -> bool:
    """Return whether position j is on the stack at position i: j is no CNT2, and no CNT1 up to i composes it."""
    close = composer[j]
    return types[j] != CNT2 and (close is None or close > i)


def binary_trees(i: int, j: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yield every binary tree over words i to j as its splits (first word, last word of the left part, last word).

    Spec: BF-4.

    >>> list(binary_trees(0, 2))
    [[(0, 0, 2), (1, 1, 2)], [(0, 1, 2), (0, 0, 1)]]
    """
    if i == j:
        yield []
    for k in range(i, j):
        for left, right in product(binary_trees(i, k), binary_trees(k + 1, j)):
            yield [(i, k, j), *left, *right]


def phrase(tokens: Float, parameters: Parameters, i: int, j: int) -> Float:
    r"""Return Treeformer's vector of the phrase of tokens i to j by Algorithm 1 itself: 3^(j - i) calls.

    Spec: BF-4.

    tokens : [n, d] float; parameters : those of CKY-1's variant "paper" -> [d] float
    """
    if i == j:
        return np.asarray(tokens[i])
    d, weight = tokens.shape[1], parameters["compose"]
    parts = [(phrase(tokens, parameters, i, k), phrase(tokens, parameters, k + 1, j)) for k in range(i, j)]
    c = np.array([left @ weight[:d] + right @ weight[d:] for left, right in parts])
    scores = c @ (parameters["key"] @ (parameters["w"] @ parameters["query"])) / math.sqrt(d)
    e = np.exp(scores - scores.max())
    return np.asarray(e @ c / e.sum())


def labelled_trees(n: int, n_labels: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yield every labelled tree over n words as a list of (first word, last word, label), shorter spans first.

    Spec: BF-5.  Every way to give each span a label or none, less those without a root or with spans that cross.

    >>> list(labelled_trees(2, 1))
    [[(0, 1, 0)], [(1, 1, 0), (0, 1, 0)], [(0, 0, 0), (0, 1, 0)], [(0, 0, 0), (1, 1, 0), (0, 1, 0)]]
    """
    spans = [(i, i + longer) for longer in range(n) for i in range(n - longer)]
    for labels in product(range(-1, n_labels), repeat=len(spans)):
        tree = [(i, j, label) for (i, j), label in zip(spans, labels, strict=True) if label >= 0]
        crossing = any(i < a <= j < b or a < i <= b < j for (i, j, _), (a, b, _) in combinations(tree, 2))
        if labels[-1] >= 0 and not crossing:
            yield tree
