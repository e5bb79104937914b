"""The sentences of a split that `examples.measure` evaluates on: drawn ones, or the beginnings of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice, takewhile
from pathlib import Path
from random import Random
from typing import TypeVar

from accel.data.corpora.treebank import Reading, read_sentences
from refimpl.trees import Tree, words

Item = TypeVar("Item")


@dataclass(frozen=True)
class Sample:
    """Gold trees of sentences, how many were drawn and skipped, and their documents.

    Attributes
    ----------
    gold : [S] Tree
    skipped : int
    documents : [D] pairs of int, or None
        For each document, its sentences in `gold` and in the treebank; None if sentences are not read in documents.
    """

    gold: list[Tree]
    skipped: int
    documents: list[tuple[int, int]] | None = None

    def in_documents(self, groups: Sequence[list[Item]]) -> tuple[list[list[Item]], list[int] | None]:
        """Return the proposals of every sentence and the sizes of the documents, as `proposal_logps` takes them.

        A document that is cut gets a last sentence without proposals, so that its end does not count (MARG-6).
        """
        if self.documents is None:
            return list(groups), None
        rest = iter(groups)
        parts = [[*islice(rest, n_kept), *([[]] if n_kept < size else [])] for n_kept, size in self.documents]
        return [group for part in parts for group in part], list(map(len, parts))

    @property
    def n_ends(self) -> int:
        """The number of sequences that are read to their end."""
        return len(self.gold) if self.documents is None else sum(n_kept == size for n_kept, size in self.documents)


def read_sample(path: Path, *, documents: bool, count: int | None, max_words: int) -> Sample:
    """Return sentences of a treebank whose documents end at blank lines.

    Parameters
    ----------
    documents : bool
        Take the first `count` sentences of each document, which ends before the first one that is too long. Else draw
        `count` sentences at random, and leave out those that are too long.
    count : int or None
        None: all.
    max_words : int
    """
    if not documents:
        trees = [sentence.tree for sentence in read_sentences(path)]
        if count is not None and count < len(trees):
            trees = [trees[i] for i in sorted(Random(0).sample(range(len(trees)), count))]
        short = [tree for tree in trees if len(words(tree)) <= max_words]
        return Sample(short, len(trees) - len(short))
    gold, sizes, n_skipped = [], [], 0
    for _, sentences in groupby(read_sentences(path, Reading(documents="blank")), key=lambda s: s.document):
        trees = [sentence.tree for sentence in sentences]
        first = trees[:count]
        beginning = list(takewhile(lambda tree: len(words(tree)) <= max_words, first))
        gold += beginning
        sizes.append((len(beginning), len(trees)))
        n_skipped += len(first) - len(beginning)
    if len(sizes) == 1:
        raise ValueError(f"{path}: one document: put a blank line between documents, or leave out --documents")
    return Sample(gold, n_skipped, sizes)
