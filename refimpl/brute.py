"""The oracle of the oracle: definitions that try everything, for tiny inputs. Nothing here follows an algorithm."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

import numpy as np

from refimpl.checks import Float
from refimpl.trees import ActionType, Tree

ONT, T, CNT1, CNT2 = ActionType


def all_trees(words: Sequence[str], label: str = "X") -> Iterator[Tree]:
    """Yield every tree over the words in which each constituent has at least two children (one word: one tree).

    Spec: BF-1.  1, 1, 3, 11, 45, 197, ... trees: the little Schroeder numbers.

    Examples
    --------
    >>> [str(t) for t in all_trees(["a", "b", "c"])]
    ['(X a b c)', '(X a (X b c))', '(X (X a b) c)']
    """
    if len(words) == 1:
        yield Tree(label, (words[0],))
        return
    for n in range(1, len(words)):
        for first in _nodes(words[:n], label):
            for rest in _rows(words[n:], label):
                yield Tree(label, (first, *rest))


def _nodes(words: Sequence[str], label: str) -> Iterator[Tree | str]:
    """Yield what can stand for the words as one child: a word alone, or any tree over several."""
    yield from words if len(words) == 1 else all_trees(words, label)


def _rows(words: Sequence[str], label: str) -> Iterator[tuple[Tree | str, ...]]:
    """Yield every way to cut the words into a row of children."""
    if not words:
        yield ()
    for n in range(1, len(words) + 1):
        for first in _nodes(words[:n], label):
            for rest in _rows(words[n:], label):
                yield (first, *rest)


def composed_at(types: Sequence[int]) -> list[int | None]:
    """Return, for every position, the CNT1 that composes it; None while its constituent is open, and for CNT2.

    Spec: BF-2.  An ONT is composed by its own CNT1, a T and a CNT1 by the CNT1 of the constituent around them.

    Examples
    --------
    ``<s> (S (NP bird NP) NP) S) S)``

    >>> composed_at([ONT, ONT, ONT, T, CNT1, CNT2, CNT1, CNT2])
    [None, 6, 4, 4, 6, None, None, None]
    """
    composer: list[int | None] = [None] * len(types)
    for close, kind in enumerate(types):
        if kind == CNT1:
            opening = _matching_ont(types, close)
            level = 0
            for j in range(opening, close):
                level -= types[j] == CNT1
                if types[j] != CNT2 and level == (types[j] != ONT):
                    composer[j] = close
                level += types[j] == ONT
    return composer


def _matching_ont(types: Sequence[int], close: int) -> int:
    """Return the only ONT before a CNT1 with as many CNT1 as ONT in between, and no earlier surplus of CNT1."""
    for opening in range(close - 1, -1, -1):
        inner = types[opening : close + 1]
        if types[opening] == ONT and sum(k == ONT for k in inner) == sum(k == CNT1 for k in inner):
            return opening
    raise ValueError(f"position {close}: CNT1 closes no open non-terminal")


def attend_sets(types: Sequence[int]) -> list[list[int]]:
    """Return who attends to whom by definition, without a stack.

    Spec: BF-2.  A CNT1 attends to what it composes and to itself; any other position to itself and to everything
    before it, except CNT2, that no CNT1 up to here has composed.

    Examples
    --------
    >>> attend_sets([ONT, ONT, T, CNT1, CNT2])
    [[0], [0, 1], [0, 1, 2], [1, 2, 3], [0, 3, 4]]
    """
    composer = composed_at(types)
    sets = []
    for i, kind in enumerate(types):
        if kind == CNT1:
            sets.append([j for j in range(i) if composer[j] == i] + [i])
        else:
            sets.append([j for j in range(i) if types[j] != CNT2 and not _composed_by(composer[j], i)] + [i])
    return sets


def memories(types: Sequence[int], segment_length: int, memory_length: int) -> list[list[int]]:
    """Return the positions that the memory holds before every segment, most recent last.

    Spec: BF-3.  The memory before a segment holds the last M positions that are on the stack and were in the memory
    or in the segment before it.

    Examples
    --------
    >>> memories([ONT, ONT, T, CNT1, CNT2], 2, 2)
    [[], [0, 1], [0, 3]]
    """
    composer = composed_at(types)
    held: list[list[int]] = [[]]
    for end in range(segment_length, len(types), segment_length):
        candidates = held[-1] + list(range(end - segment_length, end))
        on_stack = [j for j in candidates if types[j] != CNT2 and not _composed_by(composer[j], end - 1)]
        held.append(on_stack[-memory_length:] if memory_length else [])
    return held


def binary_trees(i: int, j: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yield every binary tree over words i to j as its splits (first word, last word of the left part, last word).

    Spec: BF-4.  1, 1, 2, 5, 14, 42, ... trees: the Catalan numbers.

    Examples
    --------
    >>> list(binary_trees(0, 2))
    [[(0, 0, 2), (1, 1, 2)], [(0, 1, 2), (0, 0, 1)]]
    """
    if i == j:
        yield []
    for k in range(i, j):
        for left in binary_trees(i, k):
            for right in binary_trees(k + 1, j):
                yield [(i, k, j), *left, *right]


def phrase(tokens: Float, parameters: Mapping[str, Float], i: int, j: int) -> Float:
    r"""Return Treeformer's vector of the phrase of tokens i to j by Algorithm 1 itself: 3^(j - i) calls.

    Spec: BF-4.

    Parameters
    ----------
    tokens : [n, d] float64
    parameters : dict of str to float64 array
        As `refimpl.treeformer.cky_pooling.parameter_shapes` says of the variant "paper".

    Returns
    -------
    [d] float64

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> p = {"compose": np.array([[2.0], [1.0]]), "key": one, "query": one, "w": np.zeros(1)}
    >>> phrase(np.array([[1.0], [10.0], [100.0]]), p, 0, 2).tolist()
    [123.0]
    """
    r: Float = tokens[i]
    if i < j:
        d, weight = tokens.shape[1], parameters["compose"]
        parts = [(phrase(tokens, parameters, i, k), phrase(tokens, parameters, k + 1, j)) for k in range(i, j)]
        c = np.array([left @ weight[:d] + right @ weight[d:] for left, right in parts])
        scores = c @ (parameters["key"] @ (parameters["w"] @ parameters["query"])) / math.sqrt(d)
        e = np.exp(scores - scores.max())
        r = e @ c / e.sum()
    return r


def labelled_trees(n: int, n_labels: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yield every labelled tree over n words as its (first word, last word, label), shorter spans first.

    Spec: BF-5.  Every way to give each span a label or none, less those without a root or with spans that cross.

    Examples
    --------
    >>> list(labelled_trees(2, 1))
    [[(0, 1, 0)], [(1, 1, 0), (0, 1, 0)], [(0, 0, 0), (0, 1, 0)], [(0, 0, 0), (1, 1, 0), (0, 1, 0)]]
    """
    spans = [(i, i + longer) for longer in range(n) for i in range(n - longer)]
    for labels in product(range(-1, n_labels), repeat=len(spans)):
        tree = [(i, j, label) for (i, j), label in zip(spans, labels, strict=True) if label >= 0]
        crossing = any(i < a <= j < b or a < i <= b < j for (i, j, _), (a, b, _) in combinations(tree, 2))
        if labels[-1] >= 0 and not crossing:
            yield tree


def _composed_by(composer: int | None, i: int) -> bool:
    return composer is not None and composer <= i
