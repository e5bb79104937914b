"""Trees as sets of labelled spans, one label a span: a chain of constituents over the same words is one label.

The label of a chain joins its labels with blanks, which no label of a treebank holds: ``S VP`` is an S over a VP.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from accel.data.corpora.treebank import Reading, read_sentences, tags, without_tags
from refimpl.trees import Tree, spans, words

Constituent = tuple[str, int, int]  # chain of labels, first and last word


class Bracketed(NamedTuple):
    """The words of a sentence, its constituents in the order in which they open, the line of its tree, and the tags."""

    words: list[str]
    constituents: list[Constituent]
    line: int
    tags: list[str] | None = None  # None: not asked for


def constituents(tree: Tree) -> list[Constituent]:
    """Return the chain of labels and the first and last word of every span that has a label, outer ones first.

    Examples
    --------
    >>> constituents(Tree("S", (Tree("NP", ("she",)), Tree("S", (Tree("VP", ("sees", "him")),)))))
    [('S', 0, 2), ('NP', 0, 0), ('S VP', 1, 2)]
    """
    chains: list[Constituent] = []
    for label, i, j in spans(tree):
        if chains and chains[-1][1:] == (i, j):
            label = f"{chains.pop()[0]} {label}"
        chains.append((label, i, j))
    return chains


def without_brackets(word: str) -> str:
    """Return a word with -LRB- and -RRB- for brackets within it, as in the Penn Treebank.

    >>> without_brackets("(b)")
    '-LRB-b-RRB-'
    """
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def tree_of(chains: Iterable[Constituent], sentence: Sequence[str]) -> Tree:
    """Return the tree with these constituents, in any order, over the words: the inverse of `constituents`.

    Brackets within words become -LRB- and -RRB-, as in the Penn Treebank.

    Examples
    --------
    >>> tree_of([("S VP", 1, 2), ("S", 0, 2)], ["she", "sees", "him"])
    Tree('(S she (S (VP sees him)))')
    >>> tree_of([("S", 0, 1)], ["hi", ":-)"])
    Tree('(S hi :--RRB-)')
    """
    children: list[Tree | str] = []
    begins: list[int] = []  # the first word of each child
    agenda = sorted(chains, key=lambda x: (x[2], -x[1]), reverse=True)
    for position, word in enumerate(sentence):
        children.append(without_brackets(word))
        begins.append(position)
        while agenda and agenda[-1][2] == position:
            chain, first, _ = agenda.pop()
            place = bisect_left(begins, first)
            phrase = tuple(children[place:])
            for label in reversed(chain.split(" ")):
                phrase = (Tree(label, phrase),)
            children[place:], begins[place:] = phrase, [first]
    (tree,) = children
    assert isinstance(tree, Tree)
    return tree


def bracketed(chains: Iterable[Constituent], sentence: Sequence[str]) -> str:
    """Return the tree with these constituents, in any order, over the words, as a line of text.

    Examples
    --------
    >>> bracketed([("S", 0, 2), ("S VP", 1, 2)], ["she", "sees", "him"])
    '(S she (S (VP sees him)))'
    """
    parts = list(sentence)
    for chain, i, j in sorted(chains, key=lambda x: x[2] - x[1]):
        parts[i] = f"({chain.replace(' ', ' (')} {parts[i]}"
        parts[j] += ")" * (chain.count(" ") + 1)
    return " ".join(parts)


def read_bracketed(
    path: str | Path, reading: Reading, max_words: int, left_out: list[int] | None = None, *, with_tags: bool = False
) -> tuple[list[Bracketed], int]:
    """Return the sentences of a treebank, without those of more than `max_words` words, and the number of these.

    `with_tags` returns the part-of-speech tags, too, although the reading drops them from the trees.

    Raises
    ------
    LineError
        As `accel.data.corpora.treebank.read_sentences` does, which also fills `left_out`.
    """
    short, n_longer = [], 0
    for original in read_sentences(path, replace(reading, drop_preterminals=False) if with_tags else reading, left_out):
        sentence = without_tags(path, original, reading) if with_tags else original
        if sentence is None:
            if left_out is not None:
                left_out.append(original.line)
            continue
        in_order = words(sentence.tree)
        if len(in_order) > max_words:
            n_longer += 1
        else:
            of_words = tags(original.tree) if with_tags else None
            short.append(Bracketed(in_order, constituents(sentence.tree), original.line, of_words))
    return short, n_longer
