"""Trees as sets of labelled spans, at most one a span: a chain of constituents over the same words is one label.

Its labels stand between blanks, which no label of a treebank holds: ``S VP`` is an S over a VP.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from accel.data.corpora.treebank import Reading, read_sentences
from refimpl.trees import Tree, spans, words

Constituent = tuple[str, int, int]  # chain of labels, first and last word


class Bracketed(NamedTuple):
    """The words of a sentence, its constituents in the order in which they open, and the line of its tree."""

    words: list[str]
    constituents: list[Constituent]
    line: int


def constituents(tree: Tree) -> list[Constituent]:
    """Return the chain of labels and the first and last word of every span that has one, outer ones first.

    Examples
    --------
    >>> constituents(Tree("S", (Tree("NP", ("she",)), Tree("S", (Tree("VP", ("sees", "him")),)))))
    [('S', 0, 2), ('NP', 0, 0), ('S VP', 1, 2)]
    """
    found: list[Constituent] = []
    for label, i, j in spans(tree):
        if found and found[-1][1:] == (i, j):
            label = f"{found.pop()[0]} {label}"
        found.append((label, i, j))
    return found


def tree_of(found: Iterable[Constituent], sentence: Sequence[str]) -> Tree:
    """Return the tree with these constituents, in any order, over the words: the inverse of `constituents`.

    Examples
    --------
    >>> tree_of([("S VP", 1, 2), ("S", 0, 2)], ["she", "sees", "him"])
    Tree('(S she (S (VP sees him)))')
    """
    children: list[Tree | str] = []
    begins: list[int] = []  # the first word of each
    agenda = sorted(found, key=lambda x: (x[2], -x[1]), reverse=True)
    for position, word in enumerate(sentence):
        children.append(word)
        begins.append(position)
        while agenda and agenda[-1][2] == position:
            chain, first, _ = agenda.pop()
            place = bisect_left(begins, first)
            taken = tuple(children[place:])
            for label in reversed(chain.split(" ")):
                taken = (Tree(label, taken),)
            children[place:], begins[place:] = taken, [first]
    (tree,) = children
    assert isinstance(tree, Tree)
    return tree


def bracketed(found: Iterable[Constituent], sentence: Sequence[str]) -> str:
    """Return the tree with these constituents, in any order, over the words, as a line of text.

    Examples
    --------
    >>> bracketed([("S", 0, 2), ("S VP", 1, 2)], ["she", "sees", "him"])
    '(S she (S (VP sees him)))'
    """
    parts = list(sentence)
    for chain, i, j in sorted(found, key=lambda x: x[2] - x[1]):
        parts[i] = f"({chain.replace(' ', ' (')} {parts[i]}"
        parts[j] += ")" * (chain.count(" ") + 1)
    return " ".join(parts)


def read_bracketed(
    path: str | Path, reading: Reading, max_words: int, left_out: list[int] | None = None
) -> tuple[list[Bracketed], int]:
    """Return the sentences of a treebank, without those of more than `max_words` words, and how many these are.

    Raises
    ------
    TreebankError
        As `accel.data.corpora.treebank.read_sentences` does, which also fills `left_out`.
    """
    short, longer = [], 0
    for tree, line, _ in read_sentences(path, reading, left_out):
        sentence = words(tree)
        if len(sentence) > max_words:
            longer += 1
        else:
            short.append(Bracketed(sentence, constituents(tree), line))
    return short, longer
